//! An engine that only counts: what `lending.rs` asks of the real one, and a line of waiters.

use std::collections::{BTreeSet, VecDeque};

use self::limit::Sample;
use crate::{outcome::Outcome, time::Timestamp};

/// The number of a partition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PartitionId(u16);

impl PartitionId {
    pub(crate) const DEFAULT: Self = Self(0);
    pub(crate) const SECOND: Self = Self(1);

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn from_index(index: usize) -> Option<Self> {
        u16::try_from(index).ok().map(Self)
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> + Clone {
        (0..=u16::MAX).map(Self)
    }
}

/// The number of a label.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct LabelId(pub(crate) u64);

impl LabelId {
    pub(crate) const DEFAULT: Self = Self(0);
}

/// The requests that lent slots are for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Borrower {
    pub(crate) partition: PartitionId,
    pub(crate) label: LabelId,
}

impl Borrower {
    pub(crate) const fn of(partition: PartitionId) -> Self {
        Self { partition, label: LabelId::DEFAULT }
    }
}

/// What happened on the slots of a borrower since the last time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled {
    pub(crate) borrower: Borrower,
    pub(crate) admitted: i64,
    pub(crate) back: u32,
    pub(crate) left: u64,
    pub(crate) busy_since: Option<Timestamp>,
}

/// What a request on a lent slot said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestSample {
    pub(crate) partition: PartitionId,
    pub(crate) label: LabelId,
    pub(crate) start: Timestamp,
    pub(crate) end: Timestamp,
    pub(crate) in_flight: u32,
    pub(crate) running: u32,
    pub(crate) outcome: Outcome,
    pub(crate) is_untimely: bool,
    pub(crate) is_of_body: bool,
    pub(crate) weight: u32,
}

impl RequestSample {
    pub(crate) const fn lent(borrower: Borrower) -> Self {
        let Borrower { partition, label } = borrower;
        let (start, end) = (Timestamp::ZERO, Timestamp::ZERO);
        let outcome = Outcome::Success;
        let (is_untimely, is_of_body) = (false, false);
        Self { partition, label, start, end, in_flight: 0, running: 0, outcome, is_untimely, is_of_body, weight: 1 }
    }
}

pub(crate) mod limit {
    use std::time::Duration;

    use super::{Outcome, Timestamp};

    /// What a law learns from a request.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Sample {
        pub(crate) start: Timestamp,
        pub(crate) end: Timestamp,
        pub(crate) running: usize,
        pub(crate) weight: u32,
    }

    impl Sample {
        pub(crate) fn new(start: Timestamp, rtt: Duration, _: usize, _: Outcome) -> Self {
            Self { start, end: start.after(rtt), running: 0, weight: 1 }
        }
    }
}

/// The engine.
#[derive(Debug)]
pub(crate) struct Engine {
    limit: usize,
    /// Slots that are taken, those that are lent included.
    running: usize,
    /// Slots that are lent to each partition without a label, and to each label, by number.
    lent: [u32; 4],
    /// Waiters, and those of them that got a slot and were not told yet, or did not fetch it yet.
    line: VecDeque<usize>,
    granted: VecDeque<usize>,
    unfetched: BTreeSet<usize>,
    new_grants: usize,
    /// Requests that took a lent slot, and those that left it.
    pub(crate) admitted: u64,
    pub(crate) left: u64,
    /// When the requests started and ended whose samples were learned.
    pub(crate) samples: Vec<(Timestamp, Timestamp)>,
    /// Requests whose end was learned.
    pub(crate) holds: usize,
    /// Requests that were counted and not timed.
    pub(crate) untimed: u64,
}

