//! Clocks that differ, jump and stand still.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use tower_admission::Clock;

/// The clock of an instance. It runs with Tokio's time of its runtime, at a pace of its own.
#[derive(Clone, Debug)]
pub(super) struct InstanceClock(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// What it showed when it was set last, and when that was.
    shown: f64,
    set_at: Instant,
    pace: f64,
    usual: f64,
    /// How late it may be by now, for what has gone wrong with it.
    late: Duration,
    /// Since when it stands still. An instance that is paused meanwhile lets it go on when it runs again itself.
    stands: Option<Instant>,
}

impl InstanceClock {
    /// Has to be called in the runtime of the instance.
    pub(super) fn new(pace: f64) -> Self {
        let state = State { shown: 0.0, set_at: Instant::now(), pace, usual: pace, late: Duration::ZERO, stands: None };
        Self(Arc::new(Mutex::new(state)))
    }

    fn with<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        state.shown += now.saturating_duration_since(state.set_at).as_secs_f64() * state.pace;
        state.set_at = now;
        change(&mut state)
    }

    #[expect(clippy::cast_precision_loss, reason = "milliseconds of a few days")]
    pub(super) fn jump(&self, by: i64) {
        self.with(|state| {
            state.shown = (state.shown + by as f64 / 1_000.0).max(0.0);
            state.late += Duration::from_millis(u64::try_from(-by).unwrap_or(0));
        });
    }

    pub(super) fn stand(&self) {
        self.with(|state| {
            state.pace = 0.0;
            state.stands.get_or_insert(state.set_at);
        });
    }

    pub(super) fn go_on(&self) {
        self.with(|state| {
            state.pace = state.usual;
            state.late += state.stood();
            state.stands = None;
        });
    }

    /// Returns how many milliseconds later than they should waits may end, as far as the clock is to blame.
    pub(super) fn late(&self) -> u64 {
        let late = self.with(|state| state.late + state.stood());
        u64::try_from(late.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
    }
}

impl State {
    /// For how long it has stood still by now, since it went last.
    fn stood(&self) -> Duration {
        self.stands.map_or(Duration::ZERO, |since| self.set_at.saturating_duration_since(since))
    }
}

impl Clock for InstanceClock {
    fn now(&self) -> Duration {
        Duration::from_secs_f64(self.with(|state| state.shown))
    }
}
