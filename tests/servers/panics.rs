//! A thousand panics each of what users bring along: key extractors, classifiers, recorders of metrics, clocks.

use std::{
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use http::{Extensions, HeaderName, Request};
use http_body_util::BodyExt;
use tokio::time::Instant;
use tower::{ServiceBuilder, util::MapRequestLayer};
use tower_admission::{
    Admission, AdmissionBuilder, AdmissionLayer, Clock, Ticket,
    classify::{Classify, RequestHead, by_extension},
    limit::Fixed,
};

use crate::support::{Client, Ends, OnMetric, Probe, Server, Version, bounded, client::get, eventually, is_idle};

const PANICS: usize = 1_000;
const LIMIT: usize = 2;

/// Without a message in the output of the tests.
fn fall_over() -> ! {
    resume_unwind(Box::new("on purpose"))
}

fn two_run() -> AdmissionBuilder {
    Admission::builder().limit(Fixed::new(LIMIT)).shed()
}

/// A mark on requests, by their path.
#[derive(Clone)]
struct Mark(bool);

async fn serve(admission: &Admission, probe: &Probe, classify: impl Classify) -> Server {
    let mark = MapRequestLayer::new(|mut request: Request<hyper::body::Incoming>| {
        let panics = request.headers().contains_key("x-panic");
        let extensions: &mut Extensions = request.extensions_mut();
        extensions.insert(Mark(panics));
        request
    });
    let layer = AdmissionLayer::new(admission).classify(classify);
    Server::hyper(ServiceBuilder::new().layer(mark).layer(layer).service(Ends::new(probe))).await
}

async fn is_served(client: &mut Client) -> bool {
    let answer = bounded("the answer", client.get("/data")).await.unwrap();
    answer.status() == 200 && answer.into_body().collect().await.is_ok()
}

/// Each request whose classifier panics fails alone, and the next is served: on another connection in HTTP/1, on the same
/// in HTTP/2.
async fn classifiers_panic<C: Classify>(classify: impl Fn() -> C) {
    for version in [Version::H1, Version::H2] {
        let (admission, probe) = (two_run().build().unwrap(), Probe::open());
        let server = serve(&admission, &probe, classify()).await;
        let mut bad = Client::connect(server.address, version).await;
        let mut good = Client::connect(server.address, version).await;
        for _ in 0..PANICS {
            let mut request = get("/data");
            request.headers_mut().insert("x-panic", "yes".parse().unwrap());
            assert!(bounded("the panic", bad.send(request)).await.is_err());
            if version == Version::H1 {
                bad = Client::connect(server.address, version).await;
            }
            assert!(is_served(&mut good).await);
        }
        assert!(is_served(&mut bad).await);
        eventually("all slots are back", || is_idle(&admission.snapshot())).await;
        assert_eq!(admission.snapshot().admitted(), PANICS as u64 + 1, "those that panicked are none of them");
        assert_eq!(probe.started(), PANICS as u64 + 1);
        let held = [(); LIMIT].map(|()| admission.try_admit(Ticket::new()).unwrap());
        assert!(admission.try_admit(Ticket::new()).is_err(), "there are as many slots as before");
        drop((held, bad, good));
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_panics_of_a_classifier_cost_no_slot() {
    classifiers_panic(|| {
        let panics = HeaderName::from_static("x-panic");
        move |head: &RequestHead<'_>, _: &mut Ticket<'_>| {
            if head.header(&panics).is_some() {
                fall_over();
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_panics_of_a_key_extractor_cost_no_slot() {
    classifiers_panic(|| by_extension(|mark: &Mark| if mark.0 { fall_over() } else { None }).as_label()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_panics_of_a_recorder_cost_no_slot() {
    let (admission, probe) = (two_run().build().unwrap(), Probe::open());
    let server = serve(&admission, &probe, |_: &RequestHead<'_>, _: &mut Ticket<'_>| {}).await;
    let mut client = Client::connect(server.address, Version::H2).await;
    let asked = AtomicU64::new(0);
    let recorder = OnMetric(|| {
        asked.fetch_add(1, Ordering::Relaxed);
        fall_over()
    });
    for _ in 0..PANICS {
        metrics::with_local_recorder(&recorder, || admission.publish_metrics());
        assert!(is_served(&mut client).await);
    }
    println!("{} panics", asked.load(Ordering::Relaxed));
    assert!(asked.load(Ordering::Relaxed) >= PANICS as u64);
    eventually("all slots are back", || is_idle(&admission.snapshot())).await;
    assert_eq!(admission.snapshot().admitted(), PANICS as u64);
    drop(client);
    server.stop().await;
}

/// Panics every other time, from when it is told to.
#[derive(Clone, Debug)]
struct Moody {
    start: Instant,
    broken: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
    panics: Arc<AtomicU64>,
}

impl Clock for Moody {
    fn now(&self) -> Duration {
        if self.broken.load(Ordering::Relaxed) && self.asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            self.panics.fetch_add(1, Ordering::Relaxed);
            fall_over();
        }
        self.start.elapsed()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_panics_of_a_clock_cost_no_slot_and_no_request() {
    let clock = Moody { start: Instant::now(), broken: Arc::default(), asked: Arc::default(), panics: Arc::default() };
    let (admission, probe) = (two_run().clock(clock.clone()).build().unwrap(), Probe::open());
    let server = serve(&admission, &probe, |_: &RequestHead<'_>, _: &mut Ticket<'_>| {}).await;
    let mut client = Client::connect(server.address, Version::H2).await;
    assert!(is_served(&mut client).await);
    clock.broken.store(true, Ordering::Relaxed);
    let mut served = 1;
    // A request reads the clock at least once.
    while clock.panics.load(Ordering::Relaxed) < PANICS as u64 && served <= 10 * PANICS as u64 {
        assert!(is_served(&mut client).await);
        served += 1;
    }
    assert!(clock.panics.load(Ordering::Relaxed) >= PANICS as u64);
    println!("{} panics over {served} requests", clock.panics.load(Ordering::Relaxed));
    eventually("all slots are back", || is_idle(&admission.snapshot())).await;
    assert_eq!((admission.snapshot().admitted(), probe.started()), (served, served));
    drop(client);
    server.stop().await;
}