impl Engine {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            running: 0,
            lent: [0; 4],
            line: VecDeque::new(),
            granted: VecDeque::new(),
            unfetched: BTreeSet::new(),
            new_grants: 0,
            admitted: 0,
            left: 0,
            samples: Vec::new(),
            holds: 0,
            untimed: 0,
        }
    }

    // What `lending.rs` asks for.

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::ZERO
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// A pause of the real engine calls lent slots back as a lower limit does, which is modelled.
    pub(crate) fn is_paused(&self) -> bool {
        false
    }

    pub(crate) fn running(&self) -> usize {
        self.running
    }

    pub(crate) fn free_slots(&self) -> usize {
        self.limit.saturating_sub(self.running)
    }

    /// No request waits. The real engine wants a quarter of the limit to be free besides: here more is lent, not less.
    pub(crate) fn is_quiet(&self) -> bool {
        self.line.is_empty() && self.granted.is_empty()
    }

    /// The hash of a label is its number; all labels are known.
    pub(crate) fn label_of_hash(&self, hash: u64) -> Option<LabelId> {
        Some(LabelId(hash))
    }

    pub(crate) fn lend(&mut self, borrower: Borrower, most: usize) -> u32 {
        let lent = most.min(self.free_slots());
        self.running += lent;
        let lent = u32::try_from(lent).expect("a small number");
        self.lent[place(borrower)] += lent;
        lent
    }

    /// More slots than the limit: what is lent of them is lent to requests that run.
    pub(crate) fn too_many(&self, _: Borrower, lent: u32) -> u32 {
        u32::try_from(self.running.saturating_sub(self.limit)).map_or(lent, |too_many| too_many.min(lent))
    }

    pub(crate) fn note_freed(&mut self, _: bool, _: Option<Timestamp>) {}

    pub(crate) fn settle(&mut self, settled: Settled) {
        let Settled { borrower, admitted, back, left, busy_since: _ } = settled;
        self.admitted = self.admitted.checked_add_signed(admitted).expect("what is taken back was counted");
        self.left += left;
        let lent = &mut self.lent[place(borrower)];
        *lent = lent.checked_sub(back).expect("no more slots come back than were lent");
        self.running = self.running.checked_sub(back as usize).expect("no more slots come back than are taken");
        self.dispatch();
    }

    pub(crate) fn learn(&mut self, _: Borrower, samples: &mut [Sample], have_ended: bool) {
        self.samples.extend(samples.iter().map(|it| (it.start, it.end)));
        self.holds += if have_ended { samples.len() } else { 0 };
    }

    pub(crate) fn learn_from(&mut self, sample: &RequestSample) {
        self.samples.push((sample.start, sample.end));
    }

    pub(crate) fn learn_hold(&mut self, _: LabelId, _: Timestamp, _: Timestamp, _: u32) {
        self.holds += 1;
    }

    pub(crate) fn count_untimed(&mut self, _: Borrower, _: Outcome, count: u64) {
        self.untimed += count;
    }

    /// No promise is made of this number: it tells a law how crowded the server is.
    pub(crate) const fn note_lent_answering(&mut self, _: usize, _: usize) {}

    /// All of them: too few are learned here for less. A model that wants less says so to the lanes.
    pub(crate) fn time_one_in(&self) -> u32 {
        1
    }

    // What requests ask for.

    /// Lets a request arrive. Returns whether it got a slot; it waits, if not.
    pub(crate) fn arrive(&mut self, request: usize) -> bool {
        let is_admitted = self.line.is_empty() && self.running < self.limit;
        if is_admitted {
            self.running += 1;
        } else {
            self.line.push_back(request);
        }
        is_admitted
    }

    /// Whether a waiter got a slot; from now on the slot is its own.
    pub(crate) fn fetch(&mut self, request: usize) -> bool {
        self.unfetched.remove(&request)
    }

    /// Takes a waiter out of the line. Returns whether it was granted a slot that it did not fetch.
    pub(crate) fn cancel(&mut self, request: usize) -> bool {
        self.line.retain(|&it| it != request);
        self.unfetched.remove(&request)
    }

    /// Takes a slot back.
    pub(crate) fn finish(&mut self) {
        self.running = self.running.checked_sub(1).expect("a slot was taken");
        self.dispatch();
    }

    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.dispatch();
    }

    /// Returns how many waiters were granted a slot since the last call.
    pub(crate) fn take_new_grants(&mut self) -> usize {
        std::mem::take(&mut self.new_grants)
    }

    /// Returns the next waiter to wake.
    pub(crate) fn take_notice(&mut self) -> Option<usize> {
        self.granted.pop_front()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.line.len() + self.unfetched.len()
    }

    fn dispatch(&mut self) {
        while self.running < self.limit {
            let Some(request) = self.line.pop_front() else { break };
            self.running += 1;
            self.granted.push_back(request);
            self.unfetched.insert(request);
            self.new_grants += 1;
        }
    }
}

/// The place of a borrower in the counts: the first label is that of number 1.
fn place(borrower: Borrower) -> usize {
    match borrower.label.0 {
        0 => borrower.partition.index(),
        label => 1 + usize::try_from(label).expect("labels have small numbers"),
    }
}
