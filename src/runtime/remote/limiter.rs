//! Room 5: asking the store for the rules that all instances share.
//!
//! Whoever was granted a slot and has to ask does so while it holds the slot, for one time limit of the store at most. If a
//! rule that lets its label wait has no room, the slot goes back; one task per key then watches when it is worth asking
//! again.

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use super::outage::Noted;
use crate::runtime::core::{Shared, lock};
#[cfg(feature = "config")]
use crate::{config::StoreSettings, problem::BuildError};
use crate::{
    engine::{
        LabelId, StoreSnapshot,
        rules::{Counted, RateMode, SharedBound, SharedRules, WhenFull},
    },
    store::{self, Claim, Claims, Health, Key, Keys, Leases, Refused, StoreError},
};

/// Where shared rules are counted, and what came of asking.
#[derive(Debug)]
pub(in crate::runtime) struct Desk {
    leases: Leases,
    keys: Keys,
    /// What it was made of, if it comes from a configuration.
    #[cfg(feature = "config")]
    pub(in crate::runtime) settings: Option<StoreSettings>,
    granted: AtomicU64,
    full: AtomicU64,
    failed: AtomicU64,
    /// From capacity that was held here, and decided here because the store was gone.
    from_here: AtomicU64,
    without_store: AtomicU64,
    /// What was noted of its state.
    pub(in crate::runtime) noted: Noted,
    /// The labels that wait for each key that is watched.
    watched: Mutex<HashMap<Key, VecDeque<(LabelId, Counted)>>>,
}

type Answer = Result<Box<store::Held>, Refused>;

/// A question to the store.
pub(in crate::runtime) struct Question {
    pub(in crate::runtime) rules: Arc<SharedRules>,
    /// In a mutex that is never locked: so this is `Sync` though the future need not be.
    answer: Mutex<Pin<Box<dyn Future<Output = Answer> + Send>>>,
}

impl Question {
    pub(in crate::runtime) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Answer> {
        self.answer.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).as_mut().poll(cx)
    }
}

impl std::fmt::Debug for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Question").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl Desk {
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
            noted: Noted::default(),
            watched: Mutex::default(),
        }
    }

    /// The store of a configuration, if that names one.
    #[cfg(feature = "config")]
    pub(in crate::runtime) fn open(settings: StoreSettings) -> Result<Option<Self>, BuildError> {
        match settings.open() {
            Ok(opened) => Ok(opened.map(|(leases, keys)| Self { settings: Some(settings), ..Self::new(leases, keys) })),
            Err(problems) => BuildError::check(problems).map(|()| None),
        }
    }

    pub(in crate::runtime) fn health(&self) -> Health {
        self.leases.health()
    }

    /// Whether what the store says can be relied on for a while.
    pub(in crate::runtime) fn is_up(&self) -> bool {
        self.leases.health() == Health::Up
    }

    /// What is claimed under these rules; made once and kept with them.
    fn claims<'r>(&self, rules: &'r SharedRules) -> Option<&'r Claims> {
        let prepared = rules.prepared.get_or_init(|| Box::new(claims(&self.keys, rules).ok()));
        prepared.downcast_ref::<Option<Claims>>()?.as_ref()
    }

    /// Admits a request from capacity that is held in this process.
    pub(in crate::runtime) fn take_here(&self, rules: &SharedRules) -> Option<Box<store::Held>> {
        let held = self.leases.admit_from_here(self.claims(rules)?)?;
        self.from_here.fetch_add(1, Ordering::Relaxed);
        Some(Box::new(held))
    }

    /// Asks the store.
    pub(in crate::runtime) fn ask(&self, rules: Arc<SharedRules>) -> Question {
        let (leases, claims) = (self.leases.clone(), self.claims(&rules).cloned());
        let own = Arc::clone(&rules);
        let answer = async move {
            let claims = claims.ok_or_else(|| Refused::Store(StoreError::Configuration("claims".to_owned())))?;
            let answer = match leases.ask(&claims).await {
                Err(refused) if waits(&own, &refused) => Err(refused),
                Err(refused) => leases.recall(&claims, refused).await,
                granted => granted,
            };
            answer.map(Box::new)
        };
        Question { rules, answer: Mutex::new(Box::pin(answer)) }
    }

    pub(in crate::runtime) fn count(&self, answer: &Answer) {
        let counter = match answer {
            Ok(held) if held.is_without_store() => &self.without_store,
            Ok(_) => &self.granted,
            Err(Refused::Full { .. }) => &self.full,
            Err(Refused::Store(_)) => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(in crate::runtime) fn snapshot(&self) -> StoreSnapshot {
        let health = self.leases.health();
        let (failures, probes, down) = match health {
            Health::Up => (0, 0, 0.0),
            Health::Failing { failures } => (failures, 0, 0.0),
            Health::Down { since, probes } => (0, probes, since.as_secs_f64()),
        };
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StoreSnapshot {
            state: health.as_str(),
            down_seconds: down,
            failures_in_a_row: failures,
            failed_probes: probes,
            granted: read(&self.granted),
            full: read(&self.full),
            failed: read(&self.failed),
            from_local_share: read(&self.from_here),
            without_store: read(&self.without_store),
            leases_lost: self.leases.lost(),
        }
    }
}

/// Whether a request waits for the rule that has no room.
fn waits(rules: &SharedRules, refused: &Refused) -> bool {
    let Refused::Full { claim, .. } = refused else { return false };
    rules.rules.get(*claim).is_some_and(|rule| rule.when_full == WhenFull::Wait)
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
            SharedBound::Rate(rate) => {
                let mode = match rate.mode {
                    RateMode::Minute => store::RateMode::Bucket,
                    RateMode::Smooth { burst } => store::RateMode::Smooth { burst },
                };
                Claim::rate(keys.rate(namespace, &scope, name), rate.max, mode)
            }
        };
        claim.when_gone(rule.when_gone)
    });
    Claims::new(claims.collect())
}

