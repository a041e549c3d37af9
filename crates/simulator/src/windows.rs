//! Parts of the time, and of the tenants, that are measured, and what is measured of them.

use super::{node::Node, tenants::Tenant};

/// What is measured for each window, and what it means.
pub const METRICS: [(&str, &str); 20] = [
    ("goodput", "answers within the deadline, as % of perfect admission"),
    ("of_static", "the same, as % of the best limit that never moves"),
    ("work", "work of these answers, as % of what the server can do of what came"),
    ("served", "requests that arrived and were answered in time, by whichever attempt, in %"),
    ("rejected", "attempts that were rejected, in %"),
    ("false_rejected", "attempts rejected while perfect admission rejected none, in %"),
    ("late", "admitted attempts that missed the deadline, in %"),
    ("p50", "latency of admitted attempts, waits included, in ms"),
    ("p99", "the same"),
    ("p99_ratio", "p99, relative to the run in which some tenants are silent"),
    ("wait_p99", "wait of admitted attempts for a slot, in ms"),
    ("wait_ratio", "the same, relative to that run"),
    ("settle", "s until goodput stays within 10 % of what it is at the end of the window"),
    ("recover", "s until 95 % of what perfect admission serves is served, and stays so"),
    ("jain", "Jain's index over the tenants' goodput, each relative to its max-min fair share"),
    ("worst_tenant", "the smallest of these shares, in %"),
    ("neighbours", "the same, of tenants that ask for no more than their fair share only"),
    ("limit", "mean over the window; 0 without a limit"),
    ("limit_end", "at the end of the window"),
    ("in_flight", "requests that hold a slot, mean over the window"),
];

pub type Values = [f64; METRICS.len()];

pub fn metric(name: &str) -> Option<usize> {
    METRICS.iter().position(|(it, _)| *it == name)
}

#[derive(Clone, Debug)]
pub struct Window {
    pub name: String,
    pub from: u64,
    pub to: u64,
    /// For each tenant, whether it is looked at.
    tenants: Vec<bool>,
}

impl Window {
    pub fn has(&self, tenant: usize) -> bool {
        self.tenants[tenant]
    }

    /// Whether only some tenants are looked at.
    pub fn is_partial(&self) -> bool {
        self.tenants.contains(&false)
    }
}

/// Reads `[windows]`; the first one is `all`, from `warmup` to `duration`. None goes beyond `end`.
pub fn read(node: &Node<'_>, tenants: &[Tenant], warmup: u64, duration: u64, end: u64) -> Vec<Window> {
    let mut windows = vec![Window { name: "all".to_owned(), from: warmup, to: duration, tenants: all(tenants) }];
    for name in node.keys() {
        let (span, members) = if node.is_table(name) {
            let table = node.child(name);
            let span = if table.has("span") { table.span("span") } else { Some((warmup, duration)) };
            let members = groups(&table, "tenants", tenants);
            table.finish();
            (span, members)
        } else {
            (node.span(name), all(tenants))
        };
        let Some((from, to)) = span else { continue };
        if name == "all" {
            node.problem(name, "this name is reserved for all the time after the warmup");
        }
        if to > end {
            node.problem(name, "ends after the scenario and its drain");
        }
        windows.push(Window { name: name.to_owned(), from, to, tenants: members });
    }
    windows
}

/// For each tenant, whether the array `key` names it. All alike are named at once.
pub fn groups(node: &Node<'_>, key: &str, tenants: &[Tenant]) -> Vec<bool> {
    if !node.has(key) {
        return all(tenants);
    }
    let names = node.texts(key);
    for name in &names {
        if !tenants.iter().any(|tenant| tenant.group == *name) {
            node.problem(key, format!("unknown tenant {name:?}"));
        }
    }
    tenants.iter().map(|tenant| names.contains(&tenant.group.as_str())).collect()
}

fn all(tenants: &[Tenant]) -> Vec<bool> {
    vec![true; tenants.len()]
}

/// The window and the metric that `name` names.
pub fn find(name: &str, windows: &[Window]) -> Option<(usize, usize)> {
    let (window, key) = name.split_once('.')?;
    Some((windows.iter().position(|it| it.name == window)?, metric(key)?))
}
