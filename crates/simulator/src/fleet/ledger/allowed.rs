//! What the documentation allows while something is wrong, and for how long after it.
//!
//! Each allowance stands beside the sentence of the page on shared limits that it is from.

use super::{Entry, Ledger};
use crate::fleet::plan::{OnFailure, Shared};

/// What has happened to the world, and to the store.
#[derive(Debug, Default)]
pub(super) struct World {
    /// When the store lost data, or its clock jumped ahead.
    pub(super) losses: Vec<u64>,
    /// When the store, or all ways to it, were not what they should be: the end is not known while it lasts.
    troubles: Vec<(u64, u64)>,
    /// How much the clock of the store is ahead of the time of the world.
    pub(super) store_ahead: u64,
    /// When a request first had no answer from the store.
    pub(super) missed_at: Option<u64>,
    /// Whether anything has kept an instance from having its answer in time.
    pub(super) is_disturbed: bool,
}

impl Ledger {
    /// The store loses data, or its clock jumps, at `at`.
    pub(in crate::fleet) fn store_lost(&mut self, at: u64) {
        self.world.losses.push(at);
        self.world.is_disturbed = true;
    }

    /// The store is not what it should be, or something else keeps questions from being answered in time.
    pub(in crate::fleet) fn trouble(&mut self, from: u64, to: u64) {
        self.world.troubles.push((from, to));
        self.world.is_disturbed = true;
    }

    pub(in crate::fleet) fn paused(&mut self, book: usize, from: u64, to: u64) {
        self.books[book].pauses.push((from, to));
        self.world.is_disturbed = true;
    }

    pub(in crate::fleet) fn was_cut(&mut self, book: usize, from: u64, to: u64) {
        self.books[book].cuts.push((from, to));
        self.trouble(from, to);
    }

    pub(in crate::fleet) fn store_clock(&mut self, ahead: u64) {
        self.world.store_ahead = ahead;
    }

    pub(in crate::fleet) fn store_missed(&mut self, at: u64) {
        self.world.missed_at.get_or_insert(at);
    }

    /// Whether a request that runs has a lease that counts for all instances at `at`.
    pub(super) fn counts(&self, entry: &Entry, at: u64, shared: &Shared) -> bool {
        // "Each process keeps caps by itself" by its slots, and a slot that was taken back is none (seed 336).
        let is_by_slots = shared.on_store_failure != OnFailure::Closed && self.may_be_missed();
        let is_taken_back = entry.is_overdue && is_by_slots;
        !entry.is_unbound
            && !entry.is_lost
            && !is_taken_back
            && !self.may_be_forgotten(entry, at, shared)
            && !self.may_have_expired(entry, at, shared)
    }

    /// "**Failover forgets** where the server is not quiet after it", and "**The clock of the server is trusted.** If it jumps
    /// forward, leases expire early." What was granted before runs beside what is granted after, until its holder is told: at
    /// the latest when its own time is over.
    pub(super) fn may_be_forgotten(&self, entry: &Entry, at: u64, shared: &Shared) -> bool {
        // A local share that was asked for before is used for a while.
        let used_after = if shared.local_shares { shared.expiry } else { 0 };
        let margin = self.margin();
        self.world.losses.iter().any(|&loss| {
            entry.arrived <= loss + used_after + margin && at >= loss && at <= loss + shared.expiry + margin
        })
    }

    /// "A process may be stopped for 60 % of the expiry, and no cap is exceeded; 15 % if it can't reach the store at the same
    /// time. After a longer pause its work runs beside that of others until it notices."
    fn may_have_expired(&self, entry: &Entry, at: u64, shared: &Shared) -> bool {
        let book = &self.books[entry.book];
        let notices = shared.expiry / 4 + 2 * self.plan.settings.network.time_limit + self.margin();
        let pauses = &book.pauses;
        pauses.iter().enumerate().any(|(index, &(from, to))| {
            // Pauses between which nothing can be renewed are one.
            let mut first = from;
            for &(earlier, until) in pauses[..index].iter().rev() {
                if until + shared.expiry / 2 >= first {
                    first = earlier;
                }
            }
            let allowed = if self.can_reach(entry.book, first, to, shared) { 60 } else { 15 };
            let allowed = (shared.expiry * allowed / 100).saturating_sub(self.margin());
            to - first > allowed && entry.arrived <= to && at >= first && at <= to + notices
        })
    }

    /// Whether the instance of a book could reach the store all of the time around a pause.
    fn can_reach(&self, book: usize, from: u64, to: u64, shared: &Shared) -> bool {
        let (from, to) = (from.saturating_sub(shared.expiry), to + shared.expiry);
        let overlaps = |&(start, end): &(u64, u64)| start <= to && end >= from;
        self.plan.settings.network.lost == 0
            && !self.world.troubles.iter().any(overlaps)
            && !self.books[book].cuts.iter().any(overlaps)
    }

    /// Time that messages are on their way and back, and what is rounded.
    fn margin(&self) -> u64 {
        let network = &self.plan.settings.network;
        2 * (network.delay + network.jitter) + 2 * self.plan.settings.round + 5
    }

    /// Whether a request may have been decided without the store.
    ///
    /// "A request waits for a dead or slow server at most the time limit, however many rules it has, with local shares as
    /// without." With local shares it may stand behind others that ask, so that a store that takes a third of that limit for each
    /// answer is too slow for it, and counts as gone (seed 2326).
    pub(super) fn may_be_missed(&self) -> bool {
        let may_stand = self.plan.settings.shared.as_ref().is_some_and(|shared| shared.local_shares);
        self.world.missed_at.is_some() || may_stand || !self.is_calm()
    }

    /// Returns how many requests may run at once under a cap of all instances, once the store was missed.
    ///
    /// "`FailOpen`: the rule is not enforced", but "each process keeps caps by itself as well". "`LocalShare`: what was granted
    /// before is not counted, so for as long as it runs there may be twice the bound."
    pub(super) fn allowed(&self, cap: usize, shared: &Shared) -> usize {
        if !self.may_be_missed() {
            return cap;
        }
        match shared.on_store_failure {
            OnFailure::Closed => cap,
            OnFailure::Open => cap.saturating_mul(self.plan.settings.instances),
            OnFailure::LocalShare => cap.saturating_mul(2),
        }
    }
}
