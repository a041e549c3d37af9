//! Heartbeats over HTTP, for workers without a handle. Off unless enabled.

use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::reply::{Problem, Reply};
use crate::runtime::{Admission, WorkerReport};

/// A heartbeat that is longer than this is none.
pub(super) const LONGEST: usize = 16 * 1_024;

/// For how long a heartbeat holds, unless it says so.
const TTL: u64 = 30;
const LONGEST_TTL: u64 = 86_400;

/// Names fields that say how many requests of a class a worker can take; alone, of no class in particular.
const SLOTS: &str = "max_concurrent";

/// What a worker says. Fields for other readers than this one are let pass.
#[derive(Debug, Deserialize)]
struct Heartbeat {
    worker_id: String,
    task_queue: String,
    #[serde(default)]
    namespace: String,
    /// In seconds; 0 is a goodbye.
    #[serde(default = "ttl")]
    ttl: u64,
    #[serde(flatten)]
    others: Map<String, Value>,
}

const fn ttl() -> u64 {
    TTL
}

impl Heartbeat {
    /// How many requests it can take, by class; `None` stands for work of no class in particular.
    fn slots(&self) -> Result<Vec<(Option<&str>, usize)>, Problem> {
        let named = self.others.iter().filter_map(|(field, value)| match field.strip_prefix(SLOTS)? {
            "" => Some((field, None, value)),
            class => Some((field, Some(class.strip_prefix('_')?), value)),
        });
        named
            .map(|(field, class, value)| {
                let slots = value.as_u64().and_then(|slots| usize::try_from(slots).ok());
                let slots = slots.ok_or_else(|| {
                    Problem::invalid(format_args!("{field}: found {value}, allowed is a whole number, 0 or more"))
                })?;
                Ok((class, slots))
            })
            .collect()
    }

    fn report(&self, class: Option<&str>, slots: usize) -> WorkerReport {
        let report = WorkerReport::new(&self.task_queue, &self.worker_id)
            .namespace(&self.namespace)
            .max_concurrent(slots)
            .valid_for(Duration::from_secs(self.ttl));
        match class {
            Some(class) => report.class(class),
            None => report,
        }
    }
}

/// Takes note of a heartbeat, once all of it was found to make sense.
pub(super) fn note(admission: &Admission, body: &[u8]) -> Result<Reply, Problem> {
    let heartbeat: Heartbeat = serde_json::from_slice(body).map_err(Problem::invalid)?;
    let slots = heartbeat.slots()?;
    if slots.is_empty() {
        return Err(Problem::invalid(format_args!(
            "found no slots, allowed is {SLOTS}, or {SLOTS}_ and the name of a class"
        )));
    }
    if heartbeat.ttl > LONGEST_TTL {
        let found = heartbeat.ttl;
        return Err(Problem::invalid(format_args!("ttl: found {found}, allowed is 0 to {LONGEST_TTL} seconds")));
    }
    for class in slots.iter().filter_map(|(class, _)| *class) {
        if !admission.shared.look(|engine, _| engine.has_class(class)) {
            return Err(Problem::invalid(format_args!(
                "{SLOTS}_{class}: unknown class {class:?}, allowed are classes with rules"
            )));
        }
    }
    for (class, slots) in slots {
        let report = heartbeat.report(class, slots);
        if heartbeat.ttl == 0 {
            admission.remove_worker(&report);
        } else if !admission.report_worker(&report) {
            let detail = "worker_id or task_queue is empty, or the table of workers or labels is full";
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
        }
    }
    Ok(Reply::no_content())
}
