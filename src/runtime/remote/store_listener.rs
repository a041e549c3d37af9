//! Looking again at the labels that wait for a shared rule, when it may have room.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use crate::{
    engine::{LabelId, SharedRules},
    runtime::{core::lock, shared::Shared},
    store::Key,
};

impl Shared {
    /// Makes sure that a label that waits for a shared rule is looked at again when the rule may have room.
    pub(in crate::runtime) fn listen_for(self: &Arc<Self>, rules: &SharedRules, rule: usize, label: LabelId) {
        let Some(limiter) = &self.limiter else { return };
        let Some(claims) = limiter.claims(rules) else { return };
        let (Some(claim), Some(rule)) = (claims.as_slice().get(rule), rules.rules.get(rule)) else { return };
        let (key, waits) = (claim.key(), (label, rule.counts));
        let mut listens = lock(&limiter.listens);
        match listens.get_mut(key) {
            Some(labels) if labels.contains(&waits) => {}
            Some(labels) => labels.push_back(waits),
            None => {
                // Without a runtime, no request could have asked.
                let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
                listens.insert(key.clone(), VecDeque::from([waits]));
                let leases = limiter.leases.clone();
                let listener = StoreListener { shared: Arc::downgrade(self), key: key.clone() };
                runtime.spawn(async move { leases.listen(&listener.key, || listener.look()).await });
            }
        }
    }
}

/// Listens for notices of one key; stops when dropped.
struct StoreListener {
    shared: Weak<Shared>,
    key: Key,
}

impl StoreListener {
    /// Lets one of the labels that wait for the key ask again. Returns whether any waits.
    fn look(&self) -> bool {
        let Some(shared) = self.shared.upgrade() else { return false };
        let Some(limiter) = &shared.limiter else { return false };
        let mut listens = lock(&limiter.listens);
        while let Some((label, counted)) = listens.get_mut(&self.key).and_then(VecDeque::pop_front) {
            drop(listens);
            let still_waits = shared.with_engine(|state, time| state.engine.retry_remote(time.now(), label, counted));
            listens = lock(&limiter.listens);
            if still_waits {
                if let Some(labels) = listens.get_mut(&self.key)
                    && !labels.contains(&(label, counted))
                {
                    labels.push_back((label, counted));
                }
                return true;
            }
        }
        listens.remove(&self.key);
        false
    }
}

impl Drop for StoreListener {
    fn drop(&mut self) {
        // The runtime ended, and others may go on: a waiter there asks again, and its label is listened for there.
        let Some(shared) = self.shared.upgrade() else { return };
        let Some(limiter) = &shared.limiter else { return };
        let left = lock(&limiter.listens).remove(&self.key).unwrap_or_default();
        for (label, counted) in left {
            shared.with_engine(|state, time| state.engine.retry_remote(time.now(), label, counted));
        }
    }
}
