#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cohort;
mod culprit;
mod delay;
mod patience;
mod probe;
mod streams;

use std::{fmt::Write as _, time::Duration};

use super::{
    super::{LimitAlgorithm, Sample},
    TwoPoint,
    cohort::Cohort,
    curve::Curve,
    point::{Comparison, Point},
    rules::Rules,
    silence::Silence,
    space::Shown,
};
use crate::{Outcome, Timestamp, kept_tests::assert_kept};

const RTT: Duration = Duration::from_millis(20);
const DEADLINE: Duration = Duration::from_secs(1);

/// A law, and a server that runs as many requests as it allows, one round after the other.
struct Server {
    law: TwoPoint,
    now: Timestamp,
}

impl Server {
    fn new(law: TwoPoint) -> Self {
        Self { law, now: Timestamp::ZERO }
    }

    /// Runs a round of requests that all take this long and end like this; returns the limit.
    fn round(&mut self, rtt: Duration, outcome: Outcome) -> usize {
        let limit = self.law.limit();
        for left in (1..=limit).rev() {
            let mut sample = Sample::new(self.now, rtt, limit, outcome);
            sample.running = left;
            self.law.on_sample(&sample);
        }
        self.now = self.now.after(rtt);
        self.law.limit()
    }

    fn rounds(&mut self, count: usize) -> Vec<usize> {
        (0..count).map(|_| self.round(RTT, Outcome::Success)).collect()
    }
}

#[test]
fn it_doubles_while_latency_stays() {
    let limits = Server::new(TwoPoint::new()).rounds(20);
    assert!(*limits.last().unwrap() >= 640, "{limits:?}");
}

#[test]
fn it_goes_on_from_what_it_adopts_and_asks_before_it_grows() {
    let mut server = Server::new(TwoPoint::new().max(100));
    server.law.adopt(60);
    assert_eq!(server.law.limit(), 60);
    let limits = server.rounds(20);
    let changed = limits.iter().find(|&&limit| limit != 60).unwrap();
    assert!(*changed <= 30, "a probe comes first: {limits:?}");
    server.law.adopt(500);
    assert_eq!(server.law.limit(), 100, "within its own range");
}

#[test]
fn a_limit_that_brings_nothing_is_left_at_once_and_found_again() {
    let mut server = Server::new(TwoPoint::new().max(160));
    assert_eq!(server.rounds(10).last(), Some(&160));
    // All clients give up, at the limit and at half of it.
    let limits: Vec<_> = (0..3).map(|_| server.round(DEADLINE, Outcome::Cancelled)).collect();
    assert!(limits[1] <= 20 && limits[2] <= 3, "{limits:?}");
    let limits = server.rounds(80);
    assert!(*limits.last().unwrap() >= 80, "{limits:?}");
}

#[test]
fn a_server_that_became_faster_during_a_probe_is_not_cut_to_nothing() {
    let mut server = Server::new(TwoPoint::new());
    server.law.adopt(40);
    let probes = (0..10).any(|_| server.round(DEADLINE, Outcome::Success) < 40);
    assert!(probes, "it compares with half as many");
    let limits = server.rounds(3);
    // Three eighths of it, or half of that in the next probe.
    assert!(limits.iter().all(|&limit| limit >= 7), "no crowd makes it fifty times as slow: {limits:?}");
}

/// Requests one after the other for ten seconds, and then a burst.
#[test]
fn requests_of_a_burst_are_not_taken_for_older_than_the_burst() {
    let at = |millis| Timestamp::ZERO.after(Duration::from_millis(millis));
    let mut cohort = Cohort::open(at(0), 0, 200, false, 2e7, Rules::ALL);
    for number in 0..199 {
        let mut sample = Sample::new(at(number * 50), RTT, 1, Outcome::Success);
        sample.running = 1;
        assert!(cohort.add(&sample, 100).is_none());
    }
    let of_the_burst = |left| {
        let mut sample = Sample::new(at(10_000), RTT * 2, 20, Outcome::Success);
        sample.running = left;
        sample
    };
    let point = (1..=20).rev().find_map(|left| cohort.add(&of_the_burst(left), 100)).expect("it is complete");
    assert!(point.rtt < 50e6, "{} ms, and nobody took longer than 40", point.rtt / 1e6);
}

