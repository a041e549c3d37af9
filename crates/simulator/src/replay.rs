//! Runs a [capture](tower_admission::capture::Capture) again, decision by decision: the same inputs at the same times, in an
//! engine of its own.
//!
//! ```
//! use admission_simulator::replay::replay;
//! use tower_admission::{Admission, Ticket, capture::Capture, limit::Fixed};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let settings = |limit| Admission::builder().limit(Fixed::new(limit)).shed();
//! let admission = settings(1).build()?;
//! # let file = std::env::temp_dir().join(format!("capture-again-{}.jsonl", std::process::id()));
//! let recording = Capture::new().start(&admission, std::fs::File::create(&file)?)?;
//! let first = admission.try_admit(Ticket::new())?;
//! admission.reload(settings(2))?;
//! let second = admission.try_admit(Ticket::new())?;
//! assert_eq!(recording.stop()?, 3);
//!
//! // The same settings decide the same; others don't.
//! let lines = || std::fs::File::open(&file).map(std::io::BufReader::new);
//! assert_eq!(replay(settings(1), [settings(2)], lines()?)?.differences, 0);
//! assert_ne!(replay(settings(1), [settings(1)], lines()?)?.differences, 0);
//! # std::fs::remove_file(file)?;
//! # Ok(())
//! # }
//! ```

use std::{collections::HashMap, io::BufRead, sync::Arc, task::Poll};

use serde_json::Value;
use tower_admission::{AdmissionBuilder, DrainMode, Outcome, Reason, Timestamp};
use tower_admission_engine::{Arrival, Ask, ClassId, Engine, PartitionId, Place, Slot, Subject, normal};

use super::lines::{self, Asked, text};

/// Most differences that are shown.
const MOST_SHOWN: usize = 20;

/// All that a line may say.
const FIELDS: [&str; 24] = [
    "t",
    "do",
    "id",
    "waits",
    "partition",
    "class",
    "namespace",
    "label",
    "run",
    "criticality",
    "deadline",
    "outcome",
    "mode",
    "serves_waiting",
    "worker",
    "slots",
    "valid_for",
    "policy",
    "without_policy",
    "gets",
    "ended",
    "limit",
    "rows",
    "error",
];

/// The result of a replay.
#[derive(Clone, Debug, Default)]
pub struct Replayed {
    /// Inputs, each with its decisions.
    pub rows: u64,
    /// Rows that were decided otherwise than in the capture, and the first of these in words.
    pub differences: u64,
    pub first_differences: Vec<String>,
    /// Why the capture ended before it was stopped, if it did. Also if its last line is missing.
    pub cut: Option<String>,
}

/// Replays a capture under these settings, and compares each decision with the recorded one. Under the settings of the
/// recorded handle there are no differences. The mode is that of the capture.
///
/// Each reload in the capture takes the next of `reloads`. The capture holds the settings of its reloads in words, as its
/// first line holds the first settings, and [`Captured`](crate::captured::Captured) reads them; a control law of your own
/// has no words, and so the settings are given here.
///
/// Under other settings requests end and leave when they did in the capture, which is good for seeing where a policy begins
/// to differ. [`what_if`](crate::what_if::what_if) answers what would have become of them.
///
/// # Errors
///
/// In words: if settings can't be used, a line can't be read, or there are more reloads in it than settings.
pub fn replay(
    settings: AdmissionBuilder,
    reloads: impl IntoIterator<Item = AdmissionBuilder>,
    lines: impl BufRead,
) -> Result<Replayed, String> {
    let mut reloads = reloads.into_iter();
    let engine = Engine::new(settings.into_plan().map_err(|error| error.to_string())?);
    let mut replay = Replay {
        limit: engine.limit(),
        partitions: engine.partitions().map(|(_, name, _)| Arc::from(name)).collect(),
        engine,
        requests: HashMap::new(),
        waiting: HashMap::new(),
    };
    let mut result = Replayed { cut: Some("its last line is missing".to_owned()), ..Replayed::default() };
    let mut has_begun = false;
    for (number, line) in (1..).zip(lines.lines()) {
        let bad = |problem: String| format!("line {number}: {problem}");
        let line = line.map_err(|error| format!("the capture can't be read: {error}"))?;
        let line: Value = serde_json::from_str(&line).map_err(|error| bad(error.to_string()))?;
        if !std::mem::replace(&mut has_begun, true) {
            replay.begin(&line).map_err(bad)?;
            continue;
        }
        let at = check(&line).map_err(bad)?;
        match line["do"].as_str() {
            Some("end") => {
                result.cut = text(&line, "error");
                break;
            }
            Some("reload") => {
                let settings = reloads.next().ok_or_else(|| bad("there are no settings for this reload".to_owned()))?;
                let plan = settings.into_plan().map_err(|error| bad(error.to_string()))?;
                let added = replay.engine.reload(at, plan);
                replay.partitions.extend(added);
            }
            _ => {}
        }
        let now = replay.step(at, &line).map_err(bad)?;
        let then = recorded(&line).map_err(bad)?;
        result.rows += 1;
        if now != then {
            result.differences += 1;
            if result.first_differences.len() < MOST_SHOWN {
                result.first_differences.push(format!("line {number}: recorded {then:?}, now {now:?}"));
            }
        }
    }
    if has_begun { Ok(result) } else { Err("line 1: the file is empty".to_owned()) }
}

