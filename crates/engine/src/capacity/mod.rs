//! Which requests run: the limit, the shares of partitions, and the reservations for requests that were rejected below their share.
//!
//! What holds after every verb: the running requests are the sum over partitions, and the sum over levels; the limit is at least 1; no more
//! slots are held back than the limit allows, and no slot is held back for ever.

#[cfg(test)]
mod check_tests;
mod for_partitions;
mod pacing;
mod partition;
mod reservation;
mod reservations;
mod room;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use self::{pacing::Pacing, partition::Partition, reservations::Reservations};
pub(crate) use self::{partition::PartitionView, reservations::Below};
use crate::{
    Timestamp,
    ids::{Level, PartitionId},
    plan::{PartitionMode, PartitionPlan},
    shares::allocate,
    stall::Stall,
    tokens::{Holder, Marks},
};

/// The slots.
#[derive(Debug)]
pub(crate) struct Capacity {
    limit: usize,
    running: usize,
    /// Requests that run besides, in partitions whose decisions don't bind.
    over_limit: usize,
    /// Time since a slot of the limit came free.
    stall: Stall,
    partitions: Vec<Partition>,
    /// The part of each partition, and room to compute its share: a limit moves without an allocation.
    parts: Vec<u32>,
    shares: Vec<usize>,
    reserved: Reservations,
    /// Time before which no request starts under the limit; `NEVER` while there is no pause.
    paused_until: Timestamp,
    pacing: Pacing,
    /// Free slots that partitions don't lend.
    withheld: usize,
    /// Whether any partition may run beyond the limit.
    overcommits: bool,
    /// Running requests by level of importance.
    levels: [usize; Level::COUNT],
}

/// What is known of all slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots {
    /// Requests that run besides those under the limit, in partitions whose decisions don't bind.
    pub(crate) over_limit: usize,
    /// Since when no slot of the limit has come free.
    pub(crate) stall: Stall,
    /// Whether no request of any partition may take a slot.
    pub(crate) is_closed_to_all: bool,
    /// Whether no request may start under the limit; and whether the next start of one that may wait is not due yet.
    pub(crate) is_paused: bool,
    pub(crate) is_spaced_out: bool,
    /// The least time from one start to the next; zero where starts are not spread.
    pub(crate) pacing: Duration,
}

impl Capacity {
    pub(crate) fn new(plans: Vec<PartitionPlan>, limit: usize) -> Self {
        let mut capacity = Self {
            limit: 1,
            running: 0,
            over_limit: 0,
            stall: Stall::default(),
            partitions: Vec::new(),
            parts: Vec::new(),
            shares: Vec::new(),
            reserved: Reservations::none(),
            paused_until: Timestamp::NEVER,
            pacing: Pacing::NONE,
            withheld: 0,
            overcommits: false,
            levels: [0; Level::COUNT],
        };
        capacity.replace(plans);
        capacity.resize(limit);
        capacity
    }

    /// Takes new partitions; their shares follow with [`resize`](Self::resize). Partitions are known by name: a
    /// partition that is gone drains, and comes back as it was if it is named again. Returns the names of new
    /// partitions.
    pub(crate) fn replace(&mut self, plans: Vec<PartitionPlan>) -> Vec<Arc<str>> {
        for it in &mut self.partitions {
            it.retired = true;
            it.plan.part = 0;
            it.plan.mode = PartitionMode::Burst;
            it.plan.observes = false;
            it.plan.withheld = 0;
        }
        let mut added = Vec::new();
        let known: BTreeMap<_, _> = (0..).zip(&self.partitions).map(|(at, it)| (it.plan.name.clone(), at)).collect();
        for plan in plans {
            match known.get(&plan.name).and_then(|&at: &usize| self.partitions.get_mut(at)) {
                Some(it) => (it.plan, it.retired) = (plan, false),
                None => {
                    added.push(plan.name.clone());
                    self.partitions.push(Partition::new(plan));
                }
            }
        }
        self.parts = self.partitions.iter().map(|it| it.plan.part).collect();
        self.shares = vec![0; self.parts.len()];
        self.overcommits =
            self.partitions.iter().any(|it| it.plan.observes || it.plan.mode == PartitionMode::Overcommit);
        self.clear_reserved();
        added
    }

