//! A circuit breaker: leaves a failing store alone, so that no caller waits for an answer that won't come.

use tokio::time::Instant;

use crate::{Health, StoreError};

/// Failures in a row after which the store is left alone.
pub(crate) const FAILURES: u32 = 5;

/// What an error says of a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Trouble {
    /// The server answers nothing, or nothing but errors.
    Everything,
    /// The server grants nothing. Leases may still be renewed and given back.
    Decisions,
    /// The server can't do what this request asks for. Other requests may fare better.
    Request,
}

impl StoreError {
    /// Returns what the error says of the server.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        match self {
            Self::ReadOnly | Self::TimedOut { .. } | Self::Unavailable => Some(Trouble::Everything),
            Self::Unable(code) => Some(match code.as_str() {
                "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "NOAUTH" | "WRONGPASS" => Trouble::Everything,
                "BUSY" | "MISCONF" | "NOREPLICAS" | "OOM" | "UNKILLABLE" => Trouble::Decisions,
                _ => Trouble::Request,
            }),
            Self::BreakerOpen
            | Self::Configuration(_)
            | Self::NoRandomness
            | Self::Refused(_)
            | Self::Restarted { .. } => None,
        }
    }

    /// Whether the error may be about one of several keys: then the others are worth asking for without that key.
    pub(crate) fn may_be_of_one_key(&self) -> bool {
        matches!(self, Self::Refused(_)) || self.trouble() == Some(Trouble::Request)
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    Closed { failures: u32 },
    Open { since: Instant, probes: u32, upkeep: bool },
}

/// Closed: requests pass. Open: no request passes, until a probe succeeds; or only upkeep, where the server answers but
/// grants nothing.
///
/// Probing is not left to requests: at the moment of recovery, one process sends one probe and not its whole backlog.
#[derive(Debug)]
pub(crate) struct Breaker {
    state: State,
    /// Questions in a row that the server could not serve although it answered. Ended by a decision.
    refusals: u32,
    /// Answers of the server so far.
    answers: u64,
    /// Time until which the server grants nothing, as it said last.
    quiet_until: Option<Instant>,
    /// Whether the server may throw keys away, as it said last.
    evicts: bool,
}

impl Breaker {
    pub(crate) const fn new() -> Self {
        let state = State::Closed { failures: 0 };
        Self { state, refusals: 0, answers: 0, quiet_until: None, evicts: false }
    }

    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// Returns whether a request may pass, and if so how often the server has answered before it.
    pub(crate) const fn admits(&self, upkeep: bool) -> Option<u64> {
        match self.state {
            State::Closed { .. } => Some(self.answers),
            State::Open { upkeep: open, .. } if open && upkeep => Some(self.answers),
            State::Open { .. } => None,
        }
    }

    /// Notes that a request that had passed the breaker was served.
    pub(crate) const fn served(&mut self, upkeep: bool) {
        self.answers += 1;
        if let State::Closed { failures } = &mut self.state {
            *failures = 0;
            if !upkeep {
                self.refusals = 0;
            }
        }
    }

    /// Notes that a probe was served.
    pub(crate) const fn recovered(&mut self) {
        self.answers += 1;
        self.refusals = 0;
        self.state = State::Closed { failures: 0 };
    }

    /// Notes that a request failed that had passed the breaker after `answers` answers. Returns whether the breaker
    /// opened by that.
    ///
    /// Where other requests were answered after it was sent, its failure tells nothing of the server as a whole.
    pub(crate) fn failed(&mut self, now: Instant, answers: u64) -> bool {
        if answers != self.answers {
            return false;
        }
        match &mut self.state {
            State::Closed { failures } if *failures + 1 < FAILURES => {
                *failures += 1;
                false
            }
            State::Closed { .. } => {
                self.state = State::Open { since: now, probes: 0, upkeep: false };
                true
            }
            State::Open { upkeep, .. } => std::mem::take(upkeep),
        }
    }

    /// Notes that a request that had passed the breaker was answered by an error. Returns whether the breaker opened by
    /// that: for decisions, if that is what the server can't make.
    pub(crate) fn refused(&mut self, now: Instant, decisions: bool) -> bool {
        self.answers += 1;
        self.refusals = self.refusals.saturating_add(1);
        let State::Closed { failures } = &mut self.state else { return false };
        *failures = 0;
        let opens = decisions && self.refusals >= FAILURES;
        if opens {
            self.state = State::Open { since: now, probes: 0, upkeep: true };
        }
        opens
    }

