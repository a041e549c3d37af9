//! How many requests may start per minute.
//!
//! Two ways of counting:
//!
//! - *Minute*: a fixed window, up to `max` in each minute of the clock. Simple to explain and to compare with a bill,
//!   and up to `2 max` in 60 s that straddle the edge of a minute.
//! - *Smooth*: GCRA, the generic cell rate algorithm (ATM Forum, *Traffic Management 4.0*, annex C, in its virtual
//!   scheduling form). One start each `60 s / max`, and `burst` of them at once after a pause: at most `max + burst` in
//!   any 60 s, of which the last one comes when the 60 s end.
//!
//! Both bounds are reached. Either way of counting tells exactly from when on the next start is allowed.

use std::num::NonZeroU32;

use crate::{
    Timestamp,
    plan::rules::{RateMode, RateRule, Rule},
};

const MINUTE: u64 = 60_000_000_000;

/// What was used of a rate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate {
    /// The minute that `count` belongs to.
    minute: u64,
    count: u32,
    /// Time when the next start would be due, were all evenly spaced ("theoretical arrival time").
    due: u64,
    /// Time until which the use counts, under the rules of this process.
    counts_until: u64,
    /// Until when its room is promised to requests that it refused.
    promised: u64,
}

/// For how long ahead room is promised. Where more are refused than that, the promises begin anew: those that were told the same time
/// are as few as can be.
const PROMISED: u64 = 10 * MINUTE;

impl Rate {
    /// Returns from when on one more start is allowed; not after `now`, if it is allowed now.
    pub(super) fn allowed_at(&self, now: Timestamp, rule: RateRule) -> Timestamp {
        match rule.mode {
            RateMode::Window => {
                let minute = now.as_nanos() / MINUTE;
                if self.minute == minute && self.count >= rule.max.get() {
                    Timestamp::from_nanos((minute + 1).saturating_mul(MINUTE))
                } else {
                    now
                }
            }
            RateMode::Smooth { burst } => {
                let tolerance = interval(rule.max).saturating_mul(u64::from(burst.get() - 1));
                now.max(Timestamp::from_nanos(self.due.saturating_sub(tolerance)))
            }
        }
    }

    /// Promises the next start that is not promised yet to a request that is refused, where the rate has room again from `until` on.
    /// Returns when it should come back. All that were refused since would come at that very moment otherwise, for one start.
    ///
    /// The room of a minute is there all at once, and those that it is promised to come within its first second.
    pub(super) fn promise(&mut self, until: Timestamp, rule: RateRule) -> Timestamp {
        let first = until.as_nanos();
        let ahead = Some(self.promised.saturating_sub(first)).filter(|ahead| *ahead < PROMISED).unwrap_or(0);
        self.promised = first.saturating_add(ahead).saturating_add(interval(rule.max));
        let ahead = match rule.mode {
            RateMode::Window => ahead / MINUTE * MINUTE + ahead % MINUTE / 60,
            RateMode::Smooth { .. } => ahead,
        };
        Timestamp::from_nanos(first.saturating_add(ahead))
    }

    /// Counts one start.
    pub(super) fn charge(&mut self, now: Timestamp, rule: RateRule) {
        let now = now.as_nanos();
        let minute = now / MINUTE;
        if self.minute != minute {
            (self.minute, self.count) = (minute, 0);
        }
        self.count = self.count.saturating_add(1);
        self.due = self.due.max(now).saturating_add(interval(rule.max));
    }

    /// Like `charge`, and remembers until when the start counts. Starts that are counted for all instances are
    /// remembered elsewhere.
    pub(super) fn charge_for(&mut self, now: Timestamp, rule: Rule<RateRule>) {
        self.charge(now, rule.bound);
        if rule.shared.is_none() {
            let until = match rule.bound.mode {
                RateMode::Window => (self.minute + 1).saturating_mul(MINUTE),
                RateMode::Smooth { .. } => self.due,
            };
            self.counts_until = self.counts_until.max(until);
        }
    }

    /// Takes back one start that did not come about.
    pub(super) fn refund(&mut self, now: Timestamp, rule: RateRule) {
        if self.minute == now.as_nanos() / MINUTE {
            self.count = self.count.saturating_sub(1);
        }
        self.due = self.due.saturating_sub(interval(rule.max));
    }

    /// Returns how many requests started in this minute of the clock.
    pub(super) const fn count(&self, now: Timestamp) -> u32 {
        if self.minute == now.as_nanos() / MINUTE { self.count } else { 0 }
    }

    /// Returns how many more requests may start at once.
    pub(super) fn remaining(&self, now: Timestamp, rule: RateRule) -> u32 {
        match rule.mode {
            RateMode::Window => rule.max.get().saturating_sub(self.count(now)),
            RateMode::Smooth { burst } => {
                let ahead = self.due.saturating_sub(now.as_nanos()).div_ceil(interval(rule.max));
                burst.get().saturating_sub(u32::try_from(ahead).unwrap_or(u32::MAX))
            }
        }
    }

    /// Whether nothing of what was used counts any more.
    pub(super) const fn is_fresh(&self, now: Timestamp) -> bool {
        self.counts_until <= now.as_nanos()
    }
}

/// Returns the time between two starts that are evenly spaced, rounded up: rather one start too few than one too many.
const fn interval(max: NonZeroU32) -> u64 {
    MINUTE.div_ceil(max.get() as u64)
}
