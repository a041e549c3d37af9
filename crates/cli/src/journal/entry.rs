//! One entry of the journal as it is shown.

use tower_admission::introspection::{Before, JournalEntry};

use crate::{
    table::Cell,
    text::{Look, seconds},
};

/// What stands above the columns after the time.
pub(super) const HEADS: [&str; 7] = ["WHAT", "WHY", "LABEL", "CLASS", "PARTITION", ">RUNNING", ">WAITING"];

pub(super) fn cells(entry: &JournalEntry) -> [Cell; 7] {
    [
        Cell::from(what(entry)).with(look(entry)),
        Cell::from(why(entry)),
        Cell::name(&who(entry)),
        Cell::name(entry.class.as_deref().unwrap_or_default()),
        Cell::name(entry.partition.as_deref().unwrap_or_default()),
        Cell::from(format!("{}/{}", entry.in_flight, entry.limit)),
        Cell::number(entry.waiting),
    ]
}

fn what(entry: &JournalEntry) -> String {
    let Some(change) = &entry.change else { return entry.decision.clone().unwrap_or_default() };
    let from = match &entry.from {
        None => return change.clone(),
        Some(Before::Word(state)) => state.clone(),
        Some(Before::Limit(limit)) => limit.to_string(),
        Some(Before::Other(other)) => other.to_string(),
        Some(_) => String::new(),
    };
    format!("{change} {from} → {}", entry.to.clone().unwrap_or_else(|| entry.limit.to_string()))
}

fn look(entry: &JournalEntry) -> Look {
    match (entry.decision.as_deref(), entry.to.as_deref()) {
        (Some("admitted" | "granted"), _) => Look::Good,
        (Some("rejected" | "timed_out"), _) | (None, Some("down")) => Look::Bad,
        (Some("would_queue" | "would_reject"), _) => Look::Busy,
        (Some(_), _) => Look::Dim,
        (None, _) => Look::Bold,
    }
}

/// The reason, what was in the way and how full that was, and how long it took; or what a change was made for.
fn why(entry: &JournalEntry) -> String {
    let is_said_by_rule = |reason: &&String| Some(*reason) != entry.rule.as_ref();
    let full = entry.used.zip(entry.bound).map(|(used, bound)| format!(" {used}/{bound}")).unwrap_or_default();
    let rtt = entry.rtt_seconds.map(|rtt| {
        let other = entry.reference_seconds.map(|time| format!(" against {}", seconds(time))).unwrap_or_default();
        format!("RTT {}{other}", seconds(rtt))
    });
    let parts = [
        entry.reason.as_ref().filter(is_said_by_rule).cloned(),
        entry.rule.as_ref().map(|rule| format!("{rule}{full}")),
        entry.waited_seconds.filter(|waited| *waited > 0.0).map(|waited| format!("waited {}", seconds(waited))),
        rtt,
        entry.ratio.map(|ratio| format!("ratio {ratio:.2}")),
        entry.down_seconds.map(|time| format!("down for {}", seconds(time))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn who(entry: &JournalEntry) -> String {
    let label = entry.label.as_deref().unwrap_or_default();
    let label = match (entry.forgotten, entry.namespace.as_deref().unwrap_or_default()) {
        (true, _) => "(forgotten)".to_owned(),
        (false, "") => label.to_owned(),
        (false, namespace) => format!("{namespace}:{label}"),
    };
    match &entry.run {
        Some(run) => format!("{label} run {run}"),
        None => label,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn entry(mut fields: Value) -> JournalEntry {
        for (name, value) in [("at_seconds", 1), ("in_flight", 3), ("limit", 4), ("waiting", 2)] {
            fields[name] = value.into();
        }
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn entries_are_told_in_a_few_words() {
        for (fields, is, because) in [
            (
                json!({"change": "limit", "from": 9, "rtt_seconds": 0.31, "reference_seconds": 0.17, "ratio": 1.82}),
                "limit 9 → 4",
                "RTT 310 ms against 170 ms, ratio 1.82",
            ),
            (json!({"change": "mode", "from": "enforce", "to": "observe"}), "mode enforce → observe", ""),
            (
                json!({"change": "store", "from": "down", "to": "up", "down_seconds": 7.2}),
                "store down → up",
                "down for 7.2 s",
            ),
            (json!({"change": "drain"}), "drain", ""),
            (
                json!({"decision": "rejected", "reason": "label_cap", "rule": "label_cap", "used": 8, "bound": 8}),
                "rejected",
                "label_cap 8/8",
            ),
            (
                json!({"decision": "timed_out", "reason": "queue_timeout", "rule": "limit", "used": 4, "bound": 4, "waited_seconds": 30}),
                "timed_out",
                "queue_timeout, limit 4/4, waited 30 s",
            ),
            (json!({"decision": "rejected", "reason": "draining", "rule": "draining"}), "rejected", "draining"),
            (json!({"decision": "enchanted", "spell": "unknown"}), "enchanted", ""),
        ] {
            let entry = entry(fields);
            assert_eq!((what(&entry).as_str(), why(&entry).as_str()), (is, because));
        }
    }

    #[test]
    fn labels_are_named_as_keys_are() {
        for (fields, name) in [
            (json!({"namespace": "production", "label": "mail"}), "production:mail"),
            (json!({"label": "mail", "run": "nightly-7"}), "mail run nightly-7"),
            (json!({"forgotten": true}), "(forgotten)"),
            (json!({}), ""),
        ] {
            assert_eq!(who(&entry(fields)), name);
        }
    }
}
