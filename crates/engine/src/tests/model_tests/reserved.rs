//! Reservations, found anew each time from all their events.

use super::{
    model::Model,
    setup::{Mistake, Request},
};

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A request found nothing left. With the window that it would begin, and the most that may be held back.
    Missed {
        window: u64,
        most: usize,
    },
    /// A request took a unit when so many were left.
    Taken(usize),
    Trimmed(usize),
    /// A request of the partition was served.
    Served,
    /// The present.
    Now,
}

/// A reservation, as the list of its events.
#[derive(Clone, Debug, Default)]
pub(super) struct Reserved(Vec<(u64, Event)>);

impl Reserved {
    pub(super) fn count(&self, now: u64) -> usize {
        self.state(now).0
    }

    fn lives(&self, now: u64) -> bool {
        self.state(now).1
    }

    /// Returns how many requests missed one in a row.
    fn in_a_row(&self, now: u64) -> u32 {
        self.state(now).2
    }

    /// Returns how many units are held back, whether anything is remembered, and how many requests missed one in a row.
    fn state(&self, now: u64) -> (usize, bool, u32) {
        let (mut in_a_row, mut served) = (0, false);
        let (mut count, mut taken, mut before, mut missed) = (0, 0, 0, false);
        let mut lives = false;
        // In this window, and in the window before it.
        let mut at_once = [0, 0];
        let (mut begun, mut length) = (0, 0);
        for &(at, event) in self.0.iter().chain([&(now, Event::Now)]) {
            while lives && begun + length <= at {
                begun += length;
                (in_a_row, served) = (if served { 0 } else { in_a_row }, false);
                lives = taken > 0 || missed;
                count = if lives { count.min(at_once[0].max(at_once[1])) } else { 0 };
                (before, taken, missed, at_once) = (taken, 0, false, [0, at_once[0]]);
            }
            match event {
                Event::Missed { window, most } if !lives => {
                    (count, taken, before, missed, at_once) = (most.min(1), 0, 0, true, [1, 0]);
                    (begun, length, lives) = (at, window, true);
                    in_a_row += 1;
                }
                Event::Missed { most, .. } => {
                    in_a_row += 1;
                    count = if count == 0 {
                        most.min(1)
                    } else {
                        count + usize::from(count < most && count < taken + before)
                    };
                    (at_once[0], missed) = (at_once[0].max(count), true);
                }
                Event::Taken(left) => {
                    taken += 1;
                    at_once[0] = at_once[0].max((count + 1).saturating_sub(left)).max(1);
                }
                Event::Trimmed(most) => count = count.min(most),
                Event::Served => served = true,
                Event::Now => {}
            }
        }
        (count, lives, in_a_row)
    }

    fn trim(&mut self, now: u64, most: usize) {
        self.0.push((now, Event::Trimmed(most)));
    }

    fn missed(&mut self, now: u64, hold: u64, most: usize) {
        self.0.push((now, Event::Missed { window: (hold / 2).max(1), most }));
    }

    fn take(&mut self, now: u64, left: usize) {
        if left <= self.count(now) {
            self.0.push((now, Event::Taken(left.max(1))));
        }
    }
}

/// A quarter of the slots, as long as they are few.
fn most_slots(limit: usize) -> usize {
    (limit / 4).clamp(1, 3)
}

impl Model {
    /// Returns how many slots are held back from a partition: those of partitions that were refused more often in a row, or all
    /// of them from what is beyond its share.
    pub(super) fn held_back_from(&self, partition: usize, is_beyond: bool) -> usize {
        let own = self.missed_by(partition).map_or(0, |missed| missed.held.in_a_row(self.now));
        let held = self.held.partitions.iter().filter(|it| it.held.lives(self.now));
        let before = held.filter(|it| is_beyond || it.held.in_a_row(self.now) > own);
        before.map(|it| it.held.count(self.now)).sum()
    }

    fn missed_by(&self, partition: usize) -> Option<&Missed> {
        self.held.partitions.iter().find(|it| it.partition == partition && it.held.lives(self.now))
    }

    fn held_for_partitions(&self) -> usize {
        self.held_back_from(0, true)
    }

    /// Notes that a partition missed a slot: it has one more held back, or one of a partition that missed fewer in a row.
    fn missed_a_slot(&mut self, partition: usize) {
        let (now, hold, most) = (self.now, self.hold, (self.limit / 4).max(1));
        self.held.partitions.retain(|it| it.held.lives(now));
        if self.missed_by(partition).is_none() {
            self.held.partitions.push(Missed { partition, held: Reserved::default() });
        }
        let total = self.held_for_partitions();
        let index = self.held.partitions.iter().position(|it| it.partition == partition).unwrap();
        let own = self.held.partitions[index].held.count(now);
        let in_a_row = self.held.partitions[index].held.in_a_row(now) + 1;
        let mut room = most.saturating_sub(total - own);
        if own == 0 && room == 0 {
            let others =
                self.held.partitions.iter_mut().filter(|it| it.held.count(now) > 0 && it.held.in_a_row(now) < in_a_row);
            if let Some(less) = others.min_by_key(|it| it.held.in_a_row(now)).filter(|it| it.partition != partition) {
                less.held.trim(now, less.held.count(now) - 1);
                room += 1;
            }
        }
        self.held.partitions[index].held.missed(now, hold, room);
    }

