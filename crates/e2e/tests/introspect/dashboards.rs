//! The metrics of a live scrape, and what the dashboard, the alert rules and the documentation say about them.

use std::{collections::BTreeSet, fs, path::Path, process::Command, sync::Arc};

use axum::{Router, routing::get};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use serde_json::Value;
use tokio::net::TcpListener;
use tower_admission::{
    Admission, Labels, Mode, Ticket,
    limit::Fixed,
    percent,
    store::{AdmissionLock, Keys, Leases, LockCaller, MemoryStore},
};

use super::{npm, support::Site};

/// The buckets that the documentation recommends.
const SECONDS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

fn recorder() -> PrometheusRecorder {
    let builder = PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS);
    builder.unwrap().build_recorder()
}

/// Scrapes `/metrics` as Prometheus would.
async fn scrape(handle: PrometheusHandle) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/metrics", get(async move || handle.render()));
    let server = tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
    let client = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new()).build_http();
    let request = http::Request::get(format!("http://{address}/metrics"));
    let request = request.body(http_body_util::Empty::<hyper::body::Bytes>::new()).unwrap();
    let body = client.request(request).await.unwrap().into_body();
    let text = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
    server.abort();
    String::from_utf8(text.to_vec()).unwrap()
}

/// A server after some load, and what it published: of labels only if these say so.
async fn busy(labels: Labels) -> String {
    let (store, keys) = (Arc::new(MemoryStore::new()), Keys::new("api").unwrap());
    let lock = AdmissionLock::builder().build(store.clone(), keys.clone());
    drop(lock.acquire(LockCaller::new("one").counted_as("gold", "start")).await.unwrap());
    let admission = Admission::builder()
        .name("api")
        .limit(Fixed::new(2))
        .queue(2)
        .max_waiting(0)
        .partition("web", percent(50))
        .shared(Leases::builder().build(store), keys)
        .labels(labels)
        .lock_metrics(&lock)
        .shadow_limit(Fixed::new(1))
        .build()
        .unwrap();
    let site = Site::start(&admission).await;
    let hostile = "\"},evil{x=\"";
    let both = [("x-label", "secret-customer"), ("x-tenant", "web")];
    let all = (0..8).map(|_| site.work("/slow", &both)).chain([site.work("/slow", &[("x-tenant", hostile)])]);
    futures_util::future::join_all(all).await;
    let recorder = recorder();
    metrics::with_local_recorder(&recorder, || admission.publish_metrics());
    scrape(recorder.handle()).await
}

/// Metrics of the labels that come, and of one that settings name.
fn by_label() -> Labels {
    Labels::new().label_cap("gold", 2).metrics(2)
}

