//! Where shared rules are counted, as settings.

#[cfg(feature = "redis")]
use std::sync::Arc;
use std::{fmt, time::Duration};

use super::store_address;
use crate::{
    problem::Problem,
    store::{Keys, Leases, StoreError},
};

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

/// What a store and the leases from it are made of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoreSettings {
    pub(crate) url: Option<StoreUrl>,
    pub(crate) prefix: String,
    pub(crate) hashed_keys: bool,
    pub(crate) timeout: Duration,
    pub(crate) expiry: Duration,
    pub(crate) wait_budget: Duration,
    pub(crate) local_shares: bool,
}

impl StoreSettings {
    /// The problems of these settings. They do not depend on the clients of this program: nothing is connected to.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        let millisecond = Duration::from_millis(1);
        let times = [("timeout", self.timeout, millisecond), ("expiry", self.expiry, millisecond * 100)];
        let short = times.into_iter().filter(|(_, time, least)| time < least);
        let short = short.map(|(name, time, least)| (name, format!("found {time:?}, allowed is {least:?} or more")));
        let keys = self.keys().err().map(|error| ("prefix", said(&error)));
        let url = self.url.as_ref().and_then(|url| Some(("url", store_address::problem(url.reveal())?)));
        short.chain(keys).chain(url).map(|(name, message)| about(name, message)).collect()
    }

    /// The store, if an address is set. It connects when it is first asked.
    pub(crate) fn open(&self) -> Result<Option<(Leases, Keys)>, Vec<Problem>> {
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
        use crate::store::{AfterRestart, RedisStore};
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
    pub(crate) fn changes(&self, new: &Self) -> Vec<Problem> {
        let same = [
            ("url", self.url == new.url),
            ("prefix", self.prefix == new.prefix),
            ("hashed_keys", self.hashed_keys == new.hashed_keys),
            ("timeout", self.timeout == new.timeout),
            ("expiry", self.expiry == new.expiry),
            ("wait_budget", self.wait_budget == new.wait_budget),
            ("local_shares", self.local_shares == new.local_shares),
        ];
        let changed = same.into_iter().filter(|(_, same)| !same);
        let message = "found a change, allowed is the value at the start: a reload can't change the store";
        changed.map(|(name, _)| Problem::new(format!("store.{name}"), message)).collect()
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
