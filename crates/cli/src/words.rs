//! What the answers of a server are called in a few words.

use tower_admission::{
    introspection::Label,
    snapshot::{BlockedBy, LabelSnapshot, RuleSnapshot},
};

/// The name of a label as it is shown.
pub(crate) fn name(label: &Label) -> &str {
    if label.overflow { "(all others)" } else { &label.label }
}

/// The cap on what runs that is the tightest.
pub(crate) fn cap(section: &LabelSnapshot) -> Option<&RuleSnapshot> {
    let caps = ["max_in_flight", "label_cap", "worker_slots"];
    binding(section).filter(|rule| caps.contains(&&*rule.rule)).min_by_key(|rule| rule.bound)
}

/// The rate, or else the budget.
pub(crate) fn rate(section: &LabelSnapshot) -> Option<&RuleSnapshot> {
    ["max_per_minute", "budget"].into_iter().find_map(|name| binding(section).find(|rule| rule.rule == name))
}

/// The rules that stop requests: a rule that observes (dry run) stops none.
fn binding(section: &LabelSnapshot) -> impl Iterator<Item = &RuleSnapshot> {
    section.rules.iter().filter(|rule| !rule.observes)
}

/// The status of the next request, and what most requests of the last seconds met, if that is another one; and what shared rules
/// do without their store.
pub(crate) fn status(section: &LabelSnapshot) -> String {
    let lately = section.lately.filter(|lately| *lately != section.status);
    let lately = lately.map(|lately| format!(", lately {}", lately.as_str())).unwrap_or_default();
    let store = section.without_store.as_ref().map(|way| format!(", without store: {}", without_store(way)));
    format!("{}{lately}{}", section.status.as_str(), store.unwrap_or_default())
}

/// A rate, where there is any.
pub(crate) fn per_second(rate: f64) -> String {
    if rate > 0.0 { format!("{rate:.1}") } else { String::new() }
}

fn without_store(way: &str) -> &str {
    match way {
        "refuse" => "refuses",
        "local_share" => "admits a local share",
        "admit" => "admits all",
        other => other,
    }
}

/// What is in the way of the next request, and how full it is, in a few words.
pub(crate) fn in_short(blocked: &BlockedBy) -> String {
    match &*blocked.rule {
        "draining" => "draining".to_owned(),
        "store" => format!("without store: {}", then(&blocked.when_full)),
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
    let why = match &**rule {
        "draining" => "the server is shutting down".to_owned(),
        "limit" => format!("no slot of the server is free, {used} of {bound} are taken"),
        "partition" => format!("its partition is at its hard cap, {used} of {bound}"),
        "reserved" => {
            let kept = blocked.reserved;
            format!("{used} of {bound} slots are taken, and {kept} are held back for requests below their share")
        }
        "store" => "the store of its shared rules grants nothing".to_owned(),
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
