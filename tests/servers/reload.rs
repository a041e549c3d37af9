//! Other settings, again and again, while requests come.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{Router, routing::get};
use http::StatusCode;
use tower_admission::{
    Admission, AdmissionBuilder, AdmissionLayer, ClassLimits, Labels, Rules, classify::by_header, limit::Fixed, percent,
};

use crate::support::{Client, Probe, Server, Version, client::get as request, eventually, is_idle};

const SMALL: usize = 3;
const LARGE: usize = 8;
const CLIENTS: usize = 24;

/// Settings that differ in everything a reload can change.
fn settings(large: bool) -> AdmissionBuilder {
    if large {
        let rules = Rules::new().default_limits(ClassLimits::new().max_in_flight(LARGE));
        Admission::builder().limit(Fixed::new(LARGE)).queue(CLIENTS).partition("a", percent(50)).rules(rules)
    } else {
        let labels = Labels::new().cap(2).label_weight("even", 3);
        Admission::builder().limit(Fixed::new(SMALL)).max_waiting(CLIENTS).labels(labels)
    }
}

/// 30 reloads, or what `TOWER_ADMISSION_RELOADS` says, a tenth of a second apart.
fn reloads() -> u32 {
    std::env::var("TOWER_ADMISSION_RELOADS").ok().and_then(|count| count.parse().ok()).unwrap_or(30)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reloads_under_load_lose_nobody_and_let_no_more_run_than_the_larger_limit() {
    let (admission, probe) = (settings(true).build().unwrap(), Probe::open());
    let seen = probe.clone();
    let handler = get(move || {
        let seen = seen.clone();
        async move {
            let _running = seen.enter();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    let layer = AdmissionLayer::new(&admission).classify((by_header("x-partition"), by_header("x-label").as_label()));
    let server = Server::axum(Router::new().route("/", handler).layer(layer)).await;
    let (stop, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (stop, answers, address) = (Arc::clone(&stop), Arc::clone(&answers), server.address);
            tokio::spawn(async move {
                let mut client = Client::connect(address, Version::H1).await;
                let mut refused = 0;
                while !stop.load(Ordering::Relaxed) {
                    let mut request = request("/");
                    let label = if number % 2 == 0 { "even" } else { "odd" };
                    request.headers_mut().insert("x-label", label.parse().unwrap());
                    request.headers_mut().insert("x-partition", "a".parse().unwrap());
                    let status = client.send(request).await.unwrap().status();
                    answers.fetch_add(1, Ordering::Relaxed);
                    // Either settings have a place for each of the clients.
                    refused += u32::from(status != StatusCode::OK);
                }
                refused
            })
        })
        .collect();
    let begin = tokio::time::Instant::now();
    for reload in 0..reloads() {
        admission.reload(settings(reload % 2 == 1)).unwrap();
        let bad = admission.reload(settings(true).limit(Fixed::new(0)));
        assert!(bad.is_err() && admission.snapshot().limit > 0);
        let next = begin + Duration::from_millis(100) * (reload + 1);
        tokio::time::sleep_until(next).await;
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        assert_eq!(client.await.unwrap(), 0, "nobody is refused by either settings");
    }
    eventually("nobody runs or waits", || is_idle(&admission.snapshot())).await;
    admission.reload(settings(true)).unwrap();
    let snapshot = admission.snapshot();
    assert_eq!(snapshot.admitted(), answers.load(Ordering::Relaxed), "each answer is of one that was admitted");
    assert!((SMALL..=LARGE).contains(&probe.peak()), "{} ran at once", probe.peak());
    assert_eq!(snapshot.reloads, u64::from(reloads()) + 1, "bad settings are not counted, since they change nothing");
    assert!(answers.load(Ordering::Relaxed) > u64::from(reloads()), "there was load");
    println!("{} answers over {} reloads, {} at once", answers.load(Ordering::Relaxed), reloads(), probe.peak());
    server.stop().await;
}
