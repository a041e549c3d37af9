//! When a slot is given back and what is learned from a request: per layer, and per request where it differs.

use std::time::Duration;

use http::{HeaderMap, HeaderName};

use crate::Outcome;

/// Looked up by name, it would be parsed for every request.
static GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// When the slot of a request is given back.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ReleaseAt {
    /// When the response body has ended or was dropped.
    #[default]
    BodyEnd,
    /// At the response head. For streams that cost nothing while they are open.
    ResponseHead,
}

/// When the sample of a request is taken, and what the control law learns from it, however the request ends: answered,
/// abandoned by its client, or failed.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum SampleAt {
    /// When the response body ends, when its caller leaves, or at the [deadline](Deadline) of a caller that still reads: the first
    /// of these counts. The sample has the outcome of the head, and the time up to there. A limit
    /// counts slots, so a law wants to know for how long an answer holds a slot.
    ///
    /// An answer that outlasts the deadline of its caller is a stream: how long it goes on says nothing of the server. So from then on
    /// its slot is on top of the limit, where the law [learns hold times](crate::limit::LimitAlgorithm::learns_hold_times), up to
    /// the largest limit that the law [may set](crate::limit::LimitAlgorithm::max_limit). Caps, partitions and a fixed limit count it
    /// to its end. Where a client takes nothing from its socket, or the runtime has no timers, the deadline is noticed with the next
    /// frame.
    ///
    /// Of a short body, a head that came too late and one that tells of an overload the sample is taken at the head. The same
    /// holds for each head where neither a deadline nor the [patience](crate::AdmissionBuilder::patience) of callers is known, and
    /// unless it is set where the law does not [ask for it](crate::limit::LimitAlgorithm::learns_hold_times). `TwoPoint` does.
    #[default]
    BodyEndOrDeadline,
    /// At the end of the response body: the outcome, and the round-trip time up to there. A caller that leaves before the end
    /// got no answer, and a body that ends after the deadline of its caller was too late. So clients that read slowly lower a
    /// learned limit, in some runs to a few slots.
    BodyEnd,
    /// At the response head: the outcome, and the round-trip time up to there.
    ResponseHead,
    /// Never: nothing is learned.
    Never,
    /// Only an overload counts; no round-trip time is learned.
    OverloadOnly,
}

/// What becomes of the work of a request that is given up before it is answered: its client hung up, its deadline passed, or a
/// timeout around the layer ended it.
///
/// Unless set, work [goes on](Self::GoesOn) where the [patience](crate::AdmissionBuilder::patience) of callers is set, and
/// [stops](Self::Stops) where it is not. [`AdmissionLayer::detach`] needs no such guess.
///
/// [`AdmissionLayer::detach`]: crate::AdmissionLayer::detach
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Abandoned {
    /// The work stops with its request: the slot is free at once.
    Stops,
    /// The work goes on somewhere: at a database, or at another server. The slot stays taken for as long as such work nearly
    /// always needs, by what was learned of requests of its [class](crate::Ticket::class) and partition that were answered.
    /// Where the server answers faster by then, the slot is free sooner; while it answers only requests
    /// that started earlier, the slot stays taken for up to twice as long.
    ///
    /// The slot stays taken for three quarters of the patience of callers (a second, where that is not known) in three cases: fewer
    /// than 16 answers came since work was abandoned first, the request was given up later than such work is usually answered, or
    /// more requests are given up than answered, so that answers say little of them.
    ///
    /// [`Snapshot::abandoned`](crate::snapshot::Snapshot::abandoned) counts such requests. A lease of
    /// [shared rules](crate::docs::shared_limits) is kept for as long as the slot, or up to a second longer. Without this, callers that leave early and
    /// come back may have far more work under way than the limit says.
    GoesOn,
    /// The work goes on where its slot is kept: the request has a [`SlotKeeper`](crate::permit::SlotKeeper) among its
    /// extensions, from which a handler takes the slot into a task of its own. [`AdmissionLayer::detach`] does so for each
    /// request. Where it is not kept, the slot is free when the request ends.
    ///
    /// [`AdmissionLayer::detach`]: crate::AdmissionLayer::detach
    Kept,
}

/// When the slot of one request is given back, and what is learned. Put it into the extensions of a request or a
/// response; the response overrides the request.
///
/// ```
/// use tower_admission::policy::{Policy, ReleaseAt};
///
/// // A handler answers with a stream of events that costs nothing while it is open.
/// let mut response = http::Response::new("…");
/// response.extensions_mut().insert(Policy::new().release_at(ReleaseAt::ResponseHead));
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct Policy {
    pub(super) release_at: Option<ReleaseAt>,
    pub(super) sample_at: Option<SampleAt>,
    pub(super) abandoned: Option<Abandoned>,
}

impl Policy {
    /// A policy that leaves everything to the layer.
    pub const fn new() -> Self {
        Self { release_at: None, sample_at: None, abandoned: None }
    }

    /// Sets what becomes of work whose request is given up.
    pub const fn abandoned(mut self, abandoned: Abandoned) -> Self {
        self.abandoned = Some(abandoned);
        self
    }

    /// Whether the slot may be kept for work that outlives its request.
    #[inline]
    pub(super) const fn is_kept(self) -> bool {
        matches!(self.abandoned, Some(Abandoned::Kept))
    }

    /// Whether work goes on after its request was given up, if that is told.
    pub(super) fn goes_on(self) -> Option<bool> {
        self.abandoned.map(|abandoned| abandoned == Abandoned::GoesOn)
    }