#[test]
fn an_alarm_ends_a_cohort_that_is_in_a_hurry() {
    let mut cohort = Cohort::open(Timestamp::ZERO, 0, 1_000, true, 2e7, Rules::ALL);
    let slow = |left| {
        let mut sample = Sample::new(Timestamp::ZERO, RTT * 10, 40, Outcome::Success);
        sample.running = left;
        sample
    };
    let point = (1..=40).rev().find_map(|left| cohort.add(&slow(left), 40));
    assert!(point.is_some(), "ten times slower than usual, in all of 40 requests");
}

/// Where so many run and take so long.
fn point(concurrency: f64, seconds: f64) -> Point {
    let mut cohort = Cohort::open(Timestamp::ZERO, 0, 1, false, 0.0, Rules::ALL);
    let mut sample = Sample::new(Timestamp::ZERO, Duration::from_secs_f64(seconds), 1, Outcome::Success);
    sample.running = 1;
    Point { concurrency, counted: concurrency, ..cohort.add(&sample, 1).unwrap() }
}

/// A point of so many samples, whose requests scatter by this relative variance.
fn scattered(concurrency: f64, seconds: f64, samples: f64, scatter: f64) -> Point {
    Point { samples, scatter, ..point(concurrency, seconds) }
}

const STARTED: Curve = Curve { started: true, ..Curve::UNKNOWN };

/// A law that knows both points.
fn between(high: Point, low: Point, law: TwoPoint) -> TwoPoint {
    TwoPoint { curve: Curve { started: true, high: Some(high), low: Some(low), ..law.curve }, ..law }
}

/// How much requests scattered while a server fell says nothing of how much they do afterwards.
#[test]
fn a_law_that_drowned_begins_with_few_samples() {
    let fallen = || {
        let mut law = TwoPoint { curve: STARTED, ..TwoPoint::new().initial(40) };
        law.curve.learn(&scattered(40.0, 0.01, 100.0, 5.0));
        law
    };
    let mut law = fallen();
    let wanted = |law: &TwoPoint| law.curve.wanted(law.limit());
    assert_eq!(wanted(&law), 100, "control");
    law.drowned(Timestamp::ZERO);
    assert_eq!((law.limit(), wanted(&law)), (5, 16));
    let silent = |law: &mut TwoPoint| {
        let mut sample = Sample::new(Timestamp::ZERO, DEADLINE, 40, Outcome::Cancelled);
        sample.running = 40;
        law.hear(&sample);
    };
    let mut law = TwoPoint { silence: Silence { limit: 40.0, ..Silence::NONE }, ..fallen() };
    (0..39).for_each(|_| silent(&mut law));
    assert_eq!((law.limit(), wanted(&law)), (6, 100), "slots that are not given again are no beginning");
    silent(&mut law);
    assert_eq!((law.limit(), wanted(&law)), (5, 16));
    assert_eq!(law.ceiling, Some((40.0, Timestamp::ZERO.after(DEADLINE))), "that is where the fall began");
}

/// Where the lower point says too little for a step, the limit does not stay for ever.
#[test]
fn a_limit_that_stood_for_long_is_tried_higher_where_the_points_are_unsure() {
    let is_raised = |law: TwoPoint, cohorts: u32, scatter: f64| {
        let high = Point { cohorts, saturation: 1.0, ..scattered(2.0, 0.06, 32.0, scatter) };
        let low = scattered(1.0, 0.04, 32.0, scatter);
        let mut law = between(high, low, law.initial(2));
        law.steer(Timestamp::ZERO, None);
        law.limit() > 2
    };
    assert!(is_raised(TwoPoint::new(), 16, 2.0));
    assert!(!is_raised(TwoPoint::new(), 15, 2.0), "not for long");
    assert!(!is_raised(TwoPoint::new(), 16, 0.2), "it is sure that 2 is right");
    assert!(!is_raised(TwoPoint::new().without("doubt").unwrap(), 16, 2.0), "control");
}

