//! Settings of the servers.

use std::{collections::HashMap, time::Duration};

use crate::{
    limit::{Aimd, Fixed, Limit, LimitAlgorithm},
    plan::{Bound, Discipline, LabelPlan, LabelRule, PartitionMode, PartitionPlan, Plan},
    rules::{OnStoreFailure, WhenFull},
    settings::{Cap, ClassLimits, Rate, Rules},
    shares::WHOLE,
};

pub(super) fn fixed(limit: usize) -> Box<dyn LimitAlgorithm> {
    Limit::from(Fixed::new(limit)).into_law()
}

fn aimd(initial: usize) -> Box<dyn LimitAlgorithm> {
    let law = Aimd::new(Duration::from_millis(160)).initial(initial).min(4).max(24);
    Limit::from(crate::limit::Windowed::new(law).min_time(Duration::from_millis(400))).into_law()
}

pub(super) fn partition(name: &str, percent: u32, mode: PartitionMode, observes: bool) -> PartitionPlan {
    PartitionPlan { observes, ..PartitionPlan::of(name, WHOLE / 100 * percent, mode) }
}

const fn bound(places: usize, millis: u64) -> Bound {
    Bound::of(places, Some(Duration::from_millis(millis)))
}

fn rules(rules: Rules, shared: Option<OnStoreFailure>) -> crate::plan::rules::RulesPlan {
    let mut problems = Vec::new();
    let plan = rules.into_plan(shared, &mut problems);
    assert!(problems.is_empty(), "{problems:?}");
    plan
}

fn labels() -> LabelPlan {
    let rule = |cap, weight| LabelRule { cap, weight };
    let rules = [((None, "a".into()), rule(Some(5), 3)), ((Some("ns".into()), "b".into()), rule(Some(2), 1))];
    LabelPlan {
        max_waiting: 6,
        max_waiting_per_run: 2,
        wait: Some(Duration::from_millis(700)),
        rules: HashMap::from(rules),
        metrics: 4,
        named: vec![("ns".into(), "b".into())],
        ..LabelPlan::default()
    }
}

/// Rules of each kind, a gate and a line, three partitions, and a shadow law.
pub(super) fn with_rules(limit: usize, queue: usize) -> Plan {
    let bulk = ClassLimits::new()
        .max_in_flight(Cap::from(4).when_full(WhenFull::Queue))
        .max_in_flight_per_namespace(Cap::from(6).when_full(WhenFull::Reject))
        .max_per_minute(Rate::from(900).smooth());
    let report = ClassLimits::new()
        .max_pending(Cap::from(5))
        .max_per_minute_per_namespace(Rate::from(300).when_full(WhenFull::RespondEmpty))
        .budget("reports", Rate::from(400).when_full(WhenFull::Queue));
    let others = ClassLimits::new().max_in_flight(Cap::from(3).observe()).max_per_minute(Rate::from(1_500).observe());
    let all = Rules::new().class("bulk", bulk).class("report", report).default_limits(others);
    let partitions = vec![
        partition("default", 50, PartitionMode::Burst, false),
        partition("gold", 30, PartitionMode::Burst, false),
        partition("batch", 20, PartitionMode::HardCap, false),
    ];
    let plain = Plan::plain(fixed(limit), partitions, bound(9, 900), bound(8, 300));
    Plan {
        queue: Some(queue),
        labels: LabelPlan { enforce_workers: true, ..labels() },
        rules: rules(all, None),
        shadow: Some(aimd(limit)),
        journal: 40,
        ..plain
    }
}

/// No line: requests run or are rejected. The limit moves, a partition overcommits and another one observes.
pub(super) fn that_sheds() -> Plan {
    let partitions = vec![
        partition("default", 40, PartitionMode::Burst, false),
        partition("gold", 40, PartitionMode::Overcommit, false),
        partition("batch", 20, PartitionMode::HardCap, true),
    ];
    let plain = Plan::plain(aimd(10), partitions, bound(0, 0), bound(0, 0));
    Plan {
        labels: labels(),
        shadow: Some(fixed(8)),
        time_to_live: Some(Duration::from_millis(600)),
        journal: 24,
        ..plain
    }
}

