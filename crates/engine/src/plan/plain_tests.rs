//! Plans for tests, with what most tests don't care about.

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::{
    Bound, Discipline, JOURNAL, LabelPlan, LabelRule, PartitionMode, PartitionPlan, Places, Plan, rules::RulesPlan,
};
use crate::limit::LimitAlgorithm;

impl Plan {
    /// A fair queue, and nothing special for labels.
    pub(crate) fn plain(
        law: Box<dyn LimitAlgorithm>,
        partitions: Vec<PartitionPlan>,
        line: Bound,
        gate: Bound,
    ) -> Self {
        Self {
            law,
            partitions,
            line,
            gate,
            queue: None,
            discipline: Discipline::Fair,
            default_deadline: None,
            aging: Some(16),
            labels: LabelPlan::default(),
            rules: RulesPlan::default(),
            time_to_live: None,
            time_one_in: None,
            journal: JOURNAL,
            shadow: None,
        }
    }
}

impl Bound {
    /// So many places, for waits of this length.
    pub(crate) const fn of(places: usize, wait: Option<Duration>) -> Self {
        Self { places: Places::Exactly(places), wait }
    }
}

impl Default for LabelPlan {
    fn default() -> Self {
        Self {
            max_labels: 10_000,
            max_waiting: 100,
            max_waiting_per_run: 5,
            wait: Some(Duration::from_secs(30)),
            default: LabelRule::default(),
            rules: HashMap::new(),
            patterns: None,
            caps_reject: false,
            enforce_workers: false,
            metrics: 0,
            named: Vec::new(),
        }
    }
}

impl PartitionPlan {
    pub(crate) fn burst(name: &str, part: u32) -> Self {
        Self::of(name, part, PartitionMode::Burst)
    }

    /// A partition whose decisions bind, and that lends all of its slots.
    pub(crate) fn of(name: &str, part: u32, mode: PartitionMode) -> Self {
        Self { name: Arc::from(name), part, mode, observes: false, withheld: 0 }
    }
}
