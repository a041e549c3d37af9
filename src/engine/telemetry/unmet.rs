//! Settings that no request has met: names on which a classifier and the settings are likely to disagree.

use std::sync::Arc;

use crate::engine::Engine;

/// Nothing is said before so many requests have come.
const ENOUGH: u64 = 1_000;

/// Which settings requests have met.
#[derive(Debug, Default)]
pub(crate) struct Met {
    /// A bit for each class of rules.
    classes: [u64; 4],
    /// How many requests had come when the settings were taken.
    before: u64,
}

impl Met {
    /// Notes that a request has this class.
    pub(crate) const fn note(&mut self, class: u8) {
        self.classes[(class >> 6) as usize] |= 1 << (class & 63);
    }

    const fn has(&self, class: u8) -> bool {
        self.classes[(class >> 6) as usize] & 1 << (class & 63) != 0
    }
}

/// Names in the settings that no request has had.
#[derive(Debug)]
pub(crate) struct Unmet {
    /// How many requests have come since the settings were taken.
    pub(crate) requests: u64,
    /// In the order of their names.
    pub(crate) partitions: Vec<Arc<str>>,
    /// Whether there are no others but the default one.
    pub(crate) are_all_partitions: bool,
    /// Each with a name that requests have, and that differs by a slash at its beginning.
    pub(crate) classes: Vec<(Box<str>, Option<String>)>,
}

impl Engine {
    /// What no request has met so far; `None` where that says nothing yet.
    pub(crate) fn unmet(&self) -> Option<Unmet> {
        let requests = self.arrived() - self.telemetry.met.before;
        if requests < ENOUGH {
            return None;
        }
        let in_force = || self.capacity.partitions.iter().skip(1).filter(|it| !it.retired);
        let absent = in_force().filter(|it| it.counts.arrived == 0);
        let mut partitions: Vec<_> = absent.map(|it| Arc::clone(&it.plan.name)).collect();
        partitions.sort_unstable();
        let classes = self.quotas.rules.named_classes().filter(|(class, _)| !self.telemetry.met.has(*class));
        Some(Unmet {
            requests,
            are_all_partitions: partitions.len() == in_force().count(),
            partitions,
            classes: classes.map(|(_, name)| (name.into(), self.twin(name))).collect(),
        })
    }

    /// Other settings are taken: those that are new have met nobody yet.
    pub(crate) fn expect_anew(&mut self) {
        self.telemetry.met.before = self.arrived();
    }

    fn arrived(&self) -> u64 {
        self.capacity.partitions.iter().map(|it| it.counts.arrived).sum()
    }

    /// A class that requests have and that differs from this one by a slash at its beginning.
    fn twin(&self, name: &str) -> Option<String> {
        let twin = name.strip_prefix('/').map_or_else(|| format!("/{name}"), str::to_owned);
        let kind = self.controller.find_class(&twin);
        let class = self.quotas.rules.class_of(kind);
        (kind > 0 && (class == 0 || self.telemetry.met.has(class))).then_some(twin)
    }
}
