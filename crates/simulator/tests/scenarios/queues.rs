//! What a queue buys: the law without a threshold behind a queue that is as long as you like and bounded by time.

use admission_simulator::{scenario::Scenario, windows::find};

use super::{parse, report, with_policy};

/// Clients wait a second, and a request takes a twentieth of that.
const QUEUE: &str = "queue = 1000\nmax_wait = \"800ms\"\nadmission_timeout = \"0s\"\nlaw = { kind = \"two-point\" }";

/// The mean of three seeds of a metric such as `all.goodput`.
fn mean(scenario: &Scenario, metric: &str) -> f64 {
    let (window, metric) = find(metric, &scenario.windows).unwrap();
    let sum: f64 = (1..=3).map(|seed| report(scenario, &scenario.policy, seed).windows[window][metric]).sum();
    sum / 3.0
}

#[test]
fn a_queue_bounded_by_time_absorbs_bursts_and_survives_overload() {
    for (name, metric, least) in [
        ("born-in-overload", "all.goodput", 92.0),
        ("cold-start", "first.served", 95.0),
        ("drop-pool", "slow.goodput", 88.0),
        ("idle-burst", "all.served", 75.0),
        ("mix-overload", "after.goodput", 80.0),
        ("mix-shift", "after.served", 95.0),
        ("overload-10x", "overload.goodput", 92.0),
        ("overload-pool", "overload.goodput", 95.0),
        ("overload-shared", "overload.goodput", 94.0),
        ("retry-storm", "after.served", 99.5),
        ("square-wave", "all.goodput", 90.0),
        ("step-shared", "over.goodput", 93.0),
        ("workers-lost", "half.goodput", 90.0),
    ] {
        let found = mean(&with_policy(name, QUEUE), metric);
        assert!(found >= least, "{name}: {metric} is {found}, wanted is {least}");
    }
    // What it is for: without it the same law turns most of a burst away.
    let shed = with_policy("idle-burst", "shed = true\nlaw = { kind = \"two-point\" }");
    assert!(mean(&shed, "all.served") < 60.0);
}

#[test]
fn a_queue_turns_nobody_away_below_capacity() {
    for name in ["steady-pool", "steady-shared"] {
        let (queued, bare) = (with_policy(name, QUEUE), with_policy(name, "law = { kind = \"none\" }"));
        assert_eq!(mean(&queued, "all.rejected"), 0.0, "{name}");
        let (queued, bare) = (mean(&queued, "all.p99"), mean(&bare, "all.p99"));
        assert!(queued <= bare * 1.02, "{name}: {queued} instead of {bare}");
    }
    assert!(mean(&with_policy("heavy-tail", QUEUE), "all.rejected") <= 0.3);
    // A limit that is too low does, queue or not.
    let low = with_policy("steady-pool", &QUEUE.replace("kind = \"two-point\"", "kind = \"fixed\", limit = 8"));
    assert!(mean(&low, "all.rejected") > 10.0);
}

/// A queue that is bounded by nothing its clients care about serves nobody.
#[test]
fn a_queue_longer_than_patience_serves_nobody() {
    let text = |policy: &str| {
        format!(
            r#"
            duration = "60s"
            warmup = "10s"
            arrivals = {{ rate = 480.0 }}
            service = {{ distribution = "lognormal", mean = "50ms", sigma = 0.5 }}
            server = {{ model = "pool", workers = 16, abandoned = "held" }}
            clients = {{ deadline = "1s", sends_deadline = false }}
            [policy]
            {policy}
            "#
        )
    };
    let goodput = |policy: &str| mean(&parse(&text(policy)).unwrap(), "all.goodput");
    assert!(goodput(QUEUE) > 95.0);
    assert!(goodput(&QUEUE.replace("max_wait = \"800ms\"\n", "")) < 10.0);
}
