//! Settings as text that the simulator reads: `[policy]` of its scenarios.

use std::{num::NonZeroU32, time::Duration};

use serde_json::{Map, Value, json};

use super::{ClassLimits, Labels, Settings, settings::labels::Name};
use crate::{
    engine::{
        limit::Number,
        plan::{Discipline, PartitionMode},
    },
    time::nanos,
};

impl Settings {
    /// All that decisions depend on; so not what is published, such as [`Labels::metrics`].
    ///
    /// # Errors
    ///
    /// Names what there are no words for.
    pub(crate) fn describe(&self) -> Result<Value, String> {
        let law = self.limit.known().ok_or("a control law that the simulator does not know")?;
        if self.rules.others != ClassLimits::new() || !self.rules.classes.is_empty() || !self.rules.overrides.is_empty()
        {
            return Err("rules for classes of work".to_owned());
        }
        let mut table = Map::new();
        let mut put = |name: &str, value: Value| table.insert(name.to_owned(), value);
        let mut limit = Map::from_iter([("kind".to_owned(), json!(law.kind))]);
        limit.extend(law.fields.iter().map(|&(name, value)| (name.to_owned(), number(value))));
        put("law", Value::Object(limit));
        if self.waiting.queue > 0 {
            put("queue", json!(self.waiting.queue));
        }
        put("admission_timeout", time(self.waiting.admission_timeout));
        for (name, wait) in [
            ("max_wait", self.waiting.max_wait),
            ("wait_timeout", self.waiting.wait_timeout),
            ("permit_time_to_live", self.time_to_live),
        ] {
            if let Some(wait) = wait {
                put(name, time(wait));
            }
        }
        if let Some(requests) = self.waiting.max_waiting {
            put("max_waiting", json!(requests));
        }
        put("default_partition_mode", json!(self.partitions.default_mode.as_str()));
        put("default_partition_observe", json!(self.partitions.default_observes));
        put("discipline", discipline(self.waiting.discipline));
        put("aging", self.waiting.aging.and_then(NonZeroU32::new).map_or_else(|| json!("never"), |turns| json!(turns)));
        let partitions = self.partitions.shares.iter().map(|(name, share)| {
            let mode = PartitionMode::as_str(share.mode());
            json!({"name": name, "percent": share.as_percent(), "mode": mode, "observe": share.observes()})
        });
        put("partitions", partitions.collect());
        put("labels", labels(&self.labels)?);
        Ok(Value::Object(table))
    }
}

fn labels(labels: &Labels) -> Result<Value, String> {
    let plan = &labels.plan;
    if labels.matching != Labels::new().matching || plan.enforce_workers {
        return Err("matching of labels by patterns, or workers whose slots bind".to_owned());
    }
    let mut table = Map::new();
    let mut put = |name: &str, value: Value| table.insert(name.to_owned(), value);
    put("max_labels", json!(plan.max_labels));
    put("max_waiting", json!(plan.max_waiting));
    put("max_waiting_per_run", json!(plan.max_waiting_per_run));
    if let Some(wait) = plan.wait {
        put("max_wait", time(wait));
    }
    if let Some(cap) = plan.default.cap {
        put("cap", json!(cap));
    }
    put("weight", json!(labels.default_weight));
    let by_name = |(namespace, name): &Name, value: Value| match namespace {
        Some(_) => Err("caps and weights for one namespace".to_owned()),
        None => Ok((name.clone(), value)),
    };
    let caps: Result<Map<_, _>, String> = labels.caps.iter().map(|(name, cap)| by_name(name, json!(cap))).collect();
    let weights: Result<Map<_, _>, String> = labels.weights.iter().map(|(name, it)| by_name(name, json!(it))).collect();
    put("caps", Value::Object(caps?));
    put("weights", Value::Object(weights?));
    Ok(Value::Object(table))
}

fn discipline(discipline: Discipline) -> Value {
    match discipline {
        Discipline::AdaptiveLifo { interval, short_wait } => {
            json!({"adaptive_lifo": {"interval": time(interval), "short_wait": time(short_wait)}})
        }
        Discipline::BurstCredit { longest, standing } => {
            json!({"burst_credit": {"longest": time(longest), "standing": time(standing)}})
        }
        Discipline::Fair | Discipline::Fifo => json!(discipline.as_str()),
    }
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
