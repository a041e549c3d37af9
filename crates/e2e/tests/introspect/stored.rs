//! Stored answers of the service: what a handle in a known state tells, value by value, and that the types for clients read all
//! of it.
//!
//! ```sh
//! UPDATE_SNAPSHOTS=1 cargo test --workspace --all-features --test e2e stored
//! ```

use std::{
    env, fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use admission_testkit::{Mood, Moody, ms, poll_once};
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tower::ServiceExt;
use tower_admission::{
    Admission, AdmissionBuilder, Cap, ClassLimits, Clock, Criticality, Discipline, DrainMode, Labels, Mode, Outcome,
    Rate, Rules, Ticket, WhenFull, WorkerReport,
    introspection::{
        HistoryPage, JournalPage, Label, LabelPage, Overview, Partition, Partitions, Readiness, WaiterPage,
    },
    limit::{Aimd, Fixed},
    percent,
    store::{Keys, Leases},
};

/// A clock that goes as it is told.
#[derive(Clone, Debug)]
struct ByHand(Arc<AtomicU64>);

impl ByHand {
    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(600_000)))
    }

    /// The driver of a handle sees it, too.
    async fn pass(&self, millis: u64) {
        self.0.fetch_add(millis, Ordering::Relaxed);
        tokio::time::sleep(ms(millis)).await;
    }
}

impl Clock for ByHand {
    fn now(&self) -> Duration {
        ms(self.0.load(Ordering::Relaxed))
    }
}

/// Written again, it is what was read.
fn read<T: DeserializeOwned + Serialize>(path: &str, json: &Value) {
    let read: T = serde_json::from_value(json.clone()).unwrap_or_else(|error| panic!("{path}: {error}"));
    assert_eq!(serde_json::to_value(read).unwrap(), *json, "{path}");
}

/// Reads an answer as the type that a client reads it as.
type Reader = fn(&str, &Value);

/// Asks each path, and compares what is answered with what is stored.
async fn compare(file: &str, admission: &Admission, paths: &[(&str, Reader)]) {
    let mut answers = Vec::new();
    for (path, _) in paths {
        let request = Request::get(format!("/admission{path}")).body(Empty::<Bytes>::new()).unwrap();
        let response = admission.introspection().version("1.4.2").oneshot(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let mut body: Value = serde_json::from_slice(&body).unwrap();
        if let Some(identity) = body.get_mut("identity") {
            // Of this build, and of today.
            identity["library"] = json!("0.1.0");
            identity["started_unix_seconds"] = json!(1_700_000_000);
        }
        if let Some(capture) = body.get_mut("capture") {
            // A thread of its own takes the rows.
            (capture["rows"], capture["bytes"], capture["span_seconds"]) = (json!(9), json!(900), json!(4.5));
        }
        answers.push(json!({ "path": path, "answer": body }));
    }
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/introspect/stored").join(file);
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        let lines: Vec<_> = answers.iter().map(Value::to_string).collect();
        fs::write(&kept, format!("[\n{}\n]\n", lines.join(",\n"))).unwrap();
    }
    let stored: Vec<Value> = serde_json::from_slice(&fs::read(&kept).unwrap()).unwrap();
    assert_eq!(stored.len(), paths.len(), "{file}");
    for (((path, read), stored), answer) in paths.iter().zip(stored).zip(answers) {
        assert_eq!(answer, stored, "{path}");
        read(path, &stored["answer"]);
    }
}

