//! Retry-after for any times and counts.

use std::time::Duration;

use super::hold_time::HoldTime;
use crate::{
    Timestamp,
    arbitrary_tests::{Any, harness},
    stall::Stall,
};

const LONGEST: Duration = Duration::from_secs(3_600);

type RetryAfter = fn(HoldTime, Timestamp, usize, usize, Stall) -> Duration;

/// No caller is told to come back later than in an hour; more releases of fewer slots never take less time; and while
/// nothing comes free, not before the stall has lasted as long again.
fn come_back(any: &mut impl Any, retry_after: RetryAfter) {
    let (mut hold, mut stall) = (HoldTime::default(), Stall::default());
    for _ in 0..any.steps(30, 2) {
        match any.up_to(0, 3) {
            0 => hold.answered(any.duration()),
            1 => hold.finished(any.duration()),
            2 => stall.started(any.time()),
            _ => stall.freed(),
        }
    }
    let (now, releases, slots) = (any.time(), any.any_usize(), any.any_usize());
    let told = retry_after(hold, now, releases, slots, stall);
    assert!(told <= LONGEST, "{told:?}");
    let more = retry_after(hold, now, releases.saturating_add(1), slots, stall);
    assert!(more >= told, "more releases take longer");
    let fewer = retry_after(hold, now, releases, slots / 2, stall);
    assert!(fewer >= told, "fewer slots take longer");
    if let Some(lasts) = hold.stalled(now, stall) {
        assert!(told >= lasts.min(LONGEST), "not before what runs is likely to have moved");
    }
    assert!(hold.estimate(releases, slots) <= LONGEST);
}

harness! { retry_after_is_within_bounds, unwind 4: |any| come_back(any, HoldTime::retry_after) }

/// In 64 bits, and without an end.
#[cfg(test)]
#[test]
fn control_a_retry_after_that_wraps_is_found() {
    crate::arbitrary_tests::finds(|any| {
        come_back(any, |hold, _, releases, slots, _| {
            let nanos = u64::try_from(hold.mean().as_nanos()).unwrap_or(u64::MAX);
            Duration::from_nanos(nanos.wrapping_mul(releases as u64) / slots.max(1) as u64)
        });
    });
}
