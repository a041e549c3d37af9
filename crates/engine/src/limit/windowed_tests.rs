use super::*;
use crate::limit::Aimd;

const MS: u64 = 1_000_000;

/// Feeds one sample that ends at `end` ms after `rtt` ms.
fn feed<L: LimitAlgorithm>(law: &mut Windowed<L>, end: u64, rtt: u64, outcome: Outcome) -> usize {
    feed_for(law, end, rtt, outcome, 1)
}

/// The same where the sample stands for `weight` requests.
fn feed_for<L: LimitAlgorithm>(law: &mut Windowed<L>, end: u64, rtt: u64, outcome: Outcome, weight: u32) -> usize {
    law.on_sample(&Sample {
        start: Timestamp::from_nanos((end - rtt) * MS),
        end: Timestamp::from_nanos(end * MS),
        rtt: Some(Duration::from_millis(rtt)),
        in_flight: 1_000,
        running: 1_000,
        answering: 0,
        outcome,
        refused: false,
        weight,
    });
    law.limit()
}

fn law() -> Windowed<Aimd> {
    Windowed::new(Aimd::new(Duration::from_millis(100)).initial(100))
}

#[test]
fn forty_slow_answers_in_one_burst_are_one_decrease() {
    let mut law = law();
    for i in 0..40 {
        feed(&mut law, 1_000 + i, 500, Outcome::Success);
    }
    assert_eq!(feed(&mut law, 2_100, 500, Outcome::Success), 90);
    // The rest of the burst started before the cut: it says nothing about the limit after it.
    for i in 0..2_000 {
        assert_eq!(feed(&mut law, 2_101 + i / 10, 500, Outcome::Success), 90);
    }
}

#[test]
fn bare_the_same_burst_goes_to_the_floor() {
    let mut law = Aimd::new(Duration::from_millis(100)).initial(100);
    for _ in 0..60 {
        law.on_sample(&Sample::new(Timestamp::ZERO, Duration::from_millis(500), 100, Outcome::Success));
    }
    assert_eq!(law.limit(), 1);
}

#[test]
fn a_window_needs_both_time_and_samples() {
    let mut law = law();
    for end in [0, 200, 400, 600, 800, 1_000, 1_200, 1_400, 1_600] {
        assert_eq!(feed(&mut law, 10 + end, 10, Outcome::Success), 100, "9 samples over 1.6 s");
    }
    assert_eq!(feed(&mut law, 1_810, 10, Outcome::Success), 101, "the tenth");
    for i in 0..99 {
        assert_eq!(feed(&mut law, 1_820 + i * 10, 10, Outcome::Success), 101, "99 samples within 1 s");
    }
}

#[test]
fn low_traffic_still_closes_windows_by_age_and_forgets_what_is_stale() {
    let mut law = law();
    for end in [0, 4, 8] {
        feed(&mut law, 1_000 * end + 10, 10, Outcome::Success);
    }
    assert_eq!(feed(&mut law, 12_010, 10, Outcome::Success), 101, "three samples, closed when the fourth came");
    assert_eq!(feed(&mut law, 60_000, 10, Outcome::Success), 101, "the fourth alone was 48 s old: forgotten");
}

/// Of a thousand requests a second one in a hundred is an overload, and one in eight is timed: overloads bring a sample each.
#[test]
fn overloads_are_weighed_against_all_requests_and_not_against_the_timed_ones() {
    let limit_with = |weight| {
        let mut law = law();
        for request in 0..4_000 {
            if request % 100 == 50 {
                feed_for(&mut law, 1_000 + request, 10, Outcome::Overload, 1);
            } else if request % 8 == 0 {
                feed_for(&mut law, 1_000 + request, 10, Outcome::Success, weight);
            }
        }
        law.limit()
    };
    assert!(limit_with(8) >= 100, "1 % of overloads is less than 5 %: {}", limit_with(8));
    assert!(limit_with(1) <= 80, "control: 1 in 13 samples is an overload: {}", limit_with(1));
}

