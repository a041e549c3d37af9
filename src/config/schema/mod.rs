//! The settings as data: what each is called, how it is read, written and described, and what it is unless set.

mod labels;
mod laws;
mod limit;
pub(super) mod limits;
mod serde_impls;
pub(super) mod setting;
mod store;
mod times;
mod words;

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    time::Duration,
};

use self::setting::{Setting, settings};
pub use self::{
    labels::{LabelConfig, LabelsConfig},
    laws::{AimdConfig, FixedConfig, Gradient2Config, GradientConfig, TwoPointConfig, VegasConfig, WindowedAimdConfig},
    limit::LimitConfig,
    limits::LabelOverride,
    store::{OnStoreFailureConfig, StoreConfig},
    times::{parse_time, write_time},
};
use crate::config::{
    ClassLimits, ForAll, Hints, Partitions, Rules, Settings, Share, Waiting, load::nearest::nearest,
    settings::rules::OTHERS,
};
use crate::{
    engine::plan::{Discipline, JOURNAL, Mode, PartitionMode},
    problem::BuildError,
};

settings! {
    /// All settings of a handle, as data.
    ///
    /// Fields have the same names in files; the page [configuration](crate::docs::configuration) shows them all. Types
    /// alone don't make the values valid: [`check`](Self::check) finds what else is wrong, and so does building a
    /// handle.
    ///
    /// ```
    /// use tower_admission::{AdmissionBuilder, configuration::AdmissionConfig};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let config = AdmissionConfig::from_toml(r#"
    ///     limit = 200
    ///     queue = 3600
    ///     [partitions]
    ///     checkout = "60%"
    /// "#)?;
    /// let admission = AdmissionBuilder::from(config).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub struct AdmissionConfig {
        /// The name of the handle in metrics and snapshots; a number unless set.
        pub name: String = String::new(),
        /// Whether decisions are enforced.
        pub mode: Mode = Mode::default(),
        /// How many requests may run at once: a number, or a law that learns it.
        pub limit: LimitConfig = LimitConfig::default(),
        /// A law that only observes (dry run), beside the law that decides.
        pub shadow_law: Option<LimitConfig> = None,
        /// How many requests may wait in line for a slot.
        pub queue: usize = Waiting::DEFAULT.queue,
        /// The maximum wait at the full gate. Only with a queue.
        pub admission_timeout: Duration = Waiting::DEFAULT.admission_timeout,
        /// The maximum wait in line for a slot; no bound unless set. Only with a queue.
        pub max_wait: Option<Duration> = Waiting::DEFAULT.max_wait,
        /// The maximum wait for a slot where there is no queue; 30 s unless set.
        pub wait_timeout: Option<Duration> = Waiting::DEFAULT.wait_timeout,
        /// How many requests may wait at the full gate or, without a queue, for a slot; the current limit unless set.
        pub max_waiting: Option<usize> = Waiting::DEFAULT.max_waiting,
        /// The percentage of the limit that is guaranteed to a group of callers, by the name of the group.
        pub partitions: BTreeMap<String, Share> = BTreeMap::new(),
        /// What the default partition may do beyond its share.
        pub default_partition_mode: PartitionMode = PartitionMode::default(),
        /// Whether the default partition only observes (dry run): its decisions are counted, not enforced.
        pub default_partition_observe: bool = false,
        /// Which waiter goes first.
        pub discipline: Discipline = Waiting::DEFAULT.discipline,
        /// How often less important requests are passed over before it is their turn; `"none"` is no bound.
        pub aging: Option<NonZeroU32> = Waiting::DEFAULT.aging.and_then(NonZeroU32::new),
        /// The time after which a permit gives its slot back; no bound unless set.
        pub permit_time_to_live: Option<Duration> = None,
        /// The settings of labels.
        pub labels: LabelsConfig = LabelsConfig::default(),
        /// Caps, rates and budgets by class of work; `*` is for requests whose class has no rules.
        pub classes: BTreeMap<String, ClassLimits> = BTreeMap::new(),
        /// The same for some labels, by key (`namespace:label`, `namespace:*`, `label`, `*`) and class.
        pub overrides: BTreeMap<String, BTreeMap<String, ClassLimits>> = BTreeMap::new(),
        /// The same for labels whose name has a colon.
        pub label_overrides: Vec<LabelOverride> = Vec::new(),
        /// Where caps, rates and budgets are counted for all instances.
        pub store: StoreConfig = StoreConfig::default(),
        /// The time for which clients wait for an answer, if known. Used for warnings only.
        pub client_patience: Option<Duration> = None,
        /// How many streams, or requests, the server accepts at once, if known. Used for warnings only.
        pub max_concurrent_streams: Option<usize> = None,
        /// How many decisions about requests, and how many changes of the handle, the journal keeps; 0 for none.
        pub journal: usize = JOURNAL,
    }
}

