//! `what-if`: what it says of incidents that were recorded with real handles. The one of `incident` is live.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use tower_admission::{
    Admission, AdmissionBuilder, ClassLimits, Clock, Labels, Outcome, Permit, Rules, Ticket, capture::RollingCapture,
    limit::Fixed,
};

use crate::support::{bounded, run};

/// A clock that is set by hand.
#[derive(Clone, Debug, Default)]
pub(super) struct ByHand(pub(super) Arc<AtomicU64>);

impl Clock for ByHand {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

fn builder() -> AdmissionBuilder {
    Admission::builder().limit(Fixed::new(10)).shed().labels(Labels::new())
}

/// Records what happens in a handle to which requests come every ten milliseconds: which ones, and for how long each holds its slot.
async fn record(name: &str, steps: u64, requests: impl Fn(u64) -> Vec<(&'static str, u64)>) -> PathBuf {
    record_with(builder(), name, steps, requests).await
}

async fn record_with(
    builder: AdmissionBuilder,
    name: &str,
    steps: u64,
    requests: impl Fn(u64) -> Vec<(&'static str, u64)>,
) -> PathBuf {
    let clock = ByHand::default();
    let admission = builder.clock(clock.clone()).build().unwrap();
    RollingCapture::new().start(&admission).unwrap();
    let (mut running, mut rows): (Vec<(u64, Permit)>, u64) = (Vec::new(), 0);
    for step in 0..steps {
        let now = step * 10;
        clock.0.store(now, Ordering::Relaxed);
        for (_, permit) in running.extract_if(.., |(end, _)| *end <= now) {
            permit.finish(Outcome::Success);
            rows += 1;
        }
        for (label, holds) in requests(step) {
            rows += 1;
            let answer = admission.try_admit(Ticket::new().label(label));
            running.extend(answer.ok().map(|permit| (now.saturating_add(holds), permit)));
        }
    }
    let taken = async {
        while admission.rolling_capture().unwrap().rows < rows {
            tokio::task::yield_now().await;
        }
    };
    bounded("the rows of the capture", taken).await;
    let bytes: Vec<u8> = admission.captured(Duration::from_secs(600)).unwrap().flatten().collect();
    let path = std::env::temp_dir().join(format!("admission-what-if-{}-{name}.jsonl", std::process::id()));
    fs::write(&path, bytes).unwrap();
    path
}

fn row<'a>(json: &'a Value, policy: &str) -> &'a Value {
    let rows = json["policies"].as_array().unwrap();
    rows.iter().find(|row| row["policy"] == policy).unwrap_or_else(|| panic!("no {policy:?} in {json:#}"))
}

fn served(json: &Value, policy: &str) -> u64 {
    row(json, policy)["victim"]["served"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_leak_it_says_that_a_cap_confines_it_and_that_no_larger_limit_helps() {
    // Each tenth time comes a request that does not end.
    let file = record("leak", 500, |step| {
        let acme = (step % 10 == 0).then_some(("acme", u64::MAX));
        acme.into_iter().chain([("shop", 10)]).collect()
    });
    let file = file.await;
    let path = file.to_str().unwrap();
    let out = run(&["what-if", path]).await.with(0);
    println!("{out}");
    let json = run(&["what-if", path, "--json"]).await.json();
    fs::remove_file(&file).unwrap();
    assert_eq!(json["victim"]["label"], "shop", "{json:#}");
    assert!(out.starts_with("would have helped most: ") && out.contains("acme do not end, and hold 10 slots"), "{out}");
    let (before, all) = (served(&json, "recorded"), 500);
    assert_eq!(before, served(&json, "the policy of the capture"));
    assert!(before < 120, "{before} of {all}: the leak fills the server after a second");
    // More slots serve more of them, until they are full as well.
    assert_eq!((&row(&json, "limit = 20")["helps"], served(&json, "limit = 20") > before), (&false.into(), true));
    assert_eq!(row(&json, "limit = 5")["helps"], false);
    for cap in ["labels.caps.acme = 5", "labels.caps.acme = 2"] {
        assert_eq!((&row(&json, cap)["helps"], served(&json, cap)), (&true.into(), all), "{cap}");
    }
    assert_eq!((&row(&json, "permit_time_to_live = \"50ms\"")["helps"]), &true, "{json:#}");
    assert!(served(&json, "permit_time_to_live = \"50ms\"") > 490, "its slots come back: {out}");
    let best = json["best"].as_str().unwrap();
    assert!(best.starts_with("labels.caps.acme") || best.starts_with("permit_time_to_live"), "{best}");
    assert!(out.contains("whether work goes on in a slot that is taken back"), "{out}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_slow_service_it_says_that_nothing_helps_though_a_replay_serves_more() {
    let incident = |slow: u64| {
        record("slow", 600, move |step| {
            let holds = if (200..500).contains(&step) { slow } else { 20 };
            vec![(["shop", "mail"][usize::from(step % 3 == 0)], holds)]
        })
    };
    let file = incident(500).await;
    let path = file.to_str().unwrap();
    let out = run(&["what-if", path]).await.with(0);
    println!("{out}");
    let json = run(&["what-if", path, "--json"]).await.json();
    let start = "none of these would have helped: the service itself became slow";
    assert!(out.starts_with(start) && out.contains("500 ms for default / ") && out.contains("not 20 ms"), "{out}");
    assert_eq!(json["best"], Value::Null);
    let of_all = |policy: &str| row(&json, policy)["all"]["served"].as_u64().unwrap();
    assert!(of_all("limit = 20") > of_all("the policy of the capture") + 50, "it is not fooled by that: {out}");
    fs::remove_file(&file).unwrap();
    // The control: the service was as it always is, and there were too few slots.
    let file = record("few", 600, |step| {
        let count = if (200..500).contains(&step) { 9 } else { 1 };
        (0..count).map(|it| (["shop", "mail"][it % 2], 20)).collect()
    });
    let file = file.await;
    let json = run(&["what-if", file.to_str().unwrap(), "--json"]).await.json();
    assert_eq!(json["best"], "limit = 20", "{json:#}");
    let headline = json["headline"].as_str().unwrap();
    assert!(headline.ends_with("if the service gets no slower by more requests at once"), "{headline}");
    // Callers that tell how long they wait have a patience.
    let text = fs::read_to_string(&file).unwrap();
    let impatient = text.lines().map(|line| {
        let mut row: Value = serde_json::from_str(line).unwrap();
        if row["do"] == "arrive" {
            row["waits"] = true.into();
            row["deadline"] = (row["t"].as_u64().unwrap() + 150_000_000).into();
        }
        row.to_string() + "\n"
    });
    let impatient = impatient.collect::<String>();
    fs::write(file.with_extension("impatient"), impatient).unwrap();
    let impatient = file.with_extension("impatient");
    let patient = run(&["what-if", impatient.to_str().unwrap(), "--json"]).await.json();
    fs::remove_file(impatient).unwrap();
    let [queue, patience] =
        ["queue = 40, max_wait = \"100ms\"", "patience = \"200ms\""].map(|it| &row(&patient, it)["all"]);
    for waits in [queue, patience] {
        assert!(waits["wait_p99_seconds"].as_f64().unwrap() > 0.0, "{patient:#}");
    }

    // A policy of a file is replayed as well, and judged.
    let policy = file.with_extension("toml");
    fs::write(&policy, "limit = 40\nwait_timeout = '0s'\n").unwrap();
    let files = ["what-if", file.to_str().unwrap(), "--policy", policy.to_str().unwrap(), "--json"];
    let json = run(&files).await.json();
    let name = policy.file_name().unwrap().to_str().unwrap();
    assert_eq!(row(&json, name)["all"]["rejected"], 0, "{json:#}");
    fs::write(&policy, "limt = 40\n").unwrap();
    let said = run(&files).await.with(1);
    assert!(said.contains("limt: unknown setting"), "{said}");
    let missing = run(&["what-if", "/nowhere.jsonl"]).await.with(1);
    assert!(missing.contains("/nowhere.jsonl"), "{missing}");
    fs::write(&policy, "no capture").unwrap();
    assert!(run(&["what-if", policy.to_str().unwrap()]).await.with(1).contains("line 1"));
    fs::remove_file(&file).unwrap();
    fs::remove_file(&policy).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_there_are_no_words_for_a_policy_that_of_a_file_is_taken_and_a_quiet_server_needs_none() {
    let rules = Rules::new().class("job", ClassLimits::new().max_in_flight(3));
    let file = record_with(builder().rules(rules), "rules", 100, |_| vec![("shop", 10), ("shop", 500)]).await;
    let (path, policy) = (file.to_str().unwrap(), file.with_extension("toml"));
    let said = run(&["what-if", path]).await.with(1);
    assert!(said.contains("the capture can't describe rules for classes of work: give --policy FILE"), "{said}");
    fs::write(&policy, "limit = 10\nwait_timeout = '0s'\n[classes.job]\nmax_in_flight = 3\n").unwrap();
    let json = run(&["what-if", path, "--policy", policy.to_str().unwrap(), "--json"]).await.json();
    let name = policy.file_name().unwrap().to_str().unwrap();
    assert_eq!(json["policies"][1]["policy"], name, "{json:#}");
    assert_eq!(row(&json, name)["all"], row(&json, "recorded")["all"], "it is the policy that was in place");
    let refused = |policy: &str| row(&json, policy)["all"]["rejected"].as_u64().unwrap();
    assert!(refused("limit = 20") < refused(name) && refused(name) < refused("limit = 5"), "{json:#}");
    let quiet = record("quiet", 50, |_| vec![("shop", 10)]).await;
    let out = run(&["what-if", quiet.to_str().unwrap()]).await.with(0);
    assert!(out.starts_with("none of these would have helped: no request was hurt\n50 requests in "), "{out}");
    for file in [file, policy, quiet] {
        fs::remove_file(file).unwrap();
    }
}