/// What goes on in a server that fell silent is joined by no more, also where a few are answered.
#[test]
fn a_slot_that_is_left_is_not_given_again_while_few_requests_are_answered() {
    let left = |law: TwoPoint, limit: usize, leave: usize, answered_in: usize| {
        let mut server = Server::new(law.max(limit));
        let is_full = (0..20).any(|_| server.round(RTT, Outcome::Success) == limit && server.law.curve.usual > 0.0);
        assert!(is_full, "there were answers");
        let mut end = |rtt: Duration, outcome| {
            let mut sample = Sample::new(server.now, rtt, limit, outcome);
            sample.running = limit;
            server.law.hear(&sample);
        };
        for number in 1..=leave {
            end(DEADLINE, Outcome::Cancelled);
            if number % answered_in == 0 {
                end(RTT, Outcome::Success);
            }
        }
        server.law.limit()
    };
    let never = usize::MAX;
    assert_eq!(left(TwoPoint::new(), 40, 11, never), 34, "all but five");
    assert_eq!(left(TwoPoint::new(), 40, 100, never), 5, "an eighth is left, to hear whether there are answers again");
    assert_eq!(left(TwoPoint::new(), 40, 12, 4), 36, "a fifth is answered");
    assert_eq!(left(TwoPoint::new(), 40, 100, 2), 40, "a third is answered");
    assert_eq!(left(TwoPoint::new().without("silence").unwrap(), 40, 11, never), 40, "control");
    assert_eq!(left(TwoPoint::new(), 7, 5, never), 7, "the silence of a few is chance");
    assert_eq!(left(TwoPoint::new(), 7, 100, never), 1, "below that a law can only pause");
    assert_eq!(
        left(TwoPoint { curve: Curve { is_delayed: true, ..Curve::UNKNOWN }, ..TwoPoint::new() }, 40, 11, never),
        40,
        "a burst of a delay ago"
    );
}

/// An answer that takes hardly longer than the server alone says that there is no crowd.
#[test]
fn quick_answers_open_what_a_fall_closed() {
    let opened = |law: TwoPoint, answers: &[Duration]| {
        let mut server = Server::new(law.max(40));
        assert!(
            (0..20).any(|_| server.round(RTT, Outcome::Success) == 40 && server.law.curve.usual > 0.0),
            "there were answers"
        );
        let mut end = |start: Timestamp, rtt: Duration, outcome| {
            server.law.hear(&Sample { running: 40, ..Sample::new(start, rtt, 40, outcome) });
            server.law.limit()
        };
        let begin = server.now;
        let fallen = (0..40).map(|_| end(begin, DEADLINE, Outcome::Cancelled)).last();
        assert_eq!(fallen, Some(5));
        assert_eq!(end(begin, RTT, Outcome::Success), 5, "it started before the fall");
        let after = begin.after(DEADLINE);
        answers.iter().map(|&rtt| end(after, rtt, Outcome::Success)).last().unwrap()
    };
    let slow = RTT * 2;
    assert_eq!(opened(TwoPoint::new(), &[RTT; 3]), 8, "a slot for each");
    assert_eq!(opened(TwoPoint::new(), &[RTT; 100]), 40, "as many as there were");
    assert_eq!(opened(TwoPoint::new(), &[slow; 100]), 5, "there is a crowd");
    assert_eq!(opened(TwoPoint::new(), &[RTT, slow, RTT, RTT, slow, RTT]), 7, "a slow one outweighs a quick one");
    let [all, enough] =
        [4, 5].map(|quick| opened(TwoPoint::new(), &[[slow; 100].as_slice(), &[RTT; 5][..quick]].concat()));
    assert_eq!((all, enough), (5, 6), "four slow ones are all that count");
    assert_eq!(opened(TwoPoint::new().without("reopen").unwrap(), &[RTT; 100]), 5, "control");
}