#[test]
fn a_window_asks_for_one_in_eight_once_its_mean_is_known() {
    let one_in = |law: &Windowed<Aimd>, asked| law.time_one_in(NonZeroU32::new(asked)).get();
    let mut law = law();
    for request in 0..127 {
        feed(&mut law, 1_000 + request, 10, Outcome::Success);
        assert_eq!(one_in(&law, 0), 1, "after {request}");
    }
    feed(&mut law, 1_127, 10, Outcome::Success);
    assert_eq!((one_in(&law, 0), one_in(&law, 1), one_in(&law, 2)), (8, 1, 2), "what is asked for holds");
    feed(&mut law, 1_128, 10, Outcome::Overload);
    assert_eq!(one_in(&law, 0), 1, "after an overload");
    feed(&mut law, 2_001, 10, Outcome::Success);
    assert_eq!(one_in(&law, 0), 1, "a new window");
    let mut by_percentile = Windowed::new(Aimd::new(Duration::from_millis(100))).percentile(90.0);
    (0..500).for_each(|request| {
        feed(&mut by_percentile, 1_000 + request, 10, Outcome::Success);
    });
    assert_eq!(one_in(&by_percentile, 0), 1, "a percentile takes all times");
}

/// 4,000 requests in a second, each slower than the one before: 10 ms the first, 210 ms the last.
#[test]
fn one_in_eight_finds_the_mean_of_all() {
    let mean_with = |weight, adapts: bool| {
        let mut law = law();
        for request in 0..4_004_u64 {
            let timed = !adapts || law.time_one_in(None).get() == 1 || request % 8 == 0;
            let weight = if request < 128 { 1 } else { weight };
            if timed {
                feed_for(&mut law, 1_000 + request / 4, 10 + request / 20, Outcome::Success, weight);
            }
        }
        law.inputs().rtt_seconds().unwrap()
    };
    let (all, adaptive, unweighted) = (mean_with(1, false), mean_with(8, true), mean_with(1, true));
    assert!((all - 0.110).abs() < 0.001, "{all}");
    assert!((adaptive / all - 1.0).abs() < 0.01, "{adaptive} of {all}");
    assert!(unweighted / all < 0.85, "control: the first 128 count for more than they are: {unweighted}");
}

#[test]
fn a_few_overloads_are_tolerated_and_many_are_not() {
    for (overloads, expected) in [(4, 101), (5, 90)] {
        let mut law = law();
        for i in 0..99 {
            let outcome = if i < overloads { Outcome::Overload } else { Outcome::Success };
            feed(&mut law, 1_000 + i * 10, 10, outcome);
        }
        assert_eq!(feed(&mut law, 2_000, 10, Outcome::Success), expected, "{overloads} of 100");
    }
}

#[test]
fn clients_that_gave_up_late_count_and_clients_that_gave_up_early_do_not() {
    let mut slow = law();
    let mut fast = law();
    for i in 0..11 {
        feed(&mut slow, 5_000 + i * 100, 4_000, Outcome::Cancelled);
        feed(&mut fast, 5_000 + i * 100, 5, if i % 2 == 0 { Outcome::Cancelled } else { Outcome::Success });
    }
    assert_eq!(slow.limit(), 90, "a server too slow for its clients is not idle");
    assert_eq!(fast.limit(), 101);
}

#[test]
fn clients_that_gave_up_without_a_time_are_in_no_window() {
    for (timed, expected) in [(true, 90), (false, 100)] {
        let mut law = law();
        for i in 0..11 {
            let mut sample = Sample::new(
                Timestamp::from_nanos((5_000 + i * 100) * MS),
                Duration::from_secs(4),
                1_000,
                Outcome::Cancelled,
            );
            sample.rtt = sample.rtt.filter(|_| timed);
            law.on_sample(&sample);
        }
        assert_eq!(law.limit(), expected, "timed: {timed}");
    }
}

#[test]
fn percentiles_are_exact_up_to_the_kept_values_and_even_beyond() {
    let mut few = Thinned::new(1_024);
    (1..=1_000).rev().for_each(|value| few.push(value));
    assert_eq!([50.0, 90.0, 99.0, 100.0].map(|p| few.percentile(p)), [500, 900, 990, 1_000]);
    let mut many = Thinned::new(1_024);
    (1..=1_000_000).for_each(|value| many.push(value));
    let p90 = many.percentile(90.0);
    assert!((890_000..=910_000).contains(&p90), "{p90}");
    assert!(many.values.len() <= 1_024);
}
