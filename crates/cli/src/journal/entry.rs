//! One entry of the journal as it is shown.

use serde_json::Value;
use tower_admission::journal::{ChangeEntry, DecisionEntry, DecisionKind, JournalEntry, JournalEvent};

use crate::{
    table::Cell,
    text::{Look, seconds},
};

/// What stands above the columns after the time.
pub(super) const HEADS: [&str; 7] = ["WHAT", "WHY", "LABEL", "CLASS", "PARTITION", ">RUNNING", ">WAITING"];

/// An entry, with its words as they were answered: those of a later version are shown as they are.
pub(super) fn cells(entry: &JournalEntry, json: &Value) -> [Cell; 7] {
    let decided = match &entry.event {
        JournalEvent::Decision(it) => Some(it),
        _ => None,
    };
    [
        Cell::from(what(entry, json)).with(look(&entry.event)),
        Cell::from(why(&entry.event, json)),
        Cell::name(&decided.map(who).unwrap_or_default()),
        Cell::name(decided.map(|it| it.class.as_str()).unwrap_or_default()),
        Cell::name(decided.map(|it| it.partition.as_str()).unwrap_or_default()),
        Cell::from(format!("{}/{}", entry.in_flight, entry.limit)),
        Cell::number(entry.waiting),
    ]
}

/// What a change was, and why.
pub(crate) fn in_words(entry: &JournalEntry, json: &Value) -> String {
    let (what, why) = (what(entry, json), why(&entry.event, json));
    if why.is_empty() { what } else { format!("{what} ({why})") }
}

fn what(entry: &JournalEntry, json: &Value) -> String {
    let word = |name: &str| json[name].as_str().map(str::to_owned);
    let Some(change) = word("change") else { return word("decision").unwrap_or_default() };
    let from = match &json["from"] {
        Value::Null => return change,
        Value::String(state) => state.clone(),
        other => other.to_string(),
    };
    format!("{change} {from} → {}", word("to").unwrap_or_else(|| entry.limit.to_string()))
}

fn look(event: &JournalEvent) -> Look {
    match event {
        JournalEvent::Decision(it) => match it.decision {
            DecisionKind::Admitted | DecisionKind::Granted => Look::Good,
            DecisionKind::Rejected | DecisionKind::TimedOut => Look::Bad,
            DecisionKind::WouldQueue | DecisionKind::WouldReject => Look::Busy,
            _ => Look::Dim,
        },
        JournalEvent::Change(ChangeEntry::Store { to, .. }) if to == "down" => Look::Bad,
        _ => Look::Bold,
    }
}

/// The reason, what was in the way and how full that was, and how long it took; or what a change was made for.
fn why(event: &JournalEvent, json: &Value) -> String {
    let parts = match event {
        JournalEvent::Decision(it) => {
            let full = it.used.zip(it.bound).map(|(used, bound)| format!(" {used}/{bound}")).unwrap_or_default();
            let is_said_by_rule = |reason: &&str| Some(*reason) != it.rule.as_deref();
            vec![
                json["reason"].as_str().filter(is_said_by_rule).map(str::to_owned),
                it.rule.as_ref().map(|rule| format!("{rule}{full}")),
                (it.waited_seconds > 0.0).then(|| format!("waited {}", seconds(it.waited_seconds))),
            ]
        }
        JournalEvent::Change(ChangeEntry::Limit { rtt_seconds, reference_seconds, ratio, .. }) => {
            let other = reference_seconds.map(|time| format!(" against {}", seconds(time))).unwrap_or_default();
            vec![
                rtt_seconds.map(|rtt| format!("RTT {}{other}", seconds(rtt))),
                ratio.map(|ratio| format!("ratio {ratio:.2}")),
            ]
        }
        JournalEvent::Change(ChangeEntry::Store { down_seconds, .. }) => {
            vec![down_seconds.map(|time| format!("down for {}", seconds(time)))]
        }
        _ => Vec::new(),
    };
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn who(it: &DecisionEntry) -> String {
    let label = match (it.forgotten, it.namespace.as_str()) {
        (true, _) => "(forgotten)".to_owned(),
        (false, "") => it.label.clone(),
        (false, namespace) => format!("{namespace}:{}", it.label),
    };
    match &it.run {
        Some(run) => format!("{label} run {run}"),
        None => label,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(fields: &mut Value) -> JournalEntry {
        for (name, value) in [("sequence", 7), ("at_seconds", 1), ("in_flight", 3), ("limit", 4), ("waiting", 2)] {
            fields[name] = value.into();
        }
        fields["kind"] = if fields["change"].is_null() { "decision".into() } else { "change".into() };
        serde_json::from_value(fields.clone()).unwrap()
    }

    #[test]
    fn entries_are_told_in_a_few_words() {
        for (mut fields, is, because) in [
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
            (json!({"decision": "rejected", "reason": "cursed"}), "rejected", "cursed"),
            (json!({"change": "moon", "from": "full", "to": "new"}), "moon full → new", ""),
        ] {
            let entry = entry(&mut fields);
            assert_eq!((what(&entry, &fields).as_str(), why(&entry.event, &fields).as_str()), (is, because));
        }
    }

    #[test]
    fn labels_are_named_as_keys_are() {
        for (mut fields, name) in [
            (json!({"namespace": "production", "label": "mail"}), "production:mail"),
            (json!({"label": "mail", "run": "nightly-7"}), "mail run nightly-7"),
            (json!({"forgotten": true}), "(forgotten)"),
            (json!({}), ""),
        ] {
            let JournalEvent::Decision(it) = entry(&mut fields).event else { panic!("{fields}") };
            assert_eq!(who(&it), name);
        }
    }
}
