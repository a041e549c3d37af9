//! Who may run, who may stand in line, and for whom room is kept, by looking at everything.

use super::{
    super::{
        plan::PartitionMode,
        shares::{WHOLE, allocate, ceil_share},
    },
    model::Model,
    setup::{At, Mistake, Request},
};
use crate::rejection::Reason;

/// What is left when it is time to let half of what is kept and not used go.
const fn half(used: usize, unused: usize) -> usize {
    if unused > 0 { used + unused / 2 } else { 0 }
}

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

    /// Whether a partition may run one more, labels and levels aside.
    pub(super) fn partition_may_run(&self, partition: usize) -> bool {
        let limit = self.limit + usize::from(self.mistake == Mistake::LetsOneTooManyIn);
        let below = self.is_below_share(partition);
        let others = (0..self.kept.len()).filter(|&other| other != partition && !below);
        let kept: usize = others.map(|other| self.unused(other)).sum();
        let free = self.used.len() + kept < limit;
        match self.setup.parts[partition].1 {
            PartitionMode::Burst => free,
            PartitionMode::HardCap => free && below,
            PartitionMode::Overcommit => free || below,
        }
    }

    pub(super) fn may_run(&self, ask: &Request, label: usize) -> bool {
        let overcommits = self.setup.parts[ask.partition].1 == PartitionMode::Overcommit;
        self.partition_may_run(ask.partition)
            && !self.is_full(label)
            && (overcommits && self.is_below_share(ask.partition) || self.leaves_kept_alone(ask.level, label))
    }

    fn fair_share(&self) -> usize {
        let active = (0..self.labels.len()).filter(|&label| self.is_active(label)).count();
        (self.limit / active.max(1)).max(1)
    }

    fn running_at(&self, level: usize) -> usize {
        self.used.iter().filter(|used| used.level == level).count()
    }

    fn unused_of_label(&self, label: usize) -> usize {
        self.labels[label].kept.0.saturating_sub(self.running_of(label))
    }

    fn unused_of_level(&self, level: usize) -> usize {
        self.kept_for_levels[level].0.min(self.limit).saturating_sub(self.running_at(level))
    }

    /// Whether what is kept for other labels, and for more important requests, stays free.
    fn leaves_kept_alone(&self, level: usize, label: usize) -> bool {
        let others = (0..self.labels.len()).filter(|&other| other != label);
        let of_labels: usize = others.map(|other| self.unused_of_label(other)).sum();
        let of_labels = if self.running_of(label) < self.fair_share() { 0 } else { of_labels };
        let of_levels: usize = (0..level).map(|above| self.unused_of_level(above)).sum();
        let kept = of_labels.max(of_levels);
        kept == 0 || self.used.len() + kept < self.limit
    }

    pub(super) fn room_in_line(&self, partition: usize) -> bool {
        let inside = self.used.len() + self.count(At::Line);
        let gate = self.setup.queue.map_or(usize::MAX, |queue| self.limit + queue);
        let below = self.in_line(partition) < self.share_of_places(partition);
        let others = (0..self.kept.len()).filter(|&other| other != partition && !below);
        let kept: usize = others.map(|other| self.unused_places(other)).sum();
        self.count(At::Line) + kept < self.setup.line_places() && inside < gate
    }

    /// What is kept and not used.
    fn unused(&self, partition: usize) -> usize {
        self.kept[partition].0.min(self.share(partition)).saturating_sub(self.running_in(partition))
    }

    fn in_line(&self, partition: usize) -> usize {
        self.people.iter().filter(|person| person.partition == partition && person.at == At::Line).count()
    }

    fn share_of_places(&self, partition: usize) -> usize {
        self.setup.line_places() * self.setup.parts[partition].0 as usize / WHOLE as usize
    }

    fn unused_places(&self, partition: usize) -> usize {
        let level = self.kept_places[partition].0.min(self.share_of_places(partition));
        level.saturating_sub(self.in_line(partition))
    }

    /// Room is kept for whoever was turned away below its share: a place, if there are some for it, else a slot.
    pub(super) fn keep_room(&mut self, ask: &Request, label: usize) {
        let (places, used) = (self.share_of_places(ask.partition), self.in_line(ask.partition));
        if used >= places {
            self.keep_slot(ask, label);
        } else if self.mistake != Mistake::KeepsNothing {
            let until = self.now + self.keep_time;
            raise(&mut self.kept_places[ask.partition], used, places, until);
        }
    }

    /// A slot, for its partition and, where nobody can wait, for its label and its level.
    pub(super) fn keep_slot(&mut self, ask: &Request, label: usize) {
        let until = self.now + self.keep_time;
        let (partition, level) = (ask.partition, ask.level);
        let (part, mode) = self.setup.parts[partition];
        let (share, running) = (self.share(partition), self.running_in(partition));
        if mode != PartitionMode::Overcommit && part > 0 && self.mistake != Mistake::KeepsNothing {
            raise(&mut self.kept[partition], running, share, until);
        }
        let capped = mode == PartitionMode::HardCap && running >= share;
        if self.setup.line_places() > 0 || capped {
            return;
        }
        let active = (0..self.labels.len()).filter(|&label| self.is_active(label)).count();
        let kept = (0..self.labels.len()).any(|label| self.unused_of_label(label) > 0);
        if (active > 1 || kept) && self.mistake != Mistake::KeepsNothingForLabels {
            let (running, fair) = (self.running_of(label), self.fair_share());
            raise(&mut self.labels[label].kept, running, fair, until);
        }
        let less_important = (level + 1..4).any(|below| self.running_at(below) > 0);
        if less_important && self.mistake != Mistake::KeepsNothingForLevels {
            let (running, limit) = (self.running_at(level), self.limit);
            raise(&mut self.kept_for_levels[level], running, limit, until);
        }
    }

    /// Lets half of what was kept for some time and is not used go.
    pub(super) fn let_go(&mut self) {
        let (now, until) = (self.now, self.now + self.keep_time);
        let go = |kept: &mut (usize, u64), used: usize, unused: usize| {
            if kept.1 <= now {
                *kept = (half(used, unused), until);
            }
        };
        for partition in 0..self.kept.len() {
            let (running, unused) = (self.running_in(partition), self.unused(partition));
            go(&mut self.kept[partition], running, unused);
            let (waiting, unused) = (self.in_line(partition), self.unused_places(partition));
            go(&mut self.kept_places[partition], waiting, unused);
        }
        for level in 0..4 {
            let (running, unused) = (self.running_at(level), self.unused_of_level(level));
            go(&mut self.kept_for_levels[level], running, unused);
        }
        for label in 0..self.labels.len() {
            let (running, unused) = (self.running_of(label), self.unused_of_label(label));
            go(&mut self.labels[label].kept, running, unused);
        }
    }

    pub(super) fn why_full(&self, partition: usize, label: usize) -> Reason {
        let capped = self.setup.parts[partition].1 == PartitionMode::HardCap;
        match self.setup.queue {
            _ if self.is_full(label) => Reason::LabelCap,
            _ if capped && !self.is_below_share(partition) => Reason::PartitionCap,
            Some(_) => Reason::GateFull,
            None if self.setup.line_places() == 0 => Reason::Limit,
            None => Reason::QueueFull,
        }
    }
}

/// Keeps one more than is in use or kept already, the share at most.
fn raise(kept: &mut (usize, u64), used: usize, share: usize, until: u64) {
    let level = kept.0.min(share).max(used) + 1;
    if level <= share {
        *kept = (level, until);
    }
}