    /// Sets the limit, from the next decision on. No request is evicted.
    pub(crate) fn resize(&mut self, limit: usize) {
        self.limit = limit.max(1);
        allocate(self.limit, &self.parts, &mut self.shares);
        for (it, &share) in self.partitions.iter_mut().zip(&self.shares) {
            it.resize(self.limit, share);
        }
        self.withheld = self.partitions.iter().map(Partition::idle_withheld).sum();
        if self.has_reserved() {
            self.reserved.trim(self.limit);
        }
    }

    pub(crate) const fn limit(&self) -> usize {
        self.limit
    }

    /// Returns how many requests run under the limit.
    pub(crate) const fn running(&self) -> usize {
        self.running
    }

    /// Has no request start under the limit before then; [`NEVER`](Timestamp::NEVER) ends a pause.
    pub(crate) const fn pause(&mut self, until: Timestamp) {
        self.paused_until = until;
    }

    /// Whether no request may start under the limit.
    const fn is_paused(&self) -> bool {
        self.paused_until.as_nanos() != Timestamp::NEVER.as_nanos()
    }

    /// Returns for how long no request of a partition may start. One that has slots of its own goes on in a pause.
    pub(crate) fn pause_left(&self, now: Timestamp, partition: PartitionId) -> Duration {
        let holds = self.is_paused() && self.partitions[partition.index()].overcommit == 0;
        if holds { self.paused_until.since(now) } else { Duration::ZERO }
    }

    /// Whether as many requests run as the limit allows, or none may start yet.
    pub(crate) const fn is_full(&self) -> bool {
        self.running >= self.limit || self.is_paused() || self.pacing.is_held()
    }

    /// Returns what else is known of all slots. Compiled where it is asked, so that only what is used of it is looked up.
    #[inline(always)]
    pub(crate) const fn slots(&self) -> Slots {
        let &Self { over_limit, stall, pacing, overcommits, .. } = self;
        let (is_paused, is_spaced_out) = (self.is_paused(), pacing.is_held());
        let is_closed_to_all = self.is_full() && !overcommits;
        let pacing = Duration::from_nanos(pacing.gap);
        Slots { over_limit, stall, is_closed_to_all, is_paused, is_spaced_out, pacing }
    }

