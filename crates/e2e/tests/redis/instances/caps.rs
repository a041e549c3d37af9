//! Caps, rates and budgets that hold over all instances.

use std::time::Duration;

use http::StatusCode;
use tower_admission::{Cap, ClassLimits, Rate, Rules, WhenFull};

use super::{Instance, OK, Work, get_work, leases, reason, spawn_work, web};
use crate::redis::support::{bounded, eventually, ms, server::Server, soak};

/// Ninety requests on three instances; answers how many ran together once everybody had come who could.
async fn crowd(rules: Rules, local_shares: bool, expected: usize) -> i64 {
    let server = Server::start().await;
    let work = Work::new(30);
    let instances = Instance::three(&server, &rules, leases().local_shares(local_shares), &work).await;
    let web = web();
    let answers: Vec<_> =
        (0..180).map(|number| spawn_work(&web, instances[number % 3].address, "", "orders")).collect();
    let seen = || instances.iter().map(|it| it.admission.snapshot()).map(|it| it.in_flight + it.waiting).sum::<usize>();
    eventually("all have come", async || seen() == 180).await;
    eventually("as many run as may", async || work.ledger.entered() >= expected as u64).await;
    // Whoever else could get in, would.
    tokio::time::sleep(ms(300)).await;
    assert_eq!(work.ledger.entered(), expected as u64);
    work.go_on.send_replace(true);
    for answer in answers {
        assert_eq!(bounded("an answer", answer).await.unwrap().status(), OK);
    }
    assert_eq!(work.ledger.entered(), 180);
    work.ledger.peak()
}

