use super::*;

/// What cohorts of requests of all kinds are judged to be, and after how many requests.
#[test]
fn what_a_cohort_says_is_what_is_kept() {
    let mut text = String::new();
    let mut state = 7_u64;
    let mut below = |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % bound
    };
    for number in 0..60_u32 {
        let usual = [0.0, 4e6, 1e7][number as usize % 3];
        let (older, wanted, hurry) = (number % 5 * 3, 10 + number % 7 * 8, number % 4 == 1);
        let opened = Timestamp::ZERO.after(Duration::from_millis(500));
        let mut cohort = Cohort::open(opened, older, wanted, hurry, usual, Rules::ALL);
        writeln!(text, "# usual {usual}, {older} older, {wanted} wanted{}", if hurry { ", in a hurry" } else { "" })
            .unwrap();
        let (limit, slow) = (8 + below(30), 1 + below(30));
        for step in 1..400_u64 {
            let end = opened.after(Duration::from_millis(step * 3));
            let rtt = Duration::from_micros(500 + below(6_000) * if below(8) == 0 { slow } else { 1 });
            let outcome = match below(12) {
                0 => Outcome::Overload,
                1..=3 if number % 6 == 5 => Outcome::Cancelled,
                1 => Outcome::Cancelled,
                _ if number % 10 == 9 => Outcome::Cancelled,
                _ => Outcome::Success,
            };
            let start = end.before(rtt);
            let mut sample = Sample::new(start, rtt, 1 + below(limit) as usize, outcome);
            (sample.end, sample.running, sample.refused) = (end, 1 + below(limit) as usize, below(9) == 0);
            if below(10) == 0 {
                sample.rtt = None;
            }
            if let Some(it) = cohort.add(&sample, limit as usize) {
                let numbers =
                    [it.concurrency, it.rtt, it.pace, it.answer, it.answered, it.at_least, it.scatter, it.samples];
                let parts = [it.saturation, it.refused, it.overloads].map(short);
                let (numbers, Point { finished, length, at, .. }) = (numbers.map(short), it);
                let is = (it.is_by_shares(), it.says_nothing(), it.drowns());
                writeln!(
                    text,
                    "{step}: {}; {}; {finished} {length:?} {at:?} {is:?}",
                    numbers.join(" "),
                    parts.join(" ")
                )
                .unwrap();
                break;
            }
        }
    }
    assert_kept("src/limit/path_tests/cohorts.txt", &text);
}

#[test]
fn a_cohort_whose_callers_leave_early_waits_for_those_that_stay() {
    // Not for ever: of 64 times as many as are wanted next to none stayed.
    for (hurry, early_ones, expected) in [(false, 1_000, 4), (true, 1_000, 1), (false, 1_024, 1)] {
        let mut cohort = Cohort::open(Timestamp::ZERO, 0, 16, hurry, 0.0, Rules::ALL);
        let early = Sample::new(Timestamp::ZERO, Duration::from_millis(10), 1, Outcome::Cancelled);
        let early = Sample { rtt: None, ..early };
        assert!((0..early_ones).all(|_| cohort.add(&early, 20).is_none()), "they say nothing");
        let answer = Sample::new(Timestamp::ZERO, Duration::from_millis(20), 1, Outcome::Success);
        let judged = (1..=16).find_map(|answers| cohort.add(&answer, 20).map(|point| (answers, point.finished)));
        assert_eq!(judged, Some((expected, expected)));
    }
}

/// Two servers are alike but for answers that have begun and hold slots of their own.
#[test]
fn slots_of_answers_that_have_begun_are_no_crowd_and_count_for_the_limit() {
    let judged = |slots: usize| {
        let mut cohort = Cohort::open(Timestamp::ZERO, 0, 20, false, 0.0, Rules::ALL);
        let sample = |left| {
            let sample = Sample::new(Timestamp::ZERO, RTT, left * slots, Outcome::Success);
            let answering = left * (slots - 1);
            Sample { running: left * slots, answering, ..sample }
        };
        let point = (1..=20).rev().find_map(|left| cohort.add(&sample(left), 40));
        point.expect("no request is waited for that was sampled before")
    };
    let all = |it: Point| [it.concurrency, it.rtt, it.pace, it.at_least, it.answer, it.samples, it.counted];
    let (none, begun) = (all(judged(1)), all(judged(2)));
    assert_eq!((&begun[..6], begun[6]), (&none[..6], 2.0 * none[6]));
}

