//! Settings that follow from how long callers wait, unless they are set.

use std::time::Duration;

#[cfg(feature = "files")]
use crate::settings::auto::Derived;
use crate::settings::layer::AdmissionConfig;
use tower_admission_engine::plan::Discipline;

/// What bounds waits, once all of it is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    pub(crate) queue: usize,
    pub(crate) admission_timeout: Duration,
    pub(crate) max_wait: Option<Duration>,
    pub(crate) wait_timeout: Duration,
    pub(crate) discipline: Discipline,
}

impl Waits {
    /// What holds where nothing is set. Nothing is known of the callers then, so waits are short: a request whose caller has
    /// left takes a slot from a request whose caller has not.
    const UNKNOWN: Self = Self {
        queue: 0,
        admission_timeout: Duration::from_secs(5),
        max_wait: None,
        wait_timeout: Duration::from_millis(500),
        discipline: Discipline::Fair,
    };

    /// What follows from the time for which callers wait for an answer.
    ///
    /// The queue is bounded by time and hardly by its length: ten thousand waiters take two megabytes. A request may wait for
    /// four fifths of that time, since it has to be served in the rest. It may do so for ten times that time in a row: an
    /// overload that lasts longer is no burst: each caller would wait, and no more of them would be served. A gate before
    /// such a queue would add nothing.
    fn of_patience(patience: Duration) -> Self {
        let longest = patience / 5 * 4;
        Self {
            queue: 10_000,
            admission_timeout: Duration::ZERO,
            max_wait: Some(longest),
            wait_timeout: longest,
            discipline: Discipline::BurstCredit {
                longest,
                standing: patience / 40,
                credit: patience.saturating_mul(10),
            },
        }
    }
}

impl AdmissionConfig {
    /// Returns what bounds waits.
    pub(crate) fn waits(&self) -> Waits {
        let derived = self.patience.map_or(Waits::UNKNOWN, Waits::of_patience);
        // A bound of the wait without a queue says that there is none.
        let unset = if self.wait_timeout.is_set() { 0 } else { derived.queue };
        // A queue with a bound in number and in time needs no gate: there is one only where it is asked for.
        let has_no_gate = matches!(self.max_wait.get(), Some(Some(_))) && self.max_waiting.is_none();
        let at_gate = if has_no_gate { Duration::ZERO } else { derived.admission_timeout };
        Waits {
            queue: self.queue.get().copied().unwrap_or(unset),
            admission_timeout: self.admission_timeout.get().copied().unwrap_or(at_gate),
            max_wait: self.max_wait.get().copied().unwrap_or(derived.max_wait),
            wait_timeout: self.wait_timeout.get().copied().unwrap_or(derived.wait_timeout),
            discipline: self.discipline.get().copied().unwrap_or(derived.discipline),
        }
    }
}

#[cfg(feature = "files")]
impl AdmissionConfig {
    /// Returns the same settings with a value for each that follows from others.
    pub(crate) fn resolved(&self) -> Self {
        let Waits { queue, admission_timeout, max_wait, wait_timeout, discipline } = self.waits();
        Self {
            queue: Derived::Set(queue),
            admission_timeout: Derived::Set(admission_timeout),
            max_wait: Derived::Set(max_wait),
            wait_timeout: Derived::Set(wait_timeout),
            discipline: Derived::Set(discipline),
            ..self.clone()
        }
    }
}
