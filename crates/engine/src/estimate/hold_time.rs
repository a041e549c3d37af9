//! How long a slot is held, and so when a rejected request would find a free slot.
//!
//! Little's law: with `n` slots, each held for `h` on average, `n / h` slots come free per second. A request that needs
//! `k` of them to come free waits `k * h / n`.
//!
//! That holds for usual times. Where no slot has come free for longer than a slot is usually held, something hangs. The
//! next slot is then not likely to come free within a time shorter than the stall has lasted already: see [`Stall`].

use std::time::Duration;

use crate::{Timestamp, stall::Stall, words::nanos};

/// The estimate where nothing has finished yet and nothing runs: what a person would try.
const FALLBACK: Duration = Duration::from_secs(1);
/// No caller is told to come back later than this.
const LONGEST: Duration = Duration::from_secs(3_600);

/// A running mean of how long slots are held, with a memory of about sixteen requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HoldTime {
    mean_nanos: u64,
    /// Whether `mean_nanos` comes from whole requests rather than from round-trip times.
    whole: bool,
}

impl HoldTime {
    /// Takes a round-trip time, which stands in while no request was seen to its end.
    #[inline]
    pub(super) fn answered(&mut self, rtt: Duration) {
        if !self.whole {
            self.blend(rtt);
        }
    }

    /// Takes the time from a request's start to the end of its response body.
    pub(super) fn finished(&mut self, held: Duration) {
        if !std::mem::replace(&mut self.whole, true) {
            self.mean_nanos = 0;
        }
        self.blend(held);
    }

    #[inline]
    fn blend(&mut self, held: Duration) {
        let held = nanos(held);
        self.mean_nanos = match self.mean_nanos {
            0 => held,
            mean => (mean - mean / 16).saturating_add(held / 16),
        };
    }

    /// Little's law: returns how long until `releases` of `slots` slots came free, as usual.
    pub(crate) fn estimate(self, releases: usize, slots: usize) -> Duration {
        times(self.usual(), releases, slots)
    }

    /// Like `estimate`, for a caller that is told when to come back: not before the running requests are likely to have
    /// moved.
    pub(crate) fn retry_after(self, now: Timestamp, releases: usize, slots: usize, stall: Stall) -> Duration {
        match self.stalled(now, stall) {
            Some(lasts) => times(lasts, releases, slots).max(lasts).min(LONGEST),
            None => self.estimate(releases, slots),
        }
    }

    /// Returns for how long nothing has come free, if that is longer than usual.
    pub(crate) fn stalled(self, now: Timestamp, stall: Stall) -> Option<Duration> {
        Some(stall.lasts(now)).filter(|&lasts| lasts > self.usual())
    }

    /// Returns for how long a reservation lasts that is not used: as long as a request holds its slot.
    pub(crate) fn reservation_time(self) -> Duration {
        const UNKNOWN: Duration = Duration::from_millis(50);
        let hold = self.mean();
        if hold.is_zero() { UNKNOWN } else { hold.clamp(Duration::from_millis(1), Duration::from_secs(10)) }
    }

    /// Returns how long a slot is held, or what a person would try where nothing has finished yet.
    fn usual(self) -> Duration {
        if self.mean_nanos == 0 { FALLBACK } else { self.mean() }
    }

    /// Returns how long a slot is held, on average; zero while nothing is known.
    pub(crate) const fn mean(self) -> Duration {
        Duration::from_nanos(self.mean_nanos)
    }
}

fn times(held: Duration, releases: usize, slots: usize) -> Duration {
    let (held, slots) = (nanos(held), slots.max(1));
    // Nearly always it fits, and a division of 128 bits takes a hundred instructions.
    let nanos = match held.checked_mul(releases as u64) {
        Some(nanos) => nanos / slots as u64,
        None => u64::try_from(u128::from(held) * releases as u128 / slots as u128).unwrap_or(u64::MAX),
    };
    Duration::from_nanos(nanos).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_estimate_is_littles_law() {
        let mut hold = HoldTime::default();
        assert_eq!(hold.estimate(5, 5), FALLBACK);
        (0..100).for_each(|_| hold.finished(4 * SECOND));
        assert_eq!(hold.estimate(1, 1), 4 * SECOND);
        assert_eq!(hold.estimate(10, 4), 10 * SECOND);
        assert_eq!(hold.estimate(usize::MAX, 0), LONGEST);
    }

    #[test]
    fn where_nothing_comes_free_the_estimate_grows_with_the_age_of_what_runs() {
        let (mut hold, mut stall) = (HoldTime::default(), Stall::default());
        let at = |seconds| Timestamp::ZERO.after(seconds * SECOND);
        let told = |hold: HoldTime, stall, seconds| hold.retry_after(at(seconds), 1, 100, stall);
        assert_eq!(told(hold, stall, 60), SECOND / 100, "nothing runs");
        stall.started(Timestamp::ZERO);
        stall.started(at(59));
        assert_eq!(told(hold, stall, 60), 60 * SECOND, "the first of what runs is as old");
        hold.answered(SECOND);
        assert_eq!(told(hold, stall, 60), 60 * SECOND, "an answer whose body goes on frees nothing");
        hold.finished(8 * SECOND);
        assert_eq!(hold.mean(), 8 * SECOND, "whole requests replace round-trip times");
        stall.freed();
        stall.started(at(60));
        assert_eq!(told(hold, stall, 68), 80 * SECOND / 1_000, "as usual");
        assert_eq!(told(hold, stall, 69), 9 * SECOND);
        assert_eq!(hold.retry_after(at(69), 3, 2, stall), 13_500 * SECOND / 1_000, "three of two slots");
        assert_eq!(told(hold, stall, 9_999), LONGEST);
    }
}
