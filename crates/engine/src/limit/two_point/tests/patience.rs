use super::*;

/// Returns where a limit of 20 goes, if answers take `seconds` and `g` times as long as at half of it.
fn limit(patience: Option<Duration>, seconds: f64, g: f64) -> usize {
    let high = Point { saturation: 1.0, cohorts: 4, ..scattered(20.0, seconds, 400.0, 0.1) };
    let low = Some(scattered(10.0, seconds / g, 400.0, 0.1));
    let mut law = TwoPoint { started: true, high: Some(high), low, ..TwoPoint::new() };
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
        let low = Some(scattered(limit / 2.0, seconds / g, 400.0, 0.1));
        let mut law = TwoPoint { started: true, high: Some(high), low, ..law };
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
    assert!((law.patience - 1e9).abs() < 1.0);
    law.note_patience(None);
    assert!(law.patience <= 0.0);
}
