//! What must come of a scenario, and the policies under which it must not.

use toml::Table;

use super::{
    metrics::{METRICS, Report},
    node::Node,
    oracle::{Static, best_static},
    policy::Policy,
    scenario::{Clients, Scenario},
    tenants::Tenant,
    windows::{Window, find},
};

/// A range that a metric must be in.
#[derive(Clone, Debug)]
pub struct Expectation {
    pub window: usize,
    pub metric: usize,
    pub name: String,
    min: f64,
    max: f64,
}

impl Expectation {
    /// Reads `[expect.WINDOW] METRIC = { min, max }`.
    pub fn read(node: &Node<'_>, windows: &[Window]) -> Vec<Self> {
        let mut expectations = Vec::new();
        for window_name in node.keys() {
            let Some(window) = windows.iter().position(|window| window.name == window_name) else {
                node.problem(window_name, "unknown window");
                continue;
            };
            let table = node.child(window_name);
            for (metric, (key, _)) in METRICS.iter().enumerate() {
                if !table.has(key) {
                    continue;
                }
                let range = table.child(key);
                let min = range.number("min", ..).unwrap_or(f64::NEG_INFINITY);
                let max = range.number("max", ..).unwrap_or(f64::INFINITY);
                range.finish();
                expectations.push(Self { window, metric, name: format!("{window_name}.{key}"), min, max });
            }
            table.finish();
        }
        expectations
    }

    /// What is wrong with a report, if anything is.
    pub fn violation(&self, report: &Report) -> Option<String> {
        let value = report.windows[self.window][self.metric];
        let holds = value >= self.min && value <= self.max;
        (!holds).then(|| format!("{} is {value:.2}, expected is {} to {}", self.name, self.min, self.max))
    }
}

/// A policy, clients, or nameless tenants under which the expectations that it names must be violated: proof that they can be.
#[derive(Clone, Debug)]
pub struct Control {
    pub name: String,
    pub policy: Policy,
    clients: Clients,
    /// Whether tenants say neither their label nor how critical they are.
    anonymous: bool,
    pub must_fail: Vec<String>,
}

impl Control {
    /// What it leaves out is as in the scenario.
    pub fn read(node: Node<'_>, windows: &[Window], policy: &Policy, clients: &Table) -> Self {
        let must_fail: Vec<String> = node.texts("must_fail").into_iter().map(str::to_owned).collect();
        let known = |name: &String| find(name, windows).is_some();
        if must_fail.is_empty() || !must_fail.iter().all(known) {
            node.problem("must_fail", "allowed are names such as \"all.goodput\"");
        }
        let mut merged = clients.clone();
        merged.extend(node.table("clients"));
        let control = Self {
            name: node.required("name", node.text("name")).to_owned(),
            policy: if node.has("policy") { Policy::read(&node, "policy") } else { policy.clone() },
            clients: Clients::read(Node::new(node.path("clients"), &merged, node.problems())),
            anonymous: node.flag("anonymous").unwrap_or(false),
            must_fail,
        };
        node.finish();
        control
    }
}

/// Whether all holds that must hold, for every seed, and whether each control fails as it must. Says what is wrong.
pub fn check(scenario: &Scenario) -> Vec<String> {
    let of_static = METRICS.iter().position(|(name, _)| *name == "of_static");
    let searches = scenario.expectations.iter().any(|it| Some(it.metric) == of_static);
    let best = searches.then(|| best_static(scenario, &scenario.seeds));
    let mut wrong = Vec::new();
    for (index, &seed) in scenario.seeds.iter().enumerate() {
        let violations = violations(scenario, &scenario.policy, seed, best.as_ref().map(|best| (best, index)));
        wrong.extend(violations.iter().map(|(_, violation)| format!("seed {seed}: {violation}")));
    }
    for control in &scenario.controls {
        let seed = scenario.seeds[0];
        let mut changed = Scenario { clients: control.clients.clone(), ..scenario.clone() };
        if control.anonymous {
            changed.tenants.iter_mut().for_each(Tenant::go_anonymous);
        }
        let violations = violations(&changed, &control.policy, seed, best.as_ref().map(|best| (best, 0)));
        for name in &control.must_fail {
            if !violations.iter().any(|(violated, _)| violated == name) {
                wrong.push(format!("seed {seed}: {name} must not hold with {:?}, and does", control.name));
            }
        }
    }
    wrong
}

/// The names of the expectations that one run violates, and how.
fn violations(
    scenario: &Scenario,
    policy: &Policy,
    seed: u64,
    best: Option<(&Static, usize)>,
) -> Vec<(String, String)> {
    let report = Report::run(scenario, policy, seed, best);
    let violated = |it: &Expectation| it.violation(&report).map(|violation| (it.name.clone(), violation));
    scenario.expectations.iter().filter_map(violated).collect()
}
