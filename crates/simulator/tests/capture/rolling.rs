//! The capture of the last minutes: begins in the middle, forgets what is old, goes on after gaps.

use std::{
    future::Future,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use admission_simulator::{
    candidate::Candidate,
    captured::Captured,
    compare::{compare, sum},
    policy::VirtualClock,
    replay::replay,
    what_if::{Fate, recorded, what_if_under},
};
use serde_json::Value;
use tower_admission::{
    Admission, AdmissionBuilder, Cap, ClassLimits, Labels, Mode, Outcome, Rate, Rules, Ticket, WorkerReport,
    capture::{Capture, CaptureError, CaptureStatus, RollingCapture},
    limit::Fixed,
    percent,
    store::{Keys, Leases, MemoryStore},
};

use crate::server::Sink;

const ALL: Duration = Duration::from_secs(86_400);

fn state(admission: &Admission) -> CaptureStatus {
    admission.rolling_capture().unwrap()
}

/// Waits until the thread has taken all rows, and returns the lines.
fn lines(admission: &Admission, last: Duration, rows: u64) -> Vec<String> {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while state(admission).rows < rows {
        assert!(tokio::time::Instant::now() < deadline, "{rows} rows did not come: {:?}", state(admission));
        std::thread::yield_now();
    }
    let bytes: Vec<u8> = admission.captured(last).unwrap().flatten().collect();
    String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

fn read(lines: &[String]) -> Captured {
    Captured::read(&lines.join("\n")).unwrap()
}

fn pass(admission: &Admission, label: &str) {
    admission.try_admit(Ticket::new().label(label.to_owned())).unwrap().finish(Outcome::Success);
}

fn settings(hand: &VirtualClock) -> AdmissionBuilder {
    Admission::builder().limit(Fixed::new(3)).shed().partition("web", percent(50)).clock(hand.clone())
}

#[tokio::test]
async fn it_begins_with_a_handle_at_work_and_says_what_is_there() {
    let hand = VirtualClock::default();
    let admission = settings(&hand).wait_timeout(Duration::from_secs(600)).build().unwrap();
    hand.pass(Duration::from_millis(5_000));
    assert!(admission.report_worker(&WorkerReport::new("a", "w").max_concurrent(4)));
    let in_web = admission.try_admit(Ticket::new().partition("web").label("a").namespace("n")).unwrap();
    // These run on slots that were lent: the handle does not know when they end.
    let quiet = admission.try_admit(Ticket::new()).unwrap();
    let last = admission.try_admit(Ticket::new().label("b")).unwrap();
    let mut waiter = Box::pin(admission.admit(Ticket::new().label("c").run("job")));
    assert!(waiter.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    admission.set_mode(Mode::Enforce);
    hand.pass(Duration::from_millis(1_000));

    RollingCapture::new().start(&admission).unwrap();
    assert!(matches!(RollingCapture::new().start(&admission), Err(CaptureError::Running)), "one at a time");
    assert!(matches!(Capture::new().start(&admission, Sink::default()), Err(CaptureError::NotFresh)));
    hand.pass(Duration::from_millis(2_000));
    in_web.finish(Outcome::Success);
    drop(quiet);
    let answer = waiter.await.unwrap();
    hand.pass(Duration::from_millis(1_500));
    answer.finish(Outcome::Success);
    last.finish(Outcome::Success);
    let lines = lines(&admission, ALL, 4);
    let header = json(&lines[0]);
    assert_eq!(
        (&header["capture"], &header["from"], &header["limit"]),
        (&2.into(), &6_000_000_000_u64.into(), &3.into())
    );
    let present: Vec<Value> = lines.iter().map(|line| json(line)).filter(|row| row["do"] == "present").collect();
    let find = |label: &str| present.iter().find(|row| row["label"] == label).unwrap();
    assert_eq!(find("a")["partition"], "web");
    assert_eq!((&find("a")["namespace"], &find("a")["since"]), (&"n".into(), &5_000_000_000_u64.into()));
    assert_eq!((&find("c")["gets"], &find("c")["run"]), (&"place".into(), &"job".into()));
    let known = present.iter().filter(|row| row["gets"] == "slot").count() as u64;
    let unseen: u64 = present.iter().filter_map(|row| row["count"].as_u64()).sum();
    assert_eq!(known + unseen, 3, "each slot is told once: {present:#?}");
    assert!(lines.iter().any(|line| line.contains(r#""worker":"w""#) && line.contains(r#""slots":4"#)));

    // The one that waited is offered, the three that ran are not.
    let captured = read(&lines);
    let then = recorded(&captured);
    assert_eq!((captured.requests.iter().filter(|request| request.is_present).count(), then.admitted), (3, 1));
    let wide = what_if_under(&captured, &Candidate::parse("limit = 4").unwrap());
    let narrow = what_if_under(&captured, &Candidate::parse("limit = 3\nwait_timeout = '1s'").unwrap());
    let waited = |fates: &[Option<Fate>]| {
        fates.iter().flatten().find_map(|fate| match fate {
            Fate::Served { wait, .. } if *wait > 0 => Some(*wait),
            _ => None,
        })
    };
    assert_eq!((wide.admitted, waited(&wide.each)), (1, None), "a fourth slot is free when it comes");
    assert_eq!(
        narrow.rejected.get("wait_timeout").or_else(|| narrow.rejected.get("queue_timeout")),
        Some(&1),
        "{narrow:?}"
    );
    // The control: without what was there, the slots would have been free.
    let is_there = |line: &&String| line.contains(r#""do":"present""#) && !line.contains(r#""gets":"place""#);
    let without: Vec<String> = lines.iter().filter(|line| !is_there(line)).cloned().collect();
    let free = what_if_under(&read(&without), &Candidate::parse("limit = 3\nwait_timeout = '1s'").unwrap());
    assert_eq!((free.admitted, waited(&free.each)), (1, None));
    // Each row is a decision of a server that has learned more than the file says.
    let error = replay(settings(&hand), [], lines.join("\n").as_bytes()).unwrap_err();
    assert!(error.contains("rolling"), "{error}");
}

/// Requests of a label never end, until they have all slots. Under its own policy, the capture shows just that; a limit that is twice
/// as large is full as well.
#[test]
fn a_leak_replays_as_a_leak() {
    let hand = VirtualClock::default();
    let admission = settings(&hand).limit(Fixed::new(10)).build().unwrap();
    RollingCapture::new().start(&admission).unwrap();
    let (mut leaked, mut rows) = (Vec::new(), 0);
    for round in 0..500 {
        let acme = (round % 10 == 0).then(|| admission.try_admit(Ticket::new().label("acme")).ok());
        let web = admission.try_admit(Ticket::new().partition("web").label("shop"));
        rows += 1 + u64::from(acme.is_some());
        leaked.extend(acme.flatten());
        hand.pass(Duration::from_millis(10));
        if let Ok(permit) = web {
            permit.finish(Outcome::Success);
            rows += 1;
        }
    }
    let captured = read(&lines(&admission, ALL, rows));
    assert_eq!(captured.requests.iter().filter(|request| request.is_unfinished()).count(), leaked.len());
    let then = recorded(&captured);
    let replay = |policy: &Candidate| {
        let fates = what_if_under(&captured, policy);
        let all = sum(compare(&captured, &then, std::slice::from_ref(&fates)).iter().map(|(_, tallies)| tallies));
        (fates.admitted, fates.all_rejected(), all[1].departs())
    };
    assert_eq!((leaked.len(), then.all_rejected()), (10, 450));
    let own = Candidate::Scenario(captured.policy.as_ref().unwrap().clone());
    assert_eq!(replay(&own), (then.admitted, then.all_rejected(), None));
    let (_, refused, departs) = replay(&Candidate::parse("limit = 20\nwait_timeout = '0s'").unwrap());
    assert!(refused > 200 && departs.is_some(), "{refused} refused, {departs:?}");
}

#[test]
fn it_forgets_what_is_old_and_what_is_too_much() {
    let hand = VirtualClock::default();
    let admission = settings(&hand).build().unwrap();
    RollingCapture::new().last(Duration::from_secs(32)).start(&admission).unwrap();
    let keeper = admission.try_admit(Ticket::new().label("keeper")).unwrap();
    let mut rows = 1;
    for _ in 0..100 {
        hand.pass(Duration::from_millis(1_000));
        pass(&admission, "a");
        rows += 2;
    }
    let all = lines(&admission, ALL, rows);
    let span = state(&admission).span_seconds;
    assert!((32.0..36.0).contains(&span), "{span} s");
    let arrived = |lines: &[String]| lines.iter().filter(|line| line.contains(r#""do":"arrive""#)).count();
    assert!((32..=35).contains(&arrived(&all)), "{}", arrived(&all));
    // A request from before is there still, and the last ten seconds are a part of it.
    assert!(all[1].contains("keeper") && all[1].contains(r#""do":"present""#), "{}", all[1]);
    let few = lines(&admission, Duration::from_secs(10), rows);
    assert!((10..=13).contains(&arrived(&few)) && few[1].contains("keeper"), "{}", arrived(&few));
    assert_eq!(all.last().unwrap().split("rows").next(), few.last().unwrap().split("rows").next());
    drop(keeper);
    assert!(admission.stop_rolling_capture() && !admission.stop_rolling_capture());

    // Under a bound on memory, whatever strangers call themselves.
    RollingCapture::new().max_bytes(200_000).start(&admission).unwrap();
    for i in 0..20_000_u64 {
        pass(&admission, &format!("stranger {i} {}", "x".repeat(100)));
        if i % 500 == 499 {
            lines(&admission, Duration::ZERO, (i + 1) * 2);
        }
        let bytes = state(&admission).bytes;
        assert!(bytes < 260_000, "{bytes} bytes after {i}");
    }
    let state = state(&admission);
    assert_eq!((state.rows, state.missed, state.running), (40_000, 0, true));
    assert!(state.bytes > 50_000, "the control: something is kept in {} bytes", state.bytes);
}

#[test]
fn it_goes_on_over_reloads_reports_modes_and_rules_of_all_kinds_and_stops_with_the_settings() {
    let hand = VirtualClock::default();
    let rules = || {
        let limits = ClassLimits::new().max_in_flight(Cap::from(2)).max_per_minute(1_000).budget("b", Rate::from(500));
        Rules::new().class("x", limits)
    };
    let last = Duration::from_secs(60);
    let make = || settings(&hand).rules(rules()).labels(Labels::new().cap(2)).capture_last(last);
    let shared = make().shared(Leases::builder().build(Arc::new(MemoryStore::new())), Keys::new("k").unwrap());
    assert!(shared.build().unwrap().rolling_capture().unwrap().running, "shared rules are recorded as well");
    let admission = make().build().unwrap();
    let work = || admission.try_admit(Ticket::new().label("a").class("x"));
    let (first, second) = (work().unwrap(), work().unwrap());
    assert!(work().is_err());
    assert!(admission.report_worker(&WorkerReport::new("a", "w").class("x")));
    admission.set_mode(Mode::Observe);
    work().unwrap().finish(Outcome::Success);
    admission.set_mode(Mode::Enforce);
    admission.reload(make().limit(Fixed::new(9)).partition("late", percent(10))).unwrap();
    first.finish(Outcome::Success);
    second.finish(Outcome::Overload);
    let written = lines(&admission, ALL, 11);
    let verbs: Vec<String> = written.iter().filter_map(|line| Some(json(line)["do"].as_str()?.to_owned())).collect();
    let expected = [
        "arrive", "arrive", "arrive", "worker", "mode", "arrive", "finish", "mode", "reload", "finish", "finish", "end",
    ];
    assert_eq!(verbs, expected);
    let reload = written.iter().find(|line| line.contains("reload")).unwrap();
    assert!(reload.contains(r#""limit":9"#) && reload.contains("rules for classes"), "{reload}");
    let captured = read(&written);
    assert_eq!((captured.steps.len(), captured.requests.len()), (3, 4));
    // The same settings go on; others change its bounds; none stop it, and what it has stays.
    admission.reload(make()).unwrap();
    let state = || admission.rolling_capture().unwrap();
    assert_eq!((state().running, Duration::from_secs_f64(state().last_seconds)), (true, last));
    admission.reload(make().capture_last(last * 2)).unwrap();
    assert_eq!((state().running, Duration::from_secs_f64(state().last_seconds)), (true, last * 2));
    admission.reload(settings(&hand)).unwrap();
    assert!(!state().running && state().rows >= 11);
    admission.reload(make()).unwrap();
    assert!(state().running && state().rows < 11, "it began anew");
}

/// Production configurations are read, with each built-in law, and begin with the limit of the capture.
#[test]
fn each_law_of_a_configuration_takes_part() {
    let hand = VirtualClock::default();
    let admission = Admission::builder().limit(Fixed::new(7)).shed().clock(hand.clone()).build().unwrap();
    RollingCapture::new().start(&admission).unwrap();
    for _ in 0..50 {
        let permits: Vec<_> = (0..9).filter_map(|_| admission.try_admit(Ticket::new().label("a")).ok()).collect();
        hand.pass(Duration::from_millis(20));
        permits.into_iter().for_each(|permit| permit.finish(Outcome::Success));
    }
    let captured = read(&lines(&admission, ALL, 50 * 16));
    for law in ["aimd", "fixed", "gradient", "gradient2", "two_point", "vegas"] {
        let parameter = match law {
            "fixed" => "limit = 7",
            "aimd" => "threshold = '1s'",
            "gradient2" => "min = 7, max = 7",
            _ => "max = 7",
        };
        let text = format!("wait_timeout = '0s'\nlimit = {{ kind = '{law}', {parameter} }}");
        let fates = what_if_under(&captured, &Candidate::parse(&text).unwrap_or_else(|error| panic!("{law}: {error}")));
        println!("{law}: {} served, {:?}, limit {}", fates.admitted, fates.rejected, fates.limit_end);
        assert_eq!(fates.admitted + fates.all_rejected(), 450, "{law}: each request has one fate");
        // Laws that measure their base hold back requests meanwhile.
        let least = if law == "fixed" { 350 } else { 200 };
        assert!(fates.admitted >= least, "{law}: {} of the 350 that were admitted", fates.admitted);
    }
    for (bad, problem) in [
        ("limt = 3", "limt"),
        ("limit = { kind = 'two_point', min = 9, max = 3 }", "max"),
        ("shed = true\nlaw = { kind = 'none', x = 1 }", "x"),
    ] {
        let error = Candidate::parse(bad).unwrap_err();
        assert!(error.contains(problem), "{bad}: {error}");
    }
    // Shared rules are counted here: no store is asked.
    let shared = "limit = 9\n[store]\nurl = 'redis://127.0.0.1:1/'\n[classes.'*']\nmax_in_flight = 3\n";
    let fates = what_if_under(&captured, &Candidate::parse(shared).unwrap());
    assert!(fates.admitted < recorded(&captured).admitted, "{fates:?}");
}
