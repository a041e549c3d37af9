//! Laws under any samples: finite, within bounds, and nowhere for good.

use std::time::Duration;

use super::{Aimd, Gradient, Gradient2, LimitAlgorithm, NetflixWindow, Sample, TwoPoint, Vegas, Windowed};
use crate::{
    Outcome, Timestamp,
    arbitrary_tests::{Any, harness},
};

const MAX: usize = 50;

fn sample(any: &mut impl Any) -> Sample {
    let outcome = match any.up_to(0, 2) {
        0 => Outcome::Success,
        1 => Outcome::Overload,
        _ => Outcome::Cancelled,
    };
    let rtt = any.any_bool().then(|| any.duration());
    let (start, end, in_flight, running) = (any.time(), any.time(), any.any_usize(), any.any_usize());
    let answering = any.any_usize();
    Sample { start, end, rtt, in_flight, running, answering, outcome, refused: any.any_bool(), weight: 1 }
}

/// Any samples, each of which leaves the limit within its range.
fn learn<L: LimitAlgorithm>(any: &mut impl Any, mut law: L) -> L {
    for _ in 0..any.steps(30, 2) {
        law.on_sample(&sample(any));
        let limit = law.limit();
        assert!((1..=MAX).contains(&limit), "a limit of {limit}");
    }
    law
}

harness! { aimd_stays_in_range, unwind 4: |any| {
    let _law = learn(any, Aimd::new(Duration::from_millis(100)).max(MAX));
} }
harness! { vegas_stays_in_range, unwind 4: |any| {
    let _law = learn(any, Vegas::new().max(MAX));
} }
harness! { gradient_stays_in_range, unwind 4: |any| {
    let _law = learn(any, Gradient::new().max(MAX));
} }
harness! { gradient2_stays_in_range, unwind 4: |any| {
    let _law = learn(any, Gradient2::new().min(1).max(MAX));
} }
harness! { two_point_stays_in_range, unwind 4: |any| {
    let _law = learn(any, TwoPoint::new().max(MAX));
} }
harness! { windows_stay_in_range, unwind 4: |any| {
    let _law = learn(any, Windowed::new(Gradient2::new().min(1).max(MAX)));
    let _law = learn(any, NetflixWindow::new(Vegas::new().max(MAX)));
} }

/// From any state that AIMD can be brought to, each healthy sample that meets the limit raises it, up to its maximum.
fn recover(any: &mut impl Any, backoff_for_good: bool) {
    let mut law = learn(any, Aimd::new(Duration::from_millis(100)).max(MAX));
    let mut now = Timestamp::from_nanos(1 << 63);
    for _ in 0..any.steps(60, 3) {
        let before = law.limit();
        now = now.after(Duration::from_secs(1));
        let outcome = if backoff_for_good { Outcome::Overload } else { Outcome::Success };
        law.on_sample(&Sample::new(now, Duration::from_millis(10), before, outcome));
        assert!(law.limit() > before || before == MAX, "a healthy sample at the limit {before} leaves it there");
    }
}

harness! { aimd_is_nowhere_for_good, unwind 5: |any| recover(any, false) }

#[cfg(test)]
#[test]
fn control_a_law_that_stays_at_its_floor_is_found() {
    crate::arbitrary_tests::finds(|any| recover(any, true));
}

/// A law as Netflix's was in Java, which keeps a NaN through its bounds: here it becomes a limit of zero.
#[derive(Debug)]
struct KeepsNan(f64);

impl LimitAlgorithm for KeepsNan {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "that is the mistake")]
    fn limit(&self) -> usize {
        self.0.clamp(1.0, MAX as f64) as usize
    }

    fn on_sample(&mut self, sample: &Sample) {
        let rtt = sample.rtt.map_or(0.0, |it| it.as_secs_f64());
        let (now, before) = (rtt, rtt);
        self.0 *= now / before;
    }
}

#[cfg(test)]
#[test]
fn control_a_law_that_keeps_a_nan_is_found() {
    crate::arbitrary_tests::finds(|any| {
        let _law = learn(any, KeepsNan(20.0));
    });
}