/// What 2,000 cohorts say on average of a server that always has work in each slot, in parts of how long its requests take on average,
/// and the mean scatter that they see. How much requests scatter is `known`.
fn busy(slots: usize, known: f64, mut time: impl FnMut() -> f64) -> (f64, f64) {
    let opened = |now, usual| {
        let mut cohort = Cohort::open(now, u32::try_from(slots - 1).unwrap(), 60, false, usual, Rules::ALL);
        cohort.known_scatter = known;
        cohort
    };
    let mut running: Vec<_> = (0..slots).map(|_| (0.0, time())).collect();
    let (mut cohort, mut points, mut times) = (opened(Timestamp::ZERO, 0.0), vec![], vec![]);
    while points.len() < 2_000 {
        let next = running.iter_mut().min_by(|a, b| f64::total_cmp(&a.1, &b.1)).unwrap();
        let (start, end) = std::mem::replace(next, (next.1, next.1 + time()));
        let at = |seconds| Timestamp::ZERO.after(Duration::from_secs_f64(seconds));
        let mut sample = Sample::new(at(start), at(end).since(at(start)), slots, Outcome::Success);
        sample.end = at(end);
        times.push(end - start);
        if let Some(point) = cohort.add(&sample, slots) {
            cohort = opened(at(end), point.answer);
            points.push(point);
        }
    }
    let mean = |all: &mut dyn Iterator<Item = f64>| all.sum::<f64>() / 2_000.0;
    let taken = times.iter().sum::<f64>() / f64::from(u32::try_from(times.len()).unwrap());
    (mean(&mut points.iter().map(|it| it.rtt / 1e9 / taken)), mean(&mut points.iter().map(|it| it.scatter)))
}

/// Numbers between 0 and 1.
fn evenly() -> impl FnMut() -> f64 {
    let mut state = 7_u64;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(state >> 32).unwrap()) / 4_294_967_296.0
    }
}

/// A request of two that is as old as half of a cohort would be a slow one, and no request here is.
#[test]
fn requests_that_run_when_a_cohort_is_judged_are_taken_for_as_old_as_they_are() {
    for slots in [2, 3, 8, 20] {
        let mut any = evenly();
        let even = busy(slots, 0.0, || 0.03 + 0.04 * any());
        assert!((even.0 - 1.0).abs() < 0.01 && even.1 < 0.06, "{slots} slots: {even:?}");
        // A relative variance of 1; of many slots, some of the longest requests are in no cohort.
        let exponential = busy(slots, 0.0, || -0.05 * (1.0 - any()).ln());
        assert!((0.88..1.01).contains(&exponential.0) && exponential.1 < 1.0, "{slots} slots: {exponential:?}");
    }
}

/// One request in ten takes ten times as long as the others, so those that have finished are nearly all short.
#[test]
fn members_that_run_are_guessed_by_how_much_requests_are_known_to_scatter() {
    for slots in [40, 90, 200] {
        let judged = |known| {
            let mut any = evenly();
            busy(slots, known, || if any() < 0.1 { 0.05 } else { 0.005 }).0
        };
        assert!((0.5..0.65).contains(&judged(0.0)), "{slots} slots, by the finished ones: {}", judged(0.0));
        assert!((0.7..1.0).contains(&judged(2.0)), "{slots} slots, by what is known: {}", judged(2.0));
    }
}

#[test]
fn members_that_run_take_no_longer_than_callers_wait_and_those_of_an_alarm_are_guessed_by_their_like() {
    const RTT_NANOS: f64 = RTT.as_nanos() as f64;
    let judged = |wanted, patience, known| {
        let mut cohort = Cohort::open(Timestamp::ZERO, 0, wanted, true, 0.4 * RTT_NANOS, Rules::ALL);
        (cohort.patience, cohort.known_scatter) = (patience, known);
        let slow = |left| Sample { running: left, ..Sample::new(Timestamp::ZERO, RTT, 4_000, Outcome::Success) };
        let point = (1..=1_600).rev().find_map(|left| cohort.add(&slow(left), 4_000));
        point.expect("enough of them finish").rtt / RTT_NANOS
    };
    assert!((judged(1_000, f64::INFINITY, 0.0) - 1.0).abs() < 0.01);
    assert!(judged(1_000, f64::INFINITY, 4.0) > 1.5);
    assert!((judged(1_000, 2.0 * RTT_NANOS, 4.0) - 1.2).abs() < 0.01, "a fifth of them for twice as long");
    assert!((judged(10_000, f64::INFINITY, 4.0) - 1.0).abs() < 0.01, "of an alarm");
}
