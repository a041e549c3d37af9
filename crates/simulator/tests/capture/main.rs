//! An overload of a real server, recorded, and run again.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cut;
mod lives;
mod rolling;
mod server;

use std::{path::Path, sync::Arc, time::Duration};

use admission_simulator::{
    captured::Captured,
    policy::Policy,
    replay::{Replayed, replay},
    what_if::{Fates, recorded, what_if},
};
use serde_json::Value;
use tower_admission::{
    Admission, AdmissionBuilder, Criticality, Discipline, Labels, Mode, Outcome, Ticket,
    capture::Capture,
    limit::{Aimd, Fixed, Limit, TwoPoint, Windowed},
    percent,
};

use crate::server::{Sink, overload};

fn settings(limit: impl Into<Limit>) -> AdmissionBuilder {
    Admission::builder()
        .limit(limit)
        .queue(12)
        .max_waiting(6)
        .admission_timeout(Duration::from_millis(30))
        .max_wait(Duration::from_millis(120))
        .partition("web", percent(50))
        .partition("batch", percent(20).hard_cap())
        .labels(Labels::new().label_cap("capped", 2).label_weight("heavy", 3).max_waiting(5).max_labels(20).metrics(3))
}

/// Records an overload of a server with these settings. Answers the lines.
async fn record(settings: AdmissionBuilder, requests: usize) -> Vec<String> {
    let admission = settings.build().unwrap();
    let sink = Sink::default();
    let recording = Capture::new().buffer(1 << 20).start(&admission, sink.clone()).unwrap();
    overload(&admission, requests).await;
    let rows = tokio::task::spawn_blocking(move || recording.stop()).await.unwrap().unwrap();
    let lines = sink.lines();
    assert_eq!(lines.len() as u64, rows + 2, "a header, the rows and the end");
    lines
}

fn again(settings: AdmissionBuilder, lines: &[String]) -> Replayed {
    replay(settings, [], lines.join("\n").as_bytes()).unwrap()
}

