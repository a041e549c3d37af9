//! For whom room is kept, and for how long; what that means is in [`kept`](super::kept).
//!
//! Room is kept for partitions, out of slots and out of places in line. Where nobody can wait there is no line in which
//! labels could take turns, and none from which a more important request could push out a less important one; there, slots
//! are also kept for labels that were turned away below their fair share (the limit over the labels that are active), and
//! for levels of importance. Whoever is above its own share leaves alone what is kept for others of the same sort.

use std::time::Duration;

use super::{Ask, Engine, kept::Kept, labels::LabelId, plan::PartitionMode};
use crate::time::Timestamp;

/// What runs and what is kept for each level of importance.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Levels {
    pub(super) running: [usize; 4],
    kept: [Kept; 4],
}

impl Levels {
    /// How many slots are kept for what is more important than `level`.
    fn kept_above(&self, level: usize, limit: usize) -> usize {
        (0..level).map(|above| self.kept[above].unused(self.running[above], limit)).sum()
    }

    fn keeps_any(&self) -> bool {
        self.kept.iter().any(|kept| kept.until() != Timestamp::NEVER)
    }
}

impl Engine {
    /// Whether a request of this partition may take a slot now, whatever its label and its importance.
    ///
    /// It is never asked whether somebody else came first: after every verb nobody who waits may run, so whoever may
    /// run overtakes nobody who could have.
    ///
    /// Beyond its share a partition leaves alone what is kept for others.
    pub(super) fn partition_may_run(&self, partition: u16) -> bool {
        let it = &self.partitions[partition as usize];
        let kept = if it.running < it.owed { 0 } else { self.kept - it.kept_slots() };
        (self.running + kept < self.limit && it.running < it.cap) || it.running < it.overcommit
    }

    /// Whether a request that arrives may run.
    pub(super) fn may_run(&self, ask: &Ask<'_>, label: LabelId) -> bool {
        let it = &self.partitions[ask.partition as usize];
        self.partition_may_run(ask.partition)
            && !self.labels.is_full(label)
            && (!self.keeps_for_some() || it.running < it.overcommit || self.leaves_kept_alone(ask, label))
    }

    /// Whether a request that arrives and that no rule stops may run, after what is kept for nobody any more was let go.
    pub(super) fn finds_room(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId) -> bool {
        if self.lets_go_at <= now && !self.may_run(ask, label) {
            self.settle(now);
        }
        self.may_run(ask, label)
    }

    /// Whether anything is kept for labels or levels.
    pub(super) fn keeps_for_some(&self) -> bool {
        self.labels.kept > 0 || self.lets_go_at != Timestamp::NEVER && self.levels.keeps_any()
    }

    /// Whether a request would leave alone what is kept for other labels and for more important requests.
    pub(super) fn leaves_kept_alone(&self, ask: &Ask<'_>, label: LabelId) -> bool {
        let one = self.labels.get(label);
        let for_labels = if one.within() < self.labels.fair_share(self.limit) {
            0
        } else {
            self.labels.kept - one.kept.unused(one.within(), usize::MAX)
        };
        let for_levels = self.levels.kept_above(usize::from(ask.criticality.level()), self.limit);
        self.running + for_labels.max(for_levels) < self.limit
    }

    /// Keeps room for whoever was turned away: a place in line where its partition has a share of them left, else a slot.
    pub(super) fn keep_room(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId) {
        let until = now.after(self.keep_time());
        let places = self.line.places.count(self.limit);
        let waiting = self.waiting.in_line(ask.partition);
        let it = &mut self.partitions[ask.partition as usize];
        let share = it.share_of(places);
        if share > 0 && waiting < share {
            it.places.raise(waiting, share, until);
            self.lets_go_at = self.lets_go_at.min(it.places.until());
        } else if places == 0 {
            self.keep_slot(now, ask, label);
        } else {
            self.keep_slot_for_partition(until, ask.partition);
        }
    }

    /// Keeps a slot for its partition and, where nobody can wait, for its label and its level. Those who wait would take
    /// it: their turn goes by labels and levels anyway.
    pub(super) fn keep_slot(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId) {
        let until = now.after(self.keep_time());
        self.keep_slot_for_partition(until, ask.partition);
        let it = &self.partitions[ask.partition as usize];
        if self.line.places.count(self.limit) > 0 || it.running >= it.cap {
            return;
        }
        let (limit, fair) = (self.limit, self.labels.fair_share(self.limit));
        if self.labels.active() > 1 || self.labels.kept > 0 {
            let before = self.labels.kept;
            self.labels.change(label, |one| one.kept.raise(one.within(), fair, until));
            if self.labels.kept > before && !self.labels.keeping.contains(&label) {
                self.labels.keeping.push(label);
            }
            self.lets_go_at = self.lets_go_at.min(self.labels.get(label).kept.until());
        }
        let level = usize::from(ask.criticality.level());
        if self.levels.running[level + 1..].iter().any(|&running| running > 0) {
            let kept = &mut self.levels.kept[level];
            kept.raise(self.levels.running[level], limit, until);
            self.lets_go_at = self.lets_go_at.min(kept.until());
        }
    }

    fn keep_slot_for_partition(&mut self, until: Timestamp, partition: u16) {
        let it = &mut self.partitions[partition as usize];
        if it.plan.mode != PartitionMode::Overcommit {
            let before = it.kept_slots();
            it.slots.raise(it.running, it.owed, until);
            self.kept += it.kept_slots() - before;
            self.lets_go_at = self.lets_go_at.min(it.slots.until());
        }
    }

    /// How many places in line are kept for partitions other than this one, which needs to heed that beyond its share.
    pub(super) fn places_kept_for_others(&self, partition: u16, places: usize) -> usize {
        let it = &self.partitions[partition as usize];
        if self.waiting.in_line(partition) < it.share_of(places) {
            return 0;
        }
        let all = (0..=u16::MAX).zip(&self.partitions);
        let others = all.filter(|&(other, _)| other != partition);
        others.map(|(other, it)| it.kept_places(self.waiting.in_line(other), places)).sum()
    }

    /// How often half of what is kept and not used is let go: after some times of what a request holds its slot.
    pub(super) fn keep_time(&self) -> Duration {
        (self.drain.mean() * 8).clamp(Duration::from_millis(50), Duration::from_secs(10))
    }

    /// Lets go of half of what was kept and not used for some time.
    pub(super) fn let_go(&mut self, now: Timestamp) {
        let until = now.after(self.keep_time());
        let places = self.line.places.count(self.limit);
        let mut next = Timestamp::NEVER;
        for (partition, it) in (0..=u16::MAX).zip(&mut self.partitions) {
            self.kept -= it.kept_slots();
            let slots = it.slots.let_go(it.running, it.owed, now, until);
            self.kept += it.kept_slots();
            let places = it.places.let_go(self.waiting.in_line(partition), it.share_of(places), now, until);
            next = next.min(slots).min(places);
        }
        for (kept, &running) in self.levels.kept.iter_mut().zip(&self.levels.running) {
            next = next.min(kept.let_go(running, self.limit, now, until));
        }
        for label in std::mem::take(&mut self.labels.keeping) {
            let mut again = Timestamp::NEVER;
            self.labels.change(label, |one| again = one.kept.let_go(one.within(), usize::MAX, now, until));
            if again != Timestamp::NEVER {
                self.labels.keeping.push(label);
                next = next.min(again);
            }
        }
        self.lets_go_at = next;
    }
}
