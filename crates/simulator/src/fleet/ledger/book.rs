//! The part of the ledger about one instance.

use std::collections::BTreeSet;

use super::Event;

/// What is known of an instance.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) instance: usize,
    pub(super) waiting: BTreeSet<u64>,
    pub(super) running: BTreeSet<u64>,
    /// Values, and from when on they held.
    limits: Vec<(u64, usize)>,
    caps: Vec<(u64, usize)>,
    unbound: Vec<(u64, bool)>,
    pub(super) draining: Option<u64>,
    pub(super) has_drained: bool,
    pub(super) is_dead: bool,
    /// When the process was stopped.
    pub(super) pauses: Vec<(u64, u64)>,
    /// When its way to the store was cut.
    pub(super) cuts: Vec<(u64, u64)>,
}

impl Book {
    pub(super) fn new(instance: usize, at: u64, limit: usize, cap: usize) -> Self {
        Self {
            instance,
            waiting: BTreeSet::new(),
            running: BTreeSet::new(),
            limits: vec![(at, limit)],
            caps: vec![(at, cap)],
            unbound: vec![(at, false)],
            draining: None,
            has_drained: false,
            is_dead: false,
            pauses: Vec::new(),
            cuts: Vec::new(),
        }
    }

    pub(super) fn operated(&mut self, at: u64, event: &Event) {
        match event {
            Event::Limit(limit) => self.limits.push((at, *limit)),
            Event::Reloaded { limit, cap } => {
                self.limits.push((at, *limit));
                self.caps.push((at, *cap));
            }
            Event::Unbound(is_unbound) => self.unbound.push((at, *is_unbound)),
            Event::Draining => {
                self.draining.get_or_insert(at);
            }
            _ => {}
        }
    }

    /// Returns the largest limit that held at some time since: a request may have been admitted under any of them.
    pub(super) fn limit_since(&self, since: u64) -> usize {
        held_since(&self.limits, since).max().unwrap_or(0)
    }

    /// Returns the largest cap that held at some time since.
    pub(super) fn cap_since(&self, since: u64) -> usize {
        held_since(&self.caps, since).max().unwrap_or(0)
    }

    pub(super) fn was_unbound(&self, since: u64) -> bool {
        held_since(&self.unbound, since).any(|is_unbound| is_unbound)
    }
}

/// Returns the values that held at some time from `since` on; that of its very millisecond and the one before included.
fn held_since<T: Copy>(values: &[(u64, T)], since: u64) -> impl Iterator<Item = T> {
    let first = values.partition_point(|(at, _)| *at < since).saturating_sub(1);
    values[first..].iter().map(|(_, value)| *value)
}
