//! A capture goes on over reloads and reports of workers, and replays them bit by bit.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Waker},
    time::Duration,
};

use admission_simulator::{
    captured::Captured,
    policy::{Policy, VirtualClock},
    replay::replay,
};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::{
    Request, Response,
    body::{Body, Frame},
};
use tower::{Layer, ServiceExt, service_fn};
use tower_admission::{
    Admission, AdmissionBuilder, AdmissionLayer, Labels, Outcome, Permit, Ticket, WorkerReport,
    capture::Capture,
    limit::{Fixed, Limit, LimitAlgorithm, Sample, TwoPoint},
    percent,
};

use crate::server::{Own, Sink};

/// The settings of each reload: partitions come, go and come again, laws and queues change.
fn settings(number: usize) -> AdmissionBuilder {
    let labels = Labels::new().cap(2).label_weight("a", 3).max_labels(20);
    let builder = Admission::builder().labels(labels).max_wait(Duration::from_secs(600));
    match number % 5 {
        0 => builder.limit(Fixed::new(4)).queue(8).partition("web", percent(50)),
        1 => builder.limit(Fixed::new(6)).queue(2).partition("web", percent(30)).partition("late", percent(40)),
        2 => builder.limit(TwoPoint::new().initial(3).max(9)).queue(20).partition("late", percent(20).hard_cap()),
        3 => builder.limit(Fixed::new(2)).queue(3),
        _ => builder.limit(TwoPoint::new().initial(5).max(8)).queue(4).partition("later", percent(25)),
    }
}

fn ticket(number: usize) -> Ticket<'static> {
    let partition = ["web", "late", "later", "unknown", "default"][number % 5];
    Ticket::new().partition(partition).label(["a", "b", "c"][number % 3]).class(["x", "y"][number % 2])
}

/// Requests, reports and reloads in turns. Answers the lines, and how many reloads there were.
fn record(make: impl Fn(usize) -> AdmissionBuilder, rounds: usize, abandons: bool) -> (Vec<String>, usize) {
    let clock = VirtualClock::default();
    let admission = make(0).clock(clock.clone()).build().unwrap();
    let sink = Sink::default();
    let recording = Capture::new().buffer(1 << 20).start(&admission, sink.clone()).unwrap();
    let mut running: Vec<Permit> = Vec::new();
    let mut waiting = Vec::new();
    let mut reloads = 0;
    for round in 0..rounds {
        clock.pass(Duration::from_micros(30));
        let mut wait = Box::pin(admission.admit(ticket(round * 7 + round / 11)));
        match wait.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            std::task::Poll::Ready(answer) => running.extend(answer.ok()),
            std::task::Poll::Pending => waiting.push(wait),
        }
        running.extend(admission.try_admit(ticket(round * 3)).ok());
        if round % 3 == 0 {
            let report = WorkerReport::new(["a", "b", "c"][round % 7 % 3], "w").namespace(["", "n"][round % 2]);
            let report = report.class(["x", "z"][round % 5 % 2]).max_concurrent(round % 4);
            if round % 9 == 0 {
                admission.remove_worker(&report);
            } else {
                assert!(admission.report_worker(&report.valid_for(Duration::from_millis(1 + round as u64 % 3))));
            }
        }
        if round % 13 == 12 {
            // Some were on their way before a partition of theirs came.
            let early = admission.admit(ticket(reloads + 1));
            reloads += 1;
            admission.reload(make(reloads)).unwrap();
            waiting.push(Box::pin(early));
        }
        waiting.retain_mut(|wait| match Pin::new(wait).poll(&mut Context::from_waker(Waker::noop())) {
            std::task::Poll::Ready(answer) => {
                running.extend(answer.ok());
                false
            }
            std::task::Poll::Pending => true,
        });
        if round % 4 == 3 && !waiting.is_empty() {
            drop(waiting.swap_remove(round % waiting.len()));
        }
        while running.len() > round % 5 {
            let outcome = [Outcome::Success, Outcome::Overload, Outcome::Cancelled][running.len() % 3];
            let permit = running.swap_remove(round % running.len());
            if abandons && round % 4 == 0 { permit.abandon() } else { permit.finish(outcome) }
        }
    }
    waiting.clear();
    running.clear();
    assert!(recording.is_running(), "nothing that happened has ended it");
    let rows = recording.stop().unwrap();
    let lines = sink.lines();
    assert_eq!(lines.len() as u64, rows + 2);
    (lines, reloads)
}

