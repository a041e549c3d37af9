//! What a scenario says of tenants and of the queue reaches the handle; and what is fair is computed without it.

use admission_simulator::{metrics::Report, windows::metric};

use super::{load, parse, report};

/// A burst of each tenant at once, and the policy.
fn burst(tenants: &str, policy: &str) -> Report {
    let text = format!(
        r#"
        duration = "1s"
        tenants = [{tenants}]
        service = {{ distribution = "constant", mean = "100ms" }}
        server = {{ model = "pool", workers = 1 }}
        policy = {{ queue = 100, {policy}, law = {{ kind = "fixed", limit = 1 }} }}
        "#
    );
    let scenario = parse(&text).unwrap();
    report(&scenario, &scenario.policy, 1)
}

const FIVE: &str = "arrivals = { process = \"bursts\", size = 5, every = \"1h\" }";

fn answers(report: &Report) -> f64 {
    report.tenants[0].iter().map(|tenant| tenant[1]).sum()
}

#[test]
fn bounds_of_labels_and_runs_hold() {
    let bounds = "labels = { max_waiting = 2 }";
    let pair = |second: &str| format!("{{ name = \"a\", label = \"x\", {FIVE} }}, {{ name = \"b\", {second} {FIVE} }}");
    assert_eq!(answers(&burst(&pair("label = \"x\","), bounds)), 3.0, "one runs, two wait");
    assert_eq!(answers(&burst(&pair("label = \"y\","), bounds)), 5.0);
    assert_eq!(answers(&burst(&pair("label = \"x\", namespace = \"other\","), bounds)), 5.0);
    assert_eq!(answers(&burst(&pair(""), bounds)), 8.0, "without a label only the queue bounds it");
    let alike = format!("{{ name = \"a\", count = 3, label = \"x\", {FIVE} }}");
    assert_eq!(answers(&burst(&alike, bounds)), 7.0, "each has a label of its own");
    let run = format!("{{ name = \"a\", count = 3, label = \"x\", run = \"r\", {FIVE} }}");
    assert_eq!(answers(&burst(&run, "labels = { max_waiting_per_run = 2 }")), 3.0, "all are one run");
    assert_eq!(answers(&burst(&alike, "labels = { max_wait = \"250ms\" }")), 3.0);
}

#[test]
fn caps_weights_and_times_to_live_hold() {
    let two = |policy: &str| {
        let text = format!(
            r#"
            duration = "100s"
            warmup = "1s"
            tenants = [
                {{ name = "gold", label = "gold", arrivals = {{ rate = 400.0 }} }},
                {{ name = "tin", label = "tin", arrivals = {{ rate = 400.0 }} }},
            ]
            service = {{ distribution = "lognormal", mean = "50ms" }}
            server = {{ model = "pool", workers = 10 }}
            policy = {{ queue = 1000, {policy}, law = {{ kind = "fixed", limit = 10 }} }}
            "#
        );
        let scenario = parse(&text).unwrap();
        let report = report(&scenario, &scenario.policy, 1);
        report.tenants[0][0][1] / report.tenants[0][1][1]
    };
    let close = |found: f64, wanted: f64| assert!((found / wanted - 1.0).abs() < 0.03, "{found} instead of {wanted}");
    close(two("discipline = \"fair\""), 1.0);
    close(two("labels = { weights = { gold = 3 } }"), 3.0);
    close(two("labels = { caps = { tin = 2 } }"), 4.0);

    let slow = format!("{{ name = \"a\", {FIVE} }}");
    let wait = |policy| burst(&slow, policy).windows[0][metric("wait_p99").unwrap()];
    assert_eq!(wait("max_waiting = 10"), 300.0, "the fourth of five; each takes 100 ms");
    assert_eq!(wait("permit_time_to_live = \"20ms\""), 60.0);
}

/// A max-min fair division has a level: whoever asks for less gets what it asks for, all others get the level.
#[test]
fn fair_shares_have_a_level() {
    for name in ["fair-backlog", "fair-sparse", "noisy-neighbour"] {
        let mut scenario = load(name);
        scenario.compare_without.clear();
        let report = report(&scenario, &scenario.policy, 1);
        let tenants = &report.tenants[0];
        let level = tenants.iter().map(|tenant| tenant[2]).fold(0.0, f64::max);
        for [offered, _, fair] in tenants {
            assert!((fair - offered.min(level)).abs() < 1e-6, "{name}: {fair} of {offered} at {level}");
        }
        let served: f64 = report.ideal.iter().map(|it| it.good).sum();
        let all: f64 = tenants.iter().map(|tenant| tenant[2]).sum();
        assert!(all <= served, "{name}: {all} of {served}");
        assert!(tenants.iter().any(|tenant| tenant[0] > tenant[2]), "{name}: nobody asks for too much");
    }
}
