//! Steps that no server of the worlds asks for: extremes, boundaries, and settings.

use std::{fmt::Write as _, time::Duration};

use super::{aimd, keep};
use crate::{
    Outcome, Timestamp,
    limit::{Aimd, Fixed, Gradient, Gradient2, LimitAlgorithm, NetflixWindow, Sample, TwoPoint, Vegas, Windowed},
};

fn laws() -> Vec<(&'static str, Box<dyn LimitAlgorithm>)> {
    vec![
        ("fixed", Box::new(Fixed::new(9))),
        ("two_point", Box::new(TwoPoint::new().initial(8).max(60))),
        ("vegas", Box::new(Vegas::new().pinned_jitter(1.0).probe_multiplier(2).max(60))),
        ("vegas with a queue of 2 to 5", Box::new(Vegas::new().queue(2, 5).max(60))),
        ("gradient", Box::new(Gradient::new().probe(Duration::from_millis(900), 4).pinned(4).max(60))),
        ("gradient2", Box::new(Gradient2::new().min(3).max(60).smoothing(1.0).long_window(20))),
        ("aimd", Box::new(aimd())),
        ("windows of aimd", Box::new(Windowed::new(aimd()).min_samples(3).overload_percent(34.0))),
        ("Netflix's windows of aimd", Box::new(NetflixWindow::new(aimd()).samples(3))),
    ]
}

