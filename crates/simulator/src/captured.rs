//! What a [capture](tower_admission::capture::Capture) says: which requests came, how long each was served, and what
//! became of it.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use tower_admission::{DrainMode, Mode, Outcome, Ticket, WorkerReport};

use super::{
    lines::{self, Asked, text},
    policy::Policy,
};

/// Requests of one row that says no more than how many run, at the most: a file that was changed may say anything.
const MOST_UNSEEN: u64 = 1_000_000;

/// A capture that was read.
#[derive(Debug)]
pub struct Captured {
    /// The policy of the handle that was recorded, or what there are no words for.
    pub policy: Result<Policy, String>,
    pub mode: Mode,
    /// The limit at the start.
    pub limit: usize,
    /// Whether it began with a handle at work, and so lacks what the law had learned.
    pub is_rolling: bool,
    /// Turns that are missing.
    pub missed: u64,
    /// How long it lasted.
    pub duration: u64,
    pub requests: Vec<Request>,
    /// What operators did, and when.
    pub steps: Vec<(u64, Step)>,
    /// The policies that came by reloads, which only an exact replay takes: another policy stays what it is.
    pub reloads: Vec<Result<Policy, String>>,
}

/// A request as it came, and what became of it.
#[derive(Debug)]
pub struct Request {
    pub at: u64,
    /// Whether it ran already when the capture began, or after a gap: it takes a slot and is not counted.
    pub is_present: bool,
    pub(crate) asked: Asked,
    /// When it got its slot, if it did.
    pub started: Option<u64>,
    /// How long it took; of one that never ran, the time of another one like it. A request that ran yet when the capture ended holds
    /// its slot to that end: when it would have ended is not known.
    pub service: Service,
    pub rejected: Option<String>,
    /// When its client left while it waited.
    pub left: Option<u64>,
}

/// A partition and a label, which requests have in common.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Group {
    pub partition: String,
    pub namespace: String,
    pub label: Option<String>,
}

impl Group {
    /// A name as text and nothing else: callers choose names of labels.
    pub fn title(&self) -> String {
        let key = match (&self.label, self.namespace.as_str()) {
            (None, _) => String::new(),
            (Some(label), "") => format!(" / {label}"),
            (Some(label), namespace) => format!(" / {namespace}:{label}"),
        };
        let name: String = format!("{}{key}", self.partition).chars().filter(|c| !c.is_control()).collect();
        if name.chars().count() > 40 { name.chars().take(39).chain(['…']).collect() } else { name }
    }
}

/// How long a request takes to its answer and to the end of that, and how it ends; for ever, where the capture ended before.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    pub rtt: u64,
    pub held: u64,
    pub outcome: Outcome,
}

/// Something that an operator does, or a worker.
#[derive(Clone, Debug)]
pub enum Step {
    Mode(Mode),
    Drain(DrainMode),
    Worker(WorkerReport),
    WorkerGone(WorkerReport),
}

impl Service {
    pub const fn has_no_end(&self) -> bool {
        self.held == u64::MAX
    }

    fn end_after(&mut self, held: u64) {
        (self.rtt, self.held) = (self.rtt.min(held), held);
    }
}

impl Request {
    /// The partition that it asked for, and its label.
    pub fn group(&self) -> Group {
        let Asked { partition, namespace, label, .. } = &self.asked;
        Group {
            partition: partition.clone().unwrap_or_else(|| "default".to_owned()),
            namespace: namespace.clone().unwrap_or_default(),
            label: label.clone(),
        }
    }

    /// Whether it ran yet when the capture ended.
    pub const fn is_unfinished(&self) -> bool {
        self.started.is_some() && self.service.has_no_end()
    }

    /// Whether its answer comes after its deadline, if it starts at this time.
    pub fn is_late(&self, start: u64) -> bool {
        self.asked.deadline.is_some_and(|deadline| start.saturating_add(self.service.rtt) > deadline)
    }

    /// What it asks admission for.
    pub fn ticket(&self) -> Ticket<'_> {
        let mut ticket = self.asked.ticket();
        if let Some(deadline) = self.asked.deadline {
            ticket.limit_timeout(std::time::Duration::from_nanos(deadline.saturating_sub(self.at)));
        }
        ticket
    }
}

/// The policy of a line, or what there are no words for.
fn words(line: &Value) -> Result<Result<Policy, String>, String> {
    Ok(match &line["policy"] {
        Value::Null => Err(text(line, "without_policy").unwrap_or_else(|| "its policy".to_owned())),
        policy => Ok(Policy::from_json(policy)?),
    })
}

impl Captured {
    pub fn read(lines: &str) -> Result<Self, String> {
        let mut lines = (1..).zip(lines.lines()).map(|(number, line)| {
            serde_json::from_str::<Value>(line).map_err(|error| format!("line {number}: {error}"))
        });
        let header = lines.next().ok_or("the file is empty")??;
        let is_rolling = header["capture"] == 2;
        if header["capture"] != 1 && !is_rolling {
            return Err("line 1: not a capture, or a capture of another version".to_owned());
        }
        let policy = words(&header)?;
        let mut reading = Reading { from: header["from"].as_u64().unwrap_or(0), ..Reading::default() };
        for (line, number) in lines.zip(2..) {
            if !reading.take(&line?).map_err(|problem| format!("line {number}: {problem}"))? {
                break;
            }
        }
        let Reading { mut requests, steps, reloads, missed, until: duration, .. } = reading;
        lend_service(&mut requests);
        let (mode, limit) = (lines::mode(header["mode"].as_str())?, header["limit"].as_u64().unwrap_or(1));
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(Self { policy, mode, limit, is_rolling, missed, duration, requests, steps, reloads })
    }
}

