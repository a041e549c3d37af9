//! Room 5: asking the store for the rules that all instances share.
//!
//! A request that was granted a slot and has to ask does so while it holds the slot, for one time limit of the store at most. If a rule
//! that lets its label wait has no room, the slot goes back; one task per key then listens for when it is worth asking again.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
};

use super::request::{LeaseResult, RemoteRequest};
#[cfg(feature = "config")]
use crate::{BuildError, config::StoreConfig};
use crate::{
    engine::{Counted, LabelId, SharedBound, SharedRules, StoreSnapshot, StoreState, rules::WhenFull},
    store::{self, Claim, Claims, Health, Key, Keys, LeaseDenied, Leases, StoreError},
};

/// The store that counts shared rules, and the results of asking it.
#[derive(Debug)]
pub(in crate::runtime) struct RemoteLimiter {
    pub(super) leases: Leases,
    keys: Keys,
    /// Settings of the store, if it comes from a configuration.
    #[cfg(feature = "config")]
    pub(in crate::runtime) settings: Option<StoreConfig>,
    granted: AtomicU64,
    full: AtomicU64,
    failed: AtomicU64,
    /// Requests that were admitted from capacity held here, and requests decided here because the store was gone.
    from_here: AtomicU64,
    without_store: AtomicU64,
    /// The state of the store that was noted last, and whether it was down or quiet, as a number.
    pub(super) noted: Mutex<StoreState>,
    pub(super) noted_at_once: AtomicU8,
    /// Labels that wait, by the key whose notices are listened for.
    pub(super) listens: Mutex<HashMap<Key, VecDeque<(LabelId, Counted)>>>,
}

impl RemoteLimiter {
    pub(in crate::runtime) fn new(leases: Leases, keys: Keys) -> Self {
        Self {
            leases,
            keys,
            #[cfg(feature = "config")]
            settings: None,
            granted: AtomicU64::new(0),
            full: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            from_here: AtomicU64::new(0),
            without_store: AtomicU64::new(0),
            noted: Mutex::default(),
            noted_at_once: AtomicU8::new(0),
            listens: Mutex::default(),
        }
    }

    /// Returns the store of a configuration, if that names one.
    #[cfg(feature = "config")]
    pub(in crate::runtime) fn open(settings: StoreConfig) -> Result<Option<Self>, BuildError> {
        match settings.open() {
            Ok(opened) => Ok(opened.map(|(leases, keys)| Self { settings: Some(settings), ..Self::new(leases, keys) })),
            Err(problems) => BuildError::check(problems).map(|()| None),
        }
    }

    pub(in crate::runtime) fn health(&self) -> Health {
        self.leases.health()
    }

    /// Whether the answers of the store can be relied on for a while.
    pub(in crate::runtime) fn is_up(&self) -> bool {
        matches!(self.leases.health(), Health::Up | Health::Evicting)
    }

    /// Returns the claims of these rules; made once for all requests.
    pub(super) fn claims(&self, rules: &SharedRules) -> Option<Arc<Claims>> {
        prepared(rules, || claims(&self.keys, rules).ok())
    }

    /// Admits a request from capacity that is held in this process.
    pub(in crate::runtime) fn take_here(&self, rules: &SharedRules) -> Option<Box<store::LeaseGuard>> {
        let claims = self.claims(rules)?;
        let held = self.leases.admit_from_here(&claims)?;
        self.from_here.fetch_add(1, Ordering::Relaxed);
        Some(Box::new(held))
    }

    /// Returns a question to the store.
    pub(in crate::runtime) fn ask(&self, rules: Arc<SharedRules>) -> RemoteRequest {
        let (leases, claims) = (self.leases.clone(), self.claims(&rules));
        let own = Arc::clone(&rules);
        let answer = async move {
            let claims = claims.ok_or_else(|| LeaseDenied::Store(StoreError::Configuration("claims".to_owned())))?;
            let waits = |claim: usize| own.rules.get(claim).is_some_and(|rule| rule.when_full == WhenFull::Queue);
            leases.ask(&claims, waits).await.map(Box::new)
        };
        RemoteRequest::new(rules, answer)
    }

    pub(in crate::runtime) fn count(&self, answer: &LeaseResult) {
        let counter = match answer {
            Ok(held) if held.is_without_store() => &self.without_store,
            Ok(_) => &self.granted,
            Err(LeaseDenied::Full { .. }) => &self.full,
            Err(_) => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(in crate::runtime) fn snapshot(&self) -> StoreSnapshot {
        let health = self.leases.health();
        let mut told = StoreSnapshot::of(health.as_str());
        match health {
            Health::Failing { failures } => told.failures_in_a_row = failures,
            Health::Quiet { remaining } => told.grants_after_seconds = remaining.as_secs_f64(),
            Health::Down { since, probes } => (told.failed_probes, told.down_seconds) = (probes, since.as_secs_f64()),
            _ => {}
        }
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        told.granted = read(&self.granted);
        told.full = read(&self.full);
        told.failed = read(&self.failed);
        told.from_local_share = read(&self.from_here);
        told.without_store = read(&self.without_store);
        told.leases_lost = self.leases.lost();
        told
    }
}

/// Returns the claims that were made of these rules, which is done by the first request that asks under them.
fn prepared(rules: &SharedRules, make: impl FnOnce() -> Option<Claims>) -> Option<Arc<Claims>> {
    let prepared = rules.prepared.get_or_init(|| Some(Arc::new(make()?)));
    Arc::clone(prepared.as_ref()?).downcast().ok()
}

fn claims(keys: &Keys, rules: &SharedRules) -> Result<Claims, StoreError> {
    let (namespace, label) = (&*rules.namespace, &*rules.label);
    let scope = |of: &str| if rules.class.is_empty() { of.to_owned() } else { format!("{}.{of}", rules.class) };
    let claims = rules.rules.iter().map(|rule| {
        let (scope, name) = match rule.counts {
            Counted::LabelCap | Counted::LabelRate => (scope("label"), label),
            Counted::NamespaceCap | Counted::NamespaceRate => (scope("namespace"), namespace),
            // Over all classes.
            Counted::Budget => ("group".to_owned(), rules.group.as_deref().unwrap_or_default()),
        };
        let claim = match rule.bound {
            SharedBound::Cap(bound) => Claim::cap(keys.cap(namespace, &scope, name), bound),
            SharedBound::Rate(rate) => Claim::rate(keys.rate(namespace, &scope, name), rate.max, rate.mode),
        };
        claim.on_store_failure(rule.on_store_failure)
    });
    Claims::new(claims.collect())
}

#[cfg(test)]
mod tests {
    use std::{num::NonZeroU32, sync::OnceLock};

    use super::*;

    fn rules() -> SharedRules {
        let (label, prepared) = ("a".into(), OnceLock::new());
        SharedRules { class: "".into(), namespace: "acme".into(), label, group: None, rules: Vec::new(), prepared }
    }

    #[test]
    fn claims_are_made_once() {
        let rules = rules();
        let key = Keys::new("adm").unwrap().cap(&rules.namespace, "label", &rules.label);
        let made = Claims::new(vec![Claim::cap(key, NonZeroU32::MIN)]).unwrap();
        let first = prepared(&rules, || Some(made.clone())).unwrap();
        assert_eq!(*first, made);
        let again = prepared(&rules, || panic!("they are known")).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
    }

    #[test]
    fn rules_that_have_no_claims_are_remembered_too() {
        let rules = rules();
        assert_eq!(prepared(&rules, || None), None);
        assert_eq!(prepared(&rules, || panic!("they are known")), None);
    }
}
