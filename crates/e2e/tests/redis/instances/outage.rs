//! What servers answer while there is no store, and afterwards.

use std::time::Duration;

use http::{Request, Response, StatusCode};
use http_body_util::Empty;
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::time::Instant;
use tower_admission::{
    Admission, Cap, ClassLimits, Reason, Rules, Ticket, WhenFull,
    journal::{ChangeEntry, JournalEvent},
    snapshot::LabelStatus,
    store::{Keys, MemoryStore, OnStoreFailure},
};

use super::{Instance, OK, Web, Work, get_work, impatient, leases, reason, send, settings, spawn_work, web};
use crate::redis::support::{eventually, ms, number, repeats, server::Server, shared};

fn rules() -> Rules {
    let nine =
        |when_gone| ClassLimits::new().max_in_flight(Cap::from(9).when_full(WhenFull::Reject).when_gone(when_gone));
    let poll = ClassLimits::new().max_in_flight(Cap::from(9).when_full(WhenFull::RespondEmpty));
    Rules::new()
        .class("closed", nine(OnStoreFailure::FailClosed))
        .class("fast", nine(OnStoreFailure::FailClosed).fail_fast())
        .class("open", nine(OnStoreFailure::FailOpen))
        .class("share", nine(OnStoreFailure::LocalShare { instances: number(3) }))
        .class("poll", poll)
}

