//! What is told about one class of work of a label, in the words of operators' tools for task queues. A field whose cap is
//! not set is absent.

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Value, json};

use crate::engine::{LabelSnapshot, LabelStatus, RuleSnapshot};

/// The name under which work is shown whose class has no rules of its own; also what overrides call it.
const OTHERS: &str = "*";

/// The names of the fields of a cap or a rate: how much is allowed, is used, and is left.
type Names = [&'static str; 3];

const QUEUE_LEASES: Names =
    ["server_max_active_leases_per_queue", "server_active_lease_count", "server_remaining_active_lease_capacity"];
const NAMESPACE_LEASES: Names = [
    "server_max_active_leases_per_namespace",
    "server_namespace_active_lease_count",
    "server_remaining_namespace_active_lease_capacity",
];
const QUEUE_RATE: Names =
    ["server_max_dispatches_per_minute", "server_dispatch_count_this_minute", "server_remaining_dispatch_capacity"];
const NAMESPACE_RATE: Names = [
    "server_max_dispatches_per_minute_per_namespace",
    "server_namespace_dispatch_count_this_minute",
    "server_remaining_namespace_dispatch_capacity",
];
const GROUP_RATE: Names = [
    "server_max_dispatches_per_minute_per_budget_group",
    "server_budget_group_dispatch_count_this_minute",
    "server_remaining_budget_group_dispatch_capacity",
];
const PENDING: Names = ["max_pending_per_queue", "approximate_pending_count", "remaining_pending_capacity"];

/// Fields in the order in which they are told.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    pub(super) fn put(&mut self, name: &'static str, value: impl Into<Value>) {
        self.0.push((name, value.into()));
    }

    fn put_rule(&mut self, names: Names, rule: Option<&RuleSnapshot>) {
        if let Some(rule) = rule {
            self.put(names[0], rule.bound);
            self.put(names[1], rule.used);
            self.put(names[2], rule.remaining);
        }
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// The name of a class as it is shown.
pub(super) fn class_name(label: &LabelSnapshot) -> &str {
    if label.class.is_empty() { OTHERS } else { &label.class }
}

/// What is told about one class of work of a label.
pub(super) fn section(label: &LabelSnapshot) -> Fields {
    let rule = |name: &str| binding(&label.rules).find(|rule| rule.rule == name);
    let can_be_checked = label.status != LabelStatus::Unavailable;
    let mut fields = Fields::default();
    fields.put("status", label.status.as_str());
    match rule("max_pending") {
        Some(pending) => {
            fields.put_rule(PENDING, Some(pending));
            put_caps(&mut fields, &label.rules);
            fields.put("lock_supported", can_be_checked);
            fields.put("budget_source", pending_source(label, pending));
        }
        None => {
            put_slots(&mut fields, label);
            put_caps(&mut fields, &label.rules);
            // What is counted in this process is decided in one turn, and needs nothing of a store.
            fields.put("server_lock_required", label.rules.iter().any(|rule| rule.shared));
            fields.put("server_lock_supported", can_be_checked);
            fields.put("budget_source", slots_source(label));
            if let Some(source) = caps_source(label) {
                fields.put("server_budget_source", source);
            }
        }
    }
    put_reasons(&mut fields, label);
    fields
}

/// Slots are those of workers, where any was heard of; else what its partition is guaranteed.
fn put_slots(fields: &mut Fields, label: &LabelSnapshot) {
    if let Some(workers) = label.active_workers {
        fields.put("active_worker_count", workers);
    }
    let slots = label.worker_slots.unwrap_or(label.partition_share);
    fields.put("configured_slot_count", slots);
    fields.put("leased_count", label.in_flight);
    fields.put("ready_count", label.waiting);
    fields.put("available_slot_count", slots.saturating_sub(label.in_flight));
}

/// Rules that only observe are among all `rules` alone.
fn binding(rules: &[RuleSnapshot]) -> impl Iterator<Item = &RuleSnapshot> {
    rules.iter().filter(|rule| !rule.observes)
}

fn put_caps(fields: &mut Fields, rules: &[RuleSnapshot]) {
    let rule = |name: &str| binding(rules).find(|rule| rule.rule == name);
    // Two settings bound how many of a label run, and the tighter one holds.
    let leases = [rule("max_in_flight"), rule("label_cap")].into_iter().flatten().min_by_key(|rule| rule.bound);
    fields.put_rule(QUEUE_LEASES, leases);
    fields.put_rule(NAMESPACE_LEASES, rule("max_in_flight_per_namespace"));
    fields.put_rule(QUEUE_RATE, rule("max_per_minute"));
    fields.put_rule(NAMESPACE_RATE, rule("max_per_minute_per_namespace"));
    if let Some(budget) = rule("budget") {
        fields.put("server_dispatch_budget_group", budget.group.as_deref());
        fields.put_rule(GROUP_RATE, Some(budget));
    }
}

/// Why it waits, and what else an operator asks next.
fn put_reasons(fields: &mut Fields, label: &LabelSnapshot) {
    if let Some(blocked) = &label.blocked_by {
        fields.put("blocked_by", json!(blocked));
    }
    if let Some(wait) = label.estimated_wait_seconds {
        fields.put("estimated_wait_seconds", wait);
    }
    fields.put("oldest_wait_seconds", label.oldest_wait_seconds);
    fields.put("partition", label.partition.as_str());
    fields.put("weight", label.weight);
    fields.put("in_flight", label.in_flight);
    fields.put("waiting", label.waiting);
    fields.put("admitted", label.admitted);
    fields.put("rejected", label.rejected);
    if label.would_reject > 0 {
        fields.put("would_reject", label.would_reject);
    }
    fields.put("rules", json!(label.rules));
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
    let sources = || binding(&label.rules).map(|rule| rule.source);
    if sources().any(is_override) {
        Some("server.admission.queue_overrides".to_owned())
    } else if sources().any(|source| source == "labels") {
        Some("server.admission.labels".to_owned())
    } else {
        sources().any(|source| source == "class").then(|| format!("server.{}", class_name(label)))
    }
}

fn pending_source(label: &LabelSnapshot, rule: &RuleSnapshot) -> String {
    if is_override(rule.source) {
        "server.admission.queue_overrides".to_owned()
    } else {
        format!("server.{}.max_pending_per_queue", class_name(label))
    }
}

fn is_override(source: &str) -> bool {
    !matches!(source, "class" | "labels" | "workers")
}
