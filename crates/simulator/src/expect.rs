//! What must come of a scenario, and the policies under which it must not.

use toml::Table;

use super::{
    clients::Clients,
    node::Node,
    policy::Policy,
    windows::{METRICS, Values, Window, find},
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

    /// What is wrong with the values of all windows, if anything is.
    pub fn violation(&self, windows: &[Values]) -> Option<String> {
        let value = windows[self.window][self.metric];
        let holds = value >= self.min && value <= self.max;
        (!holds).then(|| format!("{} is {value:.2}, expected is {} to {}", self.name, self.min, self.max))
    }
}

/// A policy, clients, or nameless tenants under which the expectations that it names must be violated: proof that they can be.
#[derive(Clone, Debug)]
pub struct Control {
    pub name: String,
    pub policy: Policy,
    pub clients: Clients,
    /// Whether tenants say neither their label nor how critical they are.
    pub anonymous: bool,
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
