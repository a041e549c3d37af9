//! Leaves a failing store alone, so that nobody waits for what won't come.

use tokio::time::Instant;

use super::Health;

/// Failures in a row after which the store is left alone.
pub(crate) const FAILURES: u32 = 5;

#[derive(Clone, Copy, Debug)]
enum State {
    Closed { failures: u32 },
    Open { since: Instant, probes: u32 },
}

/// Closed: requests pass. Open: none does, until a probe succeeds.
///
/// Probing is not left to requests: at the moment of recovery, one process sends one probe and not its whole backlog.
#[derive(Debug)]
pub(crate) struct Breaker(State);

impl Breaker {
    pub(crate) const fn new() -> Self {
        Self(State::Closed { failures: 0 })
    }

    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.0, State::Open { .. })
    }

    /// A request or a probe was answered.
    pub(crate) fn succeeded(&mut self) {
        self.0 = State::Closed { failures: 0 };
    }

    /// A request that had been let through failed. Says whether the breaker opened by that.
    pub(crate) fn failed(&mut self, now: Instant) -> bool {
        match &mut self.0 {
            State::Closed { failures } if *failures + 1 < FAILURES => {
                *failures += 1;
                false
            }
            State::Closed { .. } => {
                self.0 = State::Open { since: now, probes: 0 };
                true
            }
            State::Open { .. } => false,
        }
    }

    /// A probe failed.
    pub(crate) fn probe_failed(&mut self) {
        if let State::Open { probes, .. } = &mut self.0 {
            *probes = probes.saturating_add(1);
        }
    }

    pub(crate) fn health(&self, now: Instant) -> Health {
        match self.0 {
            State::Closed { failures: 0 } => Health::Up,
            State::Closed { failures } => Health::Failing { failures },
            State::Open { since, probes } => Health::Down { since: now.saturating_duration_since(since), probes },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn opens_after_failures_in_a_row_and_closes_by_one_success() {
        let now = Instant::now();
        let mut breaker = Breaker::new();
        for _ in 1..FAILURES {
            assert!(!breaker.failed(now));
        }
        breaker.succeeded();
        assert_eq!(breaker.health(now), Health::Up, "a success in between counts anew");
        for _ in 1..FAILURES {
            assert!(!breaker.failed(now));
        }
        assert!(breaker.failed(now));
        assert!(!breaker.failed(now), "it opens once");
        breaker.probe_failed();
        let later = now + Duration::from_secs(3);
        assert_eq!(breaker.health(later), Health::Down { since: Duration::from_secs(3), probes: 1 });
        breaker.succeeded();
        assert!(!breaker.is_open());
    }
}