/// Answers when it was, if the line says nothing that is not understood here.
fn check(line: &Value) -> Result<Timestamp, String> {
    let unknown = line.as_object().into_iter().flat_map(|fields| fields.keys()).find(|it| !FIELDS.contains(&&***it));
    match unknown {
        Some(field) => Err(format!("{field}: is unknown")),
        None => line["t"].as_u64().map(Timestamp::from_nanos).ok_or_else(|| "t: is missing".to_owned()),
    }
}

/// The result of one input: an answer, waits that end, another limit.
type Decided = (Option<String>, Vec<(u64, String)>, Option<u64>);

fn recorded(line: &Value) -> Result<Decided, String> {
    let ended = match &line["ended"] {
        Value::Null => Vec::new(),
        ended => serde_json::from_value(ended.clone()).map_err(|error| format!("ended: {error}"))?,
    };
    Ok((text(line, "gets"), ended, line["limit"].as_u64()))
}

/// A request that waits or runs.
enum Stage {
    Waits(Place),
    Runs(Slot),
}

struct Replay {
    engine: Engine,
    /// Names of all partitions that there have been, by their numbers.
    partitions: Vec<Arc<str>>,
    requests: HashMap<u64, Stage>,
    /// Requests by the numbers of their places.
    waiting: HashMap<u32, u64>,
    limit: usize,
}

impl Replay {
    fn begin(&mut self, header: &Value) -> Result<(), String> {
        match header["capture"].as_u64() {
            Some(1) => {}
            Some(2) => {
                return Err(
                    "a rolling capture lacks what the law had learned, so it can't be replayed decision by decision: \
                            `admission simulate --replay FILE --policy FILE` tells what becomes of its requests"
                        .to_owned(),
                );
            }
            Some(other) => return Err(format!("found version {other}, known is 1")),
            None => return Err("capture: is missing".to_owned()),
        }
        let mode = lines::mode(header["mode"].as_str())?;
        if mode != tower_admission::Mode::Enforce {
            self.engine.set_mode(Timestamp::ZERO, mode);
        }
        Ok(())
    }

    fn step(&mut self, now: Timestamp, line: &Value) -> Result<Decided, String> {
        let id = || line["id"].as_u64().ok_or("id: is missing");
        let verb = line["do"].as_str().unwrap_or_default();
        let gets = match verb {
            "arrive" => Some(self.arrive(now, id()?, &Asked::read(line)?)),
            "claim" => Some(self.claim(now, id()?)),
            "leave" => {
                match self.requests.remove(&id()?) {
                    Some(Stage::Waits(place)) => self.engine.cancel(now, &place),
                    Some(Stage::Runs(mut slot)) => {
                        self.engine.observe(now, &mut slot, Outcome::Cancelled);
                        self.engine.finish(now, &mut slot);
                    }
                    None => {}
                }
                None
            }
            "answer" | "observe" | "abandon" | "finish" | "overload" => {
                self.end(now, id()?, verb, lines::outcome(line)?);
                None
            }
            "tick" => {
                self.engine.tick(now);
                None
            }
            "mode" => {
                self.engine.set_mode(now, lines::mode(line["mode"].as_str())?);
                None
            }
            "drain" => {
                self.engine.close(now, lines::drain(line) == DrainMode::ServeWaiting);
                None
            }
            "worker" | "worker_gone" => {
                self.hear(now, verb, line)?;
                None
            }
            // Its settings are there already.
            "reload" => None,
            _ => return Err(format!("do: found {verb:?}")),
        };
        let ended = self.engine.ended_since(0);
        let ended = ended.filter_map(|(place, why)| Some((*self.waiting.get(&place.index)?, answer(why)))).collect();
        while self.engine.take_notice().is_some() {}
        while self.engine.take_expired().is_some() {}
        let limit = self.engine.limit();
        let moved = (std::mem::replace(&mut self.limit, limit) != limit).then_some(limit as u64);
        Ok((gets, ended, moved))
    }

