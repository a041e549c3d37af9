//! Settings for labels in files.

use std::{collections::BTreeMap, time::Duration};

use super::setting::settings;
use crate::config::Labels;

settings! {
    /// The settings of labels: `[labels]`; see [`Labels`].
    pub struct LabelsConfig {
        /// How many requests of one label may wait.
        pub max_waiting: usize = 100,
        /// How many requests of one run may wait, over all labels.
        pub max_waiting_per_run: usize = 5,
        /// The maximum wait of a request with a label.
        pub max_wait: Duration = Duration::from_secs(30),
        /// How many requests of a label without a cap of its own may run; 0 is no bound.
        pub cap: usize = 0,
        /// How many requests of these labels may run, in any namespace; 0 is no bound.
        pub caps: BTreeMap<String, usize> = BTreeMap::new(),
        /// The weight of labels without a weight of their own: turns per turn of a label of weight 1.
        pub weight: u32 = 1,
        /// The weights of these labels, in any namespace, from 1 to 1,000.
        pub weights: BTreeMap<String, u32> = BTreeMap::new(),
        /// Settings for labels of one namespace: one `[[labels.only]]` each.
        pub only: Vec<LabelConfig> = Vec::new(),
        /// Whether a label without a setting of its own takes over that of the label without its last segment, and so
        /// on.
        pub trailing_fallback: bool = true,
        /// Whether a label without a setting of its own takes over the smallest one of the labels that begin with it.
        pub prefix_expand: bool = true,
        /// Whether `*` as a segment of a name under `caps`, `weights` and `only` matches any one segment;
        /// such a name is an error otherwise.
        pub wildcards: bool = false,
        /// How many labels the table of labels has room for.
        pub max_labels: usize = 10_000,
        /// Whether the slots that workers report bound the requests in flight of a label.
        pub enforce_workers: bool = false,
        /// How many labels have metrics of their own, at most 1,000; 0 for none.
        pub metrics: usize = 0,
    }
}

settings! {
    /// The settings of one label of one namespace: one `[[labels.only]]` of a file.
    pub struct LabelConfig {
        /// The namespace; `""` for labels without one.
        pub namespace: String = String::new(),
        /// The label. Has to be set.
        pub label: String = String::new(),
        /// How many requests of the label may run; 0 is no bound.
        pub cap: Option<usize> = None,
        /// The weight of the label: turns per turn of a label of weight 1, from 1 to 1,000.
        pub weight: Option<u32> = None,
    }
}

impl LabelsConfig {
    pub(in crate::config) fn to_labels(&self) -> Labels {
        let labels = Labels::new()
            .max_waiting(self.max_waiting)
            .max_waiting_per_run(self.max_waiting_per_run)
            .max_wait(self.max_wait)
            .cap(self.cap)
            .weight(self.weight)
            .trailing_fallback(self.trailing_fallback)
            .prefix_expand(self.prefix_expand)
            .wildcards(self.wildcards)
            .max_labels(self.max_labels)
            .enforce_workers(self.enforce_workers)
            .metrics(self.metrics);
        let labels = self.caps.iter().fold(labels, |labels, (label, cap)| labels.label_cap(label, *cap));
        let labels = self.weights.iter().fold(labels, |labels, (label, turns)| labels.label_weight(label, *turns));
        self.only.iter().fold(labels, |mut labels, one| {
            // An entry without a label is a mistake, whatever it sets.
            if let Some(cap) = one.cap.or_else(|| one.label.is_empty().then_some(0)) {
                labels = labels.label_cap_in(&one.namespace, &one.label, cap);
            }
            if let Some(turns) = one.weight {
                labels = labels.label_weight_in(&one.namespace, &one.label, turns);
            }
            labels
        })
    }
}
