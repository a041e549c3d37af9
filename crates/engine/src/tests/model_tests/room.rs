//! Which requests may run, and which may stand in line, by looking at everything.

use super::{
    super::super::{
        plan::PartitionMode,
        shares::{WHOLE, allocate, ceil_share},
    },
    model::Model,
    setup::{At, Mistake, Request, SECOND},
};
use crate::Reason;

impl Model {
    pub(super) fn share(&self, partition: usize) -> usize {
        let (part, mode) = self.setup.parts[partition];
        if mode == PartitionMode::Overcommit {
            return ceil_share(self.limit, part);
        }
        let parts: Vec<u32> = self.setup.parts.iter().map(|&(part, _)| part).collect();
        let mut shares = vec![0; parts.len()];
        allocate(self.limit, &parts, &mut shares);
        if part > 0 { shares[partition].max(1) } else { 0 }
    }

    pub(super) fn running_in(&self, partition: usize) -> usize {
        self.used.iter().filter(|used| used.partition == partition).count()
    }

    pub(super) fn is_below_share(&self, partition: usize) -> bool {
        self.running_in(partition) < self.share(partition)
    }

    /// Whether a partition may run one more request, labels and levels aside.
    pub(super) fn partition_may_run(&self, partition: usize) -> bool {
        let limit = self.limit + usize::from(self.mistake == Mistake::LetsOneTooManyIn);
        let below = self.is_below_share(partition);
        let held = self.held_back_from(partition, !below);
        let free = self.used.len() + held < limit;
        match self.setup.parts[partition].1 {
            PartitionMode::Burst => free,
            PartitionMode::HardCap => free && below,
            PartitionMode::Overcommit => free || below,
        }
    }

    pub(super) fn overcommits(&self, partition: usize) -> bool {
        self.setup.parts[partition].1 == PartitionMode::Overcommit
    }

    pub(super) fn is_at_hard_cap(&self, partition: usize) -> bool {
        self.setup.parts[partition].1 == PartitionMode::HardCap && !self.is_below_share(partition)
    }

    pub(super) fn may_run(&self, ask: &Request, label: usize) -> bool {
        self.partition_may_run(ask.partition)
            && !self.is_full(label)
            && (self.overcommits(ask.partition) && self.is_below_share(ask.partition)
                || self.leaves_held(ask.level, label))
    }

    pub(super) fn room_in_line(&self) -> bool {
        let inside = self.used.len() + self.in_all_lines();
        let gate = self.setup.queue.map_or(usize::MAX, |queue| self.limit + queue);
        self.in_all_lines() < self.setup.line_places() && inside < gate
    }

    pub(super) fn in_line(&self, partition: usize) -> usize {
        self.people.iter().filter(|person| person.partition == partition && person.at == At::Line).count()
    }

    pub(super) fn in_all_lines(&self) -> usize {
        self.count(At::Line)
    }

    pub(super) fn share_of_places(&self, partition: usize) -> usize {
        self.setup.line_places() * self.setup.parts[partition].0 as usize / WHOLE as usize
    }

    pub(super) fn why_full(&self, partition: usize, label: usize) -> Reason {
        match self.setup.queue {
            _ if self.is_full(label) => Reason::LabelCap,
            _ if self.is_at_hard_cap(partition) => Reason::PartitionCap,
            Some(_) => Reason::GateFull,
            None if self.setup.line_places() == 0 => Reason::Limit,
            None => Reason::QueueFull,
        }
    }

    /// Whether a partition asks for no more than its share, or may wait with a few more since it `pays` for that.
    pub(super) fn has_claim(&self, partition: usize, label: usize, pays: bool) -> bool {
        let is_label_full = self.is_full_with(label, self.running_of(label) + self.waiting_of(label));
        if is_label_full || self.partition_may_run(partition) || self.overcommits(partition) {
            return false;
        }
        let waiting = self.people.iter().filter(|person| person.partition == partition && person.waits()).count();
        let (share, inside) = (self.share(partition), self.running_in(partition) + waiting + 1);
        if inside <= share {
            return self.mistake != Mistake::RefusesWithinTheShare;
        }
        let more = (1..=share).find(|more| more * more >= share).unwrap_or(0);
        let pays = pays || self.mistake == Mistake::WaitsBeyondTheShare;
        pays && self.running_in(partition) <= share && inside <= share + more
    }

    /// Returns when a wait in the room ends that begins now.
    pub(super) fn end_in_room(&self, deadline_at: u64) -> u64 {
        let line = self.setup.line_wait.filter(|_| self.setup.line_places() > 0);
        let line = line.map_or(u64::MAX, |seconds| seconds * SECOND);
        self.now + self.hold.min((deadline_at - self.now) / 2).min(SECOND / 2).min(line)
    }
}
