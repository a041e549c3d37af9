//! A scenario: data that says who sends what to which server, under which policy, and what must come of it.

use std::path::Path;

use toml::Table;

use super::{
    arrivals::Arrivals,
    expect::{Control, Expectation},
    metrics::metric,
    node::{Node, Problems},
    policy::Policy,
    random::Service,
    server::ServerSpec,
    timeline::Timeline,
};

#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) about: String,
    /// Requests arrive until then; what is in the system then gets `drain` more.
    pub(crate) duration: u64,
    pub(crate) drain: u64,
    pub(crate) seeds: Vec<u64>,
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) service: Service,
    pub(crate) server: ServerSpec,
    pub(crate) clients: Clients,
    pub(crate) timeline: Timeline,
    pub(crate) policy: Policy,
    /// Parts of the time that are measured; the first one is `all`.
    pub(crate) windows: Vec<Window>,
    /// The window and the metric that stand for the scenario where there is room for one number only.
    pub(crate) focus: (usize, usize),
    pub(crate) expectations: Vec<Expectation>,
    pub(crate) controls: Vec<Control>,
}

#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    pub(crate) name: String,
    pub(crate) partition: String,
    pub(crate) arrivals: Arrivals,
}

#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) name: String,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// What clients do: when they give up, and whether they come back.
#[derive(Clone, Debug)]
pub(crate) struct Clients {
    /// `u64::MAX` is for ever.
    pub(crate) deadline: u64,
    /// Whether the server is told the deadline.
    pub(crate) sends_deadline: bool,
    pub(crate) retries: u32,
    pub(crate) backoff: u64,
    pub(crate) max_backoff: u64,
    pub(crate) jitter: bool,
    /// Whether they wait at least as long as a rejection says.
    pub(crate) heeds_retry_after: bool,
}

impl Clients {
    fn read(node: Node<'_>) -> Self {
        let backoff = node.time("backoff").unwrap_or(100_000_000);
        let clients = Self {
            deadline: node.time("deadline").unwrap_or(u64::MAX),
            sends_deadline: node.flag("sends_deadline").unwrap_or(true),
            retries: node.count("retries", 0..=100).and_then(|it| u32::try_from(it).ok()).unwrap_or(0),
            backoff,
            max_backoff: node.time("max_backoff").unwrap_or(10_000_000_000).max(backoff),
            jitter: node.flag("jitter").unwrap_or(true),
            heeds_retry_after: node.flag("heeds_retry_after").unwrap_or(false),
        };
        node.finish();
        clients
    }

    /// The longest pause before the retry after `attempt`, counted from 0.
    pub(crate) fn pause(&self, attempt: u32) -> u64 {
        self.backoff.saturating_mul(1u64.checked_shl(attempt).unwrap_or(u64::MAX)).min(self.max_backoff)
    }
}

impl Scenario {
    /// Reads a scenario; `folder` is where the files are that it names.
    ///
    /// # Errors
    ///
    /// Names everything that is wrong, one problem per line.
    pub(crate) fn read(name: &str, table: &Table, folder: &Path) -> Result<Self, String> {
        let problems = Problems::default();
        let scenario = Self::read_noting(name, table, folder, &problems);
        problems.check(scenario)
    }

    /// Like [`read`](Self::read), and leaves it to the caller to look at the problems.
    pub(crate) fn read_noting(name: &str, table: &Table, folder: &Path, problems: &Problems) -> Self {
        let node = Node::new("", table, problems);
        let duration = node.required("duration", node.time("duration"));
        let drain = node.time("drain").unwrap_or(60_000_000_000);
        let warmup = node.time("warmup").unwrap_or(0);
        let windows = read_windows(&node.child("windows"), warmup, duration, duration.saturating_add(drain));
        let focus = node.text("focus").unwrap_or("all.goodput");
        let policy = Policy::read(&node, "policy");
        let scenario = Self {
            name: node.text("name").unwrap_or(name).to_owned(),
            about: node.text("about").unwrap_or_default().to_owned(),
            duration,
            drain,
            seeds: node.counts("seeds").filter(|seeds| !seeds.is_empty()).unwrap_or_else(|| vec![1]),
            tenants: read_tenants(&node, folder),
            service: Service::read(node.child("service")),
            server: ServerSpec::read(node.child("server")),
            clients: Clients::read(node.child("clients")),
            timeline: Timeline::read(node.children("changes")),
            policy,
            focus: find(focus, &windows).unwrap_or_else(|| {
                node.problem(
                    "focus",
                    format!("found {focus:?}, wanted is a window and a metric such as \"all.goodput\""),
                );
                (0, 0)
            }),
            expectations: Expectation::read(&node.child("expect"), &windows),
            controls: node.children("controls").into_iter().map(|control| Control::read(control, &windows)).collect(),
            windows,
        };
        if duration == 0 || warmup >= duration {
            node.problem("duration", "must be longer than the warmup, and not 0");
        }
        node.finish();
        scenario
    }
}

/// The window and the metric that `name` names.
pub(crate) fn find(name: &str, windows: &[Window]) -> Option<(usize, usize)> {
    let (window, key) = name.split_once('.')?;
    Some((windows.iter().position(|it| it.name == window)?, metric(key)?))
}

fn read_windows(node: &Node<'_>, warmup: u64, duration: u64, end: u64) -> Vec<Window> {
    let mut windows = vec![Window { name: "all".to_owned(), from: warmup, to: duration }];
    for name in node.keys() {
        let Some((from, to)) = node.span(name) else { continue };
        if name == "all" {
            node.problem(name, "this name is taken: it is all the time after the warmup");
        }
        if to > end {
            node.problem(name, "ends after the scenario and its drain");
        }
        windows.push(Window { name: name.to_owned(), from, to });
    }
    windows
}

fn read_tenants(node: &Node<'_>, folder: &Path) -> Vec<Tenant> {
    let tenants: Vec<_> = node.children("tenants");
    if node.has("arrivals") != tenants.is_empty() {
        node.problem("arrivals", "wanted is either [arrivals] or [[tenants]] with arrivals of their own");
    }
    if tenants.is_empty() {
        let arrivals = Arrivals::read(node.child("arrivals"), folder);
        return vec![Tenant { name: "all".to_owned(), partition: "all".to_owned(), arrivals }];
    }
    let read = |tenant: Node<'_>| {
        let name = tenant.required("name", tenant.text("name")).to_owned();
        let partition = tenant.text("partition").unwrap_or(&name).to_owned();
        let arrivals = Arrivals::read(tenant.child("arrivals"), folder);
        tenant.finish();
        Tenant { name, partition, arrivals }
    };
    tenants.into_iter().map(read).collect()
}
