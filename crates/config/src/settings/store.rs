//! Where shared rules are counted, as settings.

#[cfg(feature = "redis")]
use std::sync::Arc;
use std::{fmt, num::NonZeroU32, time::Duration};

use super::store_address;
use crate::{declare::settings, schema::setting::Setting};
use tower_admission_engine::{Problem, rules::OnStoreFailure};
use tower_admission_store::{Keys, Leases, StoreError};

/// The address of a store, which may hold a password: it is not shown.
#[derive(Clone, Eq, PartialEq)]
pub struct StoreUrl(String);

impl StoreUrl {
    /// An address such as `redis://10.0.0.5:6379/`.
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    /// The address, password included.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreUrl(hidden)")
    }
}

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
        pub on_store_failure: OnStoreFailureConfig = OnStoreFailureConfig::FailClosed,
        /// The number of instances, for `on_store_failure = "local_share"`.
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
    pub(crate) const WORDS: [(&'static str, Self); 3] =
        [("closed", Self::FailClosed), ("open", Self::FailOpen), ("local_share", Self::LocalShare)];

    pub(crate) fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(_, known)| *known == self).map_or("", |(word, _)| word)
    }

    pub(crate) fn with(self, instances: Option<NonZeroU32>) -> Option<OnStoreFailure> {
        match self {
            Self::FailClosed => Some(OnStoreFailure::FailClosed),
            Self::FailOpen => Some(OnStoreFailure::FailOpen),
            Self::LocalShare => instances.map(|instances| OnStoreFailure::LocalShare { instances }),
        }
    }
}

impl StoreConfig {
    /// For all rules that don't say so themselves.
    pub(crate) fn on_store_failure(&self) -> OnStoreFailure {
        self.on_store_failure.with(self.instances).unwrap_or_default()
    }

    /// The problems of these settings. They do not depend on the clients of this program: nothing is connected to.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        let millisecond = Duration::from_millis(1);
        let times = [("timeout", self.timeout, millisecond), ("expiry", self.expiry, millisecond * 100)];
        let short = times.into_iter().filter(|(_, time, least)| time < least);
        let short = short.map(|(name, time, least)| (name, format!("found {time:?}, allowed is {least:?} or more")));
        let keys = self.keys().err().map(|error| ("prefix", said(&error)));
        let url = self.url.as_ref().and_then(|url| Some(("url", store_address::problem(url.reveal())?)));
        let is_missing = self.on_store_failure.with(self.instances).is_none();
        let missing = "found none, allowed is the number of instances that share the rules, for on_store_failure = \"local_share\"";
        let instances = is_missing.then(|| ("instances", missing.to_owned()));
        short.chain(keys).chain(url).chain(instances).map(|(name, message)| about(name, message)).collect()
    }

    /// The store, if an address is set. It connects when it is first asked.
    #[doc(hidden)]
    pub fn open(&self) -> Result<Option<(Leases, Keys)>, Vec<Problem>> {
        let Some(url) = &self.url else { return Ok(None) };
        let keys = self.keys().map_err(|error| vec![about("prefix", said(&error))])?;
        let leases = self.leases(url, &keys).map_err(|error| vec![about("url", said(&error))])?;
        Ok(Some((leases, keys)))
    }

    fn keys(&self) -> Result<Keys, StoreError> {
        Keys::new(&self.prefix).map(|keys| if self.hashed_keys { keys.hashed() } else { keys })
    }

    #[cfg(feature = "redis")]
    fn leases(&self, url: &StoreUrl, keys: &Keys) -> Result<Leases, StoreError> {
        use tower_admission_store::{AfterRestart, RedisStore};
        let store = RedisStore::builder(url.reveal(), keys.clone())
            .timeout(self.timeout)
            .after_restart(AfterRestart::Quiet(self.expiry))
            .build()?;
        let leases = Leases::builder().expiry(self.expiry).wait_budget(self.wait_budget);
        Ok(leases.local_shares(self.local_shares).build(Arc::new(store)))
    }

    #[cfg(not(feature = "redis"))]
    fn leases(&self, _: &StoreUrl, _: &Keys) -> Result<Leases, StoreError> {
        let message = "found an address, allowed is none in a program built without the feature redis of this crate";
        Err(StoreError::Configuration(message.to_owned()))
    }

    /// The settings that a reload would change, and can't: leases are held in the store of the start.
    #[doc(hidden)]
    pub fn changes(&self, new: &Self) -> Vec<Problem> {
        // These two are settings of rules, which a reload does change.
        let of_store = Self::FIELDS.iter().filter(|name| !["on_store_failure", "instances"].contains(name));
        let (old, new) = (self.write(), new.write());
        let changed = of_store.filter(|name| old.get(name) != new.get(name));
        let message = "found a change, allowed is the value at the start: a reload can't change the store";
        changed.map(|name| Problem::new(format!("store.{name}"), message)).collect()
    }
}

fn about(setting: &str, message: String) -> Problem {
    Problem::new(format!("store.{setting}"), message)
}

fn said(error: &StoreError) -> String {
    match error {
        StoreError::Configuration(problem) => problem.clone(),
        other => other.to_string(),
    }
}
