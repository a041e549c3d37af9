//! The engine's side of the quiet path, under the lock: what is lent, when it is called back, and when it is lent again.

use super::{
    BATCH, Lanes, LentSlot, MOST_LENT, NUMBERS, Ordering, RING, RingSample, SampleRing,
    loan::{Loan, loans, settle_partition, share_out},
    low,
};
use crate::{
    Outcome, Timestamp,
    engine::{Engine, RequestSample, Settled},
};

/// Quiet turns after which slots are lent again, at first and at the most.
const QUIET_TURNS: (u32, u32) = (2, 64);

/// A loan that served fewer requests than this before it was called back cost more than it saved.
const WORTH_IT: u64 = 16;

/// Timed requests after which enough is known of their times to time fewer of them.
const KNOWN: u64 = 256;

/// What is lent.
#[derive(Debug)]
pub(in crate::runtime) struct Lending {
    loans: Vec<Loan>,
    /// Slots that are lent in all lanes, and count as running: those of closed lanes are those that are used.
    lent: u32,
    is_open: bool,
    /// Whether a request has left whose sample was not there yet when its slot, the last one, was called back.
    is_behind: bool,
    /// Quiet turns since the last one that was not, and how many of them there have to be.
    quiet_turns: u32,
    turns_needed: u32,
    has_lent: bool,
    /// Requests that the lanes served, now and when slots were lent last.
    served: u64,
    served_before: u64,
    /// Timed requests, and one in how many requests is timed, less 1.
    learned: u64,
    untimed: u32,
    /// Latest time at which a timed request left.
    last_end: Timestamp,
    /// What happened in the lanes, while that is told.
    settled: Vec<Settled>,
}

impl Lending {
    pub(in crate::runtime) fn new(lanes: &Lanes) -> Self {
        Self {
            loans: loans(lanes).collect(),
            lent: 0,
            is_open: false,
            is_behind: false,
            quiet_turns: 0,
            turns_needed: 0,
            has_lent: false,
            served: 0,
            served_before: 0,
            learned: 0,
            untimed: 0,
            last_end: Timestamp::ZERO,
            settled: Vec::with_capacity(lanes.lanes.len()),
        }
    }

    /// Calls all slots back and collects what is known of the requests that used them: from here on the engine sees what
    /// runs as if it had admitted each of these requests itself.
    #[inline]
    pub(in crate::runtime) fn recall(&mut self, lanes: &Lanes, engine: &mut Engine) {
        if self.is_open || ((self.lent > 0 || self.is_behind) && self.has_news(lanes)) {
            self.recall_all(lanes, engine);
        }
    }

    /// Whether requests may enter the lanes.
    pub(in crate::runtime) const fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether a request has left a closed lane, or was observed, since the last look.
    fn has_news(&self, lanes: &Lanes) -> bool {
        lanes.lanes.iter().zip(&self.loans).any(|(lane, loan)| {
            let seen = lane.state.look();
            seen.left != loan.read_at_end
                || seen.used != loan.lent
                || low(lane.observed.load(Ordering::Acquire)) & NUMBERS != loan.read_at_head
        })
    }

    fn recall_all(&mut self, lanes: &Lanes, engine: &mut Engine) {
        if self.is_open {
            self.is_open = false;
            for lane in &lanes.lanes {
                lane.state.close();
            }
        }
        // First, as long as their slots count as running.
        self.collect_all(lanes, engine);
        let per_partition = 1 << lanes.per_partition;
        let partitions = self.loans.chunks_mut(per_partition).zip(lanes.lanes.chunks(per_partition));
        self.settled.extend(partitions.filter_map(|(loans, lanes)| settle_partition(loans, lanes)));
        // A request that entered one lane before another request left another lane says nothing of a stall.
        let has_freed = self.settled.iter().any(|it| it.left > 0);
        let since = self.settled.iter().filter_map(|it| it.busy_since);
        let since = since.filter(|&since| !has_freed || since >= self.last_end).min();
        engine.note_freed(has_freed, since);
        for settled in self.settled.drain(..) {
            self.lent -= settled.back;
            self.served += settled.left;
            engine.settle(settled);
        }
        self.is_behind = self.lent == 0 && self.has_news(lanes);
        #[cfg(test)]
        self.check();
    }

    /// Collects the samples. Returns whether the limit has moved, or nothing may start, so that slots have to be lent anew.
    pub(in crate::runtime) fn collect(&mut self, lanes: &Lanes, engine: &mut Engine) -> bool {
        let limit = engine.limit();
        self.collect_all(lanes, engine);
        lanes.tell_what_runs_elsewhere();
        engine.limit() != limit || engine.is_paused()
    }

    fn collect_all(&mut self, lanes: &Lanes, engine: &mut Engine) {
        for (lane, loan) in lanes.lanes.iter().zip(&mut self.loans) {
            let observed = low(lane.observed.load(Ordering::Acquire)) & NUMBERS;
            let mut drain = Drain { engine, loan, timed: 0 };
            drain.read(&lane.at_head, observed, false);
            drain.read(&lane.at_end, lane.state.look().left, true);
            self.learned += drain.timed;
            self.last_end = self.last_end.max(loan.last_end);
            lane.collected.store(engine.now().as_nanos(), Ordering::Relaxed);
        }
        let untimed = if self.learned < KNOWN { 0 } else { engine.time_one_in() - 1 };
        if untimed != self.untimed {
            self.untimed = untimed;
            lanes.untimed.store(u64::from(untimed), Ordering::Relaxed);
        }
    }