async fn call(web: &Web, instance: &Instance, class: &str) -> Response<bytes::Bytes> {
    get_work(web, instance.address, class, "orders").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_rule_answers_as_it_says_and_recovers_by_itself() {
    let mut server = Server::start().await;
    let work = Work::new(100);
    let instance = Instance::start(settings(rules()), leases().build(impatient(&server)), &work).await;
    let web = web();
    work.go_on.send_replace(true);
    for class in ["closed", "fast", "open", "share", "poll"] {
        assert_eq!(call(&web, &instance, class).await.status(), OK, "control: {class}");
    }
    for _ in 0..repeats() {
        server.kill();
        let mut slowest = Duration::ZERO;
        for _ in 0..20 {
            let asked = Instant::now();
            let response = call(&web, &instance, "closed").await;
            slowest = slowest.max(asked.elapsed());
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(reason(&response), "store_unavailable");
            assert!(response.headers().contains_key("retry-after"));
        }
        println!("closed: 503 after {slowest:?} at most");
        assert!(slowest < Duration::from_secs(1), "{slowest:?}");
        assert_eq!(reason(&call(&web, &instance, "fast").await), "pending_unavailable");
        assert_eq!(call(&web, &instance, "open").await.status(), OK);
        let poll = call(&web, &instance, "poll").await;
        assert_eq!((poll.status(), poll.body().len()), (StatusCode::NO_CONTENT, 0));

        // A third of nine.
        work.go_on.send_replace(false);
        let running: Vec<_> = (0..3).map(|_| spawn_work(&web, instance.address, "share", "orders")).collect();
        eventually("three run", async || instance.running() == 3).await;
        let fourth = call(&web, &instance, "share").await;
        assert_eq!((fourth.status(), &*reason(&fourth)), (StatusCode::TOO_MANY_REQUESTS, "label_cap"));
        work.go_on.send_replace(true);
        for one in running {
            assert_eq!(one.await.unwrap().status(), OK);
        }
        eventually("it is down", async || {
            instance.admission.snapshot().store.as_ref().is_some_and(|store| store.state == "down")
        })
        .await;
        let snapshot = instance.admission.snapshot();
        let status = |class: &str| snapshot.labels.iter().find(|label| label.class == class).map(|label| label.status);
        assert_eq!(status("closed"), Some(LabelStatus::Unavailable));
        assert_eq!(status("open"), Some(LabelStatus::Accepting));

        server.restart_empty().await;
        eventually("it is served again", async || call(&web, &instance, "closed").await.status() == OK).await;
        let store = instance.admission.snapshot().store.unwrap();
        assert_eq!((&*store.state, store.down_seconds), ("up", 0.0));
        assert!(store.failed >= 20 && store.without_store >= 4 && store.granted >= 5, "{store:?}");
    }
    let changes = instance.admission.journal().into_iter().filter_map(|entry| match entry.event {
        JournalEvent::Change(ChangeEntry::Store { from, to, down_seconds, .. }) => Some((from, to, down_seconds)),
        _ => None,
    });
    let changes: Vec<_> = changes.collect();
    println!("journal: {changes:?}");
    assert!(changes.windows(2).all(|pair| pair[0].1 == pair[1].0), "nothing is missing in between: {changes:?}");
    assert!(changes.iter().filter(|it| it.1 == "down").count() >= repeats(), "{changes:?}");
    assert!(
        changes.iter().all(|(from, _, down)| (from == "down") == down.is_some_and(|down| down > 0.0)),
        "{changes:?}"
    );
    eventually("nothing is held", async || instance.running() == 0).await;
}

/// A server that was stopped doesn't even refuse: nobody waits for it longer than the time limit, and the slot is free
/// again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_a_stopped_store_longer_than_its_time_limit() {
    let server = Server::start().await;
    let work = Work::new(100);
    work.go_on.send_replace(true);
    let instance = Instance::start(settings(rules()), leases().build(impatient(&server)), &work).await;
    let web = web();
    assert_eq!(call(&web, &instance, "closed").await.status(), OK);
    server.stop();
    let mut waits = Vec::new();
    for _ in 0..100 {
        let asked = Instant::now();
        assert_eq!(reason(&call(&web, &instance, "closed").await), "store_unavailable");
        waits.push(asked.elapsed());
    }
    waits.sort_unstable();
    println!("stopped store: p50 {:?}, p99 {:?}", waits[50], waits[98]);
    assert!(waits[0] < ms(50), "after five failures not at all: {:?}", waits[0]);
    assert!(waits[98] < ms(1_000), "{:?}", waits[98]);
    assert_eq!(instance.running(), 0);
    server.go_on();
    eventually("it is served again", async || call(&web, &instance, "closed").await.status() == OK).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_while_the_store_is_asked_leaves_nothing_behind() {
    let server = Server::start().await;
    let work = Work::new(100);
    let patient = server.builder().after_restart(tower_admission::store::AfterRestart::Grant).build().unwrap();
    let instance = Instance::start(settings(rules()), leases().build(shared(patient)), &work).await;
    work.go_on.send_replace(true);
    let web = web();
    assert_eq!(call(&web, &instance, "closed").await.status(), OK);
    server.stop();
    let left: Vec<_> = (0..5).map(|_| spawn_work(&web, instance.address, "closed", "orders")).collect();
    eventually("they ask", async || instance.running() == 5).await;
    left.iter().for_each(tokio::task::JoinHandle::abort);
    drop(web);
    eventually("they have left", async || instance.running() == 0).await;
    server.go_on();
    let web = self::web();
    work.go_on.send_replace(false);
    let all: Vec<_> = (0..9).map(|_| spawn_work(&web, instance.address, "closed", "orders")).collect();
    eventually("all nine places are free", async || {
        if instance.running() < 9 {
            let missing = 9 - instance.running();
            (0..missing).for_each(|_| drop(spawn_work(&web, instance.address, "closed", "orders")));
            tokio::time::sleep(ms(20)).await;
        }
        work.ledger.peak() == 9
    })
    .await;
    work.go_on.send_replace(true);
    drop(all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc_callers_are_told_that_it_is_unavailable() {
    let mut server = Server::start().await;
    let work = Work::new(100);
    work.go_on.send_replace(true);
    let instance = Instance::start(settings(rules()), leases().build(impatient(&server)), &work).await;
    let web = web();
    let call = async || {
        let request = Request::post(format!("http://{}/work", instance.address));
        let request = request.header("content-type", "application/grpc").header("x-class", "closed");
        send(&web, request.header("x-label", "orders").body(Empty::new()).unwrap()).await
    };
    assert!(!call().await.headers().contains_key("grpc-status"), "control: it is served");
    server.kill();
    let response = call().await;
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!((response.status(), &*header("grpc-status")), (OK, "14"));
    assert!(header("grpc-message").starts_with("store_unavailable: "));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_show_the_state_and_nothing_tells_a_secret() {
    const SECRET: &str = "planted-secret";
    let mut server = Server::with_args(&["--user", "tester", "on", &format!(">{SECRET}"), "~*", "&*", "+@all"]).await;
    let url = format!("redis://tester:{SECRET}@127.0.0.1:{}/", server.port());
    let keys = Keys::new("test").unwrap().hashed();
    let store = tower_admission::store::RedisStore::builder(&url, keys.clone())
        .after_restart(tower_admission::store::AfterRestart::Grant)
        .timeout(Duration::from_secs(5))
        .build()
        .unwrap();
    let admission = settings(rules()).name("api").shared(leases().build(shared(store)), keys).build().unwrap();
    let admit = async |class: &'static str| admission.admit(Ticket::new().class(class).label(SECRET)).await;
    let held = admit("closed").await.unwrap();
    assert!(held.lease().is_some_and(|lease| !lease.is_lost()));
    let recorder = PrometheusBuilder::new().build_recorder();
    let scrape = || {
        metrics::with_local_recorder(&recorder, || admission.publish_metrics());
        recorder.handle().render()
    };
    let up = scrape();
    assert!(up.contains(r#"admission_store_state{limiter="api",state="up"} 1"#), "{up}");
    assert!(up.contains(r#"admission_store_requests_total{limiter="api",answer="granted"} 1"#), "{up}");
    let redis::Value::Array(names) = server.ask(&["KEYS", "*"]).await.unwrap() else { panic!() };
    server.kill();
    let mut told = format!("{names:?}{held:?}{admission:?}");
    eventually("it is down", async || {
        let rejection = admit("closed").await.unwrap_err();
        told += &format!("{rejection:?}{rejection}");
        scrape().contains(r#"admission_store_state{limiter="api",state="down"} 1"#)
    })
    .await;
    let open = admit("open").await.unwrap();
    let down = scrape();
    assert!(down.contains(r#"admission_store_state{limiter="api",state="up"} 0"#), "{down}");
    assert!(down.contains(r#"admission_store_local_total{limiter="api",why="store_gone"} 1"#), "{down}");
    assert!(down.contains(r#"reason="store_unavailable""#), "{down}");
    told += &format!("{up}{down}{open:?}{:?}", admission.snapshot().store);
    assert!(!told.contains(SECRET) && !told.contains(&server.port().to_string()), "{told}");
    assert!(format!("{:?}", admission.snapshot().labels).contains(SECRET), "control: labels are shown to operators");
}

#[tokio::test]
async fn what_can_not_wait_for_an_answer_is_admitted_from_here_or_not_at_all() {
    let ticket = || Ticket::new().class("closed").label("orders");
    let store = || shared(MemoryStore::new());
    let build = |local_shares| {
        let leases = leases().local_shares(local_shares).build(store());
        settings(rules()).shared(leases, crate::redis::support::keys()).build().unwrap()
    };
    let asks: Admission = build(false);
    assert_eq!(asks.try_admit(ticket()).unwrap_err().reason(), Reason::StoreUnavailable);
    assert!(asks.try_admit(Ticket::new()).is_ok(), "control: no shared rule");
    assert_eq!(asks.snapshot().in_flight, 0, "its slot is given back");
    let holds = build(true);
    // Allotments grow with use.
    for _ in 0..4 {
        drop(holds.admit(ticket()).await.unwrap());
    }
    let permit = holds.try_admit(ticket()).unwrap();
    assert!(permit.lease().is_some());
    assert_eq!(holds.snapshot().store.unwrap().state, "up");
}
