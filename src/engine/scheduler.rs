//! Who runs next, who waits where, and who is turned away.

use std::time::Duration;

use super::{
    Arrival, COUNTED, Engine, Key, Place, Refusal, Slot,
    plan::{Mode, PartitionMode},
    waiters::Stage,
};
use crate::{rejection::Reason, time::Timestamp};

impl Engine {
    /// Whether a request of this partition may take a slot now.
    ///
    /// It is never asked whether somebody else came first: after every verb nobody who waits may run, so whoever may
    /// run overtakes nobody who could have.
    ///
    /// Beyond its share a partition leaves alone what is kept for others.
    pub(super) fn may_run(&self, partition: u16) -> bool {
        let it = &self.partitions[partition as usize];
        let kept = if it.running < it.owed { 0 } else { self.kept - it.kept_slots() };
        (self.running + kept < self.limit && it.running < it.cap) || it.running < it.overcommit
    }

    /// Whether a request that arrives may run, after what is kept for nobody any more was let go.
    pub(super) fn finds_room(&mut self, now: Timestamp, partition: u16) -> bool {
        if self.lets_go_at <= now && !self.may_run(partition) {
            self.settle(now);
        }
        self.may_run(partition)
    }

    pub(super) fn occupy(&mut self, now: Timestamp, partition: u16) -> Slot {
        let in_flight = self.take_slot(partition);
        self.partitions[partition as usize].counts.admitted += 1;
        self.drain.started(now);
        Slot::new(now, in_flight, partition, COUNTED)
    }

    /// Counts one more running and answers how many that are.
    fn take_slot(&mut self, partition: u16) -> u32 {
        self.running += 1;
        let it = &mut self.partitions[partition as usize];
        self.kept -= usize::from(it.kept_slots() > 0);
        it.running += 1;
        debug_assert!(
            self.mode != Mode::Enforce || self.running <= self.limit || it.running <= it.overcommit,
            "more run than the limit allows"
        );
        u32::try_from(self.running).unwrap_or(u32::MAX)
    }

    pub(super) fn vacate(&mut self, partition: u16) {
        let it = &mut self.partitions[partition as usize];
        self.running -= 1;
        it.running -= 1;
        self.kept += usize::from(it.kept_slots() > 0);
    }

    /// For a request that can't run at once: a place in line, a place at the gate, or a refusal.
    #[cold]
    pub(super) fn queue_or_refuse(&mut self, now: Timestamp, partition: u16, caller_deadline: Timestamp) -> Arrival {
        let place = if caller_deadline <= now {
            Err(Reason::Deadline)
        } else if self.line_has_room(partition) {
            Ok(Stage::Line)
        } else if self.at_gate < self.gate.places.count(self.limit) {
            Ok(Stage::Gate)
        } else {
            Err(self.reason_for_refusing(partition))
        };
        if self.mode == Mode::Observe {
            let counts = &mut self.partitions[partition as usize].counts;
            match place {
                Ok(_) => counts.would_queue += 1,
                Err(reason) => counts.would_reject[reason.index()] += 1,
            }
            counts.admitted += 1;
            return Arrival::Admit(Slot::new(now, 0, partition, 0));
        }
        let joined = place.and_then(|stage| self.join(now, partition, caller_deadline, stage));
        self.check();
        match joined {
            Ok(key) => Arrival::Wait(Place(key)),
            Err(reason) => {
                self.keep_room(now, partition);
                Arrival::Reject(self.refuse(now, partition, reason))
            }
        }
    }

    /// Keeps room for a partition whose request is turned away: a place in line where it has a share of them left, else
    /// a slot.
    fn keep_room(&mut self, now: Timestamp, partition: u16) {
        let until = now.after(self.keep_time());
        let places = self.line.places.count(self.limit);
        let it = &mut self.partitions[partition as usize];
        let (waiting, share) = (it.line.len(), it.share_of(places));
        if share > 0 && waiting < share {
            it.places.raise(waiting, share, until);
            self.lets_go_at = self.lets_go_at.min(it.places.until());
        } else {
            self.keep_slot(now, partition);
        }
    }

