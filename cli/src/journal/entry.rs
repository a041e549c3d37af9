//! One entry of the journal, as the server tells it and as it is shown.

use serde::Deserialize;
use serde_json::Value;

use crate::{
    table::Cell,
    text::{Look, seconds},
};

/// What is read of an entry. A server of a later version may know more kinds: they are shown as far as they are understood.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Entry {
    /// In seconds since the handle was made.
    pub(super) at_seconds: f64,
    in_flight: usize,
    limit: usize,
    waiting: usize,
    decision: Option<String>,
    change: Option<String>,
    reason: Option<String>,
    rule: Option<String>,
    used: Option<usize>,
    bound: Option<usize>,
    #[serde(default)]
    partition: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    label: String,
    #[serde(default)]
    forgotten: bool,
    #[serde(default)]
    class: String,
    run: Option<String>,
    #[serde(default)]
    waited_seconds: f64,
    /// A limit, a mode, or a state.
    from: Option<Value>,
    to: Option<String>,
    rtt_seconds: Option<f64>,
    reference_seconds: Option<f64>,
    ratio: Option<f64>,
    down_seconds: Option<f64>,
}

/// What stands above the columns after the time.
pub(super) const HEADS: [&str; 7] = ["WHAT", "WHY", "LABEL", "CLASS", "PARTITION", ">RUNNING", ">WAITING"];

impl Entry {
    pub(super) fn cells(&self) -> [Cell; 7] {
        [
            Cell::from(self.what()).with(self.look()),
            Cell::from(self.why()),
            Cell::from(self.who()),
            Cell::from(&self.class),
            Cell::from(&self.partition),
            Cell::from(format!("{}/{}", self.in_flight, self.limit)),
            Cell::number(self.waiting),
        ]
    }

    fn what(&self) -> String {
        let Some(change) = &self.change else { return self.decision.clone().unwrap_or_default() };
        let from = match &self.from {
            None => return change.clone(),
            Some(Value::String(state)) => state.clone(),
            Some(other) => other.to_string(),
        };
        format!("{change} {from} → {}", self.to.clone().unwrap_or_else(|| self.limit.to_string()))
    }

    fn look(&self) -> Look {
        match (self.decision.as_deref(), self.to.as_deref()) {
            (Some("admitted" | "granted"), _) => Look::Good,
            (Some("rejected" | "timed_out"), _) | (None, Some("down")) => Look::Bad,
            (Some("would_queue" | "would_reject"), _) => Look::Busy,
            (Some(_), _) => Look::Dim,
            (None, _) => Look::Bold,
        }
    }

    /// The reason, what was in the way and how full that was, and how long it took; or what a change was made for.
    fn why(&self) -> String {
        let is_said_by_rule = |reason: &&String| Some(*reason) != self.rule.as_ref();
        let full = self.used.zip(self.bound).map(|(used, bound)| format!(" {used}/{bound}")).unwrap_or_default();
        let rtt = self.rtt_seconds.map(|rtt| {
            let other = self.reference_seconds.map(|time| format!(" against {}", seconds(time))).unwrap_or_default();
            format!("RTT {}{other}", seconds(rtt))
        });
        let parts = [
            self.reason.as_ref().filter(is_said_by_rule).cloned(),
            self.rule.as_ref().map(|rule| format!("{rule}{full}")),
            (self.waited_seconds > 0.0).then(|| format!("waited {}", seconds(self.waited_seconds))),
            rtt,
            self.ratio.map(|ratio| format!("ratio {ratio:.2}")),
            self.down_seconds.map(|time| format!("down for {}", seconds(time))),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    fn who(&self) -> String {
        let label = match (self.forgotten, self.namespace.as_str()) {
            (true, _) => "(forgotten)".to_owned(),
            (false, "") => self.label.clone(),
            (false, namespace) => format!("{namespace}:{}", self.label),
        };
        match &self.run {
            Some(run) => format!("{label} run {run}"),
            None => label,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(mut fields: Value) -> Entry {
        for (name, value) in [("at_seconds", 1), ("in_flight", 3), ("limit", 4), ("waiting", 2)] {
            fields[name] = value.into();
        }
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn entries_are_told_in_a_few_words() {
        for (fields, what, why) in [
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
            assert_eq!((entry.what().as_str(), entry.why().as_str()), (what, why));
        }
    }

    #[test]
    fn labels_are_named_as_keys_are() {
        for (fields, who) in [
            (json!({"namespace": "production", "label": "mail"}), "production:mail"),
            (json!({"label": "mail", "run": "nightly-7"}), "mail run nightly-7"),
            (json!({"forgotten": true}), "(forgotten)"),
            (json!({}), ""),
        ] {
            assert_eq!(entry(fields).who(), who);
        }
    }
}