impl AdmissionConfig {
    /// The JSON Schema of the file, for editors.
    pub fn json_schema() -> String {
        let mut schema = Self::schema();
        schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
        schema["title"] = "tower-admission".into();
        format!("{schema:#}\n")
    }

    /// Warnings: settings that are allowed, and likely to be a mistake.
    ///
    /// # Errors
    ///
    /// Names every setting that can't be used.
    pub fn check(&self) -> Result<Vec<String>, BuildError> {
        let plan = self.to_settings().into_plan();
        let Some(problem) = self.store.problem() else { return Ok(plan?.1) };
        let mut problems = plan.err().map_or_else(Vec::new, |error| error.problems().to_vec());
        problems.push(problem);
        Err(BuildError::check(problems).err().unwrap_or_else(|| unreachable!("there is a problem")))
    }

    /// The settings for a handle, which [`Settings::into_plan`] judges.
    pub(crate) fn to_settings(&self) -> Settings {
        Settings {
            mode: self.mode,
            limit: self.limit.to_limit(),
            shadow: self.shadow_law.as_ref().map(LimitConfig::to_limit),
            waiting: Waiting {
                queue: self.queue,
                admission_timeout: self.admission_timeout,
                max_wait: self.max_wait,
                wait_timeout: self.wait_timeout,
                max_waiting: self.max_waiting,
                discipline: self.discipline,
                aging: self.aging.map(NonZeroU32::get),
            },
            partitions: Partitions {
                shares: self.partitions.iter().map(|(name, share)| (name.clone(), *share)).collect(),
                default_mode: self.default_partition_mode,
                default_observes: self.default_partition_observe,
            },
            labels: self.labels.to_labels(),
            rules: self.to_rules(),
            sharing: ForAll {
                is_shared: self.store.url.is_some(),
                when_gone: self.store.when_gone(),
                store: Some(self.store.to_settings()),
            },
            time_to_live: self.permit_time_to_live,
            journal: self.journal,
            hints: Hints {
                largest_limit: Some(self.limit.largest()),
                client_patience: self.client_patience,
                max_concurrent_streams: self.max_concurrent_streams,
                notes: self.unknown_classes(),
            },
        }
    }

    fn to_rules(&self) -> Rules {
        let mut rules = Rules::new();
        for (class, limits) in &self.classes {
            rules = match class.as_str() {
                OTHERS => rules.default_limits(limits.clone()),
                _ => rules.class(class, limits.clone()),
            };
        }
        // A class that has overrides needs nothing else to be one.
        for class in self.overridden().filter(|class| *class != OTHERS && !self.classes.contains_key(*class)) {
            rules = rules.class(class, ClassLimits::new());
        }
        for (key, classes) in &self.overrides {
            for (class, limits) in classes {
                rules = rules.override_key(key, class, limits.clone());
            }
        }
        for LabelOverride { namespace, label, class, limits } in &self.label_overrides {
            rules = rules.override_label(namespace.as_deref(), label, class, limits.clone());
        }
        rules
    }

    /// The classes with overrides, each once.
    fn overridden(&self) -> impl Iterator<Item = &str> {
        let by_key = self.overrides.values().flat_map(BTreeMap::keys);
        let by_label = self.label_overrides.iter().map(|it| &it.class);
        by_key.chain(by_label).map(String::as_str).collect::<BTreeSet<_>>().into_iter()
    }

    /// Classes that are only overridden, and whose names look like one that has limits.
    fn unknown_classes(&self) -> Vec<String> {
        let known = || self.classes.keys().map(String::as_str);
        self.overridden()
            .filter(|class| !self.classes.contains_key(*class))
            .filter_map(|class| Some((class, nearest(class, known())?)))
            .map(|(class, near)| format!("overrides name a class {class:?} that has no rules; did you mean {near:?}?"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_written_here_are_those_of_the_builder() {
        let mut written = AdmissionConfig::default().to_settings();
        (written.hints.largest_limit, written.sharing.store) = (None, None);
        assert_eq!(format!("{written:?}"), format!("{:?}", Settings::default()));
    }
}