#[derive(Default)]
struct Reading {
    requests: Vec<Request>,
    places: HashMap<u64, usize>,
    /// When it begins: times are told from there on.
    from: u64,
    until: u64,
    missed: u64,
    steps: Vec<(u64, Step)>,
    reloads: Vec<Result<Policy, String>>,
}

impl Reading {
    /// Answers whether to go on.
    fn take(&mut self, line: &Value) -> Result<bool, String> {
        let at = line["t"].as_u64().ok_or("t: is missing")?.saturating_sub(self.from);
        self.until = self.until.max(at);
        let verb = line["do"].as_str().unwrap_or_default();
        match verb {
            "arrive" => self.arrive(at, line)?,
            "present" => self.present(at, line)?,
            "gap" => {
                self.missed += line["count"].as_u64().unwrap_or(0);
                // What became of them is not known; those that are there yet follow, as others.
                for (_, place) in self.places.drain() {
                    let request = &mut self.requests[place];
                    if let (Some(started), true) = (request.started, request.is_unfinished()) {
                        request.service.end_after(at.saturating_sub(started));
                    }
                }
            }
            _ => {}
        }
        let place = line["id"].as_u64().and_then(|id| self.places.get(&id));
        let request = place.map(|&place| &mut self.requests[place]);
        match (verb, request) {
            ("arrive" | "claim" | "present", Some(request)) => match line["gets"].as_str() {
                Some("slot") => request.started = Some(at),
                Some("place") | None => {}
                Some(reason) => request.rejected = Some(reason.to_owned()),
            },
            ("leave", Some(request)) => request.left = Some(at),
            ("observe" | "finish", Some(request)) => {
                // A file that was changed may have times that run backwards.
                let lasted = at.saturating_sub(request.started.unwrap_or(at));
                if let Some(outcome) = lines::outcome(line)? {
                    (request.service.rtt, request.service.outcome) = (lasted, outcome);
                }
                if verb == "finish" {
                    request.service.end_after(lasted);
                }
            }
            ("mode", _) => self.steps.push((at, Step::Mode(lines::mode(line["mode"].as_str())?))),
            ("drain", _) => self.steps.push((at, Step::Drain(lines::drain(line)))),
            ("worker", _) => self.steps.push((at, Step::Worker(lines::report(line)?))),
            ("worker_gone", _) => self.steps.push((at, Step::WorkerGone(lines::report(line)?))),
            ("reload", _) => self.reloads.push(words(line)?),
            ("end", _) => return Ok(false),
            _ => {}
        }
        Ok(true)
    }

    /// Requests that were there when the capture began. Those that waited are decided on yet.
    fn present(&mut self, at: u64, line: &Value) -> Result<(), String> {
        if let Some(count) = line["count"].as_u64() {
            for _ in 0..count.min(MOST_UNSEEN) {
                let request = self.request(at, line)?;
                self.requests.push(Request { is_present: true, ..request });
            }
            return Ok(());
        }
        self.arrive(at, line)?;
        if let (Some(request), Some("slot")) = (self.requests.last_mut(), line["gets"].as_str()) {
            request.is_present = true;
        }
        Ok(())
    }

    fn arrive(&mut self, at: u64, line: &Value) -> Result<(), String> {
        let request = self.request(at, line)?;
        self.places.insert(line["id"].as_u64().ok_or("id: is missing")?, self.requests.len());
        self.requests.push(request);
        Ok(())
    }

    fn request(&self, at: u64, line: &Value) -> Result<Request, String> {
        let mut asked = Asked::read(line)?;
        asked.deadline = asked.deadline.map(|at| at.saturating_sub(self.from));
        Ok(Request {
            at,
            is_present: false,
            asked,
            started: None,
            service: Service { rtt: u64::MAX, held: u64::MAX, outcome: Outcome::Success },
            rejected: None,
            left: None,
        })
    }
}

/// A request that never ran would have taken as long as the last one before it with the same label and class that did, or
/// the first one after it; of other labels, if there is none. Where that one did not end, it would not have ended either: so a leak
/// stays one under another policy.
fn lend_service(requests: &mut [Request]) {
    let mut alike: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    let kind = |request: &Request| (request.asked.label.clone(), request.asked.class.clone());
    for i in (0..requests.len()).filter(|&i| is_example(&requests[i])) {
        alike.entry(kind(&requests[i])).or_default().push(i);
    }
    let mut all: Vec<usize> = alike.values().flatten().copied().filter(|&i| !requests[i].is_unfinished()).collect();
    all.sort_unstable();
    for i in (0..requests.len()).filter(|&i| requests[i].started.is_none()).collect::<Vec<_>>() {
        let others = alike.get(&kind(&requests[i])).unwrap_or(&all);
        let after = others.partition_point(|&other| other < i);
        let before = after.checked_sub(1).and_then(|before| others.get(before));
        let other = before.or_else(|| others.first()).map(|&other| requests[other].service);
        requests[i].service = other.unwrap_or(Service { rtt: 0, held: 0, outcome: Outcome::Success });
    }
}

/// Of a request that was there at the start, only the rest of its time is known.
fn is_example(request: &Request) -> bool {
    !request.is_present && request.started.is_some() && request.service.outcome == Outcome::Success
}