/// What meets the limit for the first time when the server falls is no reason to let more run.
#[test]
fn it_does_not_double_where_as_many_requests_take_far_longer() {
    for (seconds, limit) in [(0.1, 40), (0.2, 20), (1.0, 20)] {
        let mut law = TwoPoint::new();
        law.judge(Point { saturation: 0.0, ..point(7.4, 0.1) }, None);
        law.judge(Point { saturation: 0.2, ..point(7.0, seconds) }, None);
        assert_eq!(law.limit(), limit, "{seconds}");
    }
}

#[test]
fn a_cut_takes_more_evidence_the_more_requests_scatter() {
    let doubled = |samples, scatter| {
        let (high, low) = (scattered(40.0, 0.2, samples, scatter), scattered(20.0, 0.1, samples, scatter));
        Comparison::new(&high, &low, scatter)
    };
    // Latency that doubles in truth: g is 2, and 1.7 is a sixth below it.
    assert!(doubled(100.0, 0.1).is_above(1.7, 2.0), "regular requests");
    assert!(!doubled(100.0, 5.0).is_above(1.7, 2.0), "two means of such requests differ by a half now and then");
    assert!(!doubled(100.0, 1.0).is_above(1.7, 2.0) && doubled(100.0, 1.0).is_above(1.7, 0.6), "0.6 errors cut here");
    assert!(doubled(10_000.0, 5.0).is_above(1.7, 2.0), "enough of them tell");
}

/// Feeds cohorts of a crowded server whose requests never meet the limit, because shares of it are capped.
fn crowded_below_the_limit(law: TwoPoint, refused: bool) -> usize {
    let mut law = law.initial(80);
    law.adopt(80);
    let mut now = Timestamp::ZERO;
    for _ in 0..400 {
        // Half of the limit is what the caps let in; 10 workers serve them.
        let running = law.limit().div_ceil(2);
        let rtt = RTT * u32::try_from(running.max(10)).unwrap() / 10;
        for left in (1..=running).rev() {
            law.on_sample(&Sample { running: left, refused, ..Sample::new(now, rtt, running, Outcome::Success) });
        }
        now = now.after(rtt);
    }
    law.limit()
}

#[test]
fn caps_that_hold_requests_back_are_no_lull() {
    let limit = crowded_below_the_limit(TwoPoint::new(), true);
    assert!((20..=50).contains(&limit), "15 on 10 workers, behind caps of a half: {limit}");
    // The control: a law that is not told takes it for a lull.
    assert_eq!(crowded_below_the_limit(TwoPoint::new(), false), 80);
    assert_eq!(crowded_below_the_limit(TwoPoint::new().without("refused").unwrap(), true), 80);
}

#[test]
fn each_rule_has_a_name_and_can_be_switched_off() {
    let names: std::collections::BTreeSet<_> = TwoPoint::rules().collect();
    assert_eq!(names.len(), TwoPoint::rules().count());
    for name in names {
        assert!(TwoPoint::new().without(name).is_some(), "{name}");
    }
    assert!(TwoPoint::new().without("magic").is_none());
}

/// Rounded to four digits: what is beyond is a matter of rounding.
fn short(value: f64) -> String {
    format!("{value:.3e}")
}

