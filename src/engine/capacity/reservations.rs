//! For which requests slots and places in line are held back, and from which; how many is up to [`reservation`].
//!
//! They are held back for partitions. Where nobody can wait there is no line in which labels could take turns, and none
//! from which a more important request could push out a less important one; there, slots are also held back for labels
//! below their fair share (the limit over the labels that are active), and for levels of importance. A request that is
//! beyond the share of its own leaves them alone.
//!
//! A reservation begins with a request that found nothing left. While slots are free, nothing is reserved: a request that
//! is refused because of a reservation adds nothing to any.
//!
//! [`reservation`]: crate::engine::reservation

use std::time::Duration;

use crate::engine::{
    Ask, Engine,
    ids::LabelId,
    plan::PartitionMode,
    reservation::{Reservation, most_places, most_slots},
    tokens::Holder,
};
use crate::time::Timestamp;

/// All that is held back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reservations {
    partitions: Reservation,
    places: Reservation,
    labels: Reservation,
    levels: [Reservation; 4],
    /// When any of them may shrink by itself; never, where nothing is held back.
    next_decay: Timestamp,
}

impl Reservations {
    pub(crate) fn none() -> Self {
        Self { next_decay: Timestamp::NEVER, ..Self::default() }
    }

    pub(crate) const fn next_decay(&self) -> Timestamp {
        self.next_decay
    }

    const fn are_none(&self) -> bool {
        self.next_decay.as_nanos() == Timestamp::NEVER.as_nanos()
    }

    /// How many slots are held back for what is more important than `level`.
    fn above(&self, level: usize) -> usize {
        self.levels[..level].iter().map(Reservation::count).sum()
    }

    /// Asserts that no more is held back than the limit allows, and that nothing is for ever.
    #[cfg(test)]
    pub(crate) fn check_all(&self, limit: usize) {
        let next = self.all().map(Reservation::next_decay).min();
        assert_eq!(Some(self.next_decay), next, "the next decay is known");
        let of_slots = [&self.partitions, &self.labels].into_iter().chain(&self.levels);
        assert!(of_slots.map(Reservation::count).all(|count| count <= most_slots(limit)), "{self:?}");
        assert!(self.all().all(|it| it.count() == 0 || it.next_decay() != Timestamp::NEVER), "{self:?}");
    }

    /// Whether anything is held back where nobody can wait.
    #[cfg(test)]
    pub(crate) fn are_for_labels_or_levels(&self) -> bool {
        self.labels.count() + self.above(4) > 0
    }

    fn all(&self) -> impl Iterator<Item = &Reservation> {
        [&self.partitions, &self.places, &self.labels].into_iter().chain(&self.levels)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Reservation> {
        [&mut self.partitions, &mut self.places, &mut self.labels].into_iter().chain(&mut self.levels)
    }

    fn find_next_decay(&mut self) {
        self.next_decay = self.all().map(Reservation::next_decay).min().unwrap_or(Timestamp::NEVER);
    }
}

impl Engine {
    /// Whether a request of this partition may take a slot now, whatever its label and its importance.
    ///
    /// It is never asked whether somebody else came first: after every verb nobody who waits may run, so whoever may
    /// run overtakes nobody who could have.
    ///
    /// Beyond its share a partition leaves alone what is held back for others.
    pub(crate) fn partition_may_run(&self, partition: u16) -> bool {
        let it = &self.capacity.partitions[partition as usize];
        let reserved = if it.running < it.owed { 0 } else { self.capacity.reserved.partitions.count() };
        (self.capacity.running + reserved < self.capacity.limit && it.running < it.cap) || it.running < it.overcommit
    }

    /// Whether a request that arrives may run.
    pub(crate) fn may_run(&self, ask: &Ask<'_>, label: LabelId) -> bool {
        self.partition_may_run(ask.partition)
            && !self.quotas.labels.is_full(label)
            && (self.capacity.reserved.are_none() || self.leaves_reserved(ask, label))
    }

    /// Whether a request would leave alone what is held back for labels and for more important requests.
    fn leaves_reserved(&self, ask: &Ask<'_>, label: LabelId) -> bool {
        let it = &self.capacity.partitions[ask.partition as usize];
        let below = self.is_below_fair_share(label);
        let for_labels = if below { 0 } else { self.capacity.reserved.labels.count() };
        let for_levels =
            self.capacity.reserved.above(usize::from(ask.criticality.level())).min(most_slots(self.capacity.limit));
        it.running < it.overcommit || self.capacity.running + for_labels.max(for_levels) < self.capacity.limit
    }

    fn is_below_fair_share(&self, label: LabelId) -> bool {
        self.quotas.labels.get(label).within() < self.quotas.labels.fair_share(self.capacity.limit)
    }

