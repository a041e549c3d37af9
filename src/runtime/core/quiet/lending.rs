//! The engine's side of the quiet path, under the lock: what is lent, when it is called back, and when it is lent again.

use super::{
    BATCH, Lanes, LentSlot, MOST_LENT, Ordering,
    drain::Drain,
    labelled::key_of,
    loan::{Loan, loans, settle_partition, share_out},
    low,
};
use crate::{
    Timestamp,
    engine::{Borrower, Engine, LabelId, PartitionId, Settled, limit::Sample},
};

/// Quiet turns after which slots are lent again, at first and at the most.
const QUIET_TURNS: (u32, u32) = (2, 64);

/// A loan that served fewer requests than this before it was called back cost more than it saved.
const WORTH_IT: u64 = 16;

/// Requests with a label that are remembered until slots are lent the next time.
const MOST_WANTED: usize = 64;

/// Loans without lanes for labels after one that did not pay for these, at the most.
const LABEL_REST: u32 = 64;

/// Timed requests after which enough is known of their times to time fewer of them.
const KNOWN: u64 = 256;

/// What is lent.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Lending {
    /// Loans by the number of their lane.
    loans: Vec<Loan>,
    /// Partitions and hashes of labels that the engine admitted since slots were lent last.
    wanted: Vec<(PartitionId, u64)>,
    /// Loans until labels get lanes again, and how many there were between the last two times that they did.
    label_rest: (u32, u32),
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
    /// What happened in the lanes, and samples of one of them, while that is told.
    settled: Vec<Settled>,
    samples: Vec<Sample>,
}

