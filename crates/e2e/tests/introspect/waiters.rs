//! Who waits for a label, and for what.

use std::time::Duration;

use serde_json::{Value, json};
use tower_admission::{Admission, Labels, limit::Fixed};

use super::support::{Site, Still};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_waiter_has_a_place_and_an_obstacle() {
    let labels = Labels::new().label_cap("capped", 2).max_wait(Duration::from_secs(30));
    let builder = Admission::builder().limit(Fixed::new(8)).queue(4).max_waiting(9).labels(labels).clock(Still);
    let admission = builder.build().unwrap();
    let mut site = Site::start(&admission).await;
    site.hold(8, &[("x-label", "capped")]);
    site.section_when("capped", "*", "ready_count", 6).await;

    let page = site.json("/admission/labels/capped/waiters").await;
    assert_eq!((&page["total"], &page["label"], &page["next_offset"]), (&json!(6), &json!("capped"), &Value::Null));
    let waiters = page["waiters"].as_array().unwrap();
    let told = waiters.iter().map(|it| (it["place"].as_u64().unwrap(), it["stage"].as_str().unwrap()));
    let told: Vec<_> = told.collect();
    assert_eq!(told, [(1, "line"), (2, "line"), (3, "line"), (4, "line"), (5, "gate"), (6, "gate")]);
    for waiter in waiters {
        assert_eq!((&waiter["blocked_by"]["rule"], &waiter["blocked_by"]["used"]), (&json!("label_cap"), &json!(2)));
        assert_eq!((&waiter["partition"], &waiter["waited_seconds"]), (&json!("default"), &json!(0.0)));
    }
    assert_eq!((&waiters[0]["ends_in_seconds"], &waiters[5]["ends_in_seconds"]), (&json!(30.0), &json!(5.0)));

    let second = site.json("/admission/labels/capped/waiters?offset=4&limit=1").await;
    assert_eq!((&second["waiters"][0]["place"], &second["next_offset"]), (&json!(5), &json!(5)));
    assert_eq!(site.json("/admission/labels/capped/waiters?offset=99").await["waiters"], json!([]));
    for (path, status) in
        [("unknown/waiters", 404), ("capped/waiters?sort=place", 400), ("capped/waiters?limit=0", 400)]
    {
        assert_eq!(site.get(&format!("/admission/labels/{path}")).await.status(), status, "{path}");
    }
    assert_eq!(admission.waiters("", "capped").len(), 6);
    assert!(admission.waiters("", "unknown").is_empty() && admission.waiters("other", "capped").is_empty());
    site.let_go().await;
    assert_eq!(site.json("/admission/labels/capped/waiters").await["total"], 0);
}
