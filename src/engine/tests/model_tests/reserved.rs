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
    /// The present.
    Now,
}

/// A reservation, as the list of its events.
#[derive(Clone, Debug, Default)]
pub(super) struct Held(Vec<(u64, Event)>);

impl Held {
    pub(super) fn count(&self, now: u64) -> usize {
        let (mut count, mut taken, mut before, mut missed) = (0, 0, 0, false);
        // In this window, and in the window before it.
        let mut at_once = [0, 0];
        let (mut begun, mut length) = (0, 0);
        for &(at, event) in self.0.iter().chain([&(now, Event::Now)]) {
            while count > 0 && begun + length <= at {
                begun += length;
                count = if taken > 0 || missed { count.min(at_once[0].max(at_once[1])) } else { 0 };
                (before, taken, missed, at_once) = (taken, 0, false, [0, at_once[0]]);
            }
            match event {
                Event::Missed { window, .. } if count == 0 => {
                    (count, taken, before, missed, at_once) = (1, 0, 0, true, [1, 0]);
                    (begun, length) = (at, window);
                }
                Event::Missed { most, .. } => {
                    count += usize::from(count < most && count < taken + before);
                    (at_once[0], missed) = (at_once[0].max(count), true);
                }
                Event::Taken(left) => {
                    taken += 1;
                    at_once[0] = at_once[0].max((count + 1).saturating_sub(left)).max(1);
                }
                Event::Trimmed(most) => count = count.min(most),
                Event::Now => {}
            }
        }
        count
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
    pub(super) fn held_for_partitions(&self) -> usize {
        self.held.partitions.count(self.now)
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
            self.hold_slot_back(ask, label);
        }
    }

    pub(super) fn hold_slot_back(&mut self, ask: &Request, label: usize) {
        if self.used.len() < self.limit {
            return;
        }
        let (now, hold, most, level) = (self.now, self.hold, most_slots(self.limit), ask.level);
        let below = self.is_below_share(ask.partition);
        if below && !self.overcommits(ask.partition) && self.mistake != Mistake::KeepsNothing {
            self.held.partitions.missed(now, hold, most);
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
            self.held.partitions.take(now, left);
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
        let held = [&mut self.held.partitions, &mut self.held.labels].into_iter();
        held.chain(&mut self.held.levels).for_each(|held| held.0.push(trimmed));
    }

    /// Ends all reservations: their reason may be gone.
    pub(super) fn let_all_go(&mut self) {
        if self.mistake != Mistake::HoldsBackAcrossReloads {
            self.held = AllHeld::default();
        }
    }
}

/// All reservations.
#[derive(Clone, Debug, Default)]
pub(super) struct AllHeld {
    pub(super) partitions: Held,
    pub(super) labels: Held,
    pub(super) levels: [Held; 4],
}
