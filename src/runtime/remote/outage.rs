//! Noting when the store that counts shared rules goes down, and when it is back.
//!
//! The store calls no code of ours; it is asked for its health. So the first look notes the change: by a request that asked the store, by a
//! reader of the handle, or by the driver, once a second. A store that [fails](Health::Failing) now and then is noted by the driver alone,
//! so that single failures among many answers don't push other entries out of the journal.

use std::{sync::atomic::Ordering, time::Duration};

use super::limiter::RemoteLimiter;
use crate::runtime::{background, core::lock, shared::Shared};
use crate::{
    engine::{StoreSnapshot, StoreState},
    store::Health,
};

impl Shared {
    /// Returns the state of that store.
    pub(crate) fn store_snapshot(&self) -> Option<StoreSnapshot> {
        self.limiter.as_ref().map(RemoteLimiter::snapshot)
    }

    /// Notes that the store went down, is back, or is quiet. Costs next to nothing where neither happened.
    pub(crate) fn look_at_store(&self) {
        if let Some(limiter) = &self.limiter
            && at_once(limiter.health()) != limiter.noted_at_once.load(Ordering::Relaxed)
        {
            self.note_store(limiter);
        }
    }

    /// Like `look_at_store`, and notes as well that the store begins to fail, or doesn't any more.
    pub(in crate::runtime) fn look_closely_at_store(&self) {
        if let Some(limiter) = &self.limiter {
            self.note_store(limiter);
        }
    }

    fn note_store(&self, limiter: &RemoteLimiter) {
        let change = {
            // Locked until the state is noted: otherwise an earlier state could be noted after a later one.
            let mut noted = lock(&limiter.noted);
            let health = limiter.health();
            let state = state(health);
            let lasts = match health {
                Health::Quiet { remaining } => remaining,
                Health::Down { since, .. } => since,
                _ => Duration::ZERO,
            };
            if std::mem::replace(&mut *noted, state) == state {
                return;
            }
            limiter.noted_at_once.store(at_once(health), Ordering::Relaxed);
            let now = self.time.now();
            self.with_engine(|it, _| it.engine.tell_store(now, state, lasts))
        };
        // Subscribers run outside of all locks.
        if let Some(change) = change {
            background::store_changed(self, change);
        }
    }
}

/// The state that the engine knows by the same code.
fn state(health: Health) -> StoreState {
    StoreState::ALL.into_iter().find(|state| state.as_str() == health.as_str()).unwrap_or_default()
}

/// What is noted as soon as a request or a reader sees it: that a store is down, or quiet.
const fn at_once(health: Health) -> u8 {
    match health {
        Health::Down { .. } => 2,
        Health::Quiet { .. } => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_health_of_a_store_is_a_state_of_the_engine() {
        let (remaining, since) = (Duration::ZERO, Duration::ZERO);
        let all = [
            Health::Up,
            Health::Evicting,
            Health::Failing { failures: 1 },
            Health::Quiet { remaining },
            Health::Down { since, probes: 0 },
        ];
        assert_eq!(all.map(state), StoreState::ALL);
    }
}
