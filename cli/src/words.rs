//! What the answers of a server are called in a few words.

use tower_admission::introspection::{BlockedBy, Label, Rule, Section};

/// The name of a label as it is shown.
pub(crate) fn name(label: &Label) -> &str {
    if label.overflow { "(all others)" } else { &label.label }
}

/// The cap on what runs that is the tightest.
pub(crate) fn cap(section: &Section) -> Option<&Rule> {
    let caps = ["max_in_flight", "label_cap", "worker_slots"];
    section.rules.iter().filter(|rule| caps.contains(&rule.rule.as_str())).min_by_key(|rule| rule.bound)
}

/// The rate, or else the budget.
pub(crate) fn rate(section: &Section) -> Option<&Rule> {
    ["max_per_minute", "budget"].into_iter().find_map(|name| section.rules.iter().find(|rule| rule.rule == name))
}

/// What is in the way of the next request, and how full it is, in a few words.
pub(crate) fn in_short(blocked: &BlockedBy) -> String {
    match blocked.rule.as_str() {
        "draining" => "draining".to_owned(),
        _ => format!("{}: {}", full(blocked), then(&blocked.when_full)),
    }
}

/// What is in the way, and how full it is.
pub(crate) fn full(blocked: &BlockedBy) -> String {
    format!("{} {}/{}", blocked.rule, blocked.used, blocked.bound)
}

/// The same as a sentence.
pub(crate) fn sentence(blocked: &BlockedBy) -> String {
    let BlockedBy { rule, used, bound, .. } = blocked;
    let why = match rule.as_str() {
        "draining" => "the server is shutting down".to_owned(),
        "limit" => format!("no slot of the server is free, {used} of {bound} are taken"),
        "partition" => format!("its partition is at its hard cap, {used} of {bound}"),
        "kept" => format!("{used} of {bound} slots are taken, the free ones are kept for a partition below its share"),
        rule => format!("{rule} is full, {used} of {bound}"),
    };
    format!("the next request {}: {why}", then(&blocked.when_full))
}

fn then(when_full: &str) -> &str {
    match when_full {
        "wait" => "waits",
        "reject" => "is rejected",
        "empty" => "is answered empty",
        other => other,
    }
}