    /// Sets when the slot is given back.
    pub const fn release_at(mut self, release: ReleaseAt) -> Self {
        self.release_at = Some(release);
        self
    }

    /// Sets when the sample is taken, and what is learned from it.
    pub const fn sample_at(mut self, sample: SampleAt) -> Self {
        self.sample_at = Some(sample);
        self
    }

    /// What is learned from a request that ends like this.
    pub(super) const fn learned(self, outcome: Outcome) -> Outcome {
        match (self.sample_at, outcome) {
            (Some(SampleAt::Never), _) | (Some(SampleAt::OverloadOnly), Outcome::Success | Outcome::Cancelled) => {
                Outcome::Ignore
            }
            _ => outcome,
        }
    }

    /// This policy where it says something, else `base`.
    pub(super) fn or(self, base: Self) -> Self {
        Self {
            release_at: self.release_at.or(base.release_at),
            sample_at: self.sample_at.or(base.sample_at),
            abandoned: self.abandoned.or(base.abandoned),
        }
    }
}

/// The deadline of the caller: a request extension, for services that know it from elsewhere.
///
/// Of this, `grpc-timeout` and the configured header, the earliest applies.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(tokio::time::Instant);

impl Deadline {
    /// A deadline at this moment.
    pub fn at(instant: std::time::Instant) -> Self {
        Self(instant.into())
    }

    /// A deadline after this time, from now on.
    pub fn after(timeout: Duration) -> Self {
        let now = tokio::time::Instant::now();
        // A century stands for "too far away to be represented".
        Self(now.checked_add(timeout).unwrap_or(now + Duration::from_secs(3_000_000_000)))
    }

    pub(super) fn remaining(self) -> Duration {
        self.0.saturating_duration_since(tokio::time::Instant::now())
    }
}

/// A time limit in seconds, with or without a fraction. One that is negative is over. `None` for what is not a number,
/// and for what is too far away to be represented.
pub(super) fn seconds(value: &[u8]) -> Option<Duration> {
    let seconds: f64 = std::str::from_utf8(value).ok()?.trim().parse().ok()?;
    if seconds <= 0.0 { Some(Duration::ZERO) } else { Duration::try_from_secs_f64(seconds).ok() }
}

/// The value of `grpc-timeout`: one to eight digits and a unit. `None` for anything else. One that is negative is over:
/// no client of the protocol sends it, and a program that computes the value by hand may.
///
/// All gRPC calls are `POST`, and looking a header up costs more than any other part of a decision: others are spared it.
pub(super) fn grpc_timeout(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(&GRPC_TIMEOUT)?.as_bytes();
    let (unit, digits) = value.split_last()?;
    let (is_over, digits) = digits.strip_prefix(b"-").map_or((false, digits), |digits| (true, digits));
    if digits.is_empty() || digits.len() > 8 {
        return None;
    }
    let amount = digits.iter().try_fold(0u64, |amount, &digit| {
        let value = (digit as char).to_digit(10)?;
        Some(amount * 10 + u64::from(value))
    })?;
    let amount = if is_over { 0 } else { amount };
    Some(match unit {
        b'H' => Duration::from_secs(amount * 3_600),
        b'M' => Duration::from_secs(amount * 60),
        b'S' => Duration::from_secs(amount),
        b'm' => Duration::from_millis(amount),
        b'u' => Duration::from_micros(amount),
        b'n' => Duration::from_nanos(amount),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(value: &'static str) -> Option<Duration> {
        let request = http::Request::post("/").header("grpc-timeout", value).body(()).unwrap();
        grpc_timeout(request.headers())
    }

    #[test]
    fn all_units_of_grpc_timeout_are_read() {
        assert_eq!(parse("2H"), Some(Duration::from_secs(7_200)));
        assert_eq!(parse("3M"), Some(Duration::from_secs(180)));
        assert_eq!(parse("4S"), Some(Duration::from_secs(4)));
        assert_eq!(parse("5m"), Some(Duration::from_millis(5)));
        assert_eq!(parse("200000u"), Some(Duration::from_millis(200)));
        assert_eq!(parse("99999999n"), Some(Duration::from_nanos(99_999_999)));
        assert_eq!(parse("99999999H"), Some(Duration::from_secs(99_999_999 * 3_600)));
    }

    #[test]
    fn anything_else_is_no_timeout() {
        for value in ["", "S", "5", "123456789S", "-", "-S", "--1S", "-1", "-1x", "1.5S", "5 S", "5x", "S5"] {
            assert_eq!(parse(value), None, "{value:?}");
        }
    }

    #[test]
    fn what_is_negative_is_over() {
        for value in ["0S", "0n", "-1S", "-99999999H", "-0m"] {
            assert_eq!(parse(value), Some(Duration::ZERO), "{value:?}");
        }
        for value in ["0", "-0", "-1", " -1.5 ", "-inf", "-1e300", "-1e-300"] {
            assert_eq!(seconds(value.as_bytes()), Some(Duration::ZERO), "{value:?}");
        }
        assert_eq!(seconds(b"1.5"), Some(Duration::from_millis(1_500)));
        for value in ["", "-", "NaN", "-NaN", "inf", "1e300", "1s"] {
            assert_eq!(seconds(value.as_bytes()), None, "{value:?}");
        }
        assert_eq!(seconds(b"\xff"), None);
    }

    #[test]
    fn a_deadline_too_far_away_does_not_panic() {
        assert!(Deadline::after(Duration::MAX).remaining() > Duration::from_secs(1_000_000_000));
    }
}
