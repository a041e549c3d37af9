//! The OpenAPI description, checked by a validator that knows nothing of this crate: the description as such, and what a
//! server answers against it.

use std::{collections::BTreeMap, fs, path::Path, process::Command, sync::Arc, time::Duration};

use admission_testkit::{Mood, Moody};
use serde_json::{Value, json};
use tower_admission::{
    Admission, ClassLimits, Discipline, Labels, Mode, Rate, Reason, Rules, WhenFull,
    limit::Fixed,
    percent,
    store::{Keys, Leases},
};

use super::{
    npm,
    support::{Site, Still},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_description_is_valid_and_the_answers_are_as_described() {
    let limits = || ClassLimits::new().max_in_flight(3).max_in_flight_per_namespace(9).max_per_minute(50);
    let rules = Rules::new()
        .class("workflow", limits().max_per_minute_per_namespace(60).budget("shared", Rate::from(70).smooth()))
        .class("query", ClassLimits::new().max_pending(1));
    let store = Moody::new();
    let admission = Admission::builder()
        .limit(Fixed::new(4))
        .queue(20)
        .rules(rules)
        .labels(Labels::new().label_cap("capped", 1))
        .partition("batch", percent(25).hard_cap())
        .shared(Leases::builder().build(Arc::new(store.clone())), Keys::new("api").unwrap())
        .clock(Still)
        .build()
        .unwrap();
    let mut site = Site::start(&admission).await;
    site.heartbeat(&json!({"worker_id": "w", "task_queue": "a", "max_concurrent_workflow": 2})).await;
    site.quick(3, &[("x-label", "plain"), ("x-tenant", "batch")]).await;
    site.hold(1, &[("x-label", "a"), ("x-class", "query")]);
    site.hold(1, &[("x-label", "capped")]);
    site.hold(4, &[("x-label", "a"), ("x-class", "workflow")]);
    site.section_when("a", "workflow", "leased_count", 2).await;
    site.section_when("a", "query", "status", "full").await;
    assert_eq!(site.work("/quick", &[("x-label", "a"), ("x-class", "query")]).await, 429);

    admission.set_mode(Mode::Observe);
    admission.set_mode(Mode::Enforce);
    for mood in [Mood::Down(tokio::time::Instant::now()), Mood::Up] {
        store.is(mood);
        admission.publish_metrics();
    }

    let mut answers = BTreeMap::new();
    for (path, schema) in [
        ("/admission", "Overview"),
        ("/admission/labels?limit=2", "LabelPage"),
        ("/admission/labels", "LabelPage"),
        ("/admission/labels/a", "Label"),
        ("/admission/labels/plain", "Label"),
        ("/admission/labels/unknown", "Problem"),
        ("/admission/partitions/batch", "Partition"),
        ("/admission/labels/a/waiters", "WaiterPage"),
        ("/admission/labels/a/waiters?offset=1&limit=1", "WaiterPage"),
        ("/admission/journal", "JournalPage"),
        ("/admission/journal?since=0&limit=2", "JournalPage"),
        ("/admission/history?last=1m&labels=top", "HistoryPage"),
        ("/admission/history?last=0", "Problem"),
        ("/admission/ready", "Readiness"),
    ] {
        let body: Value = serde_json::from_slice(site.get(path).await.body()).unwrap();
        answers.insert(path, json!({"schema": schema, "body": body}));
    }
    let description = site.json("/admission/openapi.json").await;
    site.let_go().await;

    let folder = npm::checkers();
    let input = folder.join("input.json");
    fs::write(&input, json!({"description": description, "answers": answers}).to_string()).unwrap();
    // Where the script lies is where it looks for packages.
    let script = folder.join("openapi.mjs");
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/introspect/openapi.mjs"), &script).unwrap();
    let node = Command::new("node").arg(script).arg(input).output();
    let output = node.unwrap_or_else(|error| panic!("node is needed for this test; .ci/test installs it: {error}"));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("OpenAPI 3.1") && said.contains("14 answers"), "{said}");
}

/// The words that may stand at this place of the description.
fn words<'a>(description: &'a Value, place: &str) -> Vec<&'a str> {
    let words = description.pointer(&format!("/components/schemas/{place}/enum")).and_then(Value::as_array);
    words.unwrap_or_else(|| panic!("{place} is described")).iter().filter_map(Value::as_str).collect()
}

#[tokio::test]
async fn the_words_of_the_description_are_those_of_the_code() {
    let second = Duration::from_secs(1);
    let mut site = Site::start(&Admission::builder().build().unwrap()).await;
    let description = site.json("/admission/openapi.json").await;
    site.let_go().await;
    let reasons: Vec<_> = Reason::ALL.into_iter().map(Reason::as_str).collect();
    assert_eq!(words(&description, "Reason"), reasons);
    let when_full = [WhenFull::Queue, WhenFull::Reject, WhenFull::RespondEmpty].map(WhenFull::as_str);
    assert_eq!(words(&description, "Rule/properties/when_full"), when_full);
    assert_eq!(words(&description, "Blocked/properties/when_full"), when_full);
    let disciplines = [
        Discipline::Fifo,
        Discipline::Fair,
        Discipline::AdaptiveLifo { interval: second, short_wait: second / 10 },
        Discipline::BurstCredit { longest: second, standing: second / 10, credit: second },
    ];
    let told = disciplines.map(|discipline| {
        let admission = Admission::builder().queue(10).discipline(discipline).build().unwrap();
        admission.snapshot().discipline
    });
    assert_eq!(words(&description, "Overview/properties/discipline"), told);
}
