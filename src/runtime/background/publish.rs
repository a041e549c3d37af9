//! Publishing metrics and events of a handle, each second and on demand.

use std::cell::Cell;

use super::trace;
use crate::runtime::{
    core::{lock, shielded},
    shared::Shared,
};
use crate::{Timestamp, engine::Engine};

std::thread_local! {
    /// Whether this thread publishes metrics, to a recorder that may ask for that again.
    static PUBLISHES: Cell<bool> = const { Cell::new(false) };
}

impl Shared {
    /// Looks at the engine in one turn, for [introspection](crate::docs::introspection): what is shown and what is
    /// published are two views of the same state.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&Engine, Timestamp) -> R) -> R {
        self.look_at_store();
        let now = self.time.now();
        self.with_engine(|state, _| {
            state.engine.pass_time_for_look(now);
            look(&state.engine, now)
        })
    }

    /// Publishes all metrics to the recorder of this thread, and tells subscribers what has changed. If either panics,
    /// the other still runs.
    pub(in crate::runtime) fn publish(&self) {
        // A recorder that asks from within would wait for itself.
        if PUBLISHES.replace(true) {
            return;
        }
        // One publication at a time: the task that read first publishes first. Otherwise an older count would follow a newer one.
        let publish = || lock(&self.recorder).publish_all(self, || self.store_snapshot(), self.admission_lock.as_ref());
        if shielded(publish).is_none() {
            self.warn("the metrics recorder panicked");
        }
        PUBLISHES.set(false);
        self.tell_now();
    }

    /// Tells subscribers what has changed.
    pub(in crate::runtime) fn tell_now(&self) {
        trace::tell(self, &self.last_traced);
    }
}
