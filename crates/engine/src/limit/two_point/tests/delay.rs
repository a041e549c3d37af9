use super::*;

/// A server that congests, behind a delay of eight times what a request takes there.
fn behind_a_delay(crowd: f64) -> Point {
    let (alone, knee, delay) = (0.01, 100.0, 0.08);
    let inside = alone * (1.0 + (crowd / knee).powi(2));
    point(crowd * (inside + delay) / inside, inside + delay)
}

#[test]
fn a_delay_is_left_out_of_the_comparison() {
    // Of 500 under way a hundred are in the server, and of half as many thirty.
    let (high, low) = (behind_a_delay(100.0), behind_a_delay(30.0));
    let plain = Comparison::new(&high, &low, 0.0);
    assert!(plain.g < 1.15, "at its best limit the law would double: {plain:?}");
    let mut shown = Shown::NOTHING;
    shown.learn(&point(30.0, 0.0109));
    let delay = shown.delay(&high, &low, &plain, 1.5).expect("seven times slower than it was alone");
    let (inside, below) = delay.inside(&high, &low);
    let g = Comparison::new(&inside, &below, 0.0).g;
    assert!((1.35..1.55).contains(&g), "as crowded as without the delay: {g}");
    // What is on its way doesn't grow with the crowd.
    let growth = delay.growth(2.0);
    assert!((1.05..1.3).contains(&growth), "twice the crowd is hardly more throughput: {growth}");
}

#[test]
fn a_server_that_became_slower_by_itself_has_no_delay() {
    let mut shown = Shown::NOTHING;
    shown.learn(&point(50.0, 0.0125));
    let slow = |crowd: f64| point(crowd, 0.1);
    let (high, low) = (slow(100.0), slow(50.0));
    let plain = Comparison::new(&high, &low, 0.0);
    assert!(shown.delay(&high, &low, &plain, 1.5).is_none(), "its throughput fell to a quarter");
    let (high, low) = (point(100.0, 0.024), point(50.0, 0.0125));
    let plain = Comparison::new(&high, &low, 0.0);
    assert!(shown.delay(&high, &low, &plain, 1.5).is_none(), "crowded, and as fast as ever");
}

#[test]
fn starts_are_spread_behind_a_delay_and_not_on_a_server_that_became_slower() {
    let pacing = |law: TwoPoint, scatter: f64, then: f64, seconds: f64| {
        let alone = scattered(10.0, 0.01, 100.0, scatter);
        let low = scattered(10.0, seconds, 100.0, then);
        let curve = Curve { started: true, usual: seconds * 1e9, low: Some(low), ..law.curve };
        let mut law = TwoPoint { curve, ..law };
        (0..10).for_each(|_| law.curve.shown.learn(&alone));
        law.steer(Timestamp::ZERO, None);
        law.pacing()
    };
    let law = TwoPoint::new;
    // 15 of 100 ms are no delay, and 20 slots bring an answer each 4.25 ms of the rest.
    let spread = Duration::from_micros(2_833);
    let pacing_of =
        |scatter, then, seconds| Duration::from_micros(pacing(law(), scatter, then, seconds).as_micros() as u64);
    assert_eq!(pacing_of(0.5, 0.005, 0.1), spread, "all take longer by the same time");
    assert_eq!(pacing_of(0.5, 0.5, 0.1), Duration::ZERO, "ten times as slow, and so is their scatter");
    assert_eq!(pacing_of(0.01, 0.01, 0.1), spread, "requests that hardly scatter don't tell");
    assert_eq!(pacing_of(0.5, 0.05, 0.025), Duration::ZERO, "a little slower");
    assert_eq!(pacing(law().without("pace").unwrap(), 0.5, 0.005, 0.1), Duration::ZERO, "control");
    // Of two slots the law would hear next to nothing for as long as a delay that is over.
    let floods_none = pacing(law().initial(2), 0.5, 0.0, 5.0);
    assert_eq!(floods_none.as_millis(), 10, "as long as the server alone takes");
}

/// A law at `limit` behind a delay of 90 ms, whose server has shown 3,000 answers a second.
fn delayed(limit: f64) -> TwoPoint {
    let curve = Curve { low: Some(point(limit * 0.9, 0.1)), is_delayed: true, ..Curve::UNKNOWN };
    let mut law = TwoPoint { limit, curve, ..TwoPoint::new() };
    (0..10).for_each(|_| law.curve.shown.learn(&point(30.0, 0.01)));
    law
}

/// The same, but for this change of what it knows.
fn with(change: impl FnOnce(&mut Curve), limit: f64) -> TwoPoint {
    let mut law = delayed(limit);
    change(&mut law.curve);
    law
}

#[test]
fn whatever_the_limit_grows_for_it_grows_no_further_than_the_server_has_shown() {
    let grown = |mut law: TwoPoint, factor: f64| {
        law.curve.high = Some(point(law.limit, 0.1));
        law.grow(factor, Timestamp::ZERO);
        law.limit()
    };
    let limits = [(400.0, 1.5), (200.0, 1.5), (200.0, 1.2)].map(|(limit, factor)| grown(delayed(limit), factor));
    assert_eq!(limits, [459, 270, 240], "by a small step, as far as was shown, as far as is wanted");
    assert_eq!(grown(delayed(400.0).without("shown").unwrap(), 1.5), 600, "control");
    assert_eq!(grown(with(|curve| curve.low = Some(point(360.0, 0.01)), 400.0), 1.5), 600, "no delay");
    assert_eq!(grown(with(|curve| curve.shown = Shown::NOTHING, 400.0), 1.5), 600, "few cohorts may be luck");
    // Room for requests that meet the limit by chance, before there was anything to compare with and afterwards.
    for started in [false, true] {
        let mut law = with(|curve| curve.started = started, 400.0);
        law.judge(Point { saturation: 0.1, finished: 100, ..point(380.0, 0.1) }, None);
        assert_eq!(law.limit(), 459);
    }
}

#[test]
fn a_limit_that_drowns_behind_a_delay_falls_to_what_brought_answers_and_then_to_an_eighth() {
    let drowned = |law: &mut TwoPoint| {
        law.drowned(Timestamp::ZERO);
        law.limit()
    };
    let mut law = delayed(600.0);
    assert_eq!([drowned(&mut law), drowned(&mut law)], [270, 33]);
    let bounds = [300.0, 8_000.0].map(|limit| drowned(&mut delayed(limit)));
    assert_eq!(bounds, [210, 1_000], "as much as where answers are late, at least, and an eighth at the most");
    assert_eq!(drowned(&mut with(|curve| curve.is_delayed = false, 600.0)), 75, "control");
}
