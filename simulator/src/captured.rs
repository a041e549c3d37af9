//! What a [capture](tower_admission::capture::Capture) says: which requests came, how long each was served, and what
//! became of it.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use tower_admission::{Criticality, DrainMode, Mode, Outcome, Ticket};

use super::policy::Policy;

/// A capture that was read.
#[derive(Debug)]
pub struct Captured {
    /// The policy of the handle that was recorded, or what there are no words for.
    pub policy: Result<Policy, String>,
    pub mode: Mode,
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
    pub waits: bool,
    partition: Option<String>,
    class: Option<String>,
    namespace: Option<String>,
    label: Option<String>,
    run: Option<String>,
    criticality: Criticality,
    deadline: Option<u64>,
    /// When it got its slot, if it did.
    pub started: Option<u64>,
    /// How long it took; of one that never ran, the time of another one like it.
    pub service: Service,
    pub rejected: Option<String>,
    /// When its client left while it waited.
    pub left: Option<u64>,
}

/// How long a request takes to its answer and to the end of that, and how it ends.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    pub rtt: u64,
    pub held: u64,
    pub outcome: Outcome,
}

/// Something that an operator does.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Mode(Mode),
    Drain(DrainMode),
}

impl Request {
    /// What it asks admission for.
    pub fn ticket(&self) -> Ticket<'static> {
        let mut ticket = Ticket::new().criticality(self.criticality);
        type Set = fn(&mut Ticket<'static>, String);
        let fields: [(&Option<String>, Set); 5] = [
            (&self.partition, Ticket::set_partition),
            (&self.class, Ticket::set_class),
            (&self.namespace, Ticket::set_namespace),
            (&self.label, Ticket::set_label),
            (&self.run, Ticket::set_run),
        ];
        for (value, set) in fields {
            if let Some(value) = value {
                set(&mut ticket, value.clone());
            }
        }
        if let Some(deadline) = self.deadline {
            ticket.limit_timeout(std::time::Duration::from_nanos(deadline.saturating_sub(self.at)));
        }
        ticket
    }
}

fn text(line: &Value, field: &str) -> Option<String> {
    line[field].as_str().map(str::to_owned)
}

fn mode(word: Option<&str>) -> Result<Mode, String> {
    let found = [Mode::Enforce, Mode::Observe, Mode::Off].into_iter().find(|mode| Some(mode.as_str()) == word);
    found.ok_or_else(|| format!("mode: found {word:?}"))
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
        if header["capture"] != 1 {
            return Err("line 1: not a capture, or a capture of another version".to_owned());
        }
        let policy = words(&header)?;
        let mut reading = Reading::default();
        for (line, number) in lines.zip(2..) {
            if !reading.take(&line?).map_err(|problem| format!("line {number}: {problem}"))? {
                break;
            }
        }
        let Reading { mut requests, steps, reloads, .. } = reading;
        lend_service(&mut requests);
        let requests = requests.into_iter().map(|(request, _)| request).collect();
        Ok(Self { policy, mode: mode(header["mode"].as_str())?, requests, steps, reloads })
    }
}

#[derive(Default)]
struct Reading {
    /// Each request, and whether its service is known.
    requests: Vec<(Request, bool)>,
    places: HashMap<u64, usize>,
    steps: Vec<(u64, Step)>,
    reloads: Vec<Result<Policy, String>>,
}

impl Reading {
    /// Answers whether to go on.
    fn take(&mut self, line: &Value) -> Result<bool, String> {
        let at = line["t"].as_u64().ok_or("t: is missing")?;
        let verb = line["do"].as_str().unwrap_or_default();
        if verb == "arrive" {
            self.arrive(at, line)?;
        }
        let place = line["id"].as_u64().and_then(|id| self.places.get(&id));
        let request = place.map(|&place| &mut self.requests[place]);
        match (verb, request) {
            ("arrive" | "claim", Some((request, _))) => match line["gets"].as_str() {
                Some("slot") => request.started = Some(at),
                Some("place") | None => {}
                Some(reason) => request.rejected = Some(reason.to_owned()),
            },
            ("leave", Some((request, _))) => request.left = Some(at),
            ("observe" | "finish", Some((request, known))) => {
                // A file that was changed may have times that run backwards.
                let lasted = at.saturating_sub(request.started.unwrap_or(at));
                if let Some(word) = line["outcome"].as_str() {
                    request.service.rtt = lasted;
                    request.service.outcome = match word {
                        "success" => Outcome::Success,
                        "overload" => Outcome::Overload,
                        "ignore" => Outcome::Ignore,
                        _ => Outcome::Cancelled,
                    };
                }
                request.service.held = lasted;
                *known = true;
            }
            ("mode", _) => self.steps.push((at, Step::Mode(mode(line["mode"].as_str())?))),
            ("drain", _) => {
                let serves = line["serves_waiting"].as_bool().unwrap_or(false);
                self.steps
                    .push((at, Step::Drain(if serves { DrainMode::ServeWaiting } else { DrainMode::RejectWaiting })));
            }
            ("reload", _) => self.reloads.push(words(line)?),
            ("end", _) => return Ok(false),
            _ => {}
        }
        Ok(true)
    }

    fn arrive(&mut self, at: u64, line: &Value) -> Result<(), String> {
        let word = line["criticality"].as_str().unwrap_or("critical");
        let request = Request {
            at,
            waits: line["waits"].as_bool().unwrap_or(true),
            partition: text(line, "partition"),
            class: text(line, "class"),
            namespace: text(line, "namespace"),
            label: text(line, "label"),
            run: text(line, "run"),
            criticality: Criticality::from_word(word).ok_or_else(|| format!("criticality: found {word:?}"))?,
            deadline: line["deadline"].as_u64(),
            started: None,
            service: Service { rtt: 0, held: 0, outcome: Outcome::Success },
            rejected: None,
            left: None,
        };
        self.places.insert(line["id"].as_u64().ok_or("id: is missing")?, self.requests.len());
        self.requests.push((request, false));
        Ok(())
    }
}

/// A request that never ran would have taken as long as the last one before it with the same label and class that did, or
/// the first one after it; of other labels, if there is none.
fn lend_service(requests: &mut [(Request, bool)]) {
    let mut alike: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    let kind = |request: &Request| (request.label.clone(), request.class.clone());
    let all: Vec<usize> = (0..requests.len()).filter(|&i| requests[i].1 && succeeded(&requests[i].0)).collect();
    for &i in &all {
        alike.entry(kind(&requests[i].0)).or_default().push(i);
    }
    for i in 0..requests.len() {
        if requests[i].1 {
            continue;
        }
        let others = alike.get(&kind(&requests[i].0)).unwrap_or(&all);
        let after = others.partition_point(|&other| other < i);
        let before = after.checked_sub(1).and_then(|before| others.get(before));
        if let Some(&other) = before.or_else(|| others.first()) {
            requests[i].0.service = requests[other].0.service;
        }
    }
}

fn succeeded(request: &Request) -> bool {
    request.service.outcome == Outcome::Success
}
