//! The store of shared rules in files: `[store]`, and what single rules say about it.

use std::{num::NonZeroU32, time::Duration};

use serde_json::{Value as Json, json};

use super::setting::{At, Setting, settings};
use crate::config::load::value::Value;
use crate::{
    config::{StoreSettings, StoreUrl, settings::limits::Sharing},
    engine::rules::OnStoreFailure,
    problem::Problem,
};

settings! {
    /// Where caps, rates and budgets are counted for all instances: `[store]`. Without an address each instance counts
    /// by itself.
    pub struct StoreConfig {
        /// The address of a Redis or Valkey server, such as `redis://10.0.0.5:6379/`. It may hold a password, so it is
        /// not shown where settings are listed; prefer the environment variable to the file.
        pub url: Option<StoreUrl> = None,
        /// The prefix of all keys. Instances with the same prefix count together.
        pub prefix: String = "admission".to_owned(),
        /// Whether the names in keys are hashed.
        pub hashed_keys: bool = false,
        /// The maximum wait for an answer of the store.
        pub timeout: Duration = Duration::from_millis(50),
        /// The time after which the store takes back leases that are not renewed.
        pub expiry: Duration = Duration::from_secs(10),
        /// The maximum wait of requests that are not in line.
        pub wait_budget: Duration = Duration::from_secs(2),
        /// Whether each instance holds capacity from which it admits without asking the store.
        pub local_shares: bool = false,
        /// What a rule does while the store is gone, unless the rule sets its own.
        pub when_gone: OnStoreFailureConfig = OnStoreFailureConfig::FailClosed,
        /// The number of instances, for `when_gone = "local_share"`.
        pub instances: Option<NonZeroU32> = None,
    }
}

/// What a rule does while the store is gone, as a word; see [`OnStoreFailure`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum OnStoreFailureConfig {
    /// `closed`: no request is admitted (fail closed).
    FailClosed,
    /// `open`: the rule doesn't apply (fail open).
    FailOpen,
    /// `local_share`: each instance admits its part of the bound.
    LocalShare,
}

impl OnStoreFailureConfig {
    const WORDS: [(&'static str, Self); 3] =
        [("closed", Self::FailClosed), ("open", Self::FailOpen), ("local_share", Self::LocalShare)];

    fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(_, known)| *known == self).map_or("", |(word, _)| word)
    }

    fn with(self, instances: Option<NonZeroU32>) -> Option<OnStoreFailure> {
        match self {
            Self::FailClosed => Some(OnStoreFailure::FailClosed),
            Self::FailOpen => Some(OnStoreFailure::FailOpen),
            Self::LocalShare => instances.map(|instances| OnStoreFailure::LocalShare { instances }),
        }
    }
}

impl Setting for OnStoreFailureConfig {
    fn read(at: &At<'_>) -> Option<Self> {
        at.one_of(&Self::WORDS)
    }

    fn write(&self) -> Value {
        Value::text(self.as_str())
    }

    fn schema() -> Json {
        json!({ "enum": ["closed", "open", "local_share", "local-share"] })
    }
}

impl Setting for StoreUrl {
    fn read(at: &At<'_>) -> Option<Self> {
        if at.text().is_none() {
            // What was found is not repeated.
            at.problem("found no text, allowed is an address such as \"redis://10.0.0.5:6379/\"");
        }
        at.text().map(Self::new)
    }

    fn write(&self) -> Value {
        Value::text(self.reveal())
    }

    fn schema() -> Json {
        json!({ "type": "string" })
    }
}

impl StoreConfig {
    pub(in crate::config) fn to_settings(&self) -> StoreSettings {
        StoreSettings {
            url: self.url.clone(),
            prefix: self.prefix.clone(),
            hashed_keys: self.hashed_keys,
            timeout: self.timeout,
            expiry: self.expiry,
            wait_budget: self.wait_budget,
            local_shares: self.local_shares,
        }
    }

    /// For all rules that don't say so themselves.
    pub(in crate::config) fn when_gone(&self) -> OnStoreFailure {
        self.when_gone.with(self.instances).unwrap_or_default()
    }

    pub(in crate::config) fn problem(&self) -> Option<Problem> {
        let missing = self.when_gone.with(self.instances).is_none();
        let message =
            "found none, allowed is the number of instances that share the rules, for when_gone = \"local_share\"";
        missing.then(|| Problem::new("store.instances", message))
    }
}

/// What a rule can say about the store, besides its bound.
pub(in crate::config) const SHARING: [&str; 3] = ["local", "when_gone", "instances"];

/// Reads what a rule says about the store.
pub(in crate::config) fn read_sharing(at: &At<'_>) -> Sharing {
    let instances = at.field("instances");
    let word = at.field::<OnStoreFailureConfig>("when_gone");
    let when_gone = word.and_then(|word| word.with(instances));
    if word == Some(OnStoreFailureConfig::LocalShare) && at.get("instances").is_none() {
        at.problem("instances is missing, allowed is the number of instances that share the rule");
    }
    if let Some(instances) = at.get("instances").filter(|_| word != Some(OnStoreFailureConfig::LocalShare)) {
        instances.problem("found instances without when_gone = \"local_share\", allowed is one with it");
    }
    Sharing { local: at.field("local").unwrap_or(false), when_gone }
}

/// Writes what a rule says about the store.
pub(in crate::config) fn write_sharing(sharing: Sharing) -> impl Iterator<Item = (&'static str, Value)> {
    let (word, instances) = match sharing.when_gone {
        None => (None, None),
        Some(OnStoreFailure::FailClosed) => (Some(OnStoreFailureConfig::FailClosed), None),
        Some(OnStoreFailure::FailOpen) => (Some(OnStoreFailureConfig::FailOpen), None),
        Some(OnStoreFailure::LocalShare { instances }) => (Some(OnStoreFailureConfig::LocalShare), Some(instances)),
    };
    let fields = [
        sharing.local.then(|| ("local", true.write())),
        word.map(|word| ("when_gone", word.write())),
        instances.map(|instances| ("instances", instances.write())),
    ];
    fields.into_iter().flatten()
}

pub(in crate::config) fn sharing_schema() -> [(&'static str, String, Json); 3] {
    [
        ("local", "Whether it is counted in this process alone, although rules are shared.".to_owned(), bool::schema()),
        ("when_gone", "What it does while the store is gone.".to_owned(), OnStoreFailureConfig::schema()),
        ("instances", "The number of instances that share it, for a local share.".to_owned(), NonZeroU32::schema()),
    ]
}
