//! Captures that don't start, or are not whole, say so.

use std::{
    future::Future,
    io::{self, Write},
    sync::mpsc::{Receiver, Sender, channel},
    task::{Context, Waker},
    time::Duration,
};

use admission_simulator::{policy::VirtualClock, replay::replay};
use serde_json::{Value, json};
use tower_admission::{
    Admission, AdmissionBuilder, Outcome, Ticket, WorkerReport,
    capture::{Capture, CaptureError},
    limit::{Fixed, Limit},
};

use crate::server::{Own, Sink};

fn settings() -> AdmissionBuilder {
    Admission::builder().limit(Fixed::new(2)).shed()
}

fn pass(admission: &Admission) {
    admission.try_admit(Ticket::new()).unwrap().finish(Outcome::Success);
}

fn last(sink: &Sink) -> Value {
    serde_json::from_str(sink.lines().last().unwrap()).unwrap()
}

#[test]
fn it_starts_with_a_fresh_handle_or_not_at_all() {
    let start = |admission: &Admission| Capture::new().start(admission, Sink::default());
    let admission = settings().build().unwrap();
    let first = start(&admission).unwrap();
    assert!(matches!(start(&admission), Err(CaptureError::NotFresh)), "one at a time");
    pass(&admission);
    assert_eq!(first.stop().unwrap(), 2);
    assert!(matches!(start(&admission), Err(CaptureError::NotFresh)), "it has decided something");
    let admission = settings().build().unwrap();
    admission.reload(settings()).unwrap();
    assert!(matches!(start(&admission), Err(CaptureError::NotFresh)));
    let admission = settings().build().unwrap();
    assert!(admission.report_worker(&WorkerReport::new("a", "w")));
    assert!(matches!(start(&admission), Err(CaptureError::NotFresh)));
}

/// A disk that takes nothing until it is told to.
#[derive(Debug)]
struct Stuck(Receiver<()>, Sink, Sender<()>);

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.2.send(());
        let _ = self.0.recv_timeout(Duration::from_secs(30));
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn rows_that_nobody_writes_end_it_and_hold_nobody_up() {
    let (go, gate) = channel();
    let (reached, blocked) = channel();
    let (admission, sink) = (settings().build().unwrap(), Sink::default());
    let out = Stuck(gate, sink.clone(), reached);
    let recording = Capture::new().buffer(8).start(&admission, out).unwrap();
    // Until the writer's own buffer is full and it stands still.
    while blocked.try_recv().is_err() {
        pass(&admission);
    }
    (0..20).for_each(|_| pass(&admission));
    assert!(!recording.is_running());
    assert_eq!(admission.snapshot().in_flight, 0);
    drop(go);
    let Err(CaptureError::Cut(why)) = recording.stop() else { panic!("it was cut") };
    assert!(why.starts_with("overflow"), "{why}");
    assert_eq!(last(&sink)["do"], "end");
    let again = replay(settings(), [], sink.lines().join("\n").as_bytes()).unwrap();
    assert_eq!((again.differences, again.cut), (0, Some(why)), "what is there is good");
    assert_eq!(Some(again.rows), last(&sink)["rows"].as_u64());
}

#[test]
fn its_measure_ends_it() {
    let (admission, sink) = (settings().build().unwrap(), Sink::default());
    let recording = Capture::new().max_rows(3).start(&admission, sink.clone()).unwrap();
    (0..5).for_each(|_| pass(&admission));
    assert!(matches!(recording.stop(), Err(CaptureError::Cut(why)) if why.starts_with("full")));
    assert_eq!(last(&sink)["rows"], 3);
}

/// A disk that is full.
struct Broken;

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_disk_that_is_full_is_told_of() {
    let admission = settings().build().unwrap();
    let recording = Capture::new().start(&admission, Broken).unwrap();
    pass(&admission);
    assert!(matches!(recording.stop(), Err(CaptureError::Io(error)) if error.kind() == io::ErrorKind::StorageFull));
}

#[test]
fn somebody_who_asks_after_its_time_is_told_once() {
    let hand = VirtualClock::default();
    let make = || settings().limit(Fixed::new(1)).wait_timeout(Duration::from_millis(10));
    let (admission, sink) = (make().clock(hand.clone()).build().unwrap(), Sink::default());
    let recording = Capture::new().start(&admission, sink.clone()).unwrap();
    let permit = admission.try_admit(Ticket::new()).unwrap();
    let mut waiting = Box::pin(admission.admit(Ticket::new()));
    let mut poll = || waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll().is_pending());
    hand.set(11_000_000);
    assert!(poll().is_ready());
    permit.finish(Outcome::Success);
    assert_eq!(recording.stop().unwrap(), 4);
    let lines = sink.lines();
    let claim: Value = serde_json::from_str(&lines[3]).unwrap();
    assert_eq!(claim, json!({"t": 11_000_000, "do": "claim", "id": 2, "gets": "queue_timeout"}));
    assert_eq!(replay(make(), [], lines.join("\n").as_bytes()).unwrap().differences, 0);
}

#[test]
fn settings_without_words_are_left_to_whoever_has_them() {
    let make = || settings().limit(Limit::per_sample(Own));
    let (admission, sink) = (make().build().unwrap(), Sink::default());
    let recording = Capture::new().start(&admission, sink.clone()).unwrap();
    pass(&admission);
    recording.stop().unwrap();
    let lines = sink.lines();
    let header: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!((&header["policy"], header["without_policy"].is_string()), (&Value::Null, true));
    assert_eq!(replay(make(), [], lines.join("\n").as_bytes()).unwrap().differences, 0);
}

#[test]
fn bad_lines_are_named() {
    let line = |text: &str| {
        let problem = replay(settings(), [], text.as_bytes()).unwrap_err();
        problem.strip_prefix("line ").and_then(|it| it.split(':').next()?.parse::<u64>().ok()).expect(&problem)
    };
    let header = r#"{"capture":1,"name":"a","mode":"enforce","policy":null,"limit":2}"#;
    assert_eq!((line(""), line("{}"), line(&header.replace("\"capture\":1", "\"capture\":2"))), (1, 1, 1));
    for bad in [r#"{"t":1,"do":"arrive"}"#, r#"{"t":1,"do":"dance"}"#, r#"{"t":1,"do":"tick","colour":"red"}"#, "{"] {
        assert_eq!(line(&format!("{header}\n{bad}\n")), 2, "{bad}");
    }
    let short = replay(settings(), [], header.as_bytes()).unwrap();
    assert_eq!((short.rows, short.cut), (0, Some("its last line is missing".to_owned())));
    let problem = replay(settings().limit(Fixed::new(0)), [], header.as_bytes()).unwrap_err();
    assert!(problem.starts_with("the admission settings can't be used: ") && problem.contains("found 0"), "{problem}");
}
