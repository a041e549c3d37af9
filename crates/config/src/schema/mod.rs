//! The settings as data: what each is called, how it is read, written and described, and what it is unless set.

mod laws;
mod limit;
pub(super) mod limits;
mod serde_impls;
pub(super) mod setting;
mod store;
mod times;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use self::setting::Setting;
pub use self::{
    laws::{AimdConfig, FixedConfig, Gradient2Config, GradientConfig, TwoPointConfig, VegasConfig},
    limit::LimitConfig,
    limits::LabelOverride,
    times::{parse_time, write_time},
};
use crate::{AdmissionConfig, ClassLimits, ForAll, Rules, Settings, load::nearest::nearest};
use tower_admission_engine::{BuildError, settings::rules::OTHERS};

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
        Ok(self.to_settings().into_plan()?.1)
    }

    /// The settings for a handle, which [`Settings::into_plan`] judges.
    #[doc(hidden)]
    pub fn to_settings(&self) -> Settings {
        Settings {
            values: self.clone(),
            limit: Some(self.limit.to_limit()),
            shadow: self.shadow_law.as_ref().map(LimitConfig::to_limit),
            shares: self.partitions.iter().map(|(name, share)| (name.clone(), *share)).collect(),
            rules: self.to_rules(),
            sharing: ForAll {
                is_shared: self.store.url.is_some(),
                on_store_failure: self.store.on_store_failure(),
                store: Some(self.store.clone()),
            },
            largest_limit: Some(self.limit.largest()),
            notes: self.unknown_classes(),
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
    use crate::OnStoreFailureConfig;

    /// Where settings are data of the program itself, nothing checks them before a handle is built.
    #[test]
    fn building_finds_what_checking_finds() {
        let mut config = AdmissionConfig::default();
        config.store.on_store_failure = OnStoreFailureConfig::LocalShare;
        let error = config.to_settings().into_plan().unwrap_err();
        assert!(error.problems()[0].path() == "store.instances", "{error}");
        assert_eq!(config.check().unwrap_err(), error);
    }

    #[test]
    fn the_defaults_written_here_are_those_of_the_builder() {
        let mut written = AdmissionConfig::default().to_settings();
        (written.largest_limit, written.sharing.store) = (None, None);
        let limit = Some(tower_admission_engine::limit::Limit::default());
        let built = Settings { limit, ..Settings::default() };
        assert_eq!(format!("{written:?}"), format!("{built:?}"));
    }
}
