//! `status`, `partitions` and `describe --partition`: what they say of a server in each state, against what requests get there.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use admission_testkit::{Mood, Moody};
use serde_json::Value;
use tower_admission::{
    Admission, AdmissionBuilder, Cap, ClassLimits, DrainMode, Labels, Mode, Rate, Reason, Rules, Ticket, WhenFull,
    limit::{Aimd, Fixed, Limit},
    percent,
    store::{Keys, Leases, OnStoreFailure},
};

use crate::{
    support::{Site, run_with, serve},
    what_if::ByHand,
};

fn full() -> AdmissionBuilder {
    Admission::builder().name("shop").limit(Fixed::new(2)).wait_timeout(Duration::ZERO)
}

/// What `status` says first, once that begins so, and what is served to programs, which is the same.
async fn says(site: &Site, start: &str) -> Value {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let out = site.run(&["status"]).await.with(0);
        let json = site.json("/admission").await;
        if out.starts_with(start) {
            let headline = json["health"]["headline"].as_str().unwrap();
            assert!(headline.starts_with(start), "{headline:?} and {out}");
            assert!(start.starts_with(&json["health"]["state"].as_str().unwrap().replace('_', " ")), "{json:#}");
            assert!(out.contains("limit 2: fixed by the settings") || !headline.contains("limit 2 fixed"), "{out}");
            let told = site.run(&["status", "--json"]).await.json();
            assert_eq!(told["health"]["state"], json["health"]["state"]);
            let is_well = ["fine", "busy"].contains(&json["health"]["state"].as_str().unwrap());
            site.run(&["status", "--exit-code"]).await.with(i32::from(!is_well));
            let watched = site.run(&["watch", "--count", "1"]).await.with(0);
            let word = json["health"]["state"].as_str().unwrap();
            assert!(watched.contains(&format!(" health={word}")), "{watched}");
            return json;
        }
        assert!(tokio::time::Instant::now() < deadline, "{start:?} is not what it says: {out}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn refused(admission: &Admission, ticket: &Ticket<'_>, reason: Reason) {
    assert_eq!(admission.try_admit(ticket.clone()).unwrap_err().reason(), reason);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_is_busy_then_overloaded_and_says_who_is_refused() {
    let mut site = Site::start(full().partition("noisy", percent(50)).build().unwrap()).await;
    drop(site.admission.try_admit(Ticket::new()).unwrap());
    says(&site, "fine: ").await;
    site.hold(2, &Ticket::new());
    says(&site, "busy: 2 of 2 slots in use, 0 waiting").await;
    let noisy = Ticket::new().partition("noisy").label("crawler");
    for _ in 0..300 {
        refused(&site.admission, &noisy, Reason::Limit);
    }
    let json = says(&site, "overloaded: noisy refused 100 %, ").await;
    assert_eq!(
        (&json["health"]["rejected"][0]["name"], &json["health"]["rejected"][0]["reason"]),
        (&"noisy".into(), &"limit".into())
    );
    assert_eq!(json["partitions"][1]["recent"]["rejected_below_share"], true, "it ran none, and has a share of one");
    let out = site.run(&["partitions"]).await.with(0);
    let first: Vec<_> = out.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(first[..4], ["noisy", "saturated", "burst", "1"], "{out}");
    assert!(out.contains("limit (below its share)"), "{out}");
    let out = site.run(&["describe", "--partition", "noisy"]).await.with(0);
    assert!(
        out.starts_with("partition noisy: saturated") && out.contains("0 admitted and 300 rejected so far"),
        "{out}"
    );
    site.run(&["describe", "--partition", "noisy", "--exit-code"]).await.with(1);
    let near = site.run(&["describe", "--partition", "nosy"]).await.with(1);
    assert!(near.contains("there is no partition \"nosy\"; did you mean \"noisy\"?"), "{near}");
    assert_eq!(site.run(&["describe"]).await.code, 2, "neither a label nor a partition");
    // The label is known by its next second or so.
    says(&site, "overloaded: noisy refused 100 %, most of them of crawler, limit 2 fixed").await;
    let list = site.run(&["list"]).await.with(0);
    let rate: f64 = list.lines().nth(1).unwrap().split_whitespace().nth(5).unwrap().parse().unwrap();
    assert!(rate > 0.0, "{list}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_that_do_not_come_back_and_callers_that_leave_are_no_success() {
    let exit = ["status", "--exit-code"];
    for (leaks, leave, code) in [(false, 0, 0), (true, 0, 1), (false, 1, 1), (false, 4, 1)] {
        let clock = ByHand::default();
        let builder = Admission::builder().limit(Fixed::new(4)).labels(Labels::new());
        let mut site = Site::start(builder.clock(clock.clone()).build().unwrap()).await;
        for second in 0..30 {
            // The slots are in use most of the time, by requests that end or by requests that don't.
            if second == 0 || !leaks {
                site.let_go();
                site.hold(4, &Ticket::new().label("acme"));
            }
            site.abandon(leave);
            clock.0.fetch_add(1_000, Ordering::Relaxed);
            site.admission.snapshot();
        }
        let out = site.run(&["status"]).await.with(0);
        assert_eq!(out.contains("acme do not end; `permit_time_to_live` takes their slots back"), leaks, "{out}");
        let state = site.json("/admission").await["health"]["state"].as_str().unwrap().to_owned();
        assert!(state == if leave == 4 { "abandoned" } else { "busy" } && out.starts_with(&state), "{out}");
        assert!(out.lines().any(|line| line.starts_with("SUFFERS OR HOLDS MOST")), "{out}");
        site.run(&exit).await.with(code);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mode_and_a_drain_are_said_at_once() {
    let mut site = Site::start(full().build().unwrap()).await;
    site.hold(2, &Ticket::new());
    site.admission.set_mode(Mode::Observe);
    let extra = site.admission.try_admit(Ticket::new()).unwrap();
    says(&site, "not enforcing: dry run, ").await;
    site.admission.set_mode(Mode::Off);
    says(&site, "not enforcing: admission control is switched off").await;
    site.admission.set_mode(Mode::Enforce);
    refused(&site.admission, &Ticket::new(), Reason::Limit);
    site.admission.drain(DrainMode::RejectWaiting);
    refused(&site.admission, &Ticket::new(), Reason::Draining);
    says(&site, "draining: no request is admitted, 2 run").await;
    drop(extra);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_of_a_caller_is_throttled_and_a_rule_that_observes_never_looks_enforced() {
    let rules = Rules::new()
        .class("job", ClassLimits::new().max_per_minute(Rate::from(1).smooth()))
        .class("trial", ClassLimits::new().max_in_flight(Cap::from(1).when_full(WhenFull::Reject).observe()));
    let mut site = Site::start(Admission::builder().limit(Fixed::new(50)).rules(rules).build().unwrap()).await;
    let (job, trial) = (Ticket::new().label("a").class("job"), Ticket::new().label("a").class("trial"));
    site.hold(2, &trial);
    let out = site.run(&["list"]).await.with(0);
    assert!(out.contains("trial  accepting        2"), "no bound that is not enforced: {out}");
    let out = site.run(&["describe", "a"]).await.with(0);
    assert!(
        out.contains("dry run") && out.contains("1 would have been rejected by rules that observe (dry run)"),
        "{out}"
    );
    drop(site.admission.try_admit(job.clone()).unwrap());
    for _ in 0..50 {
        refused(&site.admission, &job, Reason::Rate);
    }
    says(&site, "throttled: requests refused ").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_gone_is_said_with_what_its_rules_do() {
    for (way, says_rules, word) in [
        (OnStoreFailure::FailClosed, "store gone: shared rules refuse", "refuse"),
        (OnStoreFailure::FailOpen, "store gone: shared rules admit all", "admit"),
    ] {
        let store = Moody::new();
        let cap = Cap::from(9).when_full(WhenFull::Reject).on_store_failure(way);
        let rules = Rules::new().default_limits(ClassLimits::new().max_in_flight(cap));
        let leases = Leases::builder().build(Arc::new(store.clone()));
        let admission = Admission::builder().limit(Fixed::new(100)).labels(Labels::new()).rules(rules);
        let site = Site::start(admission.shared(leases, Keys::new("test").unwrap()).build().unwrap()).await;
        drop(site.admission.admit(Ticket::new().label("a")).await.unwrap());
        says(&site, "fine: ").await;
        store.is(Mood::Down(tokio::time::Instant::now()));
        let mut refusals = 0;
        for _ in 0..12 {
            refusals += usize::from(site.admission.admit(Ticket::new().label("a")).await.is_err());
        }
        assert_eq!(refusals, if way == OnStoreFailure::FailClosed { 12 } else { 0 }, "of 12");
        says(&site, says_rules).await;
        let section = &site.json("/admission/labels/a").await["admission"]["*"];
        assert_eq!(section["without_store"], word, "{section:#}");
        let out = site.run(&["describe", "a"]).await.with(0);
        assert!(out.contains("without store: "), "{out}");
        let of_store = site.run(&["journal", "--rule", "store"]).await.with(0);
        let expected = if way == OnStoreFailure::FailClosed { 13 } else { 1 };
        assert_eq!(of_store.lines().count(), expected, "a head and each refusal, or `no entries`: {of_store}");
        store.is(Mood::Up);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_at_its_maximum_says_why_it_is_there() {
    let law = Limit::per_sample(Aimd::new(Duration::from_secs(9)).initial(3).max(4));
    let mut site = Site::start(Admission::builder().limit(law).shed().build().unwrap()).await;
    let json = site.json("/admission").await;
    assert_eq!(
        (&json["limit_state"]["state"], &json["limit_state"]["last_move"]),
        (&"too_little_load".into(), &Value::Null)
    );
    site.hold(3, &Ticket::new());
    site.let_go();
    let json = site.json("/admission").await;
    let limit = &json["limit_state"];
    assert_eq!(
        (&limit["law"], &limit["state"], &limit["at_bound"], &limit["max"]),
        (&"aimd".into(), &"at_maximum".into(), &"maximum".into(), &4.into())
    );
    assert_eq!((&limit["reference"], &limit["reference_seconds"]), (&"threshold".into(), &9.0.into()));
    assert_eq!((&limit["last_move"]["from"], &limit["last_move"]["to"]), (&3.into(), &4.into()));
    let out = site.run(&["status"]).await.with(0);
    assert!(
        out.contains("limit 4 (of 1 to 4): at its maximum; aimd measures RTT ")
            && out.contains(" against a threshold of 9 s; last moved 3 → 4 "),
        "{out}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_leaves_the_journal_of_a_quiet_tenant_alone_and_filters_find_it() {
    let builder = full().partition("quiet", percent(50).hard_cap()).labels(Labels::new());
    let mut site = Site::start(builder.build().unwrap()).await;
    // A request with a label is listed when it is admitted; one without may be listed when it ends.
    site.hold(1, &Ticket::new().partition("quiet").label("held"));
    refused(&site.admission, &Ticket::new().partition("quiet").label("shy"), Reason::PartitionCap);
    site.hold(1, &Ticket::new().label("held"));
    site.admission.set_mode(Mode::Observe);
    site.admission.set_mode(Mode::Enforce);
    for _ in 0..5_000 {
        refused(&site.admission, &Ticket::new().label("loud"), Reason::Limit);
    }
    let found = site.run(&["journal", "--label", "shy"]).await.with(0);
    assert_eq!(found.lines().count(), 2, "a head, and the entry that 5,000 others did not push out: {found}");
    assert!(found.contains("partition_cap, partition 1/1") && found.contains("quiet"), "{found}");
    for (filter, count) in [
        (["--partition", "quiet"], 2),
        (["--reason", "partition_cap"], 1),
        (["--rule", "partition"], 1),
        (["--decision", "admitted"], 2),
        (["--label", "nobody"], 0),
        (["--kind", "change"], 2),
    ] {
        let json = site.run(&[&["journal", "--json", "-n", "1000"], &filter[..]].concat()).await.json();
        assert_eq!(json["entries"].as_array().unwrap().len(), count, "{filter:?}: {json:#}");
    }
    let loud = site.run(&["journal", "--json", "-n", "20", "--label", "loud"]).await.json();
    let numbers: Vec<_> =
        loud["entries"].as_array().unwrap().iter().map(|it| it["sequence"].as_u64().unwrap()).collect();
    assert_eq!((numbers.len(), numbers[19]), (20, loud["newest"].as_u64().unwrap()), "the newest of them");
    assert_eq!(site.run(&["journal", "--reason", "none"]).await.code, 2);
}

/// Every command sends the token, and without it says how.
#[tokio::test]
async fn a_guarded_server_is_shown_with_its_token() {
    let admission = full().build().unwrap();
    let introspection = admission.introspection().require_token("secret").version("1.4.2");
    let (url, server) = serve(axum::Router::new().fallback_service(introspection)).await;
    let commands: [&[&str]; 6] = [
        &["status"],
        &["partitions"],
        &["list"],
        &["describe", "--partition", "default"],
        &["journal"],
        &["watch", "--count", "1"],
    ];
    for command in commands {
        let refused = run_with(&[("ADMISSION_URL", &url)], command).await.with(3);
        assert!(refused.contains("--token or ADMISSION_TOKEN says what it is"), "{command:?}: {refused}");
        run_with(&[("ADMISSION_URL", &url), ("ADMISSION_TOKEN", "secret")], command).await.with(0);
    }
    let status = run_with(&[("ADMISSION_URL", &url)], &["status", "--token", "secret"]).await.with(0);
    let identity = format!("shop 1.4.2 (tower-admission {}, up ", env!("CARGO_PKG_VERSION"));
    assert!(status.contains(&identity), "{status}");
    server.abort();
}
