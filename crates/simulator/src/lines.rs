//! What a line of a capture says.

use std::time::Duration;

use serde_json::Value;
use tower_admission::{Criticality, DrainMode, Mode, Outcome, Ticket, WorkerReport};

use super::node::with;

/// What a request asked admission for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) waits: bool,
    pub(crate) partition: Option<String>,
    pub(crate) class: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) label: Option<String>,
    pub(crate) run: Option<String>,
    pub(crate) criticality: Criticality,
    /// When its caller gives up, as the capture counts time.
    pub(crate) deadline: Option<u64>,
}

impl Asked {
    pub(crate) fn read(line: &Value) -> Result<Self, String> {
        let word = line["criticality"].as_str().unwrap_or("critical");
        Ok(Self {
            waits: line["waits"].as_bool().unwrap_or(true),
            partition: text(line, "partition"),
            class: text(line, "class"),
            namespace: text(line, "namespace"),
            label: text(line, "label"),
            run: text(line, "run"),
            criticality: Criticality::from_word(word).ok_or_else(|| format!("criticality: found {word:?}"))?,
            deadline: line["deadline"].as_u64(),
        })
    }

    /// The ticket of such a request, which does not say how long its caller waits.
    pub(crate) fn ticket(&self) -> Ticket<'_> {
        let ticket = Ticket::new().criticality(self.criticality);
        let ticket = with(ticket, self.partition.as_deref(), Ticket::partition);
        let ticket = with(ticket, self.class.as_deref(), Ticket::class);
        let ticket = with(ticket, self.namespace.as_deref(), Ticket::namespace);
        let ticket = with(ticket, self.label.as_deref(), Ticket::label);
        with(ticket, self.run.as_deref(), Ticket::run)
    }
}

pub(crate) fn text(line: &Value, field: &str) -> Option<String> {
    line[field].as_str().map(str::to_owned)
}

pub(crate) fn mode(word: Option<&str>) -> Result<Mode, String> {
    let found = [Mode::Enforce, Mode::Observe, Mode::Off].into_iter().find(|mode| Some(mode.as_str()) == word);
    found.ok_or_else(|| format!("mode: found {word:?}"))
}

/// How a request ended, if the line says it.
pub(crate) fn outcome(line: &Value) -> Result<Option<Outcome>, String> {
    Ok(match line["outcome"].as_str() {
        None => None,
        Some("cancelled") => Some(Outcome::Cancelled),
        Some("ignore") => Some(Outcome::Ignore),
        Some("overload") => Some(Outcome::Overload),
        Some("success") => Some(Outcome::Success),
        Some(word) => return Err(format!("outcome: found {word:?}")),
    })
}

pub(crate) fn drain(line: &Value) -> DrainMode {
    if line["serves_waiting"] == true { DrainMode::ServeWaiting } else { DrainMode::RejectWaiting }
}

/// A text that a line about a worker has to have.
pub(crate) fn name<'a>(line: &'a Value, field: &str) -> Result<&'a str, String> {
    line[field].as_str().ok_or_else(|| format!("{field}: is missing"))
}

/// How many requests a worker takes at once, and for how long that holds.
pub(crate) fn slots(line: &Value) -> Result<(usize, Duration), String> {
    let number = |field: &str| line[field].as_u64().ok_or_else(|| format!("{field}: is missing"));
    let slots = usize::try_from(number("slots")?).unwrap_or(usize::MAX);
    Ok((slots, Duration::from_nanos(number("valid_for")?)))
}

/// What a worker says.
pub(crate) fn report(line: &Value) -> Result<WorkerReport, String> {
    let report = WorkerReport::new(name(line, "label")?, name(line, "worker")?);
    let report = with(report, line["namespace"].as_str(), WorkerReport::namespace);
    let report = with(report, line["class"].as_str(), WorkerReport::class);
    if line["do"] == "worker_gone" {
        return Ok(report);
    }
    let (slots, valid_for) = slots(line)?;
    Ok(report.max_concurrent(slots).valid_for(valid_for))
}
