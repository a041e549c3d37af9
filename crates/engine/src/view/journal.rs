//! The journal with names.

use crate::{
    Engine,
    telemetry::{JournalEntry, Names, Record, Wanted},
};

impl Engine {
    /// Returns at most `count` entries after the entry with this number, the oldest first.
    pub fn journal_since(&self, sequence: u64, count: usize, wanted: Wanted) -> Vec<JournalEntry> {
        let found = self.telemetry.journal().after(sequence, wanted).into_iter().take(count);
        let entries = found.map(|(number, it)| match it {
            Ok(record) => record.view(number, self.names(number, record)),
            Err(changed) => changed.view(number),
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

    fn names(&self, entry: u64, record: &Record) -> Names<'_> {
        let (partition, label, run) = record.about();
        let label = self.quotas.label(label);
        let is_about = !label.is_named || self.telemetry.totals(label.id).named_from <= entry;
        let names = (label.class_name, label.namespace, label.name);
        Names {
            partition: &self.capacity.partition(partition).plan.name,
            label: is_about.then_some(names),
            run: if entry < self.telemetry.wants(self.now).journal.0 { None } else { self.queue.run_name(run) },
        }
    }
}
