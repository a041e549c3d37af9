//! The part of a policy that says which requests wait, in which order, and for how long.

use std::num::NonZeroU32;

use tower_admission::{AdmissionBuilder, Discipline, Labels};

use super::node::{Node, with};

/// Reads the fields of `[policy]` that are about waiting into `builder`.
pub(crate) fn read(node: &Node<'_>, builder: AdmissionBuilder) -> AdmissionBuilder {
    let builder = with(builder, node.count("queue", 0..), AdmissionBuilder::queue);
    let builder = with(builder, node.duration("admission_timeout"), AdmissionBuilder::admission_timeout);
    let builder = with(builder, node.duration("max_wait"), AdmissionBuilder::max_wait);
    let builder = with(builder, node.duration("wait_timeout"), AdmissionBuilder::wait_timeout);
    let builder = with(builder, node.duration("permit_time_to_live"), AdmissionBuilder::permit_time_to_live);
    let builder = with(builder, node.duration("patience"), AdmissionBuilder::patience);
    let builder = with(builder, node.count("max_waiting", 0..), AdmissionBuilder::max_waiting);
    let builder = with(builder, node.flag("shed").filter(|shed| *shed), |builder, _| builder.shed());
    let builder = with(builder, discipline(node), AdmissionBuilder::discipline);
    let builder = if node.is_text("aging") {
        with(builder, node.one_of("aging", &[("never", ())]), |builder, ()| builder.aging(None))
    } else {
        with(builder, small(node, "aging", 1).and_then(NonZeroU32::new), AdmissionBuilder::aging)
    };
    builder.labels(labels(node.child("labels")))
}

fn discipline(node: &Node<'_>) -> Option<Discipline> {
    if !node.is_table("discipline") {
        return node.one_of("discipline", &[("fair", Discipline::Fair), ("fifo", Discipline::Fifo)]);
    }
    let discipline = node.child("discipline");
    let kind = if discipline.is_table("burst_credit") { "burst_credit" } else { "adaptive_lifo" };
    let fields = discipline.child(kind);
    let time = |key| fields.required(key, fields.duration(key));
    let found = if kind == "burst_credit" {
        let longest = time("longest");
        let credit = fields.duration("credit").unwrap_or(longest);
        Discipline::BurstCredit { longest, standing: time("standing"), credit }
    } else {
        Discipline::AdaptiveLifo { interval: time("interval"), short_wait: time("short_wait") }
    };
    fields.finish();
    discipline.finish();
    Some(found)
}

fn labels(node: Node<'_>) -> Labels {
    let labels = with(Labels::new(), node.count("max_waiting", 0..), Labels::max_waiting);
    let labels = with(labels, node.count("max_waiting_per_run", 0..), Labels::max_waiting_per_run);
    let labels = with(labels, node.duration("max_wait"), Labels::max_wait);
    let labels = with(labels, node.count("cap", 0..), |labels, requests| labels.cap(unless_zero(requests)));
    let labels = with(labels, small(&node, "weight", 0), Labels::weight);
    let mut labels = with(labels, node.count("max_labels", 0..), Labels::max_labels);
    let caps = node.child("caps");
    for name in caps.keys() {
        labels = with(labels, caps.count(name, 0..), |labels, requests| labels.label_cap(name, unless_zero(requests)));
    }
    let weights = node.child("weights");
    for name in weights.keys() {
        labels = with(labels, small(&weights, name, 0), |labels, turns| labels.label_weight(name, turns));
    }
    node.finish();
    labels
}

/// A cap of a scenario, where 0 is none.
fn unless_zero(requests: usize) -> Option<usize> {
    (requests > 0).then_some(requests)
}

fn small(node: &Node<'_>, key: &str, least: usize) -> Option<u32> {
    node.count(key, least..=1_000_000).and_then(|count| u32::try_from(count).ok())
}
