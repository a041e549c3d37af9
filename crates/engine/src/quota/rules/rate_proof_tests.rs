//! Buckets and GCRA for any maximum, burst and times.

use std::num::NonZeroU32;

use super::rate::Rate;
use crate::{
    Timestamp,
    arbitrary_tests::{Any, harness},
    plan::rules::{RateMode, RateRule},
};

const MINUTE: u64 = 60_000_000_000;

fn rule(any: &mut impl Any, smooth: bool) -> RateRule {
    let mut number = || NonZeroU32::new(u32::try_from(any.up_to(1, 1 << 20)).unwrap_or(1)).unwrap_or(NonZeroU32::MIN);
    let (max, burst) = (number(), number());
    RateRule { max, mode: if smooth { RateMode::Smooth { burst } } else { RateMode::Window } }
}

/// Starts at any times, each of them if it is allowed then. The next start is told exactly, what remains is within
/// bounds, and what is refunded can be had again.
fn charge(any: &mut impl Any, smooth: bool, allowed_at: impl Fn(&Rate, Timestamp, RateRule) -> Timestamp) {
    let (rule, mut rate, mut now) = (rule(any, smooth), Rate::default(), Timestamp::ZERO);
    let most = match rule.mode {
        RateMode::Smooth { burst } => burst.get(),
        RateMode::Window => rule.max.get(),
    };
    for _ in 0..any.steps(60, 3) {
        now = now.max(any.time());
        let at = allowed_at(&rate, now, rule);
        assert!(at >= now, "not in the past");
        let remaining = rate.remaining(now, rule);
        assert!(remaining <= most, "{remaining} remain of {most}");
        // At the end of all times nothing moves on.
        if now.as_nanos() > u64::MAX - 2 * MINUTE {
            return;
        }
        assert_eq!(at == now, remaining > 0, "allowed where something remains");
        if at > now {
            assert!(at.nanos_since(now) <= MINUTE, "the next start is less than a minute away");
            let before = Timestamp::from_nanos(at.as_nanos() - 1).max(now);
            assert!(allowed_at(&rate, before, rule) > before, "not a moment earlier");
            assert_eq!(allowed_at(&rate, at, rule), at, "it is allowed when it is told to be");
            now = at;
        }
        let (mut again, left) = (rate, rate.remaining(now, rule));
        again.charge(now, rule);
        assert_eq!(again.remaining(now, rule) + 1, left, "one start is charged");
        again.refund(now, rule);
        assert!(again.remaining(now, rule) >= left, "what is refunded can be had again");
        rate.charge(now, rule);
    }
}

harness! { a_bucket_tells_the_next_start, unwind 5: |any| charge(any, false, Rate::allowed_at) }
harness! { gcra_tells_the_next_start, unwind 5: |any| charge(any, true, Rate::allowed_at) }

/// A moment too early, by one nanosecond.
#[cfg(test)]
#[test]
fn control_a_start_that_is_allowed_too_early_is_found() {
    for smooth in [false, true] {
        crate::arbitrary_tests::finds(|any| {
            charge(any, smooth, |rate, now, rule| {
                now.max(Timestamp::from_nanos(rate.allowed_at(now, rule).as_nanos().saturating_sub(1)))
            });
        });
    }
}