    fn arrive(&mut self, now: Timestamp, id: u64, asked: &Asked) -> String {
        let number = |name: &str| self.partitions.iter().position(|known| **known == *name);
        let partition = asked.partition.as_deref().and_then(number).and_then(PartitionId::from_index);
        let namespace = asked.namespace.as_deref().and_then(normal).unwrap_or_default();
        let run = asked.run.as_deref().and_then(normal);
        let ask = Ask {
            partition: partition.unwrap_or(PartitionId::DEFAULT),
            class: asked.class.as_deref().map_or(ClassId::OTHERS, |class| self.engine.class(class)),
            criticality: asked.criticality,
            subject: asked.label.as_deref().and_then(normal).map(|label| Subject::new(namespace, label, run)),
            deadline: asked.deadline.map_or(Timestamp::NEVER, Timestamp::from_nanos),
        };
        match if asked.waits { self.engine.arrive(now, &ask) } else { self.engine.arrive_now(now, &ask) } {
            Arrival::Admit(slot) => {
                self.requests.insert(id, Stage::Runs(slot));
                answer(None)
            }
            Arrival::Wait(place) | Arrival::Ask(place, _) => {
                self.waiting.insert(place.key().index, id);
                self.requests.insert(id, Stage::Waits(place));
                "place".to_owned()
            }
            Arrival::Reject(refusal) => answer(Some(refusal.reason)),
        }
    }

    fn claim(&mut self, now: Timestamp, id: u64) -> String {
        let Some(request) = self.requests.get_mut(&id) else { return "nothing".to_owned() };
        let Stage::Waits(place) = &*request else { return answer(None) };
        match self.engine.claim(now, place) {
            Poll::Pending => "place".to_owned(),
            Poll::Ready(Ok(slot)) => {
                *request = Stage::Runs(slot);
                answer(None)
            }
            Poll::Ready(Err(refusal)) => {
                self.requests.remove(&id);
                answer(Some(refusal.reason))
            }
        }
    }

    /// Takes note of what a worker says, if it names itself and its label.
    fn hear(&mut self, now: Timestamp, verb: &str, line: &Value) -> Result<(), String> {
        let (label, worker) = (lines::name(line, "label")?, lines::name(line, "worker")?);
        let namespace = line["namespace"].as_str().and_then(normal).unwrap_or_default();
        let (Some(label), Some(worker)) = (normal(label), normal(worker)) else { return Ok(()) };
        let (class, subject) = (line["class"].as_str(), Subject::new(namespace, label, None));
        let report = if verb == "worker" { Some(lines::slots(line)?) } else { None };
        self.engine.report_worker(now, class, &subject, worker, report);
        Ok(())
    }

    /// Ends a request, or a part of it. A request that still waits here leaves when it has ended in the capture.
    fn end(&mut self, now: Timestamp, id: u64, verb: &str, outcome: Option<Outcome>) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        if let Stage::Runs(slot) = request {
            match outcome {
                Some(outcome) if verb == "abandon" => drop(self.engine.abandon(now, slot, outcome)),
                Some(outcome) => self.engine.observe(now, slot, outcome),
                None if verb == "answer" => self.engine.answer(now, slot),
                None if verb == "overload" => self.engine.observe_overload(now, slot, true),
                None => {}
            }
        }
        if verb == "observe" {
            self.engine.go_on(now);
        }
        if verb == "finish" {
            match self.requests.remove(&id) {
                Some(Stage::Waits(place)) => self.engine.cancel(now, &place),
                Some(Stage::Runs(mut slot)) => self.engine.finish(now, &mut slot),
                None => {}
            }
        }
    }
}

fn answer(reason: Option<Reason>) -> String {
    reason.map_or("slot", Reason::as_str).to_owned()
}
