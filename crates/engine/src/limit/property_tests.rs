//! What holds for every law: finite and in range whatever the samples are, and never stuck.

use std::time::Duration;

use proptest::prelude::*;

use super::{Aimd, Fixed, Gradient, Gradient2, LimitAlgorithm, NetflixWindow, Sample, TwoPoint, Vegas, Windowed};
use crate::{Outcome, Timestamp};

/// Laws that add one per window can't come further than this in 60 windows.
const MAX: usize = 50;

fn laws() -> Vec<Box<dyn LimitAlgorithm>> {
    let aimd = || Aimd::new(Duration::from_millis(100)).max(MAX);
    let gradient2 = || Gradient2::new().min(1).max(MAX);
    vec![
        Box::new(Fixed::new(20)),
        Box::new(aimd()),
        Box::new(aimd().stabilizing(true)),
        Box::new(Windowed::new(aimd())),
        Box::new(Windowed::new(aimd()).percentile(90.0)),
        Box::new(NetflixWindow::new(aimd())),
        Box::new(NetflixWindow::new(aimd()).percentile(90.0, 50)),
        Box::new(Vegas::new().max(MAX)),
        Box::new(Windowed::new(Vegas::new().max(MAX))),
        Box::new(gradient2()),
        Box::new(Windowed::new(gradient2().ignore_overloads(false))),
        Box::new(Gradient::new().max(MAX)),
        Box::new(TwoPoint::new().max(MAX)),
    ]
}

/// Durations and counts with a liking for the extremes.
fn extreme() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(u64::MAX / 2), 1u64..10_000_000_000, any::<u64>()]
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    prop_oneof![4 => Just(Outcome::Success), 1 => Just(Outcome::Overload), 1 => Just(Outcome::Cancelled)]
}

type Raw = (u64, u64, Option<u64>, u64, u64, Outcome);

fn samples() -> impl Strategy<Value = Vec<Raw>> {
    let sample = (extreme(), extreme(), prop::option::of(extreme()), extreme(), extreme(), outcomes());
    prop::collection::vec(sample, 0..300)
}

fn sample((start, end, rtt, in_flight, running, outcome): Raw) -> Sample {
    Sample {
        start: Timestamp::from_nanos(start),
        end: Timestamp::from_nanos(end),
        rtt: rtt.map(Duration::from_nanos),
        in_flight: usize::try_from(in_flight).unwrap_or(usize::MAX),
        running: usize::try_from(running).unwrap_or(usize::MAX),
        answering: usize::try_from(start ^ running).unwrap_or(usize::MAX),
        outcome,
        refused: false,
        weight: 1,
    }
}

/// Feeds a healthy server for so many windows of a second: as many requests as the limit allows, all of which take 20
/// ms, one round after the other. Returns the highest limit of the last tenth: a law may probe lower limits from time
/// to time.
fn be_healthy(law: &mut dyn LimitAlgorithm, from: Timestamp, windows: u64) -> usize {
    let rounds = windows * 50;
    let limits = (0..rounds).map(|round| {
        let start = from.after(Duration::from_millis(20 * round));
        let in_flight = law.limit();
        for running in (1..=in_flight).rev() {
            let sample = Sample::new(start, Duration::from_millis(20), in_flight, Outcome::Success);
            law.on_sample(&Sample { running, ..sample });
        }
        law.limit()
    });
    limits.collect::<Vec<_>>().into_iter().rev().take(usize::try_from(rounds / 10).unwrap()).max().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn limits_stay_in_range_whatever_the_samples_are(samples in samples()) {
        for mut law in laws() {
            for &raw in &samples {
                law.on_sample(&sample(raw));
                let limit = law.limit();
                prop_assert!((1..=MAX).contains(&limit), "{limit} of {law:?} after {raw:?}");
            }
        }
    }
}

/// From the state that a bad quarter of an hour leaves it in, each law finds back within 60 healthy windows.
#[test]
fn no_law_is_stuck_at_its_floor() {
    for mut law in laws() {
        let name = format!("{law:?}");
        let steady = {
            let mut fresh = laws().into_iter().find(|fresh| format!("{fresh:?}") == name).unwrap();
            be_healthy(&mut *fresh, Timestamp::ZERO, 400)
        };
        let mut now = Timestamp::ZERO;
        for i in 0..20_000u64 {
            now = now.after(Duration::from_millis(50));
            let outcome = if i % 3 == 0 { Outcome::Overload } else { Outcome::Success };
            let in_flight = law.limit();
            law.on_sample(&Sample::new(now, Duration::from_secs(1 + i % 5), in_flight, outcome));
        }
        let floor = law.limit();
        // A law that adds one per window needs as many windows as its limit has steps.
        let windows =
            if name.starts_with("Windowed { law: Aimd") || name.starts_with("NetflixWindow") { 220 } else { 60 };
        be_healthy(&mut *law, now.after(Duration::from_secs(10)), windows);
        let found = law.limit();
        assert!(found * 10 >= steady * 9, "from {floor} to {found} of {steady}: {name}");
    }
}