/// All that two points say, over a grid of pairs of them. The limit goes by nothing else.
#[test]
fn what_two_points_say_is_what_is_kept() {
    let mut text = String::new();
    for (high, low) in [(0.2, 0.1), (0.1, 0.1), (0.1, 0.2), (0.35, 0.1), (0.5, 0.4), (0.011, 0.01)] {
        for (crowd, few) in [(40.0, 20.0), (40.0, 30.0), (40.0, 5.0), (20.0, 40.0)] {
            for (samples, scatter) in [(100.0, 0.1), (16.0, 2.0)] {
                let (high, low) = (scattered(crowd, high, samples, scatter), scattered(few, low, samples * 2.0, 0.3));
                let it = Comparison::new(&high, &low, 0.2);
                writeln!(text, "# {crowd} in {} against {few} in {}, scatter {scatter}", high.rtt / 1e9, low.rtt / 1e9)
                    .unwrap();
                let [g, margin, halvings, error] = [it.g, it.margin, it.halvings, it.error].map(short);
                write!(
                    text,
                    "g {g}, margin {margin}, halvings {halvings}, error {error}, at least {}",
                    short(it.at_least())
                )
                .unwrap();
                let above = [1.0, 1.5, 1.7, 2.2].map(|bound| [0.0, 0.6, 2.0].map(|errors| it.is_above(bound, errors)));
                writeln!(text, ", above {above:?}").unwrap();
                let both = high.pooled(&low);
                let [n, rtt, scatter, samples] = [both.concurrency, both.rtt, both.scatter, both.samples].map(short);
                writeln!(text, "pooled: {n} in {rtt}, scatter {scatter}, {samples} samples, {} cohorts", both.cohorts)
                    .unwrap();
                let mut shown = Shown::NOTHING;
                for (second, seconds) in (0..24).zip([0.03, 0.05, 0.02, 0.04].into_iter().cycle()) {
                    let at = Timestamp::ZERO.after(Duration::from_secs(second * 6));
                    shown.learn(&Point { at, ..point(30.0 + second as f64, seconds) });
                    if second % 5 != 0 {
                        continue;
                    }
                    let most = short(shown.most_growth(50.0, &high, &low));
                    write!(text, "shown after {second}: grows by {most}").unwrap();
                    if let Some(delay) = shown.delay(&high, &low, &it, 1.5) {
                        let (above, below) = delay.inside(&high, &low);
                        let inside = [above.concurrency, above.rtt, below.concurrency, below.rtt].map(short);
                        let growth = [1.05, 1.5, 2.0].map(|factor| short(delay.growth(factor)));
                        write!(text, ", inside {}, growth {}", inside.join(" "), growth.join(" ")).unwrap();
                    }
                    text.push('\n');
                }
            }
        }
    }
    writeln!(text, "# behind a delay").unwrap();
    let mut shown = Shown::NOTHING;
    for second in 0..12 {
        let at = Timestamp::ZERO.after(Duration::from_secs(second));
        shown.learn(&Point { at, ..point(10.0 + second as f64, 0.01) });
    }
    for (high, low) in [(0.2, 0.16), (0.16, 0.16), (0.15, 0.16), (0.08, 0.07), (0.03, 0.021), (0.02, 0.019), (0.3, 0.3)]
    {
        for (crowd, few) in [(400.0, 200.0), (250.0, 90.0), (60.0, 30.0)] {
            let (high, low) = (point(crowd, high), point(few, low));
            let it = Comparison::new(&high, &low, 0.2);
            write!(text, "{crowd} in {} against {few} in {}: ", high.rtt / 1e9, low.rtt / 1e9).unwrap();
            let delay = shown.delay(&high, &low, &it, 1.5);
            if let Some(delay) = delay {
                let (above, below) = delay.inside(&high, &low);
                let inside = [above.concurrency, above.rtt, below.concurrency, below.rtt].map(short);
                let growth = [1.05, 1.5, 2.0, 4.0].map(|factor| short(delay.growth(factor)));
                write!(text, "inside {}, growth {}", inside.join(" "), growth.join(" ")).unwrap();
            }
            writeln!(text, "{}", if delay.is_none() { "no delay" } else { "" }).unwrap();
        }
    }
    assert_kept("src/limit/path_tests/points.txt", &text);
}
