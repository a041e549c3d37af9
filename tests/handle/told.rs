//! What a refused request is told is true: which bound stopped it, how long it may wait, and when there is room for it.

use std::time::Duration;

use tokio::{
    task::{JoinHandle, yield_now},
    time::{Instant, sleep},
};
use tower_admission::{
    Admission, AdmissionBuilder, ClassLimits, Labels, Rate, Reason, Rejection, Rules, Ticket,
    limit::{Aimd, Fixed, Gradient2, Limit, TwoPoint, Vegas},
    percent,
};

use super::ms;

type Ended = (Result<(), Rejection>, Duration);

fn slots(limit: usize) -> AdmissionBuilder {
    Admission::builder().limit(Fixed::new(limit))
}

/// Asks, and tells how it ended, and after how long. A request that runs does so for `work`.
fn ask(admission: &Admission, ticket: Ticket<'static>, work: Duration) -> JoinHandle<Ended> {
    let admission = admission.clone();
    tokio::spawn(async move {
        let start = Instant::now();
        let answer = admission.admit(ticket).await;
        let waited = start.elapsed();
        if answer.is_ok() {
            sleep(work).await;
        }
        (answer.map(drop), waited)
    })
}

async fn ends(asked: Vec<JoinHandle<Ended>>) -> Vec<Ended> {
    let mut all = Vec::new();
    for one in asked {
        all.push(one.await.unwrap());
    }
    all
}

