//! What the lock guards.

use std::task::Waker;

#[cfg(feature = "introspect")]
use super::tape::Tape;
use super::{
    drivers::{Look, Post, Schedule},
    wakers::Wakers,
};
use crate::{engine::Engine, time::Timestamp};

/// What the lock guards.
///
/// The verbs that a capture records are methods of this; all others are the engine's own.
#[derive(Debug)]
pub(crate) struct State {
    pub(in crate::runtime) engine: Engine,
    /// Wakers to wake when a wait ends.
    pub(in crate::runtime) wakers: Wakers,
    /// Times when the drivers will look at the engine again.
    pub(in crate::runtime) schedule: Schedule,
    /// Record of all inputs of the engine, while a capture runs.
    #[cfg(feature = "introspect")]
    pub(in crate::runtime) tape: Option<Box<Tape>>,
}

impl State {
    pub(super) fn new(engine: Engine) -> Self {
        Self {
            engine,
            wakers: Wakers::default(),
            schedule: Schedule::default(),
            #[cfg(feature = "introspect")]
            tape: None,
        }
    }

    /// Returns up to 32 wakers of waiters whose wait ended, and of holders whose slot expired. More of them may be
    /// left.
    pub(super) fn take_batch(&mut self) -> [Option<Waker>; 32] {
        std::array::from_fn(|_| {
            if let Some(key) = self.engine.take_notice() {
                return self.wakers.unregister(key);
            }
            let tenure = self.engine.take_expired()?;
            self.wakers.unregister_holder(tenure)
        })
    }

    /// Ends the waits whose time is over, and agrees on when to look again.
    pub(in crate::runtime) fn look(&mut self, now: Timestamp, post: &Post) -> Look {
        let next = |state: &Self| state.engine.next_wakeup().unwrap_or(Timestamp::NEVER);
        let was_due = self.schedule.earliest(next(self));
        self.tick(now);
        let next = next(self);
        self.schedule.looked(self.engine.now(), post, was_due, next)
    }
}