fn busy(clock: &ByHand) -> AdmissionBuilder {
    let cap = |requests: usize, when_full: WhenFull| Cap::from(requests).when_full(when_full);
    let workflow = ClassLimits::new()
        .max_in_flight(3)
        .max_in_flight_per_namespace(9)
        .max_per_minute(50)
        .max_per_minute_per_namespace(60)
        .budget("downstream", Rate::from(70).smooth());
    let rules = Rules::new()
        .class("workflow", workflow)
        .class("query", ClassLimits::new().max_pending(1))
        .class("empty", ClassLimits::new().max_in_flight(cap(1, WhenFull::RespondEmpty)))
        .override_key("prod:pay", "workflow", ClassLimits::new().max_in_flight(cap(1, WhenFull::Queue)))
        .override_key("dry", "query", ClassLimits::new().max_pending(Cap::from(1).observe()));
    let labels = Labels::new().label_cap("capped", 1).label_weight("capped", 3).max_wait(Duration::from_secs(30));
    Admission::builder()
        .name("shop")
        .limit(Aimd::new(ms(100)).initial(10).min(6).max(20))
        .shadow_limit(Fixed::new(4))
        .queue(4)
        .max_waiting(6)
        .rules(rules)
        .labels(labels)
        .partition("batch", percent(20).hard_cap())
        .partition("trial", percent(10).observe())
        .clock(clock.clone())
}

#[tokio::test(start_paused = true)]
async fn a_busy_handle_tells_what_is_stored() {
    let clock = ByHand::new();
    let admission = busy(&clock).build().unwrap();
    drop(admission.introspection());
    admission.report_worker(
        &WorkerReport::new("pay", "w1").namespace("prod").class("workflow").max_concurrent(2).valid_for(ms(3_600_000)),
    );
    admission.set_mode(Mode::Observe);
    admission.try_admit(Ticket::new().class("query").label("ask")).unwrap().finish(Outcome::Ignore);
    admission.set_mode(Mode::Enforce);
    admission.reload(busy(&clock).discipline(Discipline::Fair)).unwrap();
    let pay = || Ticket::new().class("workflow").namespace("prod").label("pay");
    // Quick at first, then slow: the limit goes up and down.
    for (millis, outcome) in [
        (10, Outcome::Success),
        (20, Outcome::Success),
        (900, Outcome::Success),
        (900, Outcome::Success),
        (700, Outcome::Success),
        (40, Outcome::Overload),
        (5, Outcome::Ignore),
    ] {
        let permits: Vec<_> = (0..6).map(|_| admission.try_admit(Ticket::new().label("plain")).unwrap()).collect();
        clock.pass(millis).await;
        permits.into_iter().for_each(|permit| permit.finish(outcome));
        clock.pass(600).await;
        admission.tick();
    }
    drop(admission.try_admit(Ticket::new().partition("trial")).unwrap());
    let mut held: Vec<_> = (0..2).map(|_| admission.try_admit(Ticket::new().partition("trial")).unwrap()).collect();
    held.push(admission.try_admit(pay()).unwrap());
    held.push(admission.try_admit(Ticket::new().label("capped")).unwrap());
    held.push(admission.try_admit(Ticket::new().class("query").label("dry")).unwrap());
    held.push(admission.try_admit(Ticket::new().class("query").label("dry")).unwrap());
    held.push(admission.try_admit(Ticket::new().class("query").label("ask")).unwrap());
    held.push(admission.try_admit(Ticket::new().class("empty").label("none")).unwrap());
    for _ in 0..3 {
        assert!(admission.try_admit(Ticket::new().class("query").label("ask")).is_err());
        assert!(admission.try_admit(Ticket::new().class("empty").label("none")).is_err());
    }
    while let Ok(permit) = admission.try_admit(Ticket::new().partition("batch").label("night")) {
        held.push(permit);
    }
    clock.pass(1_500).await;
    admission.tick();
    let mut waiters = vec![
        admission.admit(pay().run("r-1")),
        admission.admit(Ticket::new().label("capped").criticality(Criticality::Critical)),
        admission.admit(Ticket::new().label("capped").timeout(ms(4_000))),
        admission.admit(Ticket::new().partition("batch").label("night")),
        admission.admit(Ticket::new().label("plain").run("r-2")),
        admission.admit(Ticket::new().label("plain")),
        admission.admit(Ticket::new().label("plain")),
    ];
    for waiter in &mut waiters {
        let _ = poll_once(waiter).await;
        clock.pass(250).await;
    }
    // The one that holds its slot goes, and others.
    drop(held.drain(..4));
    assert!(poll_once(&mut waiters[1]).await.is_ready());
    let mut left = admission.admit(Ticket::new().label("left"));
    let _ = poll_once(&mut left).await;
    drop(left);
    clock.pass(1_000).await;
    admission.tick();
    clock.pass(1_000).await;
    admission.tick();
    compare(
        "busy.json",
        &admission,
        &[
            ("", read::<Overview>),
            ("?limit=2&sort=ready&order=desc", read::<Overview>),
            ("/labels", read::<LabelPage>),
            ("/labels?limit=2&offset=1&status=throttled", read::<LabelPage>),
            ("/labels/pay?namespace=prod", read::<Label>),
            ("/labels/ask", read::<Label>),
            ("/labels/capped/waiters", read::<WaiterPage>),
            ("/labels/plain/waiters?offset=1&limit=1", read::<WaiterPage>),
            ("/partitions", read::<Partitions>),
            ("/partitions/batch", read::<Partition>),
            ("/journal?limit=1000&since=0", read::<JournalPage>),
            ("/journal?limit=2&since=0", read::<JournalPage>),
            ("/journal?kind=change", read::<JournalPage>),
            ("/history?last=1m&labels=top", read::<HistoryPage>),
            ("/history?label=ask&partition=batch", read::<HistoryPage>),
            ("/ready", read::<Readiness>),
        ],
    )
    .await;
    drop((waiters, held));
}