/// The slots are taken for good but for one, which comes free at the middle of the wait: a waiter of the gate, if there is any, goes on
/// in line.
#[tokio::test(start_paused = true)]
async fn a_queue_with_a_bound_on_its_wait_is_that_many_places_and_that_time() {
    let wait = ms(1_000);
    let bounded = |builder: AdmissionBuilder| builder.max_wait(wait);
    let labelled = |builder: AdmissionBuilder| bounded(builder).labels(Labels::new().cap(2));
    let gate = |builder: AdmissionBuilder| bounded(builder).max_waiting(3);
    let both = |builder: AdmissionBuilder| bounded(builder).admission_timeout(ms(700));
    type Set<'a> = &'a dyn Fn(AdmissionBuilder) -> AdmissionBuilder;
    let cases: [(Set<'_>, usize); 4] = [(&bounded, 4), (&labelled, 4), (&gate, 4 + 3), (&both, 4 + 4)];
    for (index, (set, places)) in cases.into_iter().enumerate() {
        let admission = set(slots(4).queue(4)).build().unwrap();
        let mut held: Vec<_> = (0..4).map(|_| admission.try_admit(Ticket::new()).unwrap()).collect();
        let asked = (0..12).map(|_| ask(&admission, Ticket::new(), ms(60_000))).collect();
        sleep(ms(1)).await;
        let snapshot = admission.snapshot();
        assert_eq!(snapshot.waiting + snapshot.at_gate, places, "case {index}");
        sleep(wait / 2).await;
        held.pop();
        let ended = ends(asked).await;
        let longest = ended.iter().map(|(_, waited)| *waited).max().unwrap();
        assert!(longest >= wait && longest <= wait + ms(2), "case {index}: {longest:?}");
    }
}

/// The control: without a bound on the wait in line, the gate is what it was.
#[tokio::test(start_paused = true)]
async fn a_queue_without_a_bound_on_its_wait_has_a_gate() {
    let admission = slots(1).queue(1).build().unwrap();
    let _held = admission.try_admit(Ticket::new()).unwrap();
    let mut asked: Vec<_> = (0..3).map(|_| ask(&admission, Ticket::new(), ms(0))).collect();
    sleep(ms(1)).await;
    assert_eq!((admission.snapshot().waiting, admission.snapshot().at_gate), (1, 1));
    let (answer, waited) = asked.remove(1).await.unwrap();
    assert_eq!((answer.unwrap_err().reason(), waited.as_millis() / 10), (Reason::GateTimeout, 500));
    asked.into_iter().for_each(|it| it.abort());
}

/// A label at its own cap fills the line, and makes room there for another label.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_its_own_cap_stops_is_refused_by_its_cap() {
    let rules = Rules::new().default_limits(
        ClassLimits::new().max_in_flight(tower_admission::Cap::from(4).when_full(tower_admission::WhenFull::Queue)),
    );
    let by_label = |builder: AdmissionBuilder| builder.labels(Labels::new().cap(4));
    let by_rule = |builder: AdmissionBuilder| builder.rules(rules.clone());
    let free = |builder: AdmissionBuilder| builder;
    type Set<'a> = &'a dyn Fn(AdmissionBuilder) -> AdmissionBuilder;
    let cases: [(Set<'_>, usize, Option<Reason>); 3] = [
        (&by_label, 100, Some(Reason::LabelCap)),
        (&by_rule, 100, Some(Reason::LabelCap)),
        // The control: a label without a cap of its own is pushed out.
        (&free, 100, Some(Reason::PushedOut)),
    ];
    for (index, (set, requests, expected)) in cases.into_iter().enumerate() {
        let admission = set(slots(20).queue(50).max_wait(ms(500)).max_waiting(0)).build().unwrap();
        let first = (0..requests).map(|_| ask(&admission, Ticket::new().label("t2"), ms(2_000))).collect();
        sleep(ms(1)).await;
        let second = (0..30).map(|_| ask(&admission, Ticket::new().label("t1"), ms(2_000))).collect();
        let first = ends(first).await;
        let early = first.iter().filter(|(_, waited)| *waited > Duration::ZERO && *waited < ms(400));
        let early: Vec<_> = early.filter_map(|(answer, _)| Some(answer.as_ref().err()?.reason())).collect();
        assert!(!early.is_empty(), "case {index}: no waiter made room");
        assert!(early.iter().all(|it| Some(*it) == expected), "case {index}: {early:?}");
        let others = first.iter().filter(|(answer, _)| answer.is_err()).count() - early.len();
        assert!(others > 0, "case {index}");
        drop(ends(second).await);
    }
}

/// The hard cap of a partition is a bound of its own as well.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_the_cap_of_its_partition_stops_is_refused_by_that() {
    for capped in [true, false] {
        let share = if capped { percent(20).hard_cap() } else { percent(20) };
        let builder = slots(20).queue(50).max_wait(ms(500)).max_waiting(0).partition("p", share);
        let admission = builder.build().unwrap();
        let ticket = |label| Ticket::new().partition("p").label(label);
        let first = (0..100).map(|_| ask(&admission, ticket("t2"), ms(2_000))).collect();
        sleep(ms(1)).await;
        let second = (0..30).map(|_| ask(&admission, ticket("t1"), ms(2_000))).collect();
        let first = ends(first).await;
        let early = first.iter().filter(|(_, waited)| *waited > Duration::ZERO && *waited < ms(400));
        let early: Vec<_> = early.filter_map(|(answer, _)| Some(answer.as_ref().err()?.reason())).collect();
        let expected = if capped { Reason::PartitionCap } else { Reason::PushedOut };
        assert!(!early.is_empty() && early.iter().all(|it| *it == expected), "{early:?}");
        drop(ends(second).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_deadline_is_told_of_the_patience() {
    // Nothing but the patience ends a wait: a deadline that is as long is the caller's.
    let admission = slots(1).queue(9).max_wait(ms(9_000)).patience(ms(1_000)).build().unwrap();
    let _held = admission.try_admit(Ticket::new()).unwrap();
    for (ticket, of_patience) in [(Ticket::new(), true), (Ticket::new().timeout(ms(1_000)), false)] {
        let (answer, _) = ask(&admission, ticket, ms(0)).await.unwrap();
        let rejection = answer.unwrap_err();
        assert_eq!(rejection.reason(), Reason::Deadline);
        assert_eq!(rejection.to_string().contains("patience"), of_patience, "{rejection}");
    }
}

/// Forty requests a second for ten seconds, of which one in forty may start. Each refused request comes back once, when it was told to.
async fn served_when_they_came_back(rate: Rate, told: impl Fn(Duration) -> Duration) -> (usize, usize, Duration) {
    let rules = Rules::new().default_limits(ClassLimits::new().max_per_minute(rate));
    let admission = slots(1_000).rules(rules).build().unwrap();
    let mut asked = Vec::new();
    let mut longest = Duration::ZERO;
    for _ in 0..400 {
        if let Err(rejection) = admission.try_admit(Ticket::new()) {
            let (admission, wait) = (admission.clone(), told(rejection.retry_after()));
            longest = longest.max(wait);
            asked.push(tokio::spawn(async move {
                sleep(wait).await;
                admission.try_admit(Ticket::new()).is_ok()
            }));
        }
        sleep(ms(25)).await;
    }
    let refused = asked.len();
    let mut served = 0;
    for one in asked {
        served += usize::from(one.await.unwrap());
    }
    (refused, served, longest)
}

#[tokio::test(start_paused = true)]
async fn requests_that_a_rate_refused_are_served_when_they_come_back() {
    let seconds = |wait: Duration| Duration::from_secs(wait.as_nanos().div_ceil(1_000_000_000) as u64);
    let mut found = Vec::new();
    for rate in [Rate::from(60).smooth(), Rate::from(60)] {
        let exact = served_when_they_came_back(rate, |wait| wait).await;
        found.push((exact, served_when_they_came_back(rate, seconds).await));
    }
    println!("refused, served when they came back, longest wait told; the same with waits in whole seconds: {found:?}");
    for ((refused, served, longest), (_, in_seconds, _)) in &found {
        // While new ones come, one in a second of these or of those is served.
        assert!(*refused >= 340 && served * 100 >= refused * 95, "{found:?}");
        assert!(in_seconds * 100 >= refused * 50, "{found:?}");
        assert!(*longest <= Duration::from_secs(11 * 60), "{found:?}");
    }
}

/// However many are refused, none is told to stay away for longer than a bound, and a quiet time ends it.
#[tokio::test(start_paused = true)]
async fn a_flood_of_refused_requests_keeps_none_away_for_good() {
    let rules = Rules::new().default_limits(ClassLimits::new().max_per_minute(Rate::from(60).smooth()));
    let admission = slots(1_000).rules(rules).build().unwrap();
    drop(admission.try_admit(Ticket::new()).unwrap());
    let told: Vec<_> = (0..100_000).map(|_| admission.try_admit(Ticket::new()).unwrap_err().retry_after()).collect();
    assert!(told.iter().all(|wait| *wait <= Duration::from_secs(11 * 60)), "{:?}", told.iter().max());
    let soon = told.iter().filter(|wait| **wait <= Duration::from_secs(60)).count();
    assert!(soon >= 5_000, "they are spread: {soon} of 100,000 within the first minute");
    sleep(Duration::from_secs(1_200)).await;
    drop(admission.try_admit(Ticket::new()).unwrap());
    let next = admission.try_admit(Ticket::new()).unwrap_err().retry_after();
    assert!(next <= ms(1_000), "{next:?}");
    yield_now().await;
}

#[test]
fn settings_that_no_limit_can_be_are_told_in_few_words() {
    let told = |builder: AdmissionBuilder| builder.build().unwrap_err().to_string();
    for value in [1e-300, 1e300, f64::MIN_POSITIVE, -1e300, f64::NAN] {
        let text = told(slots(10).partition("p", percent(value)));
        assert!(text.len() < 200 && text.contains("allowed"), "{value:e}: {text}");
    }
    let ms = Duration::from_millis;
    let laws: [(&str, Limit); 4] = [
        ("two_point.initial", TwoPoint::new().initial(0).into()),
        ("aimd.initial", Aimd::new(ms(100)).initial(0).into()),
        ("gradient2.initial", Gradient2::new().initial(0).into()),
        ("vegas.initial", Vegas::new().initial(0).into()),
    ];
    for (path, law) in laws {
        let text = told(Admission::builder().limit(law));
        assert!(text.contains(path) && text.contains("allowed is 1 or more"), "{path}: {text}");
    }
}
