//! Settings as text that the simulator reads: `[policy]` of its scenarios.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Labels, Rules, Settings};
use tower_admission_engine::{
    limit::{Limit, Number},
    nanos,
    plan::{Discipline, PartitionMode},
};

impl Settings {
    /// All that decisions depend on; so not what is published, such as [`Labels::metrics`].
    ///
    /// # Errors
    ///
    /// Names what there are no words for.
    pub fn describe(&self) -> Result<Value, String> {
        let (unset, waits) = (Limit::default(), self.values.waits());
        let limit = self.limit.as_ref().unwrap_or(&unset);
        let law = limit.known().ok_or("a control law that the simulator does not know")?;
        if self.rules != Rules::new() {
            return Err("rules for classes of work".to_owned());
        }
        let mut table = Map::new();
        let mut put = |name: &str, value: Value| table.insert(name.to_owned(), value);
        let mut fields = Map::from_iter([("kind".to_owned(), json!(law.kind))]);
        fields.extend(law.fields.iter().map(|&(name, value)| (name.to_owned(), number(value))));
        put("law", Value::Object(fields));
        put("queue", json!(waits.queue));
        if waits.queue > 0 {
            put("admission_timeout", time(waits.admission_timeout));
        } else {
            put("wait_timeout", time(waits.wait_timeout));
        }
        for (name, wait) in [
            ("patience", self.values.patience),
            ("max_wait", waits.max_wait.filter(|_| waits.queue > 0)),
            ("permit_time_to_live", self.values.permit_time_to_live),
        ] {
            if let Some(wait) = wait {
                put(name, time(wait));
            }
        }
        if let Some(requests) = self.values.max_waiting {
            put("max_waiting", json!(requests));
        }
        put("default_partition_mode", json!(self.values.default_partition_mode.as_str()));
        put("default_partition_observe", json!(self.values.default_partition_observe));
        put("discipline", discipline(waits.discipline));
        put("aging", self.values.aging.map_or_else(|| json!("never"), |turns| json!(turns)));
        let partitions = self.shares.iter().map(|(name, share)| {
            let mode = PartitionMode::as_str(share.mode);
            let (percent, observe, lend) = (share.percent, share.observes, share.lends);
            json!({"name": name, "percent": percent, "mode": mode, "observe": observe, "lend": lend})
        });
        put("partitions", partitions.collect());
        put("labels", labels(&self.values.labels)?);
        Ok(Value::Object(table))
    }
}

fn labels(labels: &Labels) -> Result<Value, String> {
    if labels.matching() != Labels::new().matching() || labels.enforce_workers || labels.caps_reject {
        return Err("matching of labels by patterns, caps that reject, or workers whose slots bind".to_owned());
    }
    if !labels.only.is_empty() {
        return Err("caps and weights for one namespace".to_owned());
    }
    let mut table = Map::new();
    let mut put = |name: &str, value: Value| table.insert(name.to_owned(), value);
    put("max_labels", json!(labels.max_labels));
    put("max_waiting", json!(labels.max_waiting));
    put("max_waiting_per_run", json!(labels.max_waiting_per_run));
    put("max_wait", time(labels.max_wait));
    if let Some(cap) = labels.cap {
        put("cap", json!(cap));
    }
    put("weight", json!(labels.weight));
    put("caps", labels.caps.iter().map(|(label, cap)| (label.clone(), json!(cap.unwrap_or(0)))).collect());
    put("weights", json!(labels.weights));
    Ok(Value::Object(table))
}

fn discipline(discipline: Discipline) -> Value {
    let (kind, times) = (discipline.as_str(), discipline.times());
    if times.is_empty() {
        return json!(kind);
    }
    let times: Map<_, _> = times.into_iter().map(|(name, it)| (name.to_owned(), time(it))).collect();
    json!({ kind: times })
}

fn number(number: Number) -> Value {
    match number {
        Number::Count(count) => json!(count),
        Number::Nanos(nanos) => time(Duration::from_nanos(nanos)),
        Number::Real(real) => json!(real),
    }
}

/// In microseconds, to the nanosecond.
fn time(time: Duration) -> Value {
    let nanos = nanos(time);
    match nanos % 1_000 {
        0 => json!(format!("{}us", nanos / 1_000)),
        rest => json!(format!("{}.{rest:03}us", nanos / 1_000)),
    }
}