fn thirty() -> Cap {
    Cap::from(30)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_instances_hold_one_cap_together() {
    assert_eq!(crowd(Rules::new().default_limits(ClassLimits::new().max_in_flight(thirty())), false, 30).await, 30);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_they_do_with_local_shares() {
    assert_eq!(crowd(Rules::new().default_limits(ClassLimits::new().max_in_flight(thirty())), true, 30).await, 30);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_counted_by_each_it_is_three_caps() {
    assert_eq!(
        crowd(Rules::new().default_limits(ClassLimits::new().max_in_flight(thirty().local())), false, 90).await,
        90
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_ten_starts_at_once_two_run_and_eight_are_told_so() {
    let server = Server::start().await;
    let limits = ClassLimits::new().max_in_flight(Cap::from(2).when_full(WhenFull::Reject));
    let rules = Rules::new().class("run", limits);
    let rounds = if soak() { 200 } else { 20 };
    let web = web();
    for local_shares in [false, true] {
        let mut counts = std::collections::BTreeMap::new();
        for round in 0..rounds {
            let work = Work::new(2);
            // Instances that have never heard of the organisation: nothing is held anywhere.
            let organisation = format!("org-{local_shares}-{round}");
            let instances = Instance::three(&server, &rules, leases().local_shares(local_shares), &work).await;
            let starts: Vec<_> =
                (0..10).map(|number| spawn_work(&web, instances[number % 3].address, "run", &organisation)).collect();
            eventually("eight are answered", async || starts.iter().filter(|it| it.is_finished()).count() >= 8).await;
            // A start that has a slot may not have reached its handler yet.
            eventually("two run", async || work.ledger.entered() >= 2).await;
            work.go_on.send_replace(true);
            for start in starts {
                let response = bounded("an answer", start).await.unwrap();
                if response.status() != OK {
                    assert_eq!(reason(&response), "label_cap");
                    assert!(response.headers().contains_key("retry-after"));
                }
                *counts.entry(response.status().as_u16()).or_insert(0) += 1;
            }
            assert_eq!(work.ledger.peak(), 2);
        }
        println!("local shares {local_shares}: {rounds} rounds of 10 starts: {counts:?}");
        assert_eq!(counts, [(200, 2 * rounds), (429, 8 * rounds)].into());
    }
}

/// Where a label waits for a cap, its slot is somebody else's, and one question at a time is asked for all of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_others_keeps_nobody_waiting_and_asks_seldom() {
    let server = Server::start().await;
    let work = Work::new(1);
    let rules = Rules::new().class("one", ClassLimits::new().max_in_flight(1));
    let [holder, waiting, _] = &Instance::three(&server, &rules, leases(), &work).await[..] else { panic!() };
    let web = web();
    let first = spawn_work(&web, holder.address, "one", "orders");
    eventually("the cap is taken", async || work.ledger.entered() == 1).await;

    let many: Vec<_> = (0..50).map(|_| spawn_work(&web, waiting.address, "one", "orders")).collect();
    eventually("they wait", async || waiting.admission.snapshot().waiting == 50).await;
    assert!(waiting.running() <= 1, "one of them asks at most");
    let asked = server.commands("evalsha").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let asked = server.commands("evalsha").await - asked;
    // Every 125 to 250 ms, and renewals of the holder.
    assert!(asked <= 20, "{asked} questions in a second");

    work.go_on.send_replace(true);
    let all = async {
        for answer in many {
            assert_eq!(answer.await.unwrap().status(), OK);
        }
    };
    bounded("all of them", all).await;
    assert_eq!(first.await.unwrap().status(), OK);
    assert_eq!((work.ledger.peak(), work.ledger.entered()), (1, 51));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_is_free_while_its_request_waits_for_others() {
    let server = Server::start().await;
    let (held, work) = (Work::new(1), Work::new(1));
    let rules = Rules::new().class("one", ClassLimits::new().max_in_flight(1));
    let build = |limit| super::settings(rules.clone()).limit(tower_admission::limit::Fixed::new(limit));
    let leases = || leases().build(crate::redis::support::shared(server.store()));
    let holder = Instance::start(build(9), leases(), &held).await;
    let small = Instance::start(build(1), leases(), &work).await;
    let web = web();
    let first = spawn_work(&web, holder.address, "one", "orders");
    eventually("the cap is taken", async || held.ledger.entered() == 1).await;
    let waits = spawn_work(&web, small.address, "one", "orders");
    eventually("it waits", async || small.admission.snapshot().waiting == 1).await;
    work.go_on.send_replace(true);
    for _ in 0..20 {
        assert_eq!(bounded("others", get_work(&web, small.address, "", "other")).await.status(), OK);
    }
    assert!(!waits.is_finished());
    held.go_on.send_replace(true);
    assert_eq!(bounded("its turn", waits).await.unwrap().status(), OK);
    assert_eq!(first.await.unwrap().status(), OK);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rates_and_budgets_are_counted_for_all_of_them() {
    let server = Server::start().await;
    let work = Work::new(100);
    work.go_on.send_replace(true);
    let rate = Rate::from(7);
    let rules = Rules::new()
        .class("rate", ClassLimits::new().max_per_minute(rate))
        .class("namespace", ClassLimits::new().max_per_minute_per_namespace(rate))
        .class("email", ClassLimits::new().budget("downstream", rate))
        .class("sms", ClassLimits::new().budget("downstream", rate))
        .class("local", ClassLimits::new().max_per_minute(rate.local()))
        .class("smooth", ClassLimits::new().max_per_minute(rate.smooth()));
    let instances = Instance::three(&server, &rules, leases(), &work).await;
    let web = web();
    let all = async |classes: [&str; 2], labels: [&str; 2]| {
        // Once more, if the minute ended meanwhile.
        for _ in 0..5 {
            server
                .ask(&["EVAL", "for _, k in ipairs(redis.call('KEYS', '*:rate:*')) do redis.call('DEL', k) end", "0"])
                .await
                .unwrap();
            let before = server.seconds().await / 60;
            let mut counts = std::collections::BTreeMap::new();
            for number in 0..30 {
                let to = instances[number % 3].address;
                let response = get_work(&web, to, classes[number % 2], labels[number % 2]).await;
                let word = if response.status() == OK { "ok".to_owned() } else { reason(&response) };
                *counts.entry(word).or_insert(0) += 1;
                if response.status() == StatusCode::TOO_MANY_REQUESTS {
                    let after: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
                    // Each is promised a start of its own.
                    assert!((1..=600).contains(&after), "{after}");
                }
            }
            if server.seconds().await / 60 == before {
                return counts;
            }
        }
        panic!("every time, a minute ended");
    };
    let counted = |word: &str, ok: i32| [("ok".to_owned(), ok), (word.to_owned(), 30 - ok)].into();
    assert_eq!(all(["rate", "rate"], ["a", "a"]).await, counted("rate", 7));
    assert_eq!(all(["namespace", "namespace"], ["b", "c"]).await, counted("rate", 7));
    assert_eq!(all(["email", "sms"], ["d", "e"]).await, counted("budget", 7), "over classes and labels");
    assert_eq!(all(["local", "local"], ["f", "f"]).await, counted("rate", 21), "control: counted by each");
    assert_eq!(all(["smooth", "smooth"], ["g", "g"]).await, counted("rate", 1));
}