/// Partitions of which one may send far more than its share, labels that take turns by weight, and a rate to wait for.
pub(super) fn with_a_neighbour(limit: usize, weight: u32) -> Plan {
    let partitions = vec![
        partition("default", 40, PartitionMode::Burst, false),
        partition("gold", 40, PartitionMode::Burst, false),
        partition("batch", 20, PartitionMode::Burst, false),
    ];
    let limits = ClassLimits::new().max_per_minute(Rate::from(240).smooth().when_full(WhenFull::Queue));
    let plain = Plan::plain(aimd(limit), partitions, bound(25, 800), bound(0, 0));
    let rule = |weight| LabelRule { cap: Some(6), weight };
    let own = HashMap::from([((None, "a".into()), rule(weight)), ((None, "d".into()), rule(2))]);
    Plan {
        labels: LabelPlan { rules: own, max_waiting: 15, ..labels() },
        rules: rules(Rules::new().class("bulk", limits), None),
        ..plain
    }
}

/// Entries for six labels, and first come, first served.
pub(super) fn with_few_entries() -> Plan {
    let partitions = vec![
        partition("default", 70, PartitionMode::Burst, false),
        partition("gold", 20, PartitionMode::HardCap, false),
        partition("batch", 10, PartitionMode::Burst, false),
    ];
    let limits = ClassLimits::new().max_per_minute(Rate::from(600).when_full(WhenFull::Queue));
    let plain = Plan::plain(fixed(9), partitions, bound(20, 1_200), bound(0, 0));
    Plan {
        discipline: Discipline::Fifo,
        labels: LabelPlan { max_labels: 6, default: LabelRule { cap: Some(4), weight: 2 }, ..labels() },
        rules: rules(Rules::new().class("bulk", limits), None),
        default_deadline: Some(Duration::from_millis(500)),
        ..plain
    }
}

/// Rules that all instances share, which do different things without their store.
pub(super) fn with_shared_rules() -> Plan {
    let bulk = ClassLimits::new().max_in_flight(Cap::from(4).when_full(WhenFull::Queue));
    let report = ClassLimits::new().max_per_minute(Rate::from(400).when_full(WhenFull::RespondEmpty));
    let all = Rules::new().class("bulk", bulk).class("report", report.max_in_flight_per_namespace(Cap::from(5)));
    let partitions = vec![
        partition("default", 60, PartitionMode::Burst, false),
        partition("gold", 30, PartitionMode::Burst, false),
        partition("batch", 10, PartitionMode::Burst, false),
    ];
    let plain = Plan::plain(fixed(10), partitions, bound(12, 800), bound(0, 0));
    Plan { labels: labels(), rules: rules(all, Some(OnStoreFailure::FailClosed)), ..plain }
}

fn turning(discipline: Discipline) -> Plan {
    let partitions = vec![
        partition("default", 60, PartitionMode::Burst, false),
        partition("gold", 30, PartitionMode::Burst, false),
        partition("batch", 10, PartitionMode::Burst, false),
    ];
    let plain = Plan::plain(fixed(8), partitions, bound(30, 2_000), bound(0, 0));
    Plan { discipline, labels: LabelPlan { max_waiting: 20, ..labels() }, aging: Some(3), ..plain }
}

pub(super) fn adaptive_lifo() -> Plan {
    turning(Discipline::AdaptiveLifo { interval: Duration::from_millis(300), short_wait: Duration::from_millis(60) })
}

pub(super) fn burst_credit() -> Plan {
    let millis = Duration::from_millis;
    turning(Discipline::BurstCredit { longest: millis(900), standing: millis(80), credit: millis(1_500) })
}
