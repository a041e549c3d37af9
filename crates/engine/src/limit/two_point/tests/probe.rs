//! Probes, and how much requests scatter, from which it follows how long a probe takes.

use super::{
    super::{point::Scatter, probe, silence::Fall},
    *,
};

/// Half of 2.1, rounded up, is a limit of 2 itself, and a probe there tells nothing: the law would probe for ever.
#[test]
fn a_probe_is_always_below_the_limit() {
    for (limit, ran, half) in
        [(2.4, 2.1, 1.0), (2.0, 6.0, 1.0), (3.0, 3.0, 2.0), (3.9, 9.0, 2.0), (10.0, 9.6, 5.0), (10.0, 40.0, 5.0)]
    {
        assert_eq!(probe::limit(limit, Some(&point(ran, 0.1))), half, "{limit}, {ran}");
    }
}

/// Of the two forms of the variance the smaller counts: a delay of nine times the work leaves a hundredth of the relative one.
#[test]
fn scatter_is_that_of_late_whether_all_became_slower_in_proportion_or_by_the_same_time() {
    let relative = |seconds: f64, scatter: f64, rules: Rules| {
        let mut law = Scatter::NONE;
        law.learn(&scattered(8.0, 0.1, 32.0, 1.0), false, rules);
        law.learn(&scattered(8.0, seconds, 32.0, scatter), seconds > 0.3, rules);
        (law.of_late * 1e4).round() / 1e4
    };
    assert_eq!(relative(0.1, 0.2, Rules::ALL), 0.98, "it is remembered");
    assert_eq!(relative(1.0, 0.0, Rules::ALL), 0.0098, "all take longer by the same time");
    assert_eq!(relative(1.0, 1.0, Rules::ALL), 1.0, "all take longer in proportion");
    assert_eq!(relative(0.01, 0.5, Rules::ALL), 0.98, "and shorter");
    assert_eq!(relative(0.1, 0.2, Rules::ALL.without("scatter").unwrap()), 0.2, "control");
}

/// A probe of slow answers makes do with those that run, so that it takes about one of them.
#[test]
fn a_probe_is_in_a_hurry_where_answers_became_slow() {
    let ends_after = |seconds: f64| {
        let mut law = TwoPoint::new().initial(40);
        law.curve.learn(&point(20.0, 0.1));
        law.curve.learn(&point(40.0, seconds));
        law.probe(Timestamp::ZERO);
        let rtt = Duration::from_secs_f64(seconds);
        let ends = (1..100).find(|_| {
            law.on_sample(&Sample { running: 20, ..Sample::new(Timestamp::ZERO, rtt, 20, Outcome::Success) });
            law.probing_since.is_none()
        });
        ends.unwrap()
    };
    assert_eq!((ends_after(0.2), ends_after(1.0)), (28, 16));
}

/// A probe at a limit that fell may end after more quick answers than an `i8` counts.
#[test]
fn quick_answers_open_no_slot_during_a_probe_however_many_come() {
    let fall = Some(Fall { from: 4_000.0, at: Timestamp::ZERO, quick: 0 });
    let silence = Silence { fall, ..Silence::NONE };
    let mut law = TwoPoint { probing_since: Some(Timestamp::ZERO), silence, ..TwoPoint::new().initial(400) };
    law.curve.shown.learn(&point(10.0, 0.02));
    (0..1_000).for_each(|_| law.hear(&Sample::new(Timestamp::ZERO, RTT, 200, Outcome::Success)));
    assert_eq!(law.limit, 400.0);
    law.probing_since = None;
    law.hear(&Sample::new(Timestamp::ZERO, RTT, 200, Outcome::Success));
    assert_eq!(law.limit, 401.0);
}