impl Lending {
    pub(in crate::runtime) fn new(lanes: &Lanes) -> Self {
        Self {
            loans: loans(lanes).collect(),
            wanted: Vec::with_capacity(MOST_WANTED),
            settled: Vec::with_capacity(lanes.lanes.len()),
            samples: Vec::with_capacity(BATCH as usize),
            ..Self::default()
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

    /// Whether a request has left a closed lane, or was observed, since the last look. Out of the way of turns without lent slots.
    #[inline(never)]
    fn has_news(&self, lanes: &Lanes) -> bool {
        lanes.all().zip(&self.loans).any(|(lane, loan)| loan.has_news(lane))
    }

    fn recall_all(&mut self, lanes: &Lanes, engine: &mut Engine) {
        if self.is_open {
            self.is_open = false;
            lanes.show_to_labels(0);
            for (lane, loan) in lanes.all().zip(&mut self.loans) {
                loan.close(lane);
            }
        }
        // First, as long as their slots count as running.
        self.collect_all(lanes, engine);
        let per_partition = 1 << lanes.per_partition;
        let (loans, label_loans) = self.loans.split_at_mut(lanes.lanes.len());
        let partitions = loans.chunks_mut(per_partition).zip(lanes.lanes.chunks(per_partition));
        self.settled.extend(partitions.filter_map(|(loans, lanes)| settle_partition(loans, lanes)));
        let told = label_loans.iter_mut().zip(lanes.for_labels()).filter(|(loan, _)| loan.is_unsettled());
        self.settled.extend(told.map(|(loan, lane)| loan.settle(lane)));
        // A request that entered one lane before another request left another lane says nothing of a stall.
        let has_freed = self.settled.iter().any(|it| it.left > 0);
        let since = self.settled.iter().filter_map(|it| it.busy_since);
        let since = since.filter(|&since| !has_freed || since >= self.last_end).min();
        engine.note_freed(has_freed, since);
        let last_end = self.last_end;
        for mut settled in self.settled.drain(..) {
            self.lent -= settled.back;
            self.served += settled.left;
            if settled.borrower.label != LabelId::DEFAULT {
                // Requests of the partition may have left other lanes since.
                settled.busy_since = settled.busy_since.filter(|&since| !has_freed || since >= last_end);
            }
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
        let answering = lanes.answering.load(Ordering::Relaxed);
        engine.note_lent_answering(low(answering) as usize, (answering >> 32) as usize);
        for (lane, loan) in lanes.all().zip(&mut self.loans) {
            let told = lane.told();
            if told != loan.read {
                loan.check_label(engine);
                let mut drain = Drain { engine, loan, samples: &mut self.samples, timed: 0 };
                drain.read(&lane.at_head, told[0], false);
                drain.read(&lane.at_end, told[1], true);
                self.learned += drain.timed;
                self.last_end = self.last_end.max(loan.last_end);
            }
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
        self.give_lanes_to_labels(lanes, engine);
        // Limits may be as large as a number can be.
        let free = engine.limit().saturating_sub(engine.running()).min(MOST_LENT as usize * self.loans.len());
        let weights: usize = self.loans.iter().map(Loan::weight).sum();
        let per_partition = 1 << lanes.per_partition;
        let (loans, label_loans) = self.loans.split_at_mut(lanes.lanes.len());
        for loans in loans.chunks_mut(per_partition).chain(label_loans.chunks_mut(1)) {
            let [Loan { borrower, is_vacant: false, .. }, ..] = *loans else { continue };
            let part = free * loans.iter().map(Loan::weight).sum::<usize>() / weights;
            let most: u32 = loans.iter().map(Loan::room).sum();
            let more = engine.lend(borrower, part.min(most as usize));
            self.lent += more;
            share_out(more, loans);
        }
        let elsewhere = engine.running().saturating_sub(self.lent as usize);
        lanes.elsewhere.store(elsewhere as u64, Ordering::Relaxed);
        let (loans, label_loans) = self.loans.split_at_mut(lanes.lanes.len());
        for (loan, lane) in label_loans.iter_mut().zip(lanes.for_labels()).filter(|(loan, _)| !loan.is_vacant) {
            // Other lanes of the partition let too many leave, too.
            let is_too_many = engine.too_many(loan.borrower, loan.lent) > 0;
            loan.open(lane, if is_too_many { 0 } else { loan.lent });
        }
        for (loans, lanes) in loans.chunks_mut(per_partition).zip(lanes.lanes.chunks(per_partition)) {
            // What runs beyond a bound that has shrunk leaves without a successor. A lane does not know how many have left other
            // lanes: that number has to leave each lane before a request may enter there.
            let [Loan { borrower, .. }, ..] = *loans else { continue };
            let too_many = engine.too_many(borrower, loans.iter().map(|loan| loan.lent).sum::<u32>());
            for (loan, lane) in loans.iter_mut().zip(lanes) {
                let most = loan.lent - too_many.min(loan.lent);
                loan.open(lane, most);
            }
        }
        lanes.tell_what_runs_elsewhere();
        lanes.show_to_labels(self.loans.len() - lanes.lanes.len());
        self.is_open = true;
    }

    /// Remembers the label of a request that the engine admitted and that asked for nothing else.
    #[inline]
    pub(in crate::runtime) fn want(&mut self, partition: PartitionId, hash: u64) {
        if self.wanted.len() < MOST_WANTED {
            self.wanted.push((partition, hash));
        }
    }

    /// Gives lanes that served no request to labels that came since.
    fn give_lanes_to_labels(&mut self, lanes: &Lanes, engine: &Engine) {
        let partitions = lanes.lanes.len();
        let (mut had_lanes, mut served) = (false, 0);
        for (loan, lane) in self.loans[partitions..].iter_mut().zip(lanes.for_labels()).filter(|(it, _)| !it.is_vacant)
        {
            loan.check_label(engine);
            if loan.left == loan.left_before && loan.is_over(lane) {
                loan.vacate();
            }
            had_lanes = true;
            served += loan.left - loan.left_before;
            loan.left_before = loan.left;
        }
        while let Some(loan) = self.loans.pop_if(|it| it.is_vacant) {
            let lane = lanes.for_labels().nth(self.loans.len() - partitions);
            if lane.is_some_and(|lane| !loan.is_over(lane)) {
                self.loans.push(loan);
                break;
            }
        }
        let (left, last) = self.label_rest;
        if had_lanes {
            self.label_rest = if served >= WORTH_IT { (0, last / 2) } else { (last, (last * 2).clamp(1, LABEL_REST)) };
        }
        if left > 0 {
            self.label_rest.0 = left - 1;
            self.wanted.clear();
        }
        for (partition, hash) in self.wanted.drain(..) {
            let loans = &mut self.loans[partitions..];
            let Some(label) = engine.label_of_hash(hash) else { continue };
            let borrower = Borrower { partition, label };
            if loans.iter().any(|it| it.borrower == borrower) {
                continue;
            }
            let mut vacant = loans.iter().zip(lanes.for_labels());
            let number = vacant.position(|(it, lane)| it.is_vacant && it.is_over(lane)).unwrap_or(loans.len());
            let Some(place) = lanes.labelled.get(number) else { break };
            let lane = place.is_for(key_of(partition, hash));
            match loans.get_mut(number) {
                Some(loan) => (loan.borrower, loan.hash, loan.is_vacant) = (borrower, hash, false),
                None => self.loans.push(Loan { hash, ..Loan::of(borrower, lane) }),
            }
        }
    }

    /// Returns the requests that a lent slot is for.
    pub(in crate::runtime) fn borrower(&self, slot: &LentSlot) -> Borrower {
        self.loans.get(slot.lane()).map_or(Borrower::of(PartitionId::DEFAULT), |loan| loan.borrower)
    }

    /// Takes a request over from its lane, after a call to [`recall`](Self::recall): the engine counts its slot already.
    pub(in crate::runtime) fn take_over(&mut self, lanes: &Lanes, slot: &LentSlot) {
        if let (Some(lane), Some(loan)) = (lanes.lane(slot), self.loans.get_mut(slot.lane())) {
            lane.state.take_out();
            lanes.note_end(slot);
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
