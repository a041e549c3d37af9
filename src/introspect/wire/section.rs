//! One class of work of a label, in the words of operators' tools for task queues. A field whose cap is not set is absent.

use serde::{Deserialize, Serialize};

use crate::engine::{LabelSnapshot, LabelStatus, RuleSnapshot};

/// The name of the class for requests whose class has no rules; overrides use it too.
const OTHERS: &str = "*";

/// A label in one class of work, in the words of operators' tools for task queues. A field whose cap is not set is absent.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
#[serde(default)]
pub struct Section {
    /// The state of the label in this class, without what is told around it or in the words of operators' tools: its names,
    /// its cap, and its workers.
    #[serde(flatten)]
    pub snapshot: LabelSnapshot,
    /// The bound on requests that wait or run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pending_per_queue: Option<usize>,
    /// Requests that wait or run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approximate_pending_count: Option<usize>,
    /// Further requests that the bound on pending requests allows now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_pending_capacity: Option<usize>,
    /// Workers whose report is still valid; absent where no worker reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_worker_count: Option<usize>,
    /// Slots of the workers, or else the share of the partition; absent for work that is only bounded in what is pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configured_slot_count: Option<usize>,
    /// Requests in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leased_count: Option<usize>,
    /// Requests that wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_count: Option<usize>,
    /// Slots minus requests in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_slot_count: Option<usize>,
    /// The cap in flight of the label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_max_active_leases_per_queue: Option<usize>,
    /// Requests in flight that count towards the cap of the label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_active_lease_count: Option<usize>,
    /// Further requests that the cap of the label allows now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_remaining_active_lease_capacity: Option<usize>,
    /// The cap in flight of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_max_active_leases_per_namespace: Option<usize>,
    /// Requests in flight that count towards the cap of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_namespace_active_lease_count: Option<usize>,
    /// Further requests that the cap of the namespace allows now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_remaining_namespace_active_lease_capacity: Option<usize>,
    /// The rate of the label, in starts per minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_max_dispatches_per_minute: Option<usize>,
    /// Starts in this minute that count towards the rate of the label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_dispatch_count_this_minute: Option<usize>,
    /// Further starts that the rate of the label allows now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_remaining_dispatch_capacity: Option<usize>,
    /// The rate of the namespace, in starts per minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_max_dispatches_per_minute_per_namespace: Option<usize>,
    /// Starts in this minute that count towards the rate of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_namespace_dispatch_count_this_minute: Option<usize>,
    /// Further starts that the rate of the namespace allows now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_remaining_namespace_dispatch_capacity: Option<usize>,
    /// The group of labels that share a budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_dispatch_budget_group: Option<String>,
    /// The budget of the group, in starts per minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_max_dispatches_per_minute_per_budget_group: Option<usize>,
    /// Starts in this minute that count towards the budget of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_budget_group_dispatch_count_this_minute: Option<usize>,
    /// Further starts that the budget of the group allows now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_remaining_budget_group_dispatch_capacity: Option<usize>,
    /// Whether the store that the bound on pending requests needs answers, if it needs one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock_supported: Option<bool>,
    /// Whether a cap is shared with other instances, and needs a store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_lock_required: Option<bool>,
    /// Whether the store of shared caps answers, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_lock_supported: Option<bool>,
    /// The setting of the slots, or of the bound on pending requests.
    pub budget_source: String,
    /// The setting of the caps; absent without caps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_budget_source: Option<String>,
}

/// The name of a class as it is shown.
pub(in crate::introspect) fn class_name(label: &LabelSnapshot) -> &str {
    if label.class.is_empty() { OTHERS } else { &label.class }
}

/// How much a cap or a rate allows, how much of it is used, and how much is left.
fn numbers(rule: Option<&RuleSnapshot>) -> (Option<usize>, Option<usize>, Option<usize>) {
    (rule.map(|it| it.bound), rule.map(|it| it.used), rule.map(|it| it.remaining))
}

