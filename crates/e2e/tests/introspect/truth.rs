//! A status says what becomes of requests: not `accepting` where most are refused.

use std::{sync::Arc, time::Duration};

use admission_testkit::{Mood, Moody};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower_admission::{
    Admission, AdmissionBuilder, Cap, ClassLimits, DrainMode, Labels, Rate, Rules, WhenFull,
    limit::Fixed,
    percent,
    store::{Keys, Leases, OnStoreFailure},
};

use super::support::Site;

/// One slot, and no waiting.
fn single_slot() -> AdmissionBuilder {
    Admission::builder().limit(Fixed::new(1)).wait_timeout(Duration::ZERO).partition("web", percent(50))
}

const WEB: [(&str, &str); 2] = [("x-tenant", "web"), ("x-label", "a")];

async fn partition(site: &Site, name: &str) -> Value {
    site.json(&format!("/admission/partitions/{name}")).await["admission"]["status"].take()
}

/// Waits until a partition fares so, for as long as a window of some seconds takes on a busy machine.
async fn becomes(site: &Site, name: &str, status: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let found = partition(site, name).await;
        if found == status {
            return;
        }
        assert!(Instant::now() < deadline, "{name} is {found}, not {status}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// So many requests of which each must be answered so.
async fn all(site: &Site, count: usize, headers: &[(&'static str, &str)], status: StatusCode) {
    for _ in 0..count {
        assert_eq!(site.work("/quick", headers).await, status);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_of_which_most_is_refused_does_not_accept_although_a_slot_is_free() {
    let mut site = Site::start(&single_slot().build().unwrap()).await;
    all(&site, 1, &WEB, StatusCode::OK).await;
    becomes(&site, "web", "accepting").await;
    site.hold(1, &WEB);
    site.section_when("a", "*", "leased_count", 1).await;
    all(&site, 12, &WEB, StatusCode::SERVICE_UNAVAILABLE).await;
    site.let_go().await;
    assert_eq!(site.admission.snapshot().in_flight, 0, "a slot is free");
    assert_eq!(partition(&site, "web").await, "saturated", "12 of 14 were refused just now");
    assert_eq!(partition(&site, "default").await, "accepting", "control: no request came for it");
    assert_eq!(site.json("/admission").await["partitions"][1]["admission"]["status"], "saturated");
    becomes(&site, "web", "accepting").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_callers_ran_into_by_themselves_is_throttled() {
    let rules = Rules::new().class("job", ClassLimits::new().max_per_minute(Rate::from(1).smooth()));
    let admission = Admission::builder().limit(Fixed::new(100)).rules(rules).partition("web", percent(50)).build();
    let site = Site::start(&admission.unwrap()).await;
    let job = [("x-tenant", "web"), ("x-label", "a"), ("x-class", "job")];
    all(&site, 1, &job, StatusCode::OK).await;
    becomes(&site, "web", "accepting").await;
    all(&site, 12, &job, StatusCode::TOO_MANY_REQUESTS).await;
    assert_eq!(partition(&site, "web").await, "throttled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_accepts_while_the_handle_drains() {
    let site = Site::start(&single_slot().build().unwrap()).await;
    all(&site, 1, &WEB, StatusCode::OK).await;
    assert_eq!(site.section("a", "*").await["status"], "accepting", "control");
    site.admission.drain(DrainMode::RejectWaiting);
    for name in ["web", "default"] {
        assert_eq!(partition(&site, name).await, "unavailable");
    }
    let section = site.section("a", "*").await;
    assert_eq!((&section["status"], &section["server_lock_supported"]), (&json!("unavailable"), &json!(false)));
    assert_eq!(section["blocked_by"]["rule"], "draining");
}

/// A server whose label `a` has a shared cap, and whose label `open` has one that doesn't bind without the store.
async fn shared(store: &Moody) -> Site {
    let cap = || Cap::from(9).when_full(WhenFull::Reject);
    let rules = Rules::new().default_limits(ClassLimits::new().max_in_flight(cap())).override_key(
        "open",
        "*",
        ClassLimits::new().max_in_flight(cap().on_store_failure(OnStoreFailure::FailOpen)),
    );
    let leases = Leases::builder().build(Arc::new(store.clone()));
    let admission = Admission::builder().limit(Fixed::new(100)).labels(Labels::new()).rules(rules);
    Site::start(&admission.shared(leases, Keys::new("test").unwrap()).build().unwrap()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_label_is_unavailable_from_the_first_request_on_that_a_store_does_not_answer() {
    let store = Moody::new();
    let site = shared(&store).await;
    let [a, b, open] = ["a", "b", "open"].map(|label| [("x-label", label)]);
    for label in [&a, &b, &open] {
        all(&site, 1, label, StatusCode::OK).await;
    }
    let section = async |label: &'static str| {
        let section = site.section(label, "*").await;
        assert_eq!(section["server_lock_required"], true);
        (section["status"].as_str().unwrap().to_owned(), section["server_lock_supported"].as_bool().unwrap())
    };
    let (fine, gone) = (("accepting".to_owned(), true), ("unavailable".to_owned(), false));
    assert_eq!(section("a").await, fine, "control");
    // It is asked all the same: five failures in a row would have it left alone.
    store.is(Mood::Failing);
    all(&site, 1, &a, StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!(section("a").await, gone);
    assert_eq!(section("b").await, gone, "the same store counts it");
    let rule = site.section("a", "*").await["blocked_by"]["rule"].take();
    assert_eq!(rule, "store");
    all(&site, 1, &open, StatusCode::OK).await;
    assert_eq!(section("open").await, fine, "what runs without the store accepts");
    assert_eq!(section("a").await, gone, "and says nothing about the store");
    // Of the default partition, most were refused in vain.
    all(&site, 12, &a, StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!(partition(&site, "default").await, "unavailable");
    store.is(Mood::Up);
    all(&site, 1, &b, StatusCode::OK).await;
    assert_eq!(section("b").await, fine);
    all(&site, 1, &a, StatusCode::OK).await;
    assert_eq!(section("a").await, fine);
}
