use super::*;

/// Returns where a limit of 20 goes, if answers take `seconds` and `g` times as long as at half of it.
fn limit(patience: Option<Duration>, seconds: f64, g: f64) -> usize {
    let high = Point { saturation: 1.0, cohorts: 4, ..scattered(20.0, seconds, 400.0, 0.1) };
    let mut law = between(high, scattered(10.0, seconds / g, 400.0, 0.1), TwoPoint::new());
    law.note_patience(patience);
    law.steer(Timestamp::ZERO, None);
    law.limit()
}

#[test]
fn latency_that_callers_hardly_notice_is_no_reason_to_cut_and_a_throughput_that_falls_is() {
    let patience = Some(Duration::from_secs(1));
    for (seconds, g, is_cut) in [(0.09, 1.9, false), (0.11, 1.9, true), (0.09, 2.3, true), (0.09, 1.6, false)] {
        assert_eq!(limit(patience, seconds, g) < 20, is_cut, "{seconds} s, {g} times as long");
    }
    // The control: it is a reason where it is not known how long callers wait.
    assert!(limit(None, 0.09, 1.9) < 20);
    assert_eq!(limit(patience, 0.09, 1.2), limit(None, 0.09, 1.2), "a limit grows as ever");
}

/// A long request holds all of a limit of two or three, and then nothing is answered.
#[test]
fn a_limit_of_few_slots_grows_to_four_where_callers_do_not_notice() {
    let grows = |law: TwoPoint, seconds: f64, g: f64, saturation: f64| {
        let limit = law.limit;
        let high = Point { saturation, cohorts: 4, ..scattered(limit, seconds, 400.0, 0.1) };
        let mut law = between(high, scattered(limit / 2.0, seconds / g, 400.0, 0.1), law);
        law.note_patience(Some(Duration::from_secs(1)));
        law.steer(Timestamp::ZERO, None);
        law.limit > limit
    };
    let law = |limit| TwoPoint::new().initial(limit);
    for (limit, seconds, g, saturation, expected) in [
        (2, 0.01, 1.9, 1.0, true),
        (3, 0.06, 1.9, 1.0, true),
        (4, 0.01, 1.9, 1.0, false),
        (3, 0.07, 1.9, 1.0, false),
        (3, 0.01, 2.3, 1.0, false),
        (3, 0.01, 1.9, 0.2, false),
    ] {
        assert_eq!(
            grows(law(limit), seconds, g, saturation),
            expected,
            "{limit} slots, {seconds} s, {g}, {saturation}"
        );
    }
    assert!(!grows(law(2).without("dear").unwrap(), 0.01, 1.9, 1.0), "control");
}

#[test]
fn a_reload_without_patience_forgets_it_and_an_adopted_limit_does_not() {
    let mut law = TwoPoint::new();
    law.note_patience(Some(DEADLINE));
    law.adopt(40);
    assert!((law.curve.patience - 1e9).abs() < 1.0);
    law.note_patience(None);
    assert!(law.curve.patience <= 0.0);
}

/// Returns what becomes of a limit of 20 whose answers take `seconds` where the server alone takes 10 ms, and of which this part is late.
fn after_late(mut law: TwoPoint, seconds: f64, late: f64, grown_from: Option<f64>) -> usize {
    (law.curve.started, law.slow_start, law.grown_from) = (true, false, grown_from);
    law.curve.low = Some(point(10.0, seconds));
    (0..10).for_each(|_| law.curve.shown.learn(&point(10.0, 0.01)));
    let (nanos, answered) = (seconds * 1e9, 1.0 - late);
    let point = Point { late, answered, answer: nanos, rtt: nanos / answered, pace: nanos, ..point(20.0, seconds) };
    law.judge(point, None);
    law.limit()
}

#[test]
fn where_answers_are_slow_and_a_fifth_comes_too_late_the_limit_is_cut_however_flat_it_is() {
    let law = TwoPoint::new;
    assert_eq!(after_late(law(), 0.1, 0.25, None), 14);
    assert_eq!(after_late(law(), 0.1, 0.25, Some(17.0)), 17, "back to where it was");
    for (name, limit) in [
        ("few are late", after_late(law(), 0.1, 0.15, None)),
        ("the server is as fast as ever, so the wait in line was long", after_late(law(), 0.02, 0.25, None)),
        ("control", after_late(law().without("late").unwrap(), 0.1, 0.25, None)),
    ] {
        assert!(limit >= 20, "{name}: {limit}");
    }
}

#[test]
fn a_request_that_took_most_of_the_patience_is_late_and_one_that_left_sooner_is_not() {
    let late = |patience: Option<Duration>, millis| {
        let mut law = TwoPoint { curve: STARTED, ..TwoPoint::new() };
        law.note_patience(patience);
        let mut cohort = law.open(Timestamp::ZERO, true);
        let ends = |millis| Sample::new(Timestamp::ZERO, Duration::from_millis(millis), 2, Outcome::Cancelled);
        let answered = Sample { outcome: Outcome::Success, ..ends(10) };
        let samples = (0..100).flat_map(|_| [answered.clone(), ends(millis)]);
        let point = samples.into_iter().find_map(|sample| cohort.add(&sample, 20)).expect("a cohort ends");
        (point.late * 100.0).round()
    };
    let second = Some(Duration::from_secs(1));
    assert!(late(second, 800) >= 50.0);
    assert_eq!([late(second, 700), late(None, 800)], [0.0, 0.0]);
}
