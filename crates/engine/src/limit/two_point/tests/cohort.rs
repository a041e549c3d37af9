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
        let habit =
            Habit { answer: [0.0, 4e6, 1e7][number as usize % 3], scatter: [0.1, 0.5, 1.4, 3.0][number as usize % 4] };
        let (older, wanted, hurry) = (number % 5 * 3, 10 + number % 7 * 8, number % 4 == 1);
        let opened = Timestamp::ZERO.after(Duration::from_millis(500));
        let mut cohort = Cohort::open(opened, older, wanted, hurry, habit, Rules::ALL);
        writeln!(text, "# {habit:?}, {older} older, {wanted} wanted{}", if hurry { ", in a hurry" } else { "" })
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
        let mut cohort = Cohort::open(Timestamp::ZERO, 0, 16, hurry, Habit::default(), Rules::ALL);
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
        let mut cohort = Cohort::open(Timestamp::ZERO, 0, 20, false, Habit::default(), Rules::ALL);
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
