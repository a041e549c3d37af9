//! A scenario: data that says which requests come to which server, under which policy, and what must come of it.

use std::path::Path;

use toml::Table;

use super::{
    clients::Clients,
    expect::{Control, Expectation},
    node::{Node, Problems},
    policy::Policy,
    random::Service,
    server::ServerSpec,
    tenants::{self, Tenant},
    timeline::Timeline,
    windows::{self, Window},
};

#[derive(Clone, Debug)]
pub struct Scenario {
    pub name: String,
    pub about: String,
    /// Requests arrive until then; what is in the system then gets `drain` more.
    pub duration: u64,
    pub drain: u64,
    /// While the process of the handle stops, what happens waits for its end.
    pub stop: Option<(u64, u64)>,
    pub seeds: Vec<u64>,
    pub tenants: Vec<Tenant>,
    /// For each tenant, whether it is silent in the run that waits are compared with; empty where there is none.
    pub compare_without: Vec<bool>,
    pub service: Service,
    pub server: ServerSpec,
    pub clients: Clients,
    pub timeline: Timeline,
    pub policy: Policy,
    /// Parts of the time that are measured; the first one is `all`.
    pub windows: Vec<Window>,
    /// The window and the metric that stand for the scenario where there is room for one number only.
    pub focus: (usize, usize),
    pub expectations: Vec<Expectation>,
    pub controls: Vec<Control>,
}

impl Scenario {
    /// Reads a scenario; `folder` is where the files are that it names.
    ///
    /// # Errors
    ///
    /// Names everything that is wrong, one problem per line.
    pub fn read(name: &str, table: &Table, folder: &Path) -> Result<Self, String> {
        let problems = Problems::default();
        let scenario = Self::read_noting(name, table, folder, &problems);
        problems.check(scenario)
    }

    /// Like [`read`](Self::read), and leaves it to the caller to look at the problems.
    pub fn read_noting(name: &str, table: &Table, folder: &Path, problems: &Problems) -> Self {
        let node = Node::new("", table, problems);
        let duration = node.required("duration", node.time("duration"));
        let drain = node.time("drain").unwrap_or(60_000_000_000);
        let warmup = node.time("warmup").unwrap_or(0);
        let tenants = tenants::read(&node, folder);
        let end = duration.saturating_add(drain);
        let windows = windows::read(&node.child("windows"), &tenants, warmup, duration, end);
        let clients = node.table("clients");
        let focus = node.text("focus").unwrap_or("all.goodput");
        let policy = Policy::read(&node, "policy");
        let read_control = |control| Control::read(control, &windows, &policy, &clients);
        let controls = node.children("controls").into_iter().map(read_control).collect();
        let scenario = Self {
            name: node.text("name").unwrap_or(name).to_owned(),
            about: node.text("about").unwrap_or_default().to_owned(),
            duration,
            drain,
            stop: node.span("stop"),
            seeds: node.counts("seeds").filter(|seeds| !seeds.is_empty()).unwrap_or_else(|| vec![1]),
            compare_without: read_compare(&node, &tenants),
            tenants,
            service: Service::read(node.child("service")),
            server: ServerSpec::read(node.child("server")),
            clients: Clients::read(node.child("clients")),
            timeline: Timeline::read(node.children("changes")),
            policy,
            focus: windows::find(focus, &windows).unwrap_or_else(|| {
                node.problem(
                    "focus",
                    format!("found {focus:?}, allowed is a window and a metric such as \"all.goodput\""),
                );
                (0, 0)
            }),
            expectations: Expectation::read(&node.child("expect"), &windows),
            controls,
            windows,
        };
        if duration == 0 || warmup >= duration {
            node.problem("duration", "must be longer than the warmup, and not 0");
        }
        node.finish();
        scenario
    }
}

/// Reads `[compare]`: which tenants are silent in the run that waits are compared with.
fn read_compare(node: &Node<'_>, tenants: &[Tenant]) -> Vec<bool> {
    if !node.has("compare") {
        return Vec::new();
    }
    let compare = node.child("compare");
    if !compare.has("without") {
        compare.problem("without", "missing");
    }
    let silent = windows::groups(&compare, "without", tenants);
    compare.finish();
    silent
}