/// Samples of a kind, one after the other: how many, milliseconds of the round-trip time, and the part of the limit that ran.
type Step = (&'static str, u64, u64, f64, Outcome);

const SCRIPT: &[Step] = &[
    ("as fast as ever", 30, 10, 1.0, Outcome::Success),
    ("twice as slow", 30, 20, 1.0, Outcome::Success),
    ("at exactly half of the limit", 12, 10, 0.5, Outcome::Success),
    ("below half of the limit", 12, 10, 0.4, Outcome::Success),
    ("overloads", 6, 10, 1.0, Outcome::Overload),
    ("clients that left late", 6, 300, 1.0, Outcome::Cancelled),
    ("clients that left early", 6, 1, 1.0, Outcome::Cancelled),
    ("exactly the threshold", 12, 40, 1.0, Outcome::Success),
    ("three times as slow", 60, 30, 1.0, Outcome::Success),
    ("no time at all", 6, 0, 1.0, Outcome::Success),
    ("overloads without a time", 6, 0, 1.0, Outcome::Overload),
    ("half as slow as ever", 60, 5, 1.0, Outcome::Success),
    ("a minute", 3, 60_000, 1.0, Outcome::Success),
    ("as fast as ever, again", 60, 10, 1.0, Outcome::Success),
];

#[test]
fn each_law_takes_the_steps_that_are_kept() {
    let mut text = String::new();
    for (name, mut law) in laws() {
        writeln!(text, "# {name}, of {} to begin with, {} at most", law.limit(), law.max_limit()).unwrap();
        let mut now = Timestamp::ZERO;
        for (what, count, millis, part, outcome) in SCRIPT {
            write!(text, "{what}:").unwrap();
            let mut limits = Vec::new();
            for _ in 0..*count {
                let before = law.limit();
                let in_flight = ((before as f64 * part).round() as usize).max(1);
                let mut sample = Sample::new(now, Duration::from_millis(*millis), in_flight, *outcome);
                sample.rtt = sample.rtt.filter(|it| !it.is_zero());
                law.on_sample(&sample);
                now = now.after(Duration::from_millis(100));
                limits.push(law.limit());
            }
            for same in limits.chunk_by(PartialEq::eq) {
                write!(text, " {}×{}", same[0], same.len()).unwrap();
            }
            let (state, inputs) = (law.state(), law.inputs());
            writeln!(text, "; {:?}, ratio {:.3?}", state.present_phase(), inputs.ratio_if_known()).unwrap();
        }
        for adopted in [0, 1, 33, 1_000_000] {
            law.adopt(adopted);
            writeln!(text, "goes on from {adopted}: {}", law.limit()).unwrap();
        }
        text.push('\n');
    }
    keep("steps.txt", &text);
}

/// Settings that are wrong, by law: just beyond what is allowed, and far beyond.
fn wrong() -> Vec<Box<dyn LimitAlgorithm>> {
    let second = Duration::from_secs(1);
    let windowed = || Windowed::new(aimd());
    vec![
        Box::new(Fixed::new(0)),
        Box::new(TwoPoint::new().min(0)),
        Box::new(TwoPoint::new().min(9).max(8)),
        Box::new(TwoPoint::new().max(u32::MAX as usize + 1)),
        Box::new(Vegas::new().max(0)),
        Box::new(Vegas::new().smoothing(0.0)),
        Box::new(Vegas::new().smoothing(1.01)),
        Box::new(Vegas::new().smoothing(f64::NAN)),
        Box::new(Vegas::new().initial(0)),
        Box::new(Vegas::new().queue(5, 4)),
        Box::new(Gradient::new().pinned(0)),
        Box::new(Gradient::new().pinned(9).max(8)),
        Box::new(Gradient::new().percentile(0.0)),
        Box::new(Gradient::new().percentile(100.1)),
        Box::new(Gradient::new().buffer(-0.1)),
        Box::new(Gradient::new().buffer(f64::INFINITY)),
        Box::new(Gradient::new().probe(second, 0)),
        Box::new(Gradient2::new().min(0)),
        Box::new(Gradient2::new().min(9).max(8)),
        Box::new(Gradient2::new().smoothing(0.0)),
        Box::new(Gradient2::new().smoothing(1.01)),
        Box::new(Gradient2::new().tolerance(0.9)),
        Box::new(Gradient2::new().tolerance(f64::INFINITY)),
        Box::new(Gradient2::new().long_window(0)),
        Box::new(Aimd::new(Duration::ZERO)),
        Box::new(aimd().backoff(0.49)),
        Box::new(aimd().backoff(1.0)),
        Box::new(windowed().percentile(0.0)),
        Box::new(windowed().percentile(100.1)),
        Box::new(windowed().min_samples(0)),
        Box::new(windowed().min_time(second * 2).max_time(second)),
        Box::new(windowed().min_time(Duration::ZERO).max_time(Duration::ZERO)),
        Box::new(windowed().overload_percent(0.0)),
        Box::new(windowed().overload_percent(100.1)),
        Box::new(NetflixWindow::new(aimd()).time(second * 2, second)),
        Box::new(NetflixWindow::new(aimd()).percentile(0.0, 9)),
        Box::new(NetflixWindow::new(aimd()).percentile(100.1, 9)),
        Box::new(NetflixWindow::new(aimd()).percentile(50.0, 0)),
    ]
}

/// Settings at the edge of what is allowed.
fn right() -> Vec<Box<dyn LimitAlgorithm>> {
    let second = Duration::from_secs(1);
    let windowed = || Windowed::new(aimd());
    vec![
        Box::new(Fixed::new(1)),
        Box::new(TwoPoint::new().min(9).max(9)),
        Box::new(TwoPoint::new().max(u32::MAX as usize)),
        Box::new(Vegas::new().max(1).smoothing(1.0).initial(1).queue(4, 4)),
        Box::new(Gradient::new().pinned(9).max(9).percentile(100.0).buffer(0.0).probe(second, 1)),
        Box::new(Gradient2::new().min(1).max(1).smoothing(1.0).tolerance(1.0).long_window(1)),
        Box::new(Aimd::new(Duration::from_nanos(1)).backoff(0.5)),
        Box::new(windowed().percentile(100.0).min_samples(1).overload_percent(100.0)),
        Box::new(windowed().min_time(second).max_time(second)),
        Box::new(NetflixWindow::new(aimd()).time(second, second).percentile(100.0, 1)),
    ]
}

#[test]
fn what_is_wrong_with_the_settings_of_a_law_is_said_as_is_kept_and_the_edges_are_allowed() {
    for law in right() {
        assert_eq!(law.problems(), [], "{law:?}");
    }
    let mut text = String::new();
    for law in wrong() {
        let problems: Vec<_> = law.problems().iter().map(ToString::to_string).collect();
        assert_eq!(problems.len(), 1, "{problems:?} of {law:?}");
        writeln!(text, "{}", problems[0]).unwrap();
    }
    keep("problems.txt", &text);
}
