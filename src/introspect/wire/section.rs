//! One class of work of a label, in the words of operators' tools for task queues. A field whose cap is not set is
//! absent.

use serde::{Deserialize, Serialize, Serializer, ser::Error};

use crate::engine::{LabelSnapshot, LabelStatus, RuleSnapshot};

/// The name of the class for requests whose class has no rules; overrides use it too.
const OTHERS: &str = "*";

/// A label in one class of work, in the words of operators' tools for task queues. A field whose cap is not set is absent.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names are those of operators' tools, and described in the OpenAPI document")]
pub struct Section {
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pending_per_queue: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approximate_pending_count: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_pending_capacity: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_worker_count: Option<usize>,
    /// Absent for work that is only bounded in what is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configured_slot_count: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leased_count: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_count: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_slot_count: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_max_active_leases_per_queue: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_active_lease_count: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_remaining_active_lease_capacity: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_max_active_leases_per_namespace: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_namespace_active_lease_count: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_remaining_namespace_active_lease_capacity: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_max_dispatches_per_minute: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_dispatch_count_this_minute: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_remaining_dispatch_capacity: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_max_dispatches_per_minute_per_namespace: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_namespace_dispatch_count_this_minute: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_remaining_namespace_dispatch_capacity: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_dispatch_budget_group: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_max_dispatches_per_minute_per_budget_group: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_budget_group_dispatch_count_this_minute: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_remaining_budget_group_dispatch_capacity: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_supported: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_lock_required: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_lock_supported: Option<bool>,
    pub budget_source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_budget_source: Option<String>,
    /// The obstacle of the next request.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "as_value")]
    pub blocked_by: Option<BlockedBy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_wait_seconds: Option<f64>,
    pub oldest_wait_seconds: f64,
    pub partition: String,
    pub weight: u32,
    pub in_flight: usize,
    pub waiting: usize,
    pub admitted: u64,
    pub rejected: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub would_reject: u64,
    /// Rejections per second over the last five to ten seconds.
    #[serde(default, skip_serializing_if = "is_none_at_all")]
    pub refused_per_second: f64,
    /// What most requests of these seconds met, if most were rejected: a status as in `status`, which is about the next request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lately: Option<String>,
    /// What rules that instances share do without their store, while it is gone: `refuse`, `local_share` or `admit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_store: Option<String>,
    #[serde(serialize_with = "as_value")]
    pub rules: Vec<Rule>,
}

/// The obstacle of the next request of a label; see [`BlockedBy`](crate::snapshot::BlockedBy).
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are those of the snapshot")]
pub struct BlockedBy {
    pub rule: String,
    pub used: usize,
    pub bound: usize,
    pub when_full: String,
    pub room_in_seconds: Option<f64>,
    #[serde(default, skip_serializing_if = "is_no_slot")]
    pub kept: usize,
}

/// A cap, a rate or a budget; see [`RuleSnapshot`](crate::snapshot::RuleSnapshot).
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are those of the snapshot")]
pub struct Rule {
    pub rule: String,
    pub bound: usize,
    pub used: usize,
    pub remaining: usize,
    pub when_full: String,
    #[serde(default)]
    pub observes: bool,
    pub source: String,
    #[serde(default)]
    pub shared: bool,
    pub group: Option<String>,
}

impl From<&crate::engine::BlockedBy> for BlockedBy {
    fn from(it: &crate::engine::BlockedBy) -> Self {
        Self {
            rule: it.rule.to_owned(),
            used: it.used,
            bound: it.bound,
            when_full: it.when_full.to_owned(),
            room_in_seconds: it.room_in_seconds,
            kept: it.kept,
        }
    }
}

impl From<&RuleSnapshot> for Rule {
    fn from(it: &RuleSnapshot) -> Self {
        Self {
            rule: it.rule.to_owned(),
            bound: it.bound,
            used: it.used,
            remaining: it.remaining,
            when_full: it.when_full.to_owned(),
            observes: it.observes,
            source: it.source.to_owned(),
            shared: it.shared,
            group: it.group.clone(),
        }
    }
}

