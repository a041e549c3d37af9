//! The store of shared rules in files: `[store]`, and what single rules say about it.

use serde_json::{Value as Json, json};

use super::setting::{At, Setting, field};
use crate::load::value::Value;
use crate::{OnStoreFailureConfig, StoreUrl};
use tower_admission_engine::{rules::OnStoreFailure, settings::limits::Sharing};

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

/// Reads what a rule says about the store.
pub(crate) fn read_sharing(at: &At<'_>) -> Sharing {
    let instances = at.field("instances");
    let word = at.field::<OnStoreFailureConfig>("on_store_failure");
    let on_store_failure = word.and_then(|word| word.with(instances));
    if word == Some(OnStoreFailureConfig::LocalShare) && at.get("instances").is_none() {
        at.problem("instances is missing, allowed is the number of instances that share the rule");
    }
    if let Some(instances) = at.get("instances").filter(|_| word != Some(OnStoreFailureConfig::LocalShare)) {
        instances.problem("found instances without on_store_failure = \"local_share\", allowed is one with it");
    }
    Sharing { local: at.field("local").unwrap_or(false), on_store_failure }
}

/// Writes what a rule says about the store.
pub(crate) fn write_sharing(sharing: Sharing) -> impl Iterator<Item = (&'static str, Value)> {
    let word = sharing.on_store_failure.map(|it| match it.alone() {
        None => OnStoreFailureConfig::FailClosed,
        Some(None) => OnStoreFailureConfig::FailOpen,
        Some(Some(_)) => OnStoreFailureConfig::LocalShare,
    });
    let instances = sharing.on_store_failure.and_then(OnStoreFailure::alone).flatten();
    let local = sharing.local.then_some(true);
    let fields = [field("local", local), field("on_store_failure", word), field("instances", instances)];
    fields.into_iter().flatten()
}
