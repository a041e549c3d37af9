//! The journal with names.

use crate::{
    Engine,
    telemetry::{Decision, DecisionEntry, JournalEntry, Noted, Wanted},
};

impl Engine {
    /// Returns at most `count` entries after the entry with this number, the oldest first.
    pub fn journal_since(&self, sequence: u64, count: usize, wanted: Wanted) -> Vec<JournalEntry> {
        let found = self.telemetry.journal().after(sequence, wanted).into_iter().take(count);
        let entries = found.map(|(_, it)| match it {
            Ok(noted) => noted.view(self.names(noted)),
            Err(changed) => changed.view(),
        });
        entries.collect()
    }

    /// Returns the number after which the newest `count` entries come.
    pub fn journal_before(&self, count: usize, wanted: Wanted) -> u64 {
        let all = self.telemetry.journal().after(0, wanted);
        all.iter().rev().nth(count).map_or(0, |&(number, _)| number)
    }

    /// Returns how many decisions are remembered, and as many changes.
    pub const fn journal_capacity(&self) -> usize {
        self.telemetry.journal().capacity()
    }

    /// Returns the number of the newest entry.
    pub fn journal_newest(&self) -> u64 {
        self.telemetry.wants(self.now).journal.1
    }

    /// Returns the names that the numbers of a decision had: none, where another label or run has the number by now.
    fn names(&self, noted: &Noted<Decision>) -> DecisionEntry {
        let Decision { partition, label, run, .. } = noted.what;
        let label = self.quotas.label(label);
        let forgotten = label.is_named && self.telemetry.totals(label.id).named_from > noted.sequence;
        let known = |name: &str| if forgotten { String::new() } else { name.to_owned() };
        let is_run_kept = noted.sequence >= self.telemetry.wants(self.now).journal.0;
        DecisionEntry {
            partition: self.capacity.partition(partition).plan.name.to_string(),
            namespace: known(label.namespace),
            label: known(label.name),
            forgotten,
            class: known(label.class_name),
            run: self.queue.run_name(run).filter(|_| is_run_kept).map(str::to_owned),
            ..DecisionEntry::default()
        }
    }
}