    fn keep_slot(&mut self, now: Timestamp, partition: u16) {
        let until = now.after(self.keep_time());
        let it = &mut self.partitions[partition as usize];
        if it.plan.mode != PartitionMode::Overcommit {
            let before = it.kept_slots();
            it.slots.raise(it.running, it.owed, until);
            self.kept += it.kept_slots() - before;
            self.lets_go_at = self.lets_go_at.min(it.slots.until());
        }
    }

    /// How often half of what is kept and not used is let go: after some times of what a request holds its slot.
    pub(super) fn keep_time(&self) -> Duration {
        (self.drain.mean() * 8).clamp(Duration::from_millis(50), Duration::from_secs(10))
    }

    /// Lets go of half of what was kept and not used for some time.
    fn let_go(&mut self, now: Timestamp) {
        let until = now.after(self.keep_time());
        let places = self.line.places.count(self.limit);
        self.lets_go_at = Timestamp::NEVER;
        for it in &mut self.partitions {
            self.kept -= it.kept_slots();
            let slots = it.slots.let_go(it.running, it.owed, now, until);
            self.kept += it.kept_slots();
            let places = it.places.let_go(it.line.len(), it.share_of(places), now, until);
            self.lets_go_at = self.lets_go_at.min(slots).min(places);
        }
    }

    /// Whether one more of this partition may wait in line. What waits there is bounded by the queue, and together with
    /// what runs by the gate: both matter, for a partition at its hard cap waits while the server runs less than its
    /// limit, and a limit that shrank runs more. Beyond its share a partition leaves alone what is kept for others.
    pub(super) fn line_has_room(&self, partition: u16) -> bool {
        let places = self.line.places.count(self.limit);
        if self.in_line >= places {
            return false;
        }
        let it = &self.partitions[partition as usize];
        let kept = if self.lets_go_at == Timestamp::NEVER || it.line.len() < it.share_of(places) {
            0
        } else {
            let all: usize = self.partitions.iter().map(|it| it.kept_places(places)).sum();
            all - it.kept_places(places)
        };
        let within_gate = self.queue.is_none_or(|queue| {
            let gate = self.limit.saturating_add(queue);
            self.running.saturating_add(self.in_line) < gate
        });
        self.in_line.saturating_add(kept) < places && within_gate
    }

    /// For a request that can't run at once and does not wait.
    #[cold]
    pub(super) fn refuse_at_once(&mut self, now: Timestamp, partition: u16) -> Refusal {
        self.keep_slot(now, partition);
        let it = &self.partitions[partition as usize];
        let capped = it.plan.mode == PartitionMode::HardCap && it.running >= it.cap;
        self.refuse(now, partition, if capped { Reason::PartitionCap } else { Reason::Limit })
    }

    fn reason_for_refusing(&self, partition: u16) -> Reason {
        let it = &self.partitions[partition as usize];
        if it.plan.mode == PartitionMode::HardCap && it.running >= it.cap {
            Reason::PartitionCap
        } else if self.queue.is_some() {
            Reason::GateFull
        } else if self.line.places.count(self.limit) == 0 {
            Reason::Limit
        } else {
            Reason::QueueFull
        }
    }

    fn join(
        &mut self,
        now: Timestamp,
        partition: u16,
        caller_deadline: Timestamp,
        stage: Stage,
    ) -> Result<Key, Reason> {
        self.sequence += 1;
        let key = self.waiters.insert(partition, self.sequence, now, caller_deadline).ok_or(Reason::QueueFull)?;
        self.enlist(now, key, stage);
        Ok(key)
    }

    /// Puts a waiter at the end of the line or of the gate; its wait there starts now.
    fn enlist(&mut self, now: Timestamp, key: Key, stage: Stage) {
        let it = &mut self.partitions[self.waiters.get(key).partition as usize];
        let wait = if stage == Stage::Line {
            self.waiters.push_back(&mut it.line, key);
            self.in_line += 1;
            self.line.wait
        } else {
            self.waiters.push_back(&mut it.gate, key);
            self.at_gate += 1;
            self.gate.wait
        };
        let waiter = self.waiters.get_mut(key);
        waiter.stage = stage;
        waiter.deadline = wait.map_or(Timestamp::NEVER, |wait| now.after(wait)).min(waiter.caller_deadline);
        self.deadlines.set(key.index, waiter.deadline);
    }