impl Shared {
    /// The state of that store.
    pub(crate) fn store_snapshot(&self) -> Option<StoreSnapshot> {
        self.desk.as_ref().map(Desk::snapshot)
    }

    /// Sees to it that a label that waits for a shared rule is looked at again when that may have room.
    pub(in crate::runtime) fn watch_for(self: &Arc<Self>, rules: &SharedRules, rule: usize, label: LabelId) {
        let Some(desk) = &self.desk else { return };
        let (Some(claims), Some(rule)) = (desk.claims(rules), rules.rules.get(rule)) else { return };
        let index = rules.rules.iter().position(|it| it.counts == rule.counts).unwrap_or_default();
        let Some(key) = claims.as_slice().get(index).map(Claim::key) else { return };
        let waits = (label, rule.counts);
        let mut watched = lock(&desk.watched);
        match watched.get_mut(key) {
            Some(labels) if labels.contains(&waits) => {}
            Some(labels) => labels.push_back(waits),
            None => {
                // Where there is no runtime nobody could have asked.
                let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
                watched.insert(key.clone(), VecDeque::from([waits]));
                let leases = desk.leases.clone();
                let watch = Watch { shared: Arc::downgrade(self), key: key.clone() };
                runtime.spawn(async move { leases.watch(&watch.key, || watch.look()).await });
            }
        }
    }
}

/// Watches one key; gives up the watch when dropped.
struct Watch {
    shared: Weak<Shared>,
    key: Key,
}

impl Watch {
    /// Lets one of the labels that wait for the key ask again. Answers whether any waits.
    fn look(&self) -> bool {
        let Some(shared) = self.shared.upgrade() else { return false };
        let Some(desk) = &shared.desk else { return false };
        loop {
            let next = {
                let mut watched = lock(&desk.watched);
                let next = watched.get_mut(&self.key).and_then(VecDeque::pop_front);
                if next.is_none() {
                    watched.remove(&self.key);
                }
                next
            };
            let Some((label, counted)) = next else { return false };
            if shared.turn(|state, time| state.engine.look_again(time.now(), label, counted)) {
                if let Some(labels) = lock(&desk.watched).get_mut(&self.key)
                    && !labels.contains(&(label, counted))
                {
                    labels.push_back((label, counted));
                }
                return true;
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The runtime ended, and others may go on: whoever waits asks again, and is watched there.
        let Some(shared) = self.shared.upgrade() else { return };
        let Some(desk) = &shared.desk else { return };
        let left = lock(&desk.watched).remove(&self.key).unwrap_or_default();
        for (label, counted) in left {
            shared.turn(|state, time| state.engine.look_again(time.now(), label, counted));
        }
    }
}