#[tokio::test(start_paused = true)]
async fn a_handle_with_a_store_that_comes_and_goes_tells_what_is_stored() {
    let (clock, store) = (ByHand::new(), Moody::new());
    let rules = Rules::new()
        .default_limits(ClassLimits::new().max_in_flight(Cap::from(2).when_full(WhenFull::Reject)).max_per_minute(40))
        .class("query", ClassLimits::new().max_pending(3));
    let admission = Admission::builder()
        .name("shared")
        .limit(Fixed::new(8))
        .mode(Mode::Enforce)
        .rules(rules)
        .shared(Leases::builder().build(Arc::new(store.clone())), Keys::new("api").unwrap())
        .capture_last(Duration::from_secs(60))
        .clock(clock.clone())
        .build()
        .unwrap();
    drop(admission.introspection());
    let ticket = || Ticket::new().label("orders");
    let _held = [admission.admit(ticket()).await.unwrap(), admission.admit(ticket()).await.unwrap()];
    assert!(admission.admit(ticket()).await.is_err());
    assert!(admission.admit(Ticket::new().class("query").label("ask")).await.is_ok());
    clock.pass(2_000).await;
    admission.publish_metrics();
    store.is(Mood::Down(tokio::time::Instant::now()));
    clock.pass(3_000).await;
    admission.publish_metrics();
    for label in ["orders", "others", "more"] {
        assert!(admission.admit(Ticket::new().label(label)).await.is_err());
    }
    clock.pass(1_500).await;
    admission.publish_metrics();
    let paths: &[(&str, Reader)] = &[
        ("", read::<Overview>),
        ("/labels", read::<LabelPage>),
        ("/journal?since=0", read::<JournalPage>),
        ("/history", read::<HistoryPage>),
        ("/ready", read::<Readiness>),
    ];
    compare("store_down.json", &admission, paths).await;
    store.is(Mood::Up);
    clock.pass(2_000).await;
    admission.publish_metrics();
    clock.pass(2_000).await;
    admission.publish_metrics();
    admission.drain(DrainMode::RejectWaiting);
    assert!(admission.try_admit(Ticket::new()).is_err());
    clock.pass(1_000).await;
    admission.publish_metrics();
    compare("draining.json", &admission, paths).await;
}