    /// Takes a waiter out of the line or the gate.
    pub(super) fn leave(&mut self, key: Key) {
        let waiter = self.waiters.get(key);
        let it = &mut self.partitions[waiter.partition as usize];
        match waiter.stage {
            Stage::Line => {
                self.in_line -= 1;
                self.waiters.unlink(&mut it.line, key);
            }
            Stage::Gate => {
                self.at_gate -= 1;
                self.waiters.unlink(&mut it.gate, key);
            }
            Stage::Granted { .. } | Stage::Refused(_) => return,
        }
        self.deadlines.remove(key.index);
        self.waiters.get_mut(key).deadline = Timestamp::NEVER;
    }

    /// Ends a wait that took too long.
    pub(super) fn expire(&mut self, now: Timestamp, key: Key) {
        let waiter = self.waiters.get(key);
        let (partition, stage) = (waiter.partition, waiter.stage);
        let reason = match stage {
            _ if waiter.caller_deadline <= now => Reason::Deadline,
            Stage::Gate => Reason::GateTimeout,
            _ => Reason::QueueTimeout,
        };
        self.leave(key);
        let refusal = self.refuse(now, partition, reason);
        self.waiters.get_mut(key).stage = Stage::Refused(refusal);
        self.notices.push_back(key);
    }

    fn refuse(&mut self, now: Timestamp, partition: u16, reason: Reason) -> Refusal {
        let it = &mut self.partitions[partition as usize];
        it.counts.rejected[reason.index()] += 1;
        let (ahead, slots) = if it.running >= it.cap {
            (it.running + it.waiting() + 1 - it.cap, it.cap)
        } else {
            let inside = self.running + self.in_line + self.at_gate;
            (inside.saturating_sub(self.limit) + 1, self.limit)
        };
        let retry_after = self.drain.estimate(now, ahead, slots);
        Refusal { reason, retry_after, partition, bound: slots }
    }

    /// Restores what holds after every verb: nobody waits who may run, and nobody is at the gate who may wait inside.
    pub(super) fn settle(&mut self, now: Timestamp) {
        if self.lets_go_at <= now {
            self.let_go(now);
        }
        while self.in_line + self.at_gate > 0 {
            let Some(key) = self.next_to_run() else { break };
            if self.waiters.get(key).deadline <= now {
                self.expire(now, key);
            } else {
                self.grant(now, key);
            }
        }
        while self.at_gate > 0 {
            let enters = |index: usize| u16::try_from(index).is_ok_and(|partition| self.line_has_room(partition));
            let first = self
                .oldest(|engine, index| engine.waiters.front(engine.partitions[index].gate).filter(|_| enters(index)));
            let Some(key) = first else { break };
            self.leave(key);
            self.enlist(now, key, Stage::Line);
        }
        self.check();
    }

    fn grant(&mut self, now: Timestamp, key: Key) {
        let partition = self.waiters.get(key).partition;
        self.leave(key);
        let in_flight = self.take_slot(partition);
        self.drain.started(now);
        self.waiters.get_mut(key).stage = Stage::Granted { in_flight };
        self.notices.push_back(key);
    }

    /// The waiter that takes the next free slot: the oldest of a partition below its share, else the oldest of any
    /// that may run.
    fn next_to_run(&self) -> Option<Key> {
        if self.mode != Mode::Enforce {
            return self.oldest(Self::head);
        }
        if self.running >= self.limit && !self.overcommits {
            return None;
        }
        let may_run = |index: usize| u16::try_from(index).is_ok_and(|partition| self.may_run(partition));
        let owed = self.oldest(|engine, index| {
            let it = &engine.partitions[index];
            if it.running < it.owed && may_run(index) { engine.head(index) } else { None }
        });
        owed.or_else(|| self.oldest(|engine, index| if may_run(index) { engine.head(index) } else { None }))
    }

    /// The first of a partition: those inside go before those at the gate.
    fn head(&self, index: usize) -> Option<Key> {
        let it = &self.partitions[index];
        self.waiters.front(it.line).or_else(|| self.waiters.front(it.gate))
    }

    /// The one that arrived first among those that `candidate` finds in each partition.
    fn oldest(&self, candidate: impl Fn(&Self, usize) -> Option<Key>) -> Option<Key> {
        (0..self.partitions.len())
            .filter_map(|index| candidate(self, index))
            .min_by_key(|&key| self.waiters.get(key).sequence)
    }
}