/// The names in a scrape with what kind they are, and the names of all labels.
fn names(scrape: &str) -> (BTreeSet<(String, String)>, BTreeSet<String>) {
    let kinds = scrape.lines().filter_map(|line| {
        let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
        Some((name.to_owned(), kind.to_owned()))
    });
    let labels = scrape.lines().filter_map(|line| Some(line.split_once('{')?.1.split_once('}')?.0));
    let labels =
        labels.flat_map(|labels| labels.split("\",")).filter_map(|pair| Some(pair.split_once('=')?.0.to_owned()));
    (kinds.collect(), labels.collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_that_dashboard_and_alerts_ask_for_is_in_a_live_scrape() {
    let scrape = busy(by_label()).await;
    let (kinds, labels) = names(&scrape);
    let mut series: BTreeSet<String> = kinds.iter().map(|(name, _)| name.clone()).collect();
    for (name, _) in kinds.iter().filter(|(_, kind)| kind == "histogram") {
        series.extend(["_bucket", "_sum", "_count"].map(|suffix| format!("{name}{suffix}")));
    }

    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = npm::checkers().join("promql.mjs");
    fs::copy(root.join("tests/introspect/promql.mjs"), &script).unwrap();
    let files = ["alerts.yaml", "grafana.json"].map(|it| root.join("../../examples/dashboards").join(it));
    let node = Command::new("node").arg(script).args(files).output();
    let node = node.unwrap_or_else(|error| panic!("node is needed for this test; .ci/test installs it: {error}"));
    assert!(node.status.success(), "{}", String::from_utf8_lossy(&node.stderr));
    let found: Value = serde_json::from_slice(&node.stdout).unwrap();
    assert_eq!(found["wrong"], Value::Array(Vec::new()));
    assert!(found["expressions"].as_u64().unwrap() > 30, "{found}");
    let list = |field: &str| found[field].as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned());
    // Prometheus itself tells whether a target answers.
    for metric in list("metrics").filter(|metric| metric != "up") {
        assert!(series.contains(&metric), "{metric} is asked for and not published:\n{scrape}");
    }
    // Prometheus itself adds where it scraped.
    for label in list("labels").filter(|label| !["job", "instance", "le"].contains(&label.as_str())) {
        assert!(labels.contains(&label), "label {label} is asked for and not published");
    }
    let asked: BTreeSet<_> = list("metrics").collect();
    for (name, kind) in &kinds {
        let shown = asked.contains(name) || kind == "histogram" && asked.contains(&format!("{name}_bucket"));
        assert!(shown, "{name} is published and shown nowhere");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_published_is_documented_and_described() {
    let scrape = busy(by_label()).await;
    let (kinds, _) = names(&scrape);
    let documented = include_str!("../../../../src/docs/metrics.md").lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split('|').map(str::trim);
        Some((cells.next()?.trim_end_matches('`').to_owned(), cells.next()?.to_owned()))
    });
    assert_eq!(documented.collect::<BTreeSet<_>>(), kinds);
    for (name, _) in &kinds {
        assert!(scrape.contains(&format!("# HELP {name} ")), "{name} has no description");
    }
    let buckets: Vec<_> =
        SECONDS.map(|it| format!("le=\"{it}\"")).into_iter().filter(|le| !scrape.contains(le)).collect();
    assert!(buckets.is_empty(), "{buckets:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_a_caller_sends_becomes_a_label() {
    let scrape = busy(Labels::new()).await;
    assert!(!scrape.contains("admission_label_"), "{scrape}");
    assert!(!scrape.contains("evil") && !scrape.contains("secret-customer"), "{scrape}");
    let values = |label: &str| -> BTreeSet<&str> {
        scrape.split(&format!("{label}=\"")).skip(1).filter_map(|rest| rest.split('"').next()).collect()
    };
    assert_eq!(values("limiter"), ["api"].into());
    assert_eq!(values("partition"), ["default", "web"].into());
    assert_eq!(values("stage"), ["gate", "line", "room"].into());
    assert_eq!(values("mode"), ["enforce", "observe", "off"].into());
    assert_eq!(values("reason"), tower_admission::Reason::ALL.map(|reason| reason.as_str()).into());
    let of_requests = ["cancelled", "ignored", "late", "late_overload", "overload", "success"];
    let of_the_lock = ["busy", "failed", "taken"];
    assert_eq!(values("outcome"), of_requests.into_iter().chain(of_the_lock).collect());
    assert_eq!((values("class"), values("endpoint")), (["gold"].into(), ["start"].into()), "said by our own code");
}

#[test]
fn gauges_follow_the_state() {
    let settings = |limit, partitions: &[&str]| {
        let builder = Admission::builder().name("api").limit(Fixed::new(limit));
        partitions.iter().fold(builder, |it, name| it.partition(*name, percent(20)))
    };
    let admission = settings(4, &["gone", "stays"]).build().unwrap();
    let _slots: Vec<_> = (0..3).map(|_| admission.try_admit(Ticket::new().partition("stays")).unwrap()).collect();
    drop(admission.try_admit(Ticket::new().label("a")).unwrap());
    admission.reload(settings(5, &["stays"])).unwrap();
    let recorder = recorder();
    let read = || {
        metrics::with_local_recorder(&recorder, || admission.publish_metrics());
        recorder.handle().render()
    };
    let scrape = read();
    for line in [
        "admission_limit{limiter=\"api\"} 5",
        "admission_available{limiter=\"api\"} 2",
        "admission_utilisation_ratio{limiter=\"api\"} 0.6",
        "admission_labels_known{limiter=\"api\"} 1",
        "admission_reloads_total{limiter=\"api\"} 1",
        "admission_draining{limiter=\"api\"} 0",
        "admission_mode{limiter=\"api\",mode=\"enforce\"} 1",
        "admission_mode{limiter=\"api\",mode=\"observe\"} 0",
        // A partition that was taken out leaves the names of the others alone.
        "admission_in_flight{limiter=\"api\",partition=\"stays\"} 3",
        "admission_admitted_total{limiter=\"api\",partition=\"stays\"} 3",
    ] {
        assert!(scrape.lines().any(|it| it == line), "{line} in\n{scrape}");
    }
    admission.drain(tower_admission::DrainMode::RejectWaiting);
    admission.set_mode(Mode::Observe);
    let scrape = read();
    for line in ["admission_draining{limiter=\"api\"} 1", "admission_mode{limiter=\"api\",mode=\"observe\"} 1"] {
        assert!(scrape.lines().any(|it| it == line), "{line} in\n{scrape}");
    }
}