impl From<LabelSnapshot> for Section {
    fn from(mut label: LabelSnapshot) -> Self {
        let can_be_checked = label.status != LabelStatus::Unavailable;
        let mut section = Self::default();
        section.put_caps(&label.rules);
        if let Some(pending) = binding(&label.rules).find(|rule| rule.rule == "max_pending") {
            (section.max_pending_per_queue, section.approximate_pending_count, section.remaining_pending_capacity) =
                numbers(Some(pending));
            section.lock_supported = Some(can_be_checked);
            section.budget_source = pending_source(&label, pending);
        } else {
            section.put_slots(&label);
            // What is counted in this process is decided in one turn, and needs nothing of a store.
            section.server_lock_required = Some(label.rules.iter().any(|rule| rule.shared));
            section.server_lock_supported = Some(can_be_checked);
            section.budget_source = slots_source(&label);
            section.server_budget_source = caps_source(&label);
        }
        // What is empty is not told.
        (label.class, label.namespace, label.name) = Default::default();
        (label.overflow, label.partition_share, label.cap, label.drain_rate) = Default::default();
        (label.active_workers, label.worker_slots) = Default::default();
        Self { snapshot: label, ..section }
    }
}

impl Section {
    /// Slots are those of workers, where any was heard of; else what its partition is guaranteed.
    fn put_slots(&mut self, label: &LabelSnapshot) {
        let slots = label.worker_slots.unwrap_or(label.partition_share);
        self.active_worker_count = label.active_workers;
        self.configured_slot_count = Some(slots);
        self.leased_count = Some(label.in_flight);
        self.ready_count = Some(label.waiting);
        self.available_slot_count = Some(slots.saturating_sub(label.in_flight));
    }

    fn put_caps(&mut self, rules: &[RuleSnapshot]) {
        let rule = |name: &str| binding(rules).find(|rule| rule.rule == name);
        // Two settings bound how many of a label run, and the tighter one holds.
        let leases = [rule("max_in_flight"), rule("label_cap")].into_iter().flatten().min_by_key(|rule| rule.bound);
        (
            self.server_max_active_leases_per_queue,
            self.server_active_lease_count,
            self.server_remaining_active_lease_capacity,
        ) = numbers(leases);
        (
            self.server_max_active_leases_per_namespace,
            self.server_namespace_active_lease_count,
            self.server_remaining_namespace_active_lease_capacity,
        ) = numbers(rule("max_in_flight_per_namespace"));
        (
            self.server_max_dispatches_per_minute,
            self.server_dispatch_count_this_minute,
            self.server_remaining_dispatch_capacity,
        ) = numbers(rule("max_per_minute"));
        (
            self.server_max_dispatches_per_minute_per_namespace,
            self.server_namespace_dispatch_count_this_minute,
            self.server_remaining_namespace_dispatch_capacity,
        ) = numbers(rule("max_per_minute_per_namespace"));
        self.server_dispatch_budget_group = rule("budget").and_then(|budget| budget.group.clone());
        (
            self.server_max_dispatches_per_minute_per_budget_group,
            self.server_budget_group_dispatch_count_this_minute,
            self.server_remaining_budget_group_dispatch_capacity,
        ) = numbers(rule("budget"));
    }
}

/// Rules that only observe are among all `rules` alone.
fn binding(rules: &[RuleSnapshot]) -> impl Iterator<Item = &RuleSnapshot> {
    rules.iter().filter(|rule| !rule.observes)
}

fn slots_source(label: &LabelSnapshot) -> String {
    match (&label.worker_slots, label.class.as_str()) {
        (None, _) => format!("partitions.{}", label.partition),
        (Some(_), "") => "worker_registration.max_concurrent".to_owned(),
        (Some(_), class) => format!("worker_registration.max_concurrent_{class}"),
    }
}

/// Where its caps come from; where from several places, the most particular one.
fn caps_source(label: &LabelSnapshot) -> Option<String> {
    let sources = || binding(&label.rules).map(|rule| &*rule.source);
    if sources().any(is_override) {
        Some("server.admission.queue_overrides".to_owned())
    } else if sources().any(|source| source == "labels") {
        Some("server.admission.labels".to_owned())
    } else {
        sources().any(|source| source == "class").then(|| format!("server.{}", class_name(label)))
    }
}

fn pending_source(label: &LabelSnapshot, rule: &RuleSnapshot) -> String {
    if is_override(&rule.source) {
        "server.admission.queue_overrides".to_owned()
    } else {
        format!("server.{}.max_pending_per_queue", class_name(label))
    }
}

fn is_override(source: &str) -> bool {
    !matches!(source, "class" | "labels" | "workers")
}