    fn held_above(&self, level: usize) -> usize {
        self.held.levels[..level].iter().map(|held| held.count(self.now)).sum()
    }

    fn is_below_fair_share(&self, label: usize) -> bool {
        let active = (0..self.labels.len()).filter(|&label| self.is_active(label)).count();
        self.running_of(label) < self.limit.div_ceil(active.max(1))
    }

    fn running_at(&self, level: usize) -> usize {
        self.used.iter().filter(|used| used.level == level).count()
    }

    /// Whether a request leaves the slots free that are held back for other labels, and for more important requests.
    pub(super) fn leaves_held(&self, level: usize, label: usize) -> bool {
        let for_labels = if self.is_below_fair_share(label) { 0 } else { self.held.labels.count(self.now) };
        let for_levels = self.held_above(level).min(most_slots(self.limit));
        let held = for_labels.max(for_levels);
        held == 0 || self.used.len() + held < self.limit
    }

    /// Reserves for a request that was refused and found nothing left: a slot, unless its partition has places left.
    pub(super) fn hold_back(&mut self, ask: &Request, label: usize) {
        if self.in_line(ask.partition) >= self.share_of_places(ask.partition) {
            self.hold_slot_back(ask, label, true);
        }
    }

    pub(super) fn hold_slot_back(&mut self, ask: &Request, label: usize, may_wait: bool) {
        if self.used.len() < self.limit {
            return;
        }
        let (now, hold, most, level) = (self.now, self.hold, most_slots(self.limit), ask.level);
        let below = self.is_below_share(ask.partition);
        if below && !may_wait && !self.overcommits(ask.partition) && self.mistake != Mistake::KeepsNothing {
            self.missed_a_slot(ask.partition);
        }
        if self.setup.line_places() > 0 || self.is_at_hard_cap(ask.partition) {
            return;
        }
        let active = (0..self.labels.len()).filter(|&label| self.is_active(label)).count();
        let below = self.is_below_fair_share(label);
        if active > 1 && below && self.mistake != Mistake::KeepsNothingForLabels {
            self.held.labels.missed(now, hold, most);
        }
        let less_important = (level + 1..4).any(|below| self.running_at(below) > 0);
        if less_important && self.mistake != Mistake::KeepsNothingForLevels {
            self.held.levels[level].missed(now, hold, most);
        }
    }

    /// Notes that a request takes a slot: its part of each reservation is in use now.
    pub(super) fn take_held(&mut self, partition: usize, label: usize, level: usize) {
        let (now, left) = (self.now, self.limit.saturating_sub(self.used.len()));
        if self.is_below_share(partition) {
            let total = self.held_for_partitions();
            if let Some(it) = self.held.partitions.iter_mut().find(|it| it.partition == partition) {
                it.held.0.push((now, Event::Served));
                it.held.take(now, left.saturating_sub(total - it.held.count(now)));
            }
        }
        if self.is_below_fair_share(label) {
            self.held.labels.take(now, left);
        }
        let above = self.held_above(level);
        self.held.levels[level].take(now, left.saturating_sub(above));
    }

    /// Shrinks all reservations to a new limit.
    pub(super) fn trim_held(&mut self) {
        let trimmed = (self.now, Event::Trimmed(most_slots(self.limit)));
        let held = std::iter::once(&mut self.held.labels).chain(&mut self.held.levels);
        held.for_each(|held| held.0.push(trimmed));
        let mut most = (self.limit / 4).max(1);
        for it in &mut self.held.partitions {
            it.held.trim(self.now, most);
            most -= it.held.count(self.now);
        }
    }

    /// Ends all reservations: their reason may be gone.
    pub(super) fn let_all_go(&mut self) {
        if self.mistake != Mistake::HoldsBackAcrossReloads {
            self.held = AllReserved::default();
        }
    }
}

/// What is held back for a partition, and how many of its requests were refused in a row.
#[derive(Clone, Debug)]
struct Missed {
    partition: usize,
    held: Reserved,
}

/// All reservations.
#[derive(Clone, Debug, Default)]
pub(super) struct AllReserved {
    partitions: Vec<Missed>,
    pub(super) labels: Reserved,
    pub(super) levels: [Reserved; 4],
}
