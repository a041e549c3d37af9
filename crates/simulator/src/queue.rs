//! The part of a policy that says who waits, in which order, and for how long.

use std::{num::NonZeroU32, time::Duration};

use tower_admission::{AdmissionBuilder, Discipline, Labels};

use super::node::Node;

type SetTime = fn(AdmissionBuilder, Duration) -> AdmissionBuilder;

/// Reads the fields of `[policy]` that are about waiting into `builder`.
pub(crate) fn read(node: &Node<'_>, mut builder: AdmissionBuilder) -> AdmissionBuilder {
    if let Some(places) = node.count("queue", 0..) {
        builder = builder.queue(places);
    }
    let times: [(&str, SetTime); 5] = [
        ("admission_timeout", AdmissionBuilder::admission_timeout),
        ("max_wait", AdmissionBuilder::max_wait),
        ("wait_timeout", AdmissionBuilder::wait_timeout),
        ("permit_time_to_live", AdmissionBuilder::permit_time_to_live),
        ("patience", AdmissionBuilder::patience),
    ];
    for (key, set) in times {
        if let Some(time) = node.time(key).map(Duration::from_nanos) {
            builder = set(builder, time);
        }
    }
    if let Some(requests) = node.count("max_waiting", 0..) {
        builder = builder.max_waiting(requests);
    }
    if node.flag("shed").unwrap_or(false) {
        builder = builder.shed();
    }
    if let Some(discipline) = discipline(node) {
        builder = builder.discipline(discipline);
    }
    if node.is_text("aging") {
        builder = match node.one_of("aging", &[("never", ())]) {
            Some(()) => builder.aging(None),
            None => builder,
        };
    } else if let Some(turns) = small(node, "aging", 1).and_then(NonZeroU32::new) {
        builder = builder.aging(turns);
    }
    builder.labels(labels(node.child("labels")))
}

fn discipline(node: &Node<'_>) -> Option<Discipline> {
    if !node.is_table("discipline") {
        return node.one_of("discipline", &[("fair", Discipline::Fair), ("fifo", Discipline::Fifo)]);
    }
    let discipline = node.child("discipline");
    let kind = if discipline.is_table("burst_credit") { "burst_credit" } else { "adaptive_lifo" };
    let fields = discipline.child(kind);
    let time = |key| Duration::from_nanos(fields.required(key, fields.time(key)));
    let found = if kind == "burst_credit" {
        let longest = time("longest");
        let credit = fields.time("credit").map_or(longest, Duration::from_nanos);
        Discipline::BurstCredit { longest, standing: time("standing"), credit }
    } else {
        Discipline::AdaptiveLifo { interval: time("interval"), short_wait: time("short_wait") }
    };
    fields.finish();
    discipline.finish();
    Some(found)
}

fn labels(node: Node<'_>) -> Labels {
    let mut labels = Labels::new();
    if let Some(requests) = node.count("max_waiting", 0..) {
        labels = labels.max_waiting(requests);
    }
    if let Some(requests) = node.count("max_waiting_per_run", 0..) {
        labels = labels.max_waiting_per_run(requests);
    }
    if let Some(wait) = node.time("max_wait") {
        labels = labels.max_wait(Duration::from_nanos(wait));
    }
    if let Some(requests) = node.count("cap", 0..) {
        labels = labels.cap(requests);
    }
    if let Some(turns) = small(&node, "weight", 0) {
        labels = labels.weight(turns);
    }
    if let Some(count) = node.count("max_labels", 0..) {
        labels = labels.max_labels(count);
    }
    let caps = node.child("caps");
    for name in caps.keys() {
        if let Some(requests) = caps.count(name, 0..) {
            labels = labels.label_cap(name, requests);
        }
    }
    let weights = node.child("weights");
    for name in weights.keys() {
        if let Some(turns) = small(&weights, name, 0) {
            labels = labels.label_weight(name, turns);
        }
    }
    node.finish();
    labels
}

fn small(node: &Node<'_>, key: &str, least: usize) -> Option<u32> {
    node.count(key, least..=1_000_000).and_then(|count| u32::try_from(count).ok())
}
