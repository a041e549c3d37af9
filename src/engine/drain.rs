//! How long a slot is held, and so when those who are turned away would find one.
//!
//! With `n` slots, each held for `h` on average, `n / h` slots come free per second (Little's law). Whoever needs `k`
//! of them to come free waits `k * h / n`.

use std::time::Duration;

use crate::time::{Timestamp, nanos};

/// Where nothing has finished yet and nothing runs: what a person would try.
const FALLBACK: Duration = Duration::from_secs(1);
/// Nobody is told to come back later than this.
const LONGEST: Duration = Duration::from_secs(3_600);

/// A running mean of how long slots are held, with a memory of about sixteen requests.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    mean_nanos: u64,
    /// Whether `mean_nanos` comes from whole requests rather than from round-trip times.
    whole: bool,
    first_start: Option<Timestamp>,
}

impl Drain {
    pub(crate) fn started(&mut self, now: Timestamp) {
        self.first_start.get_or_insert(now);
    }

    /// A round-trip time: stands in while no request was seen to its end.
    pub(crate) fn answered(&mut self, rtt: Duration) {
        if !self.whole {
            self.blend(rtt);
        }
    }

    /// The time from a request's start to the end of its response body.
    pub(crate) fn finished(&mut self, held: Duration) {
        if !std::mem::replace(&mut self.whole, true) {
            self.mean_nanos = 0;
        }
        self.blend(held);
    }

    fn blend(&mut self, held: Duration) {
        let held = nanos(held);
        self.mean_nanos = match self.mean_nanos {
            0 => held,
            mean => (mean - mean / 16).saturating_add(held / 16),
        };
    }

    /// How long until `releases` of `slots` slots came free, from `now` on.
    pub(crate) fn estimate(&self, now: Timestamp, releases: usize, slots: usize) -> Duration {
        let held = match (self.mean_nanos, self.first_start) {
            (0, None) => return FALLBACK,
            // Nothing has ended yet: a slot is held at least as long as the first one has been.
            (0, Some(start)) => nanos(now.since(start)).max(nanos(FALLBACK)),
            (mean, _) => mean,
        };
        let nanos = u128::from(held) * releases as u128 / slots.max(1) as u128;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).min(LONGEST)
    }

    pub(crate) const fn mean(&self) -> Duration {
        Duration::from_nanos(self.mean_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_estimate_is_littles_law() {
        let mut drain = Drain::default();
        let now = Timestamp::ZERO;
        assert_eq!(drain.estimate(now, 5, 10), FALLBACK);
        (0..100).for_each(|_| drain.finished(4 * SECOND));
        assert_eq!(drain.estimate(now, 1, 1), 4 * SECOND);
        assert_eq!(drain.estimate(now, 10, 4), 10 * SECOND);
        assert_eq!(drain.estimate(now, usize::MAX, 0), LONGEST);
    }

    #[test]
    fn a_server_that_has_finished_nothing_yet_does_not_promise_a_slot_at_once() {
        let mut drain = Drain::default();
        drain.started(Timestamp::ZERO);
        assert_eq!(drain.estimate(Timestamp::ZERO.after(60 * SECOND), 1, 1), 60 * SECOND);
        drain.answered(SECOND);
        assert_eq!(drain.estimate(Timestamp::ZERO.after(60 * SECOND), 1, 1), SECOND);
        drain.finished(8 * SECOND);
        assert_eq!(drain.mean(), 8 * SECOND, "whole requests replace round-trip times");
    }
}
