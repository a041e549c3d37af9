//! What is learned from the samples that requests on lent slots leave behind.

use std::time::Duration;

use super::{BATCH, NUMBERS, RING, RingSample, SampleRing, loan::Loan};
use crate::{
    Outcome, Timestamp,
    engine::{Engine, RequestSample, limit::Sample},
};

/// Time after which a sample that is not there is lost: a request writes it right after it has left.
const LOST: Duration = Duration::from_secs(1);

/// Tells the engine the samples of a lane.
pub(super) struct Drain<'a> {
    pub(super) engine: &'a mut Engine,
    pub(super) loan: &'a mut Loan,
    /// Answers in time, until they are told.
    pub(super) samples: &'a mut Vec<Sample>,
    /// Samples that were timed.
    pub(super) timed: u64,
}

impl Drain<'_> {
    /// Reads a ring up to the request with this number, as far as it is written; `is_end` where the requests have left.
    pub(super) fn read(&mut self, ring: &SampleRing, to: u32, is_end: bool) {
        const { assert!(BATCH * 2 < RING, "a batch is collected before the ring is full") };
        let at = usize::from(is_end);
        let mut next = self.loan.read[at];
        let mut successes = 0;
        let behind = to.wrapping_sub(next) & NUMBERS;
        if behind > RING {
            // Other requests were so fast that they wrote over samples that nothing had collected.
            successes = u64::from(behind - RING);
            next = to.wrapping_sub(RING) & NUMBERS;
        }
        loop {
            let timed = ring.after_untimed_successes(next, to);
            let untimed = u64::from(timed.wrapping_sub(next) & NUMBERS);
            successes += untimed;
            self.loan.untimed += untimed;
            next = timed;
            if next == to {
                self.loan.missing[at] = None;
                break;
            }
            match ring.read(next) {
                Some(sample) => self.tell(&sample, is_end),
                None if self.is_lost(next, is_end) => successes += 1,
                None => break,
            }
            next = next.wrapping_add(1) & NUMBERS;
        }
        if successes > 0 {
            self.engine.count_untimed(self.loan.borrower, Outcome::Success, successes);
        }
        self.loan.read[at] = next;
        self.learn(is_end);
    }

    /// Whether a sample has been missing for so long that it is lost: a request that was slow to write, while a ring of others
    /// left, has written over it.
    #[cold]
    fn is_lost(&mut self, number: u32, is_end: bool) -> bool {
        let now = self.engine.now();
        let missing = &mut self.loan.missing[usize::from(is_end)];
        let (_, since) = *missing.insert(missing.filter(|it| it.0 == number).unwrap_or((number, now)));
        now.since(since) >= LOST
    }

    /// Tells the engine the answers in time that were read.
    fn learn(&mut self, have_ended: bool) {
        self.engine.learn(self.loan.borrower, self.samples, have_ended);
        self.samples.clear();
    }

    fn tell(&mut self, sample: &RingSample, is_end: bool) {
        let &RingSample { start, end, in_flight, running, outcome, is_untimely, is_of_body } = sample;
        let has_ended = is_end && end != Timestamp::NEVER;
        if has_ended {
            self.loan.last_end = self.loan.last_end.max(end);
        }
        // A timed success stands for the untimed ones before it.
        let is_success = start != Timestamp::NEVER && outcome == Some(Outcome::Success);
        let alike = if is_success { std::mem::take(&mut self.loan.untimed) } else { 0 };
        let weight = u32::try_from(alike).unwrap_or(u32::MAX).saturating_add(1);
        self.timed += u64::from(start != Timestamp::NEVER && outcome.is_some());
        if is_success && !is_untimely && !is_of_body && running > 0 {
            let mut sample = Sample::new(start, end.since(start), in_flight as usize, Outcome::Success);
            (sample.running, sample.weight) = (running as usize, weight);
            return self.samples.push(sample);
        }
        self.learn(is_end);
        let borrower = self.loan.borrower;
        match outcome {
            Some(outcome) if start == Timestamp::NEVER => self.engine.count_untimed(borrower, outcome, 1),
            Some(outcome) => {
                let lent = RequestSample { is_untimely, is_of_body, weight, ..RequestSample::lent(borrower) };
                self.engine.learn_from(&RequestSample { start, end, in_flight, running, outcome, ..lent });
            }
            // The sample was taken before.
            None => {}
        }
        if has_ended {
            self.engine.learn_hold(borrower.label, start, end, running);
        }
    }
}
