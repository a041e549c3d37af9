//! What is read of the answers of a server.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The handle as a whole.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Overview {
    pub(crate) name: String,
    pub(crate) mode: String,
    pub(crate) draining: bool,
    pub(crate) limit: usize,
    pub(crate) in_flight: usize,
    pub(crate) waiting: usize,
    pub(crate) at_gate: usize,
    pub(crate) queue: usize,
    pub(crate) partitions: Vec<Partition>,
    pub(crate) labels: LabelPage,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Partition {
    pub(crate) name: String,
    pub(crate) share: usize,
    pub(crate) in_flight: usize,
    pub(crate) waiting: usize,
    pub(crate) at_gate: usize,
    pub(crate) admitted: u64,
    pub(crate) rejected: BTreeMap<String, u64>,
    /// How often which time was met, in seconds.
    pub(crate) rtt_counts: Vec<(f64, u64)>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct LabelPage {
    pub(crate) total: usize,
    pub(crate) matched: usize,
    pub(crate) by_status: BTreeMap<String, usize>,
    pub(crate) next_offset: Option<usize>,
    pub(crate) labels: Vec<Label>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Label {
    pub(crate) namespace: String,
    pub(crate) label: String,
    #[serde(default)]
    pub(crate) overflow: bool,
    pub(crate) status: String,
    /// By class of work.
    pub(crate) admission: BTreeMap<String, Section>,
}

/// A label in one class.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Section {
    pub(crate) status: String,
    pub(crate) partition: String,
    pub(crate) weight: u32,
    pub(crate) in_flight: usize,
    pub(crate) waiting: usize,
    pub(crate) oldest_wait_seconds: f64,
    pub(crate) estimated_wait_seconds: Option<f64>,
    pub(crate) admitted: u64,
    pub(crate) rejected: u64,
    pub(crate) active_worker_count: Option<usize>,
    /// Absent for work that is only bounded in what is pending.
    pub(crate) configured_slot_count: Option<usize>,
    pub(crate) budget_source: String,
    pub(crate) blocked_by: Option<Blocked>,
    pub(crate) rules: Vec<Rule>,
}

/// What is in the way of the next request.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Blocked {
    pub(crate) rule: String,
    pub(crate) used: usize,
    pub(crate) bound: usize,
    pub(crate) when_full: String,
    pub(crate) room_in_seconds: Option<f64>,
}

/// Some of those who wait for a label.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct WaiterPage {
    pub(crate) total: usize,
    pub(crate) waiters: Vec<Waiter>,
}

/// Somebody who waits.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Waiter {
    pub(crate) place: usize,
    pub(crate) stage: String,
    pub(crate) class: String,
    pub(crate) run: Option<String>,
    pub(crate) waited_seconds: f64,
    pub(crate) estimated_wait_seconds: Option<f64>,
    pub(crate) blocked_by: Option<Blocked>,
}

/// A cap, a rate or a budget.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Rule {
    pub(crate) rule: String,
    pub(crate) bound: usize,
    pub(crate) used: usize,
    pub(crate) remaining: usize,
    pub(crate) when_full: String,
    pub(crate) source: String,
    pub(crate) group: Option<String>,
}

impl Label {
    /// The name as it is shown.
    pub(crate) fn name(&self) -> &str {
        if self.overflow { "(all others)" } else { &self.label }
    }
}

impl Section {
    /// The cap on what runs that is the tightest.
    pub(crate) fn cap(&self) -> Option<&Rule> {
        let caps = ["max_in_flight", "label_cap", "worker_slots"];
        self.rules.iter().filter(|rule| caps.contains(&rule.rule.as_str())).min_by_key(|rule| rule.bound)
    }

    /// The rate, or else the budget.
    pub(crate) fn rate(&self) -> Option<&Rule> {
        ["max_per_minute", "budget"].into_iter().find_map(|name| self.rules.iter().find(|rule| rule.rule == name))
    }
}

impl Blocked {
    /// What is in the way, and how full it is, in a few words.
    pub(crate) fn in_short(&self) -> String {
        match self.rule.as_str() {
            "draining" => "draining".to_owned(),
            _ => format!("{}: {}", self.full(), then(&self.when_full)),
        }
    }

    /// What is in the way, and how full it is.
    pub(crate) fn full(&self) -> String {
        format!("{} {}/{}", self.rule, self.used, self.bound)
    }

    /// The same as a sentence.
    pub(crate) fn sentence(&self) -> String {
        let Self { rule, used, bound, .. } = self;
        let why = match rule.as_str() {
            "draining" => "the server is shutting down".to_owned(),
            "limit" => format!("no slot of the server is free, {used} of {bound} are taken"),
            "partition" => format!("its partition runs as many as it may, {used} of {bound}"),
            "kept" => format!(
                "{used} of {bound} slots are taken, and the free ones are kept for a partition that was turned away"
            ),
            rule => format!("{rule} is full, {used} of {bound}"),
        };
        format!("the next one {}: {why}", then(&self.when_full))
    }
}

fn then(when_full: &str) -> &str {
    match when_full {
        "wait" => "waits",
        "reject" => "is rejected",
        "empty" => "is answered empty",
        other => other,
    }
}
