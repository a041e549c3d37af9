//! What is lent to one lane.

use super::{Lane, Lanes, MOST_LENT, NUMBERS, Ordering};
use crate::{
    Timestamp,
    engine::{Borrower, Engine, LabelId, PartitionId, Settled},
};

/// What is lent to a lane, and what the engine knows of it.
#[derive(Debug)]
pub(super) struct Loan {
    pub(super) borrower: Borrower,
    /// Hash of the label, and whether the lane of a label is for none now.
    pub(super) hash: u64,
    pub(super) is_vacant: bool,
    pub(super) is_open: bool,
    /// Slots that count as running.
    pub(super) lent: u32,
    /// Slots that the state of the lane takes for lent: more, where the engine has called some back; fewer, where more run than may.
    pub(super) in_state: i64,
    /// Requests that left, now and modulo 2^24.
    pub(super) left: u64,
    pub(super) left_seen: u32,
    /// Requests that had left when slots were lent last.
    pub(super) left_before: u64,
    /// Requests that entered, as the engine counted them.
    pub(super) counted: u64,
    /// Samples that were collected, at the head and at the end.
    pub(super) read: [u32; 2],
    /// The sample that is missing there, and since when.
    pub(super) missing: [Option<(u32, Timestamp)>; 2],
    /// Successes that were not timed, since the last one that was.
    pub(super) untimed: u64,
    /// Latest time at which a timed request left.
    pub(super) last_end: Timestamp,
}

/// The loans to lanes that are closed.
pub(super) fn loans(lanes: &Lanes) -> impl Iterator<Item = Loan> {
    let partitions = PartitionId::all().flat_map(|it| std::iter::repeat_n(it, 1 << lanes.per_partition));
    let of_partitions = partitions.zip(&lanes.lanes).map(|(it, lane)| Loan::of(Borrower::of(it), lane));
    let to_none = |lane| Loan { is_vacant: true, ..Loan::of(Borrower::of(PartitionId::DEFAULT), lane) };
    of_partitions.chain(lanes.for_labels().map(to_none))
}

/// Notes what happened in the lanes of a partition. Returns what that means for the engine, if any slot is lent there.
pub(super) fn settle_partition(loans: &mut [Loan], lanes: &[Lane]) -> Option<Settled> {
    if let ([loan], [lane]) = (&mut *loans, lanes) {
        return (loan.lent > 0).then(|| loan.settle(lane));
    }
    let last_end = loans.iter().map(|loan| loan.last_end).max()?;
    let used = loans.iter_mut().zip(lanes).filter(|(loan, _)| loan.lent > 0);
    let each = used.map(|(loan, lane)| {
        let settled = loan.settle(lane);
        (settled, settled.busy_since.filter(|&since| since >= last_end))
    });
    let earlier = |a: Option<_>, b: Option<_>| a.into_iter().chain(b).min();
    let (settled, since_last_end) = each.reduce(|(sum, sum_since), (it, since)| {
        let busy_since = earlier(sum.busy_since, it.busy_since);
        let (admitted, back, left) = (sum.admitted + it.admitted, sum.back + it.back, sum.left + it.left);
        (Settled { borrower: it.borrower, admitted, back, left, busy_since }, earlier(sum_since, since))
    })?;
    // A request that entered one lane before another request left another lane says nothing of a stall.
    Some(if settled.left > 0 { Settled { busy_since: since_last_end, ..settled } } else { settled })
}

/// Shares slots that were lent to a partition out among its lanes, by what they used.
pub(super) fn share_out(more: u32, loans: &mut [Loan]) {
    let mut weights: usize = loans.iter().map(Loan::weight).sum();
    let mut left = more;
    for loan in &mut *loans {
        let weight = loan.weight();
        let part = left as usize * weight / weights;
        weights -= weight;
        left -= loan.add(part);
    }
    // What the last lanes had no room for.
    for loan in loans {
        left -= loan.add(left as usize);
    }
}

