//! Settings that no request has met: names on which a classifier and the settings are likely to disagree.

use std::{cmp::Reverse, collections::BTreeSet, sync::Arc, time::Duration};

use crate::{
    Engine,
    capacity::PartitionView,
    ids::{ClassId, RuleClassId},
    telemetry::{RejectionKind, named},
};

/// Requests that have to come before there is a warning.
const ENOUGH: u64 = 1_000;

/// Names in the settings that no request has had.
#[derive(Debug)]
pub struct Unmet {
    /// Requests that have come since the settings were taken.
    pub requests: u64,
    /// Partitions, in the order of their names.
    pub partitions: Vec<Arc<str>>,
    /// Whether these are all partitions but the default one.
    pub are_all_partitions: bool,
    /// Classes, each with one that requests have instead: its name differs by a slash at the beginning, or most requests that
    /// no rules are for have it.
    pub classes: Vec<(Box<str>, Option<String>)>,
    /// Labels, in the order of their names.
    pub labels: Vec<Box<str>>,
    /// Whether no request had a label at all, though rules count by label and refused some.
    pub is_unlabelled: bool,
}

impl Engine {
    /// Returns what no request has met so far; `None` where that says nothing yet.
    pub fn unmet(&self) -> Option<Unmet> {
        let counts = || self.capacity.partitions().map(|(number, _)| self.telemetry.counts(number));
        let seen = self.telemetry.classes_seen();
        let requests = counts().map(|it| it.arrived).sum::<u64>() - seen.before;
        if requests < ENOUGH {
            return None;
        }
        let in_force = || self.capacity.partitions().skip(1).filter(|(_, it)| it.is_in_force);
        let absent = in_force().filter(|&(number, _)| self.telemetry.counts(number).arrived == 0);
        let mut partitions: Vec<_> = absent.map(|(_, it)| Arc::clone(&it.plan.name)).collect();
        partitions.sort_unstable();
        let classes = self.quotas.plans().1.named_classes().filter(|(class, _)| !seen.has(*class));
        let are_throttled =
            || RejectionKind::Throttled.reasons().any(|it| counts().any(|counts| counts.rejected[it.index()] > 0));
        let labels = self.unmet_labels();
        let is_unlabelled = self.label_names().next().is_none() && (!labels.is_empty() || are_throttled());
        Some(Unmet {
            requests,
            labels,
            is_unlabelled,
            are_all_partitions: partitions.len() == in_force().count(),
            partitions,
            classes: classes.map(|(_, name)| (name.into(), self.twin(name))).collect(),
        })
    }

    fn label_names(&self) -> impl Iterator<Item = &str> {
        self.quotas.ids().map(|id| self.quotas.label(id).name).filter(|name| !name.is_empty())
    }

    /// Returns the labels that settings name and no request had.
    fn unmet_labels(&self) -> Vec<Box<str>> {
        /// Labels up to which they are compared: a look must not take long.
        const MOST: usize = 1_024;
        let (labels, rules) = self.quotas.plans();
        let overrides: usize = rules.classes.iter().map(|it| it.overrides.len()).sum();
        let are_few = labels.named.len() * rules.classes.len().max(1) + overrides <= MOST;
        // A label may have come and be forgotten.
        if !are_few || self.quotas.table().evicted > 0 || self.label_names().nth(MOST).is_some() {
            return Vec::new();
        }
        let mut unmet: BTreeSet<_> = named(labels, rules).into_iter().map(|(.., label)| label).collect();
        self.label_names().for_each(|name| _ = unmet.remove(name));
        unmet.into_iter().collect()
    }

    /// Whether any rule is counted for all instances.
    pub fn has_shared_rules(&self) -> bool {
        self.quotas.has_rules().shared
    }

    /// Returns the partitions whose share is so small, and whose slots are held for so long, that a burst of three requests takes
    /// longer than their callers wait: each with its share and the time that a slot is held.
    pub fn slow_shares(&self) -> Vec<(Arc<str>, usize, Duration)> {
        let (hold, default_deadline) =
            (self.estimates.hold().mean(), self.queue.plan().default_deadline.unwrap_or(Duration::MAX));
        let is_slow = |it: PartitionView<'_>| {
            let share = u32::try_from(it.share).unwrap_or(u32::MAX).max(1);
            it.is_in_force
                && it.plan.part > 0
                && it.share < self.capacity.limit()
                && hold * 3 / share > default_deadline
        };
        let slow = self.capacity.partitions().filter(|(_, it)| is_slow(*it));
        slow.map(|(_, it)| (Arc::clone(&it.plan.name), it.share, hold)).collect()
    }

    /// Returns the partitions whose callers left before the answer, most of them, while all slots were taken.
    pub fn left(&self) -> Vec<Arc<str>> {
        self.telemetry.have_left().map(|it| Arc::clone(&self.capacity.partition(it).plan.name)).collect()
    }

    /// Returns the class that requests have in place of this one, as far as that is known.
    fn twin(&self, name: &str) -> Option<String> {
        let twin = name.strip_prefix('/').map_or_else(|| format!("/{name}"), str::to_owned);
        let kind = self.controller.find_class(&twin);
        let class = self.quotas.class_of(kind);
        if kind != ClassId::OTHERS && (class == RuleClassId::OTHERS || self.telemetry.classes_seen().has(class)) {
            return Some(twin);
        }
        self.classes_without_rules().into_iter().next()
    }

    /// Returns the classes that requests have and no rules are for, the most frequent first; none where no class has rules.
    pub fn classes_without_rules(&self) -> Vec<String> {
        if self.quotas.plans().1.named_classes().next().is_none() {
            return Vec::new();
        }
        let times = self.controller.times_by_class();
        let others = times.filter(|(_, class, _)| self.quotas.class_of(*class) == RuleClassId::OTHERS);
        let mut others: Vec<_> = others.map(|(name, _, times)| (times.count(), name.to_owned())).collect();
        others.sort_by_key(|(requests, _)| Reverse(*requests));
        others.into_iter().map(|(_, name)| name).collect()
    }
}