    /// Notes that the server grants nothing until then.
    pub(crate) const fn is_quiet(&mut self, until: Instant) {
        self.quiet_until = Some(until);
    }

    /// Notes whether the server may throw keys away.
    pub(crate) const fn evicts(&mut self, evicts: bool) {
        self.evicts = evicts;
    }

    /// Notes that a probe failed, and whether the server answers all the same.
    pub(crate) const fn probe_failed(&mut self, answers: bool) {
        if let State::Open { probes, upkeep, .. } = &mut self.state {
            *probes = probes.saturating_add(1);
            *upkeep = answers;
        }
    }

    pub(crate) fn health(&self, now: Instant) -> Health {
        match self.state {
            State::Closed { failures } => match (self.quiet_until, failures.max(self.refusals)) {
                (Some(until), _) if now < until => Health::Quiet { remaining: until - now },
                (_, 0) if self.evicts => Health::Evicting,
                (_, 0) => Health::Up,
                (_, failures) => Health::Failing { failures },
            },
            State::Open { since, probes, .. } => Health::Down { since: now.saturating_duration_since(since), probes },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn fails(breaker: &mut Breaker) -> bool {
        let answers = breaker.answers;
        breaker.failed(Instant::now(), answers)
    }

    #[tokio::test(start_paused = true)]
    async fn opens_after_failures_in_a_row_and_closes_by_one_success() {
        let now = Instant::now();
        let mut breaker = Breaker::new();
        for _ in 1..FAILURES {
            assert!(!fails(&mut breaker));
        }
        breaker.served(true);
        assert_eq!(breaker.health(now), Health::Up, "a success in between counts anew");
        for _ in 1..FAILURES {
            assert!(!fails(&mut breaker));
        }
        assert!(fails(&mut breaker));
        assert!(!fails(&mut breaker), "it opens once");
        assert_eq!((breaker.admits(true), breaker.admits(false)), (None, None));
        breaker.probe_failed(false);
        let later = now + Duration::from_secs(3);
        assert_eq!(breaker.health(later), Health::Down { since: Duration::from_secs(3), probes: 1 });
        breaker.recovered();
        assert!(!breaker.is_open());
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_answers_others_is_not_gone() {
        let mut breaker = Breaker::new();
        let sent = breaker.admits(false).unwrap();
        breaker.served(false);
        for _ in 0..100 {
            assert!(!breaker.failed(Instant::now(), sent));
        }
        assert_eq!(breaker.health(Instant::now()), Health::Up);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_back_says_when_it_grants_again() {
        let now = Instant::now();
        let mut breaker = Breaker::new();
        breaker.evicts(true);
        assert_eq!(breaker.health(now), Health::Evicting);
        breaker.is_quiet(now + Duration::from_secs(7));
        assert_eq!(breaker.health(now), Health::Quiet { remaining: Duration::from_secs(7) });
        breaker.served(true);
        let later = now + Duration::from_secs(6);
        assert_eq!(breaker.health(later), Health::Quiet { remaining: Duration::from_secs(1) }, "renewals don't end it");
        assert_eq!(breaker.health(now + Duration::from_secs(7)), Health::Evicting);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_grants_nothing_is_left_alone_but_for_upkeep() {
        let now = Instant::now();
        let mut breaker = Breaker::new();
        for _ in 0..100 {
            assert!(!breaker.refused(now, false), "what is wrong with some requests opens nothing");
            breaker.served(true);
        }
        assert_eq!(breaker.health(now), Health::Failing { failures: 100 }, "upkeep does not make it well");
        breaker.served(false);
        assert_eq!(breaker.health(now), Health::Up);
        for index in 1..=FAILURES {
            assert_eq!(breaker.refused(now, true), index == FAILURES);
        }
        assert!(breaker.admits(false).is_none() && breaker.admits(true).is_some());
        breaker.probe_failed(true);
        assert!(breaker.admits(true).is_some());
        assert!(fails(&mut breaker), "upkeep found that it is gone");
        assert!(breaker.admits(true).is_none());
        breaker.recovered();
        assert_eq!(breaker.health(now), Health::Up);
    }
}
