//! The journal over HTTP: pages, kinds, and what is in it after a real server was driven into each decision.

use std::num::NonZeroU32;

use serde_json::{Value, json};
use tower_admission::{Admission, Labels, limit::Fixed};

use super::support::{Site, Still};

fn numbers(page: &Value) -> Vec<u64> {
    page["entries"].as_array().unwrap().iter().map(|it| it["sequence"].as_u64().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_tells_who_was_turned_away_by_which_rule() {
    let labels = Labels::new().label_cap("capped", 1);
    let builder = Admission::builder().limit(Fixed::new(2)).queue(8).max_waiting(0).labels(labels).clock(Still);
    let admission = builder.build().unwrap();
    let mut site = Site::start(&admission).await;
    site.hold(2, &[("x-label", "capped"), ("x-secret", "hush")]);
    site.section_when("capped", "*", "ready_count", 1).await;
    admission.drain(tower_admission::DrainMode::RejectWaiting);
    assert_eq!(site.work("/quick?token=hush", &[("x-label", "late")]).await, 503);

    let page = site.json("/admission/journal").await;
    let told = page["entries"].as_array().unwrap().iter().map(|it| {
        let field = |name: &str| it[name].as_str().unwrap_or("-").to_owned();
        [field("label"), field("decision"), field("reason"), field("rule"), field("change")].join(" ")
    });
    let told: Vec<_> = told.collect();
    assert_eq!(
        told,
        [
            "capped admitted - - -",
            "capped queued - label_cap -",
            "- - - - drain",
            "capped rejected draining draining -",
            "late rejected draining draining -",
        ]
    );
    let queued = &page["entries"][1];
    assert_eq!((&queued["used"], &queued["bound"], &queued["waiting"]), (&json!(1), &json!(1), &json!(1)));
    assert!(!page.to_string().contains("hush"), "nothing but names");
    let response = site.get("/admission/journal").await;
    assert_eq!(response.headers()["admission-now"], "600.000", "the clock stands still");
    site.let_go().await;
}

#[tokio::test]
async fn pages_follow_each_other_and_the_newest_come_without_asking() {
    let admission = Admission::builder().limit(Fixed::new(9)).journal(600).time_one_in(NonZeroU32::MIN).clock(Still);
    let admission = admission.build().unwrap();
    let site = Site::start(&admission).await;
    for _ in 0..1_000 {
        drop(admission.try_admit(tower_admission::Ticket::new()).unwrap());
    }
    admission.set_mode(tower_admission::Mode::Observe);
    admission.set_mode(tower_admission::Mode::Enforce);

    let newest = site.json("/admission/journal?limit=3").await;
    assert_eq!((numbers(&newest), &newest["newest"]), (vec![1_000, 1_001, 1_002], &json!(1_002)));
    assert_eq!((&newest["capacity"], &newest["next_since"]), (&json!(600), &Value::Null));
    let decisions = site.json("/admission/journal?limit=2&kind=decision").await;
    assert_eq!(numbers(&decisions), [999, 1_000]);
    let changes = site.json("/admission/journal?kind=change").await;
    assert_eq!(numbers(&changes), [1_001, 1_002]);
    assert_eq!((&changes["entries"][0]["from"], &changes["entries"][0]["to"]), (&json!("enforce"), &json!("observe")));

    let (mut all, mut since) = (Vec::new(), Some(0));
    while let Some(number) = since {
        let page = site.json(&format!("/admission/journal?since={number}&limit=250")).await;
        all.extend(numbers(&page));
        since = page["next_since"].as_u64();
    }
    assert_eq!(all, (401..=1_002).collect::<Vec<_>>());
    assert_eq!(site.json("/admission/journal?since=1002").await["entries"], json!([]));
    assert_eq!(admission.journal().iter().map(|it| it.sequence).collect::<Vec<_>>(), all);
}