fn count(lines: &[String], verb: &str) -> usize {
    lines.iter().filter(|line| line.contains(&format!(r#""do":"{verb}""#))).count()
}

#[test]
fn reloads_and_reports_of_workers_are_recorded_and_replayed_exactly() {
    let (lines, reloads) = record(settings, 2_000, false);
    assert_eq!((count(&lines, "reload"), reloads), (153, 153));
    assert!(count(&lines, "worker") > 400 && count(&lines, "worker_gone") > 200);
    assert!(count(&lines, "claim") > 100 && count(&lines, "leave") > 100);
    let text = lines.join("\n");
    let again = replay(settings(0), (1..).map(settings), text.as_bytes()).unwrap();
    println!("{} rows, {reloads} reloads: {} differences", again.rows, again.differences);
    assert_eq!((again.differences, again.cut), (0, None), "{:#?}", again.first_differences);

    // The words of the capture say the same.
    let captured = Captured::read(&text).unwrap();
    let words = captured.reloads.iter().map(|policy| policy.as_ref().unwrap()).map(Policy::settings);
    let own = captured.policy.as_ref().unwrap().settings();
    assert_eq!(replay(own, words, text.as_bytes()).unwrap().differences, 0);

    // Controls: other settings for the reloads, too few of them, a report that is missing its number.
    let other = replay(settings(0), (2..).map(settings), text.as_bytes()).unwrap();
    assert!(other.differences > 0);
    assert!(replay(settings(0), [], text.as_bytes()).unwrap_err().to_string().contains("no settings for this reload"));
    let broken = text.replacen(r#""slots":"#, r#""id":"#, 1);
    assert!(replay(settings(0), (1..).map(settings), broken.as_bytes()).is_err());
}

/// Slots of workers bind, for which there are no words.
#[test]
fn reports_of_workers_whose_slots_bind_are_replayed_exactly() {
    let make = |number| settings(number).labels(Labels::new().enforce_workers(true));
    let (lines, _) = record(make, 1_000, false);
    let text = lines.join("\n");
    let again = replay(make(0), (1..).map(make), text.as_bytes()).unwrap();
    assert_eq!(again.differences, 0, "{:#?}", again.first_differences);
    // The control: reports matter.
    let silent = text.lines().filter(|line| !line.contains(r#""do":"worker""#)).collect::<Vec<_>>().join("\n");
    assert!(replay(make(0), (1..).map(make), silent.as_bytes()).unwrap().differences > 0);
}

/// Partitions borrow less while abandoned work goes on in them.
#[test]
fn work_that_is_given_up_is_recorded_and_replayed_exactly() {
    let make = |number| settings(number).patience(Duration::from_micros(600));
    let (lines, _) = record(make, 4_000, true);
    assert!(count(&lines, "abandon") > 200, "{}", count(&lines, "abandon"));
    let text = lines.join("\n");
    let again = replay(make(0), (1..).map(make), text.as_bytes()).unwrap();
    assert_eq!(again.differences, 0, "{:#?}", again.first_differences);
    // The control: it matters which work was given up.
    let observed = text.replace(r#""do":"abandon""#, r#""do":"observe""#);
    assert!(replay(make(0), (1..).map(make), observed.as_bytes()).unwrap().differences > 0);
}

#[test]
fn a_reload_without_words_says_so_and_goes_on() {
    let make = |number| settings(number).limit(Limit::per_sample(Own));
    let (lines, _) = record(make, 100, false);
    let reload = lines.iter().find(|line| line.contains(r#""do":"reload""#)).unwrap();
    assert!(reload.contains("without_policy") && reload.contains("control law"), "{reload}");
    let again = replay(make(0), (1..).map(make), lines.join("\n").as_bytes()).unwrap();
    assert_eq!(again.differences, 0, "{:#?}", again.first_differences);
}

/// A limit that grows with each answer in time, and falls with each other end.
#[derive(Debug)]
struct Counts(usize);

impl LimitAlgorithm for Counts {
    fn limit(&self) -> usize {
        self.0
    }

    fn on_sample(&mut self, sample: &Sample) {
        self.0 = if sample.outcome == Outcome::Success { self.0 + 1 } else { (self.0 - 1).max(5) };
    }

    fn learns_hold_times(&self) -> bool {
        true
    }
}

/// Bodies that end before the deadlines of their callers, streams that go on after them, and large uploads that take longer.
#[test]
fn bodies_that_go_on_beyond_deadlines_are_recorded_and_replayed_exactly() {
    let patient = || Admission::builder().limit(Limit::per_sample(Counts(5))).patience(Duration::from_micros(300));
    let clock = VirtualClock::default();
    let admission = patient().clock(clock.clone()).build().unwrap();
    let sink = Sink::default();
    let recording = Capture::new().buffer(1 << 20).start(&admission, sink.clone()).unwrap();
    let layer = AdmissionLayer::new(&admission);
    let mut bodies = Vec::new();
    for round in 0..500 {
        clock.pass(Duration::from_micros(70));
        let upload = if round % 7 == 0 { vec![0; 70_000] } else { Vec::new() };
        let answer = service_fn(async |request: Request<Full<Bytes>>| {
            clock.pass(Duration::from_micros(if request.body().is_end_stream() { 0 } else { 400 }));
            let frames =
                stream::repeat(Bytes::from_static(b"more")).map(|piece| Ok::<_, Infallible>(Frame::data(piece)));
            Ok::<_, Infallible>(Response::new(StreamBody::new(Box::pin(frames))))
        });
        if let Some(answer) = layer.layer(answer).oneshot(Request::new(Full::from(upload))).now_or_never() {
            bodies.push(Box::pin(answer.unwrap().into_body()));
        }
        for body in &mut bodies {
            drop(body.frame().now_or_never());
        }
        while bodies.len() > 2 + round % 19 {
            bodies.remove(round % bodies.len());
        }
    }
    bodies.clear();
    recording.stop().unwrap();
    let lines = sink.lines();
    assert!(count(&lines, "answer") > 400 && count(&lines, "observe") > 10, "{}", count(&lines, "observe"));
    assert!(admission.snapshot().partitions[0].successes > 400);
    assert_eq!(replay(patient(), [], lines.join("\n").as_bytes()).unwrap().differences, 0);
    // The control: without these rows the streams would be too late.
    let silent = lines.iter().filter(|line| !line.contains(r#""do":"answer""#)).map(String::as_str).collect::<Vec<_>>();
    assert!(replay(patient(), [], silent.join("\n").as_bytes()).unwrap().differences > 0);
}
