//! What it costs that an operator can look: memory and the time of an answer, beside 10,000 labels and an hour of history.
//!
//! ```sh
//! cargo run --release --features capture --bin look                # memory, and milliseconds of each answer
//! cargo run --release --features capture --bin look -- busy off # ten seconds of 5,000 requests, to be counted by callgrind
//! ```
//!
//! `busy` takes `off`, `journal`, `history`, `capture` or `all`. Time is virtual: an hour takes seconds.

use std::{
    alloc::System,
    env,
    hint::black_box,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty, Full};
use metrics_exporter_prometheus::PrometheusBuilder;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tower::{Service, ServiceExt, service_fn};
use tower_admission::{
    Admission, AdmissionLayer, Labels, Outcome, Ticket, capture::RollingCapture, classify::by_header, limit::Fixed,
    percent,
};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const LABELS: usize = 10_000;
const SECOND: Duration = Duration::from_secs(1);
/// Answers of each kind, of which the median counts.
const TIMES: usize = 21;

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    match arguments[..] {
        [] => runtime.block_on(looks()),
        ["busy", what] => runtime.block_on(busy(what)),
        _ => panic!("allowed: nothing, or busy off|journal|history|capture|all"),
    }
}

/// Many labels, four partitions, and metrics of the busiest twenty labels.
fn admission(journal: usize) -> Admission {
    let builder = Admission::builder().limit(Fixed::new(1_000)).shed().journal(journal);
    let builder = builder.labels(Labels::new().max_labels(LABELS).metrics(20));
    let tenants = ["web", "batch", "mobile"];
    tenants.into_iter().fold(builder, |it, name| it.partition(name, percent(25))).build().expect("valid settings")
}

#[expect(clippy::cast_precision_loss, reason = "some megabytes")]
fn kibibytes(region: &Region<'_, System>) -> f64 {
    let change = region.change();
    (change.bytes_allocated as f64 - change.bytes_deallocated as f64) / 1_024.0
}

async fn looks() {
    let region = Region::new(ALLOCATOR);
    let admission = admission(512);
    println!("a handle: {:.0} KiB", kibibytes(&region));
    let names: Vec<_> = (0..LABELS).map(|number| format!("tenant-{number:05}")).collect();
    let region = Region::new(ALLOCATOR);
    for name in &names {
        serve(&admission, name);
    }
    println!("{LABELS} labels that were used: {:.0} KiB more", kibibytes(&region));

    let region = Region::new(ALLOCATOR);
    let introspection = admission.introspection();
    for second in 0..3_700 {
        // Other labels are the busiest in each second.
        for request in 0..100 {
            serve(&admission, &names[(second * 31 + request * request) % LABELS]);
        }
        tokio::time::sleep(SECOND).await;
    }
    println!("an hour of history, in which 100 labels a second were used: {:.0} KiB more", kibibytes(&region));

    println!("| what is asked | milliseconds | KiB |\n|---|---:|---:|");
    for path in [
        "/admission?limit=1",
        "/admission",
        "/admission?limit=1000&sort=rejected_per_second",
        "/admission/labels?contains=999",
        "/admission/history?last=600",
        "/admission/history?last=3600",
        "/admission/history?last=3600&labels=top",
        "/admission/journal?limit=512",
        "/admission/ui",
    ] {
        let mut times = Vec::new();
        let mut length = 0;
        for _ in 0..TIMES {
            let mut service = introspection.clone();
            let request = Request::get(path).body(Empty::<Bytes>::new()).expect("a request");
            let start = Instant::now();
            let answer = Service::call(&mut service, request).await.expect("an answer");
            assert!(answer.status().is_success(), "{path}: {}", answer.status());
            length = answer.into_body().collect().await.expect("a body").to_bytes().len();
            times.push(start.elapsed());
        }
        row(path, times, length);
    }
    let recorder = PrometheusBuilder::new().build_recorder();
    let mut times = Vec::new();
    let mut length = 0;
    for _ in 0..TIMES {
        let start = Instant::now();
        metrics::with_local_recorder(&recorder, || admission.publish_metrics());
        length = recorder.handle().render().len();
        times.push(start.elapsed());
    }
    row("metrics, published and scraped", times, length);
}

fn row(what: &str, mut times: Vec<Duration>, length: usize) {
    times.sort_unstable();
    println!("| {what} | {:.2} | {} |", times[TIMES / 2].as_secs_f64() * 1e3, length.div_ceil(1_024));
}

fn serve(admission: &Admission, label: &str) {
    let permit = admission.try_admit(Ticket::new().partition("web").label(label)).expect("there is room");
    permit.finish(Outcome::Success);
}

/// Ten seconds of 5,000 requests each, one after the other.
async fn busy(what: &str) {
    let is = |part: &str| what == part || what == "all";
    let admission = admission(if what == "off" { 0 } else { 512 });
    if is("history") {
        drop(admission.introspection());
    }
    if is("capture") {
        RollingCapture::new().start(&admission).expect("no capture runs");
    }
    let recorder = PrometheusBuilder::new().build_recorder();
    let handler = service_fn(|_: Request<Empty<Bytes>>| async {
        Ok::<_, std::convert::Infallible>(http::Response::new(Full::new(Bytes::from_static(b"done"))))
    });
    let layer = AdmissionLayer::new(&admission).classify(by_header("x-tenant"));
    let service = tower::ServiceBuilder::new().layer(layer).service(handler);
    for _ in 0..10 {
        for number in 0..5_000 {
            let tenant = ["web", "batch", "mobile", "other"][number % 4];
            let request = Request::get("/").header("x-tenant", tenant).body(Empty::<Bytes>::new());
            let answer = service.clone().oneshot(request.expect("a request")).await.expect("an answer");
            black_box(answer.into_body().collect().await.expect("a body"));
        }
        if what == "all" {
            metrics::with_local_recorder(&recorder, || admission.publish_metrics());
        }
        tokio::time::sleep(SECOND).await;
    }
}