    #[inline(always)]
    pub(crate) fn partition(&self, number: PartitionId) -> PartitionView<'_> {
        self.partitions[number.index()].view()
    }

    /// Returns all partitions with their numbers, those included that were taken out of the settings.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = (PartitionId, PartitionView<'_>)> {
        PartitionId::all().zip(self.partitions.iter().map(Partition::view))
    }

    /// Returns the partition in force for a request: the default one, if its own was taken out of the settings.
    #[inline]
    pub(crate) fn in_force(&self, partition: PartitionId) -> PartitionId {
        if self.partitions[partition.index()].retired { PartitionId::DEFAULT } else { partition }
    }

    /// Whether a request of this partition may take a slot now: label and importance are not asked here.
    ///
    /// Whether another request came first is never asked: after every verb no waiter may run, so a request that may run
    /// overtakes none that could have.
    ///
    /// Beyond its share, a partition leaves the slots alone that are held back for others.
    #[inline]
    pub(crate) fn may_run(&self, partition: PartitionId, cost: usize) -> bool {
        let it = &self.partitions[partition.index()];
        let reserved = self.reserved.partitions.held_back_from(partition, it.running >= it.owed);
        let reserved = reserved + self.withheld_from(it);
        let (in_all, in_partition) = (self.running + cost, it.running + cost);
        let is_free = in_all + reserved <= self.limit && in_partition <= it.cap && !self.is_paused();
        (is_free && (in_partition <= it.owed || it.may_borrow())) || in_partition <= it.overcommit
    }

    /// Returns how many free slots other partitions don't lend to this one.
    #[inline]
    const fn withheld_from(&self, it: &Partition) -> usize {
        self.withheld - it.idle_withheld()
    }

    /// Counts requests of a partition that start.
    #[inline]
    fn add(&mut self, partition: PartitionId, level: Level, cost: usize) {
        let it = &mut self.partitions[partition.index()];
        let idle = it.idle_withheld();
        it.running += cost;
        self.withheld -= idle - it.idle_withheld();
        self.running += cost;
        self.levels[level.index()] += cost;
    }

    /// Counts requests of a partition that end.
    #[inline]
    fn subtract(&mut self, partition: PartitionId, level: Level, cost: usize) {
        let it = &mut self.partitions[partition.index()];
        let idle = it.idle_withheld();
        it.running -= cost;
        self.withheld += it.idle_withheld() - idle;
        self.running -= cost;
        self.levels[level.index()] -= cost;
    }

    /// Whether anything is held back, or everything by a pause.
    #[inline]
    pub(crate) fn has_reserved(&self) -> bool {
        self.next_decay() != Timestamp::NEVER
    }

    /// Whether a request that [may run](Self::may_run) leaves the slots alone that are held back for labels and for more important
    /// requests. `is_label_below` its fair share is only asked while something is held back.
    #[inline]
    pub(crate) fn leaves_reserved(
        &self,
        partition: PartitionId,
        level: Level,
        is_label_below: impl FnOnce() -> bool,
        cost: usize,
    ) -> bool {
        if !self.has_reserved() {
            return true;
        }
        let it = &self.partitions[partition.index()];
        let for_labels = if is_label_below() { 0 } else { self.reserved.slots_for_labels() };
        let for_levels = self.reserved.slots_above(level, self.limit);
        it.running + cost <= it.overcommit || self.running + cost + for_labels.max(for_levels) <= self.limit
    }

    /// Returns how many slots are held back, from requests that are beyond all shares of their own.
    pub(crate) fn reserved(&self) -> usize {
        if !self.has_reserved() {
            return self.withheld;
        }
        let for_levels = self.reserved.slots_above(Level::LAST, self.limit);
        (self.withheld + self.reserved.partitions.total)
            .max(self.reserved.slots_for_labels())
            .max(for_levels)
            .min(self.limit)
    }

    /// Counts `count` requests alike that take a slot each, and start now, if they do; returns how many requests run then.
    /// `is_label_below` its fair share is only asked while something is held back.
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        holder: &Holder,
        count: usize,
        start: Option<Timestamp>,
        is_label_below: impl FnOnce() -> bool,
    ) -> u32 {
        let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
        let (level, cost) = (holder.level, holder.cost() * count);
        if holder.marks.has(Marks::OVER_LIMIT) {
            self.over_limit += cost;
            self.partitions[holder.partition.index()].over_limit += cost;
            return number(self.running + self.over_limit);
        }
        if self.has_reserved() {
            let it = &self.partitions[holder.partition.index()];
            let left = self.limit.saturating_sub(self.running);
            let owed = (it.running < it.owed).then_some(holder.partition);
            self.reserved.draw_on_slots(left, owed, is_label_below(), level);
        }
        self.add(holder.partition, level, cost);
        if let Some(now) = start {
            self.stall.started(now);
            self.partitions[holder.partition.index()].stall.started(now);
            self.pacing.started(now);
        }
        number(self.running)
    }

    /// Returns how many of `most` further requests of a partition may run now, while nothing is held back.
    pub(crate) fn room(&self, partition: PartitionId, most: usize) -> usize {
        let it = &self.partitions[partition.index()];
        if it.retired {
            return 0;
        }
        let free = self.limit.saturating_sub(self.running + self.withheld_from(it));
        let cap = if it.may_borrow() { it.cap } else { it.cap.min(it.owed) };
        most.min(cap.saturating_sub(it.running)).min(free)
    }

    /// Takes lent slots back. `has_freed` if any request left; and when the first of those that run entered since.
    pub(crate) fn take_back(
        &mut self,
        partition: PartitionId,
        level: Level,
        back: usize,
        has_freed: bool,
        busy_since: Option<Timestamp>,
    ) {
        self.partitions[partition.index()].stall.settle(has_freed, busy_since);
        self.subtract(partition, level, back);
    }

    /// Notes whether any request left a slot of the limit that was lent, and when the first of those that run entered since.
    #[inline]
    pub(crate) fn note_freed(&mut self, has_freed: bool, busy_since: Option<Timestamp>) {
        self.stall.settle(has_freed, busy_since);
    }

    /// Notes that the work of more requests goes on although their callers left, or of fewer.
    pub(crate) fn note_abandoned(&mut self, partition: PartitionId, more: isize) {
        let it = &mut self.partitions[partition.index()];
        it.abandoned = it.abandoned.saturating_add_signed(more);
    }

    /// Gives back what [`take`](Self::take) took.
    #[inline]
    pub(crate) fn release(&mut self, holder: &Holder) {
        let (it, cost) = (&mut self.partitions[holder.partition.index()], holder.cost());
        if holder.marks.has(Marks::OVER_LIMIT) {
            self.over_limit -= cost;
            it.over_limit -= cost;
            return;
        }
        it.stall.freed();
        self.stall.freed();
        self.subtract(holder.partition, holder.level, cost);
    }

    /// Reserves a slot for a request that is rejected, for each share that it is below.
    pub(crate) fn reserve_slot(&mut self, now: Timestamp, hold: Duration, below: Below) {
        self.reserved.reserve_slot(now, hold, self.limit, below);
    }

    /// Returns which shares of its own a request is below that is rejected since all of the limit is used: of partitions
    /// and, where no request `waits`, of labels and levels. Waiters would take a slot that is reserved for these: they take
    /// turns by labels and levels anyway.
    pub(crate) fn below(
        &self,
        partition: PartitionId,
        level: Level,
        is_label_below: Option<bool>,
        may_wait: bool,
    ) -> Below {
        if self.running < self.limit {
            return Below::default();
        }
        let it = &self.partitions[partition.index()];
        let for_all = is_label_below.filter(|_| it.running < it.cap);
        Below {
            partition: (!may_wait && it.running < it.owed && it.plan.mode != PartitionMode::Overcommit)
                .then_some(partition),
            label: for_all == Some(true),
            level: for_all.filter(|_| level.below().any(|it| self.levels[it.index()] > 0)).map(|_| level),
        }
    }

    /// Returns when a reservation may shrink, a pause ends, or the next request may start; never, where nothing is held back.
    #[inline]
    pub(crate) fn next_decay(&self) -> Timestamp {
        self.reserved.next_decay.min(self.paused_until).min(self.pacing.held_until)
    }

    /// Ends the reservations that were not needed lately, and a pause whose time is over.
    pub(crate) fn decay(&mut self, now: Timestamp) {
        self.reserved.decay(now);
        let ahead = |time: Timestamp| if time > now { time } else { Timestamp::NEVER };
        self.pacing.held_until = ahead(self.pacing.held_until);
        self.paused_until = ahead(self.paused_until);
    }

    /// Ends all reservations, a pause, and pacing: after this change, their reason may be gone.
    pub(crate) fn clear_reserved(&mut self) {
        self.reserved = Reservations::none();
        (self.paused_until, self.pacing) = (Timestamp::NEVER, Pacing::NONE);
    }
}
