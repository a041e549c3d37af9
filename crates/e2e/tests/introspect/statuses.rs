//! Every status, reached by driving a server into it, and what is said to be in the way then.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use tower_admission::{
    Admission, AdmissionBuilder, ClassLimits, DrainMode, Labels, Rate, Rules, limit::Fixed, percent,
};

use super::support::{Site, Still};

fn ten() -> AdmissionBuilder {
    Admission::builder().limit(Fixed::new(10)).queue(100)
}

/// Starts a server with these rules for the class `job`.
async fn with_rules(limits: ClassLimits) -> Site {
    let rules = Rules::new().class("job", limits);
    Site::start(&ten().rules(rules).clock(Still).build().unwrap()).await
}

const JOB: [(&str, &str); 2] = [("x-class", "job"), ("x-label", "a")];

fn in_the_way(section: &Value) -> (&str, &Value, &Value, &str) {
    let blocked = &section["blocked_by"];
    (blocked["rule"].as_str().unwrap(), &blocked["used"], &blocked["bound"], blocked["when_full"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_with_free_slots_accept_and_without_any_are_saturated() {
    let mut site = Site::start(&ten().build().unwrap()).await;
    assert_eq!(site.heartbeat(&json!({"worker_id": "w", "task_queue": "a", "max_concurrent": 3})).await, 204);
    let section = site.section("a", "*").await;
    assert_eq!((&section["status"], &section["available_slot_count"]), (&json!("accepting"), &json!(3)));
    assert_eq!(section["budget_source"], "worker_registration.max_concurrent");
    site.hold(3, &[("x-label", "a")]);
    let section = site.section_when("a", "*", "leased_count", 3).await;
    assert_eq!((&section["status"], &section["available_slot_count"]), (&json!("saturated"), &json!(0)));
    assert!(section.get("blocked_by").is_none(), "their slots are shown, and bind nobody: {section:#}");
    site.let_go().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_of_workers_that_bind_are_in_the_way() {
    let mut site = Site::start(&ten().labels(Labels::new().enforce_workers(true)).build().unwrap()).await;
    site.heartbeat(&json!({"worker_id": "w", "task_queue": "a", "max_concurrent": 2})).await;
    site.hold(3, &[("x-label", "a")]);
    let section = site.section_when("a", "*", "ready_count", 1).await;
    assert_eq!(section["status"], "saturated");
    assert_eq!(in_the_way(&section), ("worker_slots", &json!(2), &json!(2), "wait"));
    site.let_go().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_without_slots_and_silent_workers_are_told_apart() {
    let site = Site::start(&ten().build().unwrap()).await;
    site.heartbeat(&json!({"worker_id": "w", "task_queue": "a", "max_concurrent": 0})).await;
    let section = site.section("a", "*").await;
    assert_eq!((&section["status"], &section["active_worker_count"]), (&json!("no_slots"), &json!(1)));
    // Silent after a second; whoever says goodbye is forgotten, and the label has no worker's state then.
    site.heartbeat(&json!({"worker_id": "w", "task_queue": "b", "max_concurrent": 4, "ttl": 1})).await;
    assert_eq!(site.section("b", "*").await["status"], "accepting");
    let section = site.section_when("b", "*", "status", "no_active_workers").await;
    assert_eq!((&section["active_worker_count"], &section["configured_slot_count"]), (&json!(0), &json!(0)));
    site.heartbeat(&json!({"worker_id": "w", "task_queue": "b", "max_concurrent": 4, "ttl": 0})).await;
    let section = site.section("b", "*").await;
    assert_eq!(section["status"], "accepting", "no worker's state without workers");
    assert!(section.get("active_worker_count").is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_kind_of_cap_throttles() {
    let cases = [
        (ClassLimits::new().max_in_flight(1), "max_in_flight", "wait"),
        (ClassLimits::new().max_in_flight_per_namespace(1), "max_in_flight_per_namespace", "reject"),
        (ClassLimits::new().max_per_minute(1), "max_per_minute", "reject"),
        (ClassLimits::new().max_per_minute_per_namespace(1), "max_per_minute_per_namespace", "reject"),
        (ClassLimits::new().budget("downstream", Rate::from(1)), "budget", "reject"),
    ];
    for (limits, rule, when_full) in cases {
        let mut site = with_rules(limits).await;
        site.hold(1, &JOB);
        let section = site.section_when("a", "job", "leased_count", 1).await;
        assert_eq!(section["status"], "throttled", "{rule}: {section:#}");
        assert_eq!(in_the_way(&section), (rule, &json!(1), &json!(1), when_full));
        assert_eq!(section["server_budget_source"], "server.job");
        if when_full == "reject" {
            assert_eq!(site.work("/quick", &JOB).await, StatusCode::TOO_MANY_REQUESTS, "{rule}");
        }
        let timed = rule.contains("minute") || rule == "budget";
        assert_eq!(section["blocked_by"]["room_in_seconds"].is_number(), timed, "{rule}: {section:#}");
        site.let_go().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cap_on_a_label_throttles_it_and_nobody_else() {
    let mut site = Site::start(&ten().labels(Labels::new().label_cap("a", 2)).build().unwrap()).await;
    site.hold(2, &[("x-label", "a")]);
    site.quick(1, &[("x-label", "b")]).await;
    let section = site.section_when("a", "*", "status", "throttled").await;
    assert_eq!(in_the_way(&section), ("label_cap", &json!(2), &json!(2), "wait"));
    assert_eq!(section["server_max_active_leases_per_queue"], 2);
    assert_eq!(section["server_budget_source"], "server.admission.labels");
    assert_eq!(site.section("b", "*").await["status"], "accepting");
    site.let_go().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_important_statuses_come_first() {
    let rules = Rules::new().class("job", ClassLimits::new().max_in_flight(1));
    let mut site = Site::start(&ten().rules(rules).build().unwrap()).await;
    let worker =
        |slots: usize, ttl| json!({"worker_id": "w", "task_queue": "a", "max_concurrent_job": slots, "ttl": ttl});
    site.heartbeat(&worker(1, 30)).await;
    site.hold(1, &JOB);
    let section = site.section_when("a", "job", "leased_count", 1).await;
    assert_eq!(section["available_slot_count"], 0);
    assert_eq!(section["status"], "throttled", "before saturated");
    site.heartbeat(&worker(0, 30)).await;
    assert_eq!(site.section("a", "job").await["status"], "no_slots", "before throttled");
    site.heartbeat(&worker(0, 1)).await;
    site.section_when("a", "job", "status", "no_active_workers").await;
    site.let_go().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pending_work_is_accepted_or_full() {
    let mut site = with_rules(ClassLimits::new().max_pending(2)).await;
    site.hold(1, &JOB);
    let section = site.section_when("a", "job", "approximate_pending_count", 1).await;
    assert_eq!((&section["status"], &section["remaining_pending_capacity"]), (&json!("accepting"), &json!(1)));
    site.hold(1, &JOB);
    let section = site.section_when("a", "job", "approximate_pending_count", 2).await;
    assert_eq!((&section["status"], &section["remaining_pending_capacity"]), (&json!("full"), &json!(0)));
    assert_eq!(in_the_way(&section), ("max_pending", &json!(2), &json!(2), "reject"));
    assert_eq!(site.work("/quick", &JOB).await, StatusCode::TOO_MANY_REQUESTS);
    site.let_go().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_workers_a_full_server_saturates_and_says_what_is_full() {
    let admission = ten().partition("batch", percent(20).hard_cap()).build().unwrap();
    let mut site = Site::start(&admission).await;
    site.hold(3, &[("x-label", "b"), ("x-tenant", "batch")]);
    let section = site.section_when("b", "*", "ready_count", 1).await;
    assert_eq!(section["status"], "saturated");
    assert_eq!(in_the_way(&section), ("partition", &json!(2), &json!(2), "wait"));
    assert_eq!((&section["partition"], &section["configured_slot_count"]), (&json!("batch"), &json!(2)));
    let partition = site.json("/admission/partitions/batch").await;
    assert_eq!(partition["admission"]["status"], "saturated");
    assert_eq!(partition["admission"]["ready_count"], 1);

    site.hold(9, &[("x-label", "a")]);
    let section = site.section_when("a", "*", "ready_count", 1).await;
    assert_eq!(section["status"], "saturated");
    assert_eq!(in_the_way(&section), ("limit", &json!(10), &json!(10), "wait"));
    assert_eq!(site.json("/admission").await["available"], 0);
    site.let_go().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draining_is_in_everybodys_way() {
    let site = Site::start(&ten().build().unwrap()).await;
    site.quick(1, &[("x-label", "a")]).await;
    assert_eq!(site.json("/admission/ready").await, json!({"ready": true, "draining": false}));
    site.admission.drain(DrainMode::RejectWaiting);
    assert_eq!(site.section("a", "*").await["blocked_by"]["rule"], "draining");
    let response = site.get("/admission/ready").await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(serde_json::from_slice::<Value>(response.body()).unwrap(), json!({"ready": false, "draining": true}));
    assert_eq!(site.work("/quick", &[]).await, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_wait_is_estimated_from_what_was_seen() {
    let admission = Admission::builder().limit(Fixed::new(1)).queue(10).build().unwrap();
    let mut site = Site::start(&admission).await;
    // Answers are only timed where somebody waits for the slot.
    let both = tokio::join!(site.work("/slow", &[("x-label", "a")]), site.work("/slow", &[("x-label", "a")]));
    assert_eq!(both, (StatusCode::OK, StatusCode::OK));
    assert_eq!(site.section("a", "*").await["estimated_wait_seconds"], 0.0);
    site.hold(3, &[("x-label", "a")]);
    let section = site.section_when("a", "*", "ready_count", 2).await;
    let estimate = Duration::from_secs_f64(section["estimated_wait_seconds"].as_f64().unwrap());
    // Three have to go before, each of which holds the slot for 40 ms or more.
    assert!((100..2_000).contains(&estimate.as_millis()), "{estimate:?}");
    site.let_go().await;
}
