//! The bounds that all instances keep together.

use super::{Entry, Ledger};
use crate::fleet::plan::{OnFailure, Shared};

impl Ledger {
    /// Compares what runs under shared rules with the bounds of all instances.
    pub(super) fn check_shared(&mut self, at: u64, started: &[u64]) {
        let Some(shared) = self.plan.settings.shared.clone() else { return };
        let counted: Vec<Entry> =
            self.sharing.iter().map(|&id| *self.known(id)).filter(|entry| self.counts(entry, at, &shared)).collect();
        for &id in started {
            let entry = *self.known(id);
            if !entry.kinds.shared || entry.is_unbound {
                continue;
            }
            self.attempts.shared += 1;
            if self.counts(&entry, at, &shared)
                && (shared.on_store_failure == OnFailure::Closed || !self.may_be_missed())
            {
                self.attempts.strict += 1;
            }
            // Of the caps that were in force when any of those was admitted, or when its share was asked for.
            let since = counted.iter().map(|it| it.arrived).min().unwrap_or(at).saturating_sub(shared.expiry);
            let cap = self.books.iter().map(|book| book.cap_since(since)).max().unwrap_or(0);
            let of_label = counted.iter().filter(|it| it.kinds.label == entry.kinds.label).count();
            let most = self.allowed(cap, &shared);
            if of_label > most {
                let what =
                    format!("{of_label} run under the cap of a label with request {id}, {most} may in all instances");
                self.breaks("never more than the cap", at, what);
            }
            if let Some(cap) = shared.namespace_cap {
                let most = self.allowed(cap, &shared);
                if counted.len() > most {
                    let what =
                        format!("{} run under the cap of the namespace with request {id}, {most} may", counted.len());
                    self.breaks("never more than the cap", at, what);
                }
            }
            if let Some(rate) = shared.rate {
                self.check_rate(at, id, &entry, rate, &shared);
            }
        }
    }

    /// "**Rates may be exceeded after a restart with older data**, by what was charged since that was written down."
    fn check_rate(&mut self, at: u64, id: u64, entry: &Entry, rate: u32, shared: &Shared) {
        const MINUTE: u64 = 60_000;
        if (shared.on_store_failure != OnFailure::Closed && self.may_be_missed()) || !self.world.losses.is_empty() {
            return;
        }
        let minute = |time: u64| (time + self.world.store_ahead) / MINUTE;
        let this = minute(at);
        // Of those whose unit can't be of another minute.
        let surely = |it: &&Entry| {
            it.kinds.shared
                && it.kinds.label == entry.kinds.label
                && !it.is_unbound
                && it.started > 0
                && minute(it.started) == this
                && minute(it.arrived) == this
        };
        let count = self.entries.iter().flatten().filter(surely).count();
        if count > rate as usize {
            let what = format!("{count} of a label have started in a minute with request {id}, {rate} may");
            self.breaks("never more than the rate", at, what);
        }
    }
}
