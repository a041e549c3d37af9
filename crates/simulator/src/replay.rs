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

use std::{collections::HashMap, io::BufRead, task::Poll};

use serde_json::Value;
use tower_admission::{
    AdmissionBuilder, Outcome, Reason, Timestamp,
    capture::{ReplayEngine, ReplayRequest},
};

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
    let engine = ReplayEngine::new(settings).map_err(|error| error.to_string())?;
    let mut replay = Replay { limit: engine.limit(), engine, requests: HashMap::new(), waiting: HashMap::new() };
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
                replay.engine.reload(at, settings).map_err(|error| bad(error.to_string()))?;
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

struct Replay {
    engine: ReplayEngine,
    requests: HashMap<u64, ReplayRequest>,
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
                if let Some(mut request) = self.requests.remove(&id()?) {
                    self.engine.observe(now, &mut request, Outcome::Cancelled);
                    self.engine.finish(now, request);
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
                self.engine.drain(now, lines::drain(line));
                None
            }
            "worker" => {
                self.engine.report_worker(now, &lines::report(line)?);
                None
            }
            "worker_gone" => {
                self.engine.remove_worker(now, &lines::report(line)?);
                None
            }
            // Its settings are there already.
            "reload" => None,
            _ => return Err(format!("do: found {verb:?}")),
        };
        let known = |(place, why)| Some((*self.waiting.get(&place)?, answer(why)));
        let ended = self.engine.take_ended().into_iter().filter_map(known).collect();
        let limit = self.engine.limit();
        let moved = (std::mem::replace(&mut self.limit, limit) != limit).then_some(limit as u64);
        Ok((gets, ended, moved))
    }

    fn arrive(&mut self, now: Timestamp, id: u64, asked: &Asked) -> String {
        let deadline = asked.deadline.map(Timestamp::from_nanos);
        match self.engine.arrive(now, &asked.ticket(), deadline, asked.waits) {
            Ok(request) => {
                let place = request.place();
                self.requests.insert(id, request);
                let Some(place) = place else { return answer(None) };
                self.waiting.insert(place, id);
                "place".to_owned()
            }
            Err(reason) => answer(Some(reason)),
        }
    }

    fn claim(&mut self, now: Timestamp, id: u64) -> String {
        let Some(request) = self.requests.get_mut(&id) else { return "nothing".to_owned() };
        match self.engine.claim(now, request) {
            Poll::Pending => "place".to_owned(),
            Poll::Ready(Ok(())) => answer(None),
            Poll::Ready(Err(reason)) => {
                self.requests.remove(&id);
                answer(Some(reason))
            }
        }
    }

    /// Ends a request, or a part of it. A request that still waits here leaves when it has ended in the capture.
    fn end(&mut self, now: Timestamp, id: u64, verb: &str, outcome: Option<Outcome>) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        match outcome {
            Some(outcome) if verb == "abandon" => self.engine.abandon(now, request, outcome),
            Some(outcome) => self.engine.observe(now, request, outcome),
            None if verb == "answer" => self.engine.answer(now, request),
            None if verb == "overload" => self.engine.observe_late_overload(now, request),
            None => {}
        }
        if verb == "observe" {
            self.engine.go_on(now);
        }
        if verb == "finish"
            && let Some(request) = self.requests.remove(&id)
        {
            self.engine.finish(now, request);
        }
    }
}

fn answer(reason: Option<Reason>) -> String {
    reason.map_or("slot", Reason::as_str).to_owned()
}