fn rows(lines: &[String]) -> Vec<Value> {
    lines[1..lines.len() - 1].iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn count(rows: &[Value], field: &str, value: &str) -> usize {
    rows.iter().filter(|row| row[field] == value).count()
}

/// All of it happened: it was an overload.
fn assert_rich(lines: &[String]) -> usize {
    let rows = rows(lines);
    for (field, value) in [
        ("do", "arrive"),
        ("do", "claim"),
        ("do", "leave"),
        ("do", "observe"),
        ("do", "finish"),
        ("do", "tick"),
        ("gets", "slot"),
        ("gets", "place"),
        ("gets", "gate_full"),
        ("label", "capped"),
        ("outcome", "success"),
        ("outcome", "overload"),
    ] {
        assert!(count(&rows, field, value) > 0, "{field} {value} does not occur in {} rows", rows.len());
    }
    assert!(rows.iter().any(|row| row["ended"].as_array().is_some_and(|it| !it.is_empty())));
    rows.len()
}

/// What the simulator makes of it: the policy in the file is that of the handle, and others are other ones.
fn simulate(lines: &[String]) -> (Captured, [Fates; 2]) {
    let text = lines.join("\n");
    let captured = Captured::read(&text).unwrap();
    let policy = captured.policy.as_ref().unwrap();
    let again = replay(policy.settings(), [], text.as_bytes()).unwrap();
    assert_eq!(again.differences, 0, "{:#?}", again.first_differences);
    let fates = [recorded(&captured), what_if(&captured, policy)];
    (captured, fates)
}

fn assert_replays(make: impl Fn() -> AdmissionBuilder, lines: &[String], what: &str) {
    let rows = assert_rich(lines);
    let again = again(make(), lines);
    println!("{what}: {} rows, {} differences", again.rows, again.differences);
    assert_eq!((again.rows, again.differences), (rows as u64, 0), "{what}: {:#?}", again.first_differences);
    assert_eq!(again.cut, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fixed_limit_decides_the_same_again() {
    let make = || settings(Fixed::new(6));
    let lines = record(make(), 1_500).await;
    assert_replays(make, &lines, "fixed");
    // For `simulate --replay`.
    std::fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join("capture.jsonl"), lines.join("\n")).unwrap();

    let (captured, [then, now]) = simulate(&lines);
    let all = captured.requests.len() as u64;
    println!(
        "recorded: {} in, {} out; closed loop: {} in, {} out",
        then.admitted,
        then.all_rejected(),
        now.admitted,
        now.all_rejected()
    );
    for fates in [&then, &now] {
        assert_eq!(fates.admitted + fates.left + fates.all_rejected(), all, "each request has one fate");
    }
    let other = |text: &str| what_if(&captured, &Policy::parse(text).unwrap());
    let wide = other("law = { kind = 'fixed', limit = 1000 }");
    assert_eq!((wide.all_rejected(), wide.admitted), (0, all), "room for everybody");
    let narrow = other("[policy]\nshed = true\nlaw = { kind = 'fixed', limit = 1 }");
    assert!(narrow.admitted < then.admitted && narrow.rejected["limit"] == narrow.all_rejected(), "{narrow:?}");
    assert!(Policy::parse("law = { kind = 'fixed', limit = 0 }").is_err());

    // Controls: another limit, a line changed, a line missing.
    let other = again(settings(Fixed::new(7)), &lines);
    println!("fixed, limit changed: {} differences", other.differences);
    assert!(other.differences > 0 && !other.first_differences.is_empty());
    let other = again(make().queue(11), &lines);
    assert!(other.differences > 0, "another queue");
    let at = lines.iter().position(|line| line.contains(r#""gets":"gate_full""#)).unwrap();
    let mut changed = lines.clone();
    changed[at] = changed[at].replace(r#""gets":"gate_full""#, r#""gets":"slot""#);
    assert_eq!(again(make(), &changed).differences, 1, "exactly the line that was changed");
    let mut missing = lines.clone();
    missing.remove(lines.iter().position(|line| line.contains(r#""do":"finish""#)).unwrap());
    assert!(again(make(), &missing).differences > 0, "a slot that never comes back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_adaptive_law_learns_the_same_again() {
    let make = || settings(TwoPoint::new().initial(4).max(40));
    let lines = record(make(), 3_000).await;
    assert_replays(make, &lines, "two-point");
    simulate(&lines);
    let moves = rows(&lines).iter().filter(|row| row["limit"].is_number()).count();
    assert!(moves > 0, "the limit has moved");
    println!("two-point: the limit moved {moves} times");
    assert!(again(settings(TwoPoint::new().initial(5).max(40)), &lines).differences > 0);

    let aimd = || Windowed::new(Aimd::new(Duration::from_millis(20)).initial(8)).min_time(Duration::from_millis(50));
    let make = || settings(aimd());
    let lines = record(make(), 1_500).await;
    assert_replays(make, &lines, "windowed aimd");
    simulate(&lines);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_discipline_and_the_legacy_wait_do_so_too() {
    let lifo = Discipline::AdaptiveLifo { interval: Duration::from_millis(20), short_wait: Duration::from_millis(2) };
    let make = || settings(Fixed::new(6)).discipline(lifo).permit_time_to_live(Duration::from_millis(15));
    let lines = record(make(), 800).await;
    let again = again(make(), &lines);
    assert_eq!(again.differences, 0, "{:#?}", again.first_differences);
    assert!(again.rows > 1_000);
}

/// Modes, drains, permits without a server, and a clock of the caller's.
#[test]
fn what_operators_do_is_recorded() {
    let make = || Admission::builder().limit(Fixed::new(1)).shed().mode(Mode::Observe);
    let admission = make().build().unwrap();
    let sink = Sink::default();
    let recording = Capture::new().start(&admission, sink.clone()).unwrap();
    let run = Ticket::new().label("a").run("r").criticality(Criticality::Sheddable);
    let first = admission.try_admit(run.clone().timeout(Duration::from_secs(9))).unwrap();
    let beyond = admission.try_admit(run.clone()).unwrap();
    admission.set_mode(Mode::Enforce);
    assert!(admission.try_admit(run).is_err());
    first.finish(Outcome::Success);
    drop(beyond);
    admission.tick();
    admission.drain(tower_admission::DrainMode::RejectWaiting);
    assert!(admission.try_admit(Ticket::new()).is_err());
    assert!(recording.is_running());
    assert_eq!(recording.stop().unwrap(), 9);

    let lines = sink.lines();
    let verbs: Vec<_> = rows(&lines).iter().map(|row| row["do"].as_str().unwrap().to_owned()).collect();
    let expected = ["arrive", "arrive", "mode", "arrive", "finish", "finish", "tick", "drain", "arrive"];
    assert_eq!(verbs, expected);
    assert_eq!(rows(&lines)[0]["run"], "r");
    let replayed = again(make(), &lines);
    assert_eq!((replayed.rows, replayed.differences), (9, 0), "{:#?}", replayed.first_differences);
    // The mode is that of the capture.
    assert_eq!(again(make().mode(Mode::Off), &lines).differences, 0);
    let header: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!((&header["capture"], &header["mode"]), (&1.into(), &"observe".into()));
    assert_eq!(header["policy"]["law"]["limit"], 1);
    drop(Arc::new(admission));
}