    /// Lends the free slots, if all has been quiet for long enough.
    #[inline]
    pub(in crate::runtime) fn lend(&mut self, lanes: &Lanes, engine: &mut Engine, may_lend: bool) {
        if self.is_open {
            return;
        }
        if !may_lend || !engine.is_quiet() {
            self.quiet_turns = 0;
            return;
        }
        self.quiet_turns += 1;
        if self.quiet_turns > self.turns_needed {
            self.open(lanes, engine);
        }
    }

    #[cold]
    fn open(&mut self, lanes: &Lanes, engine: &mut Engine) {
        // BRAVO's rule: what does not pay for itself is tried less often.
        let was_worth_it = self.served - self.served_before >= WORTH_IT;
        let longer = (self.turns_needed * 2).clamp(QUIET_TURNS.0, QUIET_TURNS.1);
        self.turns_needed = if was_worth_it || !self.has_lent { self.turns_needed / 2 } else { longer };
        (self.has_lent, self.served_before, self.quiet_turns) = (true, self.served, 0);
        // Limits may be as large as a number can be.
        let free = engine.free_slots().min(MOST_LENT as usize * self.loans.len());
        let weights: usize = self.loans.iter().map(Loan::weight).sum();
        let per_partition = 1 << lanes.per_partition;
        for loans in self.loans.chunks_mut(per_partition) {
            let [Loan { partition, .. }, ..] = *loans else { continue };
            let part = free * loans.iter().map(Loan::weight).sum::<usize>() / weights;
            let most: u32 = loans.iter().map(Loan::room).sum();
            let more = engine.lend(partition, part.min(most as usize));
            self.lent += more;
            share_out(more, loans);
        }
        let elsewhere = engine.running().saturating_sub(self.lent as usize);
        lanes.elsewhere.store(elsewhere as u64, Ordering::Relaxed);
        for (loans, lanes) in self.loans.chunks_mut(per_partition).zip(lanes.lanes.chunks(per_partition)) {
            // What runs beyond a bound that has shrunk leaves without a successor. A lane does not know how many have left other
            // lanes: that number has to leave each lane before a request may enter there.
            let [Loan { partition, .. }, ..] = *loans else { continue };
            let too_many = engine.too_many(partition, loans.iter().map(|loan| loan.lent).sum::<u32>());
            for (loan, lane) in loans.iter_mut().zip(lanes) {
                let most = loan.lent - too_many.min(loan.lent);
                lane.state.open(i64::from(most) - loan.in_state);
                loan.in_state = i64::from(most);
            }
        }
        lanes.tell_what_runs_elsewhere();
        self.is_open = true;
    }

    /// Takes a request over from its lane, after a call to [`recall`](Self::recall): the engine counts its slot already.
    pub(in crate::runtime) fn take_over(&mut self, lanes: &Lanes, slot: &LentSlot) {
        if let (Some(lane), Some(loan)) = (lanes.lane(slot), self.loans.get_mut(slot.lane())) {
            lane.state.take_out();
            loan.lent -= 1;
            loan.in_state -= 1;
            loan.left += 1;
            self.lent -= 1;
            self.is_behind = self.lent == 0 && self.has_news(lanes);
        }
        #[cfg(test)]
        self.check();
    }

    /// What is lent is the sum of what is lent to each lane.
    #[cfg(test)]
    fn check(&self) {
        assert_eq!(self.lent, self.loans.iter().map(|loan| loan.lent).sum::<u32>());
    }
}

/// Tells the engine the samples of a lane.
struct Drain<'a> {
    engine: &'a mut Engine,
    loan: &'a mut Loan,
    /// Samples that were timed.
    timed: u64,
}

impl Drain<'_> {
    /// Reads a ring up to the request with this number, as far as it is written; `is_end` where the requests have left.
    fn read(&mut self, ring: &SampleRing, to: u32, is_end: bool) {
        const { assert!(BATCH * 2 < RING, "a batch is collected before the ring is full") };
        let partition = self.loan.partition;
        let mut next = if is_end { self.loan.read_at_end } else { self.loan.read_at_head };
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
                break;
            }
            let Some(sample) = ring.read(next) else { break };
            self.tell(&sample, is_end);
            next = next.wrapping_add(1) & NUMBERS;
        }
        if successes > 0 {
            self.engine.count_untimed(partition, Outcome::Success, successes);
        }
        *(if is_end { &mut self.loan.read_at_end } else { &mut self.loan.read_at_head }) = next;
    }

    fn tell(&mut self, sample: &RingSample, is_end: bool) {
        let &RingSample { start, end, in_flight, running, outcome, is_untimely } = sample;
        let partition = self.loan.partition;
        match outcome {
            Some(outcome) if start == Timestamp::NEVER => self.engine.count_untimed(partition, outcome, 1),
            Some(outcome) => {
                self.timed += 1;
                // A timed success stands for the untimed ones before it.
                let alike = if outcome == Outcome::Success { std::mem::take(&mut self.loan.untimed) } else { 0 };
                let weight = u32::try_from(alike).unwrap_or(u32::MAX).saturating_add(1);
                let lent = RequestSample::lent(partition);
                let sample = RequestSample { start, end, in_flight, running, outcome, is_untimely, weight, ..lent };
                self.engine.learn(&[sample]);
            }
            // The sample was taken before.
            None => {}
        }
        if is_end && end != Timestamp::NEVER {
            self.loan.last_end = self.loan.last_end.max(end);
            self.engine.learn_hold(start, end, running);
        }
    }
}