impl Loan {
    /// The loan to a lane that is closed, and that may have served another handle before.
    pub(super) fn of(borrower: Borrower, lane: &Lane) -> Self {
        let read = lane.told();
        Self {
            borrower,
            hash: 0,
            is_vacant: false,
            is_open: false,
            in_state: lane.state.lent(),
            left_seen: read[1],
            read,
            missing: [None; 2],
            lent: 0,
            left: 0,
            left_before: 0,
            counted: 0,
            untimed: 0,
            last_end: Timestamp::ZERO,
        }
    }

    /// Has the lane of a label be for none, if the label was forgotten or has another number by now. While slots are lent to it,
    /// it is not.
    pub(super) fn check_label(&mut self, engine: &Engine) {
        let label = self.borrower.label;
        if self.lent == 0 && label != LabelId::DEFAULT && engine.label_of_hash(self.hash) != Some(label) {
            self.vacate();
        }
    }

    /// Has the lane of a label be for none. Samples that were not there yet count for its partition.
    pub(super) fn vacate(&mut self) {
        self.borrower.label = LabelId::DEFAULT;
        self.is_vacant = true;
    }

    /// Whether slots are lent, or a request was counted that gave up.
    pub(super) const fn is_unsettled(&self) -> bool {
        self.lent > 0 || self.counted != self.left
    }

    /// Whether a request has left the lane, which is closed, or was observed, since the last look.
    pub(super) fn has_news(&self, lane: &Lane) -> bool {
        lane.told() != self.read || lane.state.look().used != self.lent
    }

    /// Whether nothing is lent to the lane of a label, no request is in it, and all is counted and collected.
    pub(super) fn is_over(&self, lane: &Lane) -> bool {
        !self.is_unsettled() && !self.has_news(lane)
    }

    /// By how much of what is free its lane gets: by what it used. The lane of a label that is for none gets nothing.
    pub(super) const fn weight(&self) -> usize {
        if self.is_vacant { 0 } else { self.lent as usize + 1 }
    }

    /// Opens the lane, where `most` requests may run.
    pub(super) fn open(&mut self, lane: &Lane, most: u32) {
        lane.state.open(i64::from(most) - self.in_state);
        (self.in_state, self.is_open) = (i64::from(most), true);
    }

    /// Closes the lane, if it is open.
    pub(super) fn close(&mut self, lane: &Lane) {
        if std::mem::replace(&mut self.is_open, false) {
            lane.state.close();
        }
    }

    /// How many slots more fit into its state.
    pub(super) const fn room(&self) -> u32 {
        MOST_LENT - self.lent
    }

    /// Takes up to `most` slots more. Returns how many.
    fn add(&mut self, most: usize) -> u32 {
        let more = u32::try_from(most).unwrap_or(u32::MAX).min(self.room());
        self.lent += more;
        more
    }

    /// Notes what happened in a lane that is closed. Returns what that means for the engine.
    pub(super) fn settle(&mut self, lane: &Lane) -> Settled {
        let seen = lane.state.look();
        let left = u64::from(seen.left.wrapping_sub(self.left_seen) & NUMBERS);
        (self.left, self.left_seen) = (self.left + left, seen.left);
        // A request that gives up entering may be in `used`. It takes the lock next, and is told to be gone. Beyond what was
        // lent it is not told at all: its lane may have no slot by then, and nothing would look at it.
        let used = seen.used.min(self.lent);
        let entered = self.left + u64::from(used);
        let admitted = entered.wrapping_sub(self.counted).cast_signed();
        self.counted = entered;
        let back = self.lent - used;
        self.lent = used;
        // The engine has it from here on: a slot that it takes back ends that time as well.
        let since = lane.busy_since.swap(u64::MAX, Ordering::Relaxed);
        let busy_since = (used > 0 && since != u64::MAX).then_some(Timestamp::from_nanos(since));
        Settled { borrower: self.borrower, admitted, back, left, busy_since }
    }
}