const fn is_zero(count: &u64) -> bool {
    *count == 0
}

const fn is_no_slot(count: &usize) -> bool {
    *count == 0
}

fn is_none_at_all(rate: &f64) -> bool {
    *rate <= 0.0
}

/// Writes the fields in the order that a JSON value has them in.
fn as_value<T: Serialize, S: Serializer>(it: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serde_json::to_value(it).map_err(S::Error::custom)?.serialize(serializer)
}

/// The name of a class as it is shown.
pub(in crate::introspect) fn class_name(label: &LabelSnapshot) -> &str {
    if label.class.is_empty() { OTHERS } else { &label.class }
}

/// The fields of a cap or a rate: how much is allowed, is used, and is left.
type Fields<'a> = [&'a mut Option<usize>; 3];

fn put([bound, used, remaining]: Fields<'_>, rule: Option<&RuleSnapshot>) {
    if let Some(rule) = rule {
        (*bound, *used, *remaining) = (Some(rule.bound), Some(rule.used), Some(rule.remaining));
    }
}

impl From<&LabelSnapshot> for Section {
    fn from(label: &LabelSnapshot) -> Self {
        let can_be_checked = label.status != LabelStatus::Unavailable;
        let mut section = Self {
            status: label.status.as_str().to_owned(),
            blocked_by: label.blocked_by.as_ref().map(BlockedBy::from),
            estimated_wait_seconds: label.estimated_wait_seconds,
            oldest_wait_seconds: label.oldest_wait_seconds,
            partition: label.partition.clone(),
            weight: label.weight,
            in_flight: label.in_flight,
            waiting: label.waiting,
            admitted: label.admitted,
            rejected: label.rejected,
            would_reject: label.would_reject,
            refused_per_second: label.refused_per_second,
            lately: label.lately.map(|status| status.as_str().to_owned()),
            without_store: label.without_store.map(str::to_owned),
            rules: label.rules.iter().map(Rule::from).collect(),
            ..Self::default()
        };
        section.put_caps(&label.rules);
        if let Some(pending) = binding(&label.rules).find(|rule| rule.rule == "max_pending") {
            let Self { max_pending_per_queue, approximate_pending_count, remaining_pending_capacity, .. } =
                &mut section;
            put([max_pending_per_queue, approximate_pending_count, remaining_pending_capacity], Some(pending));
            section.lock_supported = Some(can_be_checked);
            section.budget_source = pending_source(label, pending);
        } else {
            section.put_slots(label);
            // What is counted in this process is decided in one turn, and needs nothing of a store.
            section.server_lock_required = Some(label.rules.iter().any(|rule| rule.shared));
            section.server_lock_supported = Some(can_be_checked);
            section.budget_source = slots_source(label);
            section.server_budget_source = caps_source(label);
        }
        section
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
        put(
            [
                &mut self.server_max_active_leases_per_queue,
                &mut self.server_active_lease_count,
                &mut self.server_remaining_active_lease_capacity,
            ],
            leases,
        );
        put(
            [
                &mut self.server_max_active_leases_per_namespace,
                &mut self.server_namespace_active_lease_count,
                &mut self.server_remaining_namespace_active_lease_capacity,
            ],
            rule("max_in_flight_per_namespace"),
        );
        put(
            [
                &mut self.server_max_dispatches_per_minute,
                &mut self.server_dispatch_count_this_minute,
                &mut self.server_remaining_dispatch_capacity,
            ],
            rule("max_per_minute"),
        );
        put(
            [
                &mut self.server_max_dispatches_per_minute_per_namespace,
                &mut self.server_namespace_dispatch_count_this_minute,
                &mut self.server_remaining_namespace_dispatch_capacity,
            ],
            rule("max_per_minute_per_namespace"),
        );
        self.server_dispatch_budget_group = rule("budget").and_then(|budget| budget.group.clone());
        put(
            [
                &mut self.server_max_dispatches_per_minute_per_budget_group,
                &mut self.server_budget_group_dispatch_count_this_minute,
                &mut self.server_remaining_budget_group_dispatch_capacity,
            ],
            rule("budget"),
        );
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
