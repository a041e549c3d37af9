//! Whether what must come of a scenario does, and whether its controls fail as they must.

use super::{
    expect::Expectation, metrics::Report, oracle::best_static, scenario::Scenario, tenants::Tenant, windows::metric,
};

/// What is wrong with the runs of a scenario, of which each seed has one.
pub(crate) fn violations(scenario: &Scenario, reports: &[Report]) -> Vec<String> {
    let of_seed = |(seed, report): (&u64, &Report)| {
        let violations = scenario.expectations.iter().filter_map(|it| it.violation(&report.windows));
        violations.map(|violation| format!("seed {seed}: {violation}")).collect::<Vec<_>>()
    };
    scenario.seeds.iter().zip(reports).flat_map(of_seed).collect()
}

/// Whether all holds that must hold, for every seed, and whether each control fails as it must. Says what is wrong.
pub fn check(scenario: &Scenario) -> Vec<String> {
    let of_static = metric("of_static");
    let searches = scenario.expectations.iter().any(|it| Some(it.metric) == of_static);
    let best = searches.then(|| best_static(scenario, &scenario.seeds));
    let mut wrong = violations(scenario, &Report::of_seeds(scenario, best.as_ref()));
    for control in &scenario.controls {
        let seed = scenario.seeds[0];
        let mut changed = Scenario { clients: control.clients.clone(), ..scenario.clone() };
        if control.anonymous {
            changed.tenants.iter_mut().for_each(Tenant::go_anonymous);
        }
        let report = Report::run(&changed, &control.policy, seed, best.as_ref().map(|best| (best, 0)));
        let fails = |it: &&Expectation| it.violation(&report.windows).is_some();
        let failed: Vec<&Expectation> = scenario.expectations.iter().filter(fails).collect();
        for name in control.must_fail.iter().filter(|&name| failed.iter().all(|it| it.name != *name)) {
            wrong.push(format!("seed {seed}: {name} must not hold with {:?}, and does", control.name));
        }
    }
    wrong
}