    /// Holds something back for a request that is refused: a place in line where its partition has a share of them left,
    /// else a slot.
    pub(crate) fn reserve(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId) {
        let places = self.queue.line.places.count(self.capacity.limit);
        let share = self.capacity.partitions[ask.partition as usize].share_of(places);
        if self.queue.waiting.in_line(ask.partition) >= share {
            self.reserve_slot(now, ask, label);
        } else if self.queue.in_line >= places {
            let hold = self.reserve_time();
            self.capacity.reserved.places.reserve(now, hold, most_places(places));
            self.capacity.reserved.find_next_decay();
        }
    }

    /// Holds a slot back for partitions below their share and, where nobody can wait, for labels and levels. Those who
    /// wait would take it: their turn goes by labels and levels anyway.
    pub(crate) fn reserve_slot(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId) {
        if self.capacity.running < self.capacity.limit {
            return;
        }
        let (hold, most) = (self.reserve_time(), most_slots(self.capacity.limit));
        let it = &self.capacity.partitions[ask.partition as usize];
        if it.running < it.owed && it.plan.mode != PartitionMode::Overcommit {
            self.capacity.reserved.partitions.reserve(now, hold, most);
        }
        if self.queue.line.places.count(self.capacity.limit) == 0 && it.running < it.cap {
            if self.quotas.labels.active() > 1 && self.is_below_fair_share(label) {
                self.capacity.reserved.labels.reserve(now, hold, most);
            }
            let level = usize::from(ask.criticality.level());
            if self.capacity.running_by_level[level + 1..].iter().any(|&running| running > 0) {
                self.capacity.reserved.levels[level].reserve(now, hold, most);
            }
        }
        self.capacity.reserved.find_next_decay();
    }

    /// Notes which reservations a request draws on that takes a slot now.
    pub(crate) fn draw_on_slots(&mut self, holder: Holder) {
        if self.capacity.reserved.are_none() {
            return;
        }
        let left = self.capacity.limit.saturating_sub(self.capacity.running);
        let it = &self.capacity.partitions[holder.partition as usize];
        if it.running < it.owed {
            self.capacity.reserved.partitions.take(left);
        }
        if self.is_below_fair_share(holder.label) {
            self.capacity.reserved.labels.take(left);
        }
        let level = usize::from(holder.level);
        self.capacity.reserved.levels[level].take(left.saturating_sub(self.capacity.reserved.above(level)));
    }

    /// The same for one that takes a place in line.
    pub(crate) fn draw_on_places(&mut self, partition: u16) {
        if self.capacity.reserved.are_none() {
            return;
        }
        let places = self.queue.line.places.count(self.capacity.limit);
        if self.queue.waiting.in_line(partition) < self.capacity.partitions[partition as usize].share_of(places) {
            self.capacity.reserved.places.take_cheap(places.saturating_sub(self.queue.in_line));
        }
    }

    /// How many places in line a partition has to leave alone: none below its share of them.
    pub(crate) fn places_reserved_from(&self, partition: u16, places: usize) -> usize {
        let reserved = self.capacity.reserved.places.count().min(most_places(places));
        let below =
            || self.queue.waiting.in_line(partition) < self.capacity.partitions[partition as usize].share_of(places);
        if reserved == 0 || below() { 0 } else { reserved }
    }

    /// For how long a reservation lasts that is not used: as long as a request holds its slot.
    pub(crate) fn reserve_time(&self) -> Duration {
        const UNKNOWN: Duration = Duration::from_millis(50);
        let hold = self.estimates.mean_hold();
        if hold.is_zero() { UNKNOWN } else { hold.clamp(Duration::from_millis(1), Duration::from_secs(10)) }
    }

    /// Lets go of what was not needed lately, and lets those run who waited for it.
    pub(crate) fn decay_due(&mut self, now: Timestamp) {
        if self.capacity.reserved.next_decay <= now {
            self.settle(now);
        }
    }

    /// Lets go of what was not needed lately.
    pub(crate) fn decay(&mut self, now: Timestamp) {
        self.capacity.reserved.all_mut().for_each(|it| it.decay(now));
        self.capacity.reserved.find_next_decay();
    }

    /// Holds back no more than the present limit allows.
    pub(crate) fn trim_reserved(&mut self) {
        if self.capacity.reserved.are_none() {
            return;
        }
        let most = most_slots(self.capacity.limit);
        let slots = [&mut self.capacity.reserved.partitions, &mut self.capacity.reserved.labels].into_iter();
        slots.chain(&mut self.capacity.reserved.levels).for_each(|it| it.trim(most));
    }

    /// Holds nothing back any more: what it was for may be settled otherwise now.
    pub(crate) fn clear_reserved(&mut self) {
        self.capacity.reserved = Reservations::none();
    }
}
