//! Replaying a capture: the same inputs at the same times, and the decisions compared.

use std::{collections::HashMap, fmt, io, io::BufRead, task::Poll, time::Duration};

use super::{
    line::{CaptureRow, Header, ROLLING, VERSION, Verb},
    writer::answer_word,
};
use crate::{
    criticality::Criticality,
    engine::{
        Arrival, Ask, ClassId, Engine, PartitionId, Place, Slot, Subject,
        plan::{Mode, Plan},
    },
    outcome::Outcome,
    problem::BuildError,
    runtime::AdmissionBuilder,
    time::Timestamp,
};

/// Most differences that are shown.
const MOST_SHOWN: usize = 20;

/// The result of a replay.
#[derive(Clone, Debug, Default)]
pub struct Replayed {
    rows: u64,
    differences: u64,
    shown: Vec<String>,
    cut: Option<String>,
}

/// Why a capture can't be replayed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReplayError {
    /// The settings can't be used.
    Settings(BuildError),
    /// A line is not as it should be.
    Line {
        /// Its number, from 1 on.
        number: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// The lines can't be read.
    Io(io::Error),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(error) => error.fmt(f),
            Self::Line { number, problem } => write!(f, "line {number}: {problem}"),
            Self::Io(error) => write!(f, "the capture can't be read: {error}"),
        }
    }
}

impl std::error::Error for ReplayError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Settings(error) => Some(error),
            Self::Line { .. } => None,
            Self::Io(error) => Some(error),
        }
    }
}

impl Replayed {
    /// Returns how many rows there were: inputs, each with its decisions.
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns how many rows were decided otherwise than in the capture.
    pub const fn differences(&self) -> u64 {
        self.differences
    }

    /// Returns the first of these in words.
    pub fn first_differences(&self) -> &[String] {
        &self.shown
    }

    /// Returns why the capture ended before it was stopped, if it did. Also if its last line is missing.
    pub fn cut(&self) -> Option<&str> {
        self.cut.as_deref()
    }
}

impl AdmissionBuilder {
    /// Replays a [capture](crate::capture::Capture) under these settings: the same inputs at the same times, in an
    /// engine of its own, and each decision compared with the recorded one. Under the settings of the recorded handle
    /// there are no differences. The mode is that of the capture.
    ///
    /// Under other settings requests end and leave when they did in the capture, which is good for seeing where a
    /// policy begins to differ. The example `simulate` answers what would have become of them.
    ///
    /// # Errors
    ///
    /// If the settings can't be used, a line can't be read, or there is a reload in it: see
    /// [`replay_with_reloads`](Self::replay_with_reloads).
    #[cfg_attr(docsrs, doc(cfg(feature = "introspect")))]
    pub fn replay(self, lines: impl BufRead) -> Result<Replayed, ReplayError> {
        self.replay_with_reloads([], lines)
    }

    /// Like `replay`, for a capture of a handle that was [reloaded](crate::Admission::reload) meanwhile: each reload in
    /// it takes the next of these settings. The capture holds the settings of its reloads in words, as its first line
    /// holds the first settings, and the example `simulate` reads them. A control law of your own has no words, and so
    /// the settings are given here.
    ///
    /// ```
    /// use tower_admission::{Admission, Ticket, capture::Capture, limit::Fixed};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let settings = |limit| Admission::builder().limit(Fixed::new(limit)).shed();
    /// let admission = settings(1).build()?;
    /// # let file = std::env::temp_dir().join(format!("capture-reload-{}.jsonl", std::process::id()));
    /// let recording = Capture::new().start(&admission, std::fs::File::create(&file)?)?;
    /// let first = admission.try_admit(Ticket::new())?;
    /// admission.reload(settings(2))?;
    /// let second = admission.try_admit(Ticket::new())?;
    /// assert_eq!(recording.stop()?, 3);
    ///
    /// let lines = std::io::BufReader::new(std::fs::File::open(&file)?);
    /// assert_eq!(settings(1).replay_with_reloads([settings(2)], lines)?.differences(), 0);
    /// # std::fs::remove_file(file)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If settings can't be used, a line can't be read, or there are more reloads in it than settings.
    #[cfg_attr(docsrs, doc(cfg(feature = "introspect")))]
    pub fn replay_with_reloads(
        self,
        reloads: impl IntoIterator<Item = Self>,
        lines: impl BufRead,
    ) -> Result<Replayed, ReplayError> {
        let mut reloads = reloads.into_iter();
        let (plan, _) = self.settings.into_plan().map_err(ReplayError::Settings)?;
        let mut lines = (1..).zip(lines.lines());
        let first = lines.next().ok_or_else(|| bad(1, "the file is empty"))?.1.map_err(ReplayError::Io)?;
        let header: Header = serde_json::from_str(&first).map_err(|error| bad(1, error))?;
        if header.capture == ROLLING {
            let problem = "a rolling capture lacks what the law had learned, so it can't be replayed decision by decision: \
                           `admission simulate --replay FILE --policy FILE` tells what becomes of its requests";
            return Err(bad(1, problem));
        }
        if header.capture != VERSION {
            return Err(bad(1, format_args!("found version {}, known is {VERSION}", header.capture)));
        }
        let mode = [Mode::Enforce, Mode::Observe, Mode::Off].into_iter().find(|mode| mode.as_str() == header.mode);
        let mode = mode.ok_or_else(|| bad(1, "the mode is unknown"))?;
        let mut replay = Replay::new(Engine::new(plan), mode);
        let mut result = Replayed { cut: Some("its last line is missing".to_owned()), ..Replayed::default() };
        for (number, text) in lines {
            let text = text.map_err(ReplayError::Io)?;
            let line: CaptureRow = serde_json::from_str(&text).map_err(|error| bad(number, error))?;
            if line.verb == Verb::End {
                result.cut = line.error;
                break;
            }
            if line.verb == Verb::Reload {
                let settings = reloads.next().ok_or_else(|| bad(number, "there are no settings for this reload"))?;
                let (plan, _) = settings.settings.into_plan().map_err(ReplayError::Settings)?;
                replay.reload(Timestamp::from_nanos(line.t), plan);
            }
            let now = replay.step(&line).map_err(|problem| bad(number, problem))?;
            result.rows += 1;
            let then = (line.gets, line.ended, line.limit);
            if now != then {
                result.differences += 1;
                if result.shown.len() < MOST_SHOWN {
                    result.shown.push(format!("line {number}: recorded {then:?}, now {now:?}"));
                }
            }
        }
        Ok(result)
    }
}

fn bad(number: u64, problem: impl fmt::Display) -> ReplayError {
    ReplayError::Line { number, problem: problem.to_string() }
}

/// The stage of a request.
#[derive(Debug)]
enum Whereabouts {
    Waits(Place),
    Runs(Slot),
}

struct Replay {
    engine: Engine,
    partitions: HashMap<String, PartitionId>,
    requests: HashMap<u64, Whereabouts>,
    waiting: HashMap<u32, u64>,
    limit: usize,
}

/// The result of one input: an answer, waits that end, another limit.
type Decided = (Option<String>, Vec<(u64, String)>, Option<usize>);

impl Replay {
    fn new(mut engine: Engine, mode: Mode) -> Self {
        if mode != Mode::Enforce {
            engine.set_mode(Timestamp::ZERO, mode);
        }
        let partitions = engine.partitions().map(|(number, name, _)| (name.to_owned(), number)).collect();
        let limit = engine.limit();
        Self { engine, partitions, requests: HashMap::new(), waiting: HashMap::new(), limit }
    }

    fn step(&mut self, line: &CaptureRow) -> Result<Decided, String> {
        let now = Timestamp::from_nanos(line.t);
        let id = || line.id.ok_or("id: is missing");
        let gets = match line.verb {
            Verb::Arrive => Some(self.arrive(now, id()?, line)?.to_owned()),
            Verb::Claim => Some(self.claim(now, id()?).to_owned()),
            Verb::Leave => {
                self.leave(now, id()?);
                None
            }
            Verb::Observe | Verb::Abandon | Verb::Finish | Verb::Overload => {
                self.end(now, id()?, line)?;
                None
            }
            Verb::Tick => {
                self.engine.tick(now);
                None
            }
            Verb::Mode => {
                let known = [Mode::Enforce, Mode::Observe, Mode::Off];
                let mode = known.into_iter().find(|mode| Some(mode.as_str()) == line.mode.as_deref());
                self.engine.set_mode(now, mode.ok_or("mode: is unknown")?);
                None
            }
            Verb::Drain => {
                self.engine.close(now, line.serves_waiting.unwrap_or(false));
                None
            }
            Verb::Worker | Verb::WorkerGone => {
                self.worker(now, line)?;
                None
            }
            // The settings of a reload are there already.
            Verb::Reload | Verb::End | Verb::Present | Verb::Gap => None,
        };
        let ended = self.engine.ended_since(0).map(|(key, why)| (key.index, answer_word(why)));
        let ended = ended.filter_map(|(place, why)| Some((*self.waiting.get(&place)?, why.to_owned()))).collect();
        while self.engine.take_notice().is_some() {}
        while self.engine.take_expired().is_some() {}
        let limit = self.engine.limit();
        let moved = (std::mem::replace(&mut self.limit, limit) != limit).then_some(limit);
        Ok((gets, ended, moved))
    }

    fn reload(&mut self, now: Timestamp, plan: Plan) {
        let added = self.engine.reload(now, plan);
        let known = self.partitions.len();
        let numbered =
            added.iter().zip(known..).filter_map(|(name, at)| Some((name.to_string(), PartitionId::from_index(at)?)));
        self.partitions.extend(numbered);
    }

    fn worker(&mut self, now: Timestamp, line: &CaptureRow) -> Result<(), String> {
        let label = line.label.as_deref().ok_or("label: is missing")?;
        let worker = line.worker.as_deref().ok_or("worker: is missing")?;
        let subject = Subject::new(line.namespace.as_deref().unwrap_or_default(), label, None);
        let class = line.class.as_deref();
        if line.verb == Verb::WorkerGone {
            self.engine.remove_worker(now, class, &subject, worker);
            return Ok(());
        }
        let slots = usize::try_from(line.slots.ok_or("slots: is missing")?).unwrap_or(usize::MAX);
        let valid_for = Duration::from_nanos(line.valid_for.ok_or("valid_for: is missing")?);
        self.engine.report_worker(now, class, &subject, worker, slots, valid_for);
        Ok(())
    }

    fn arrive(&mut self, now: Timestamp, id: u64, line: &CaptureRow) -> Result<&'static str, String> {
        let class = line.class.as_deref().map_or(ClassId::OTHERS, |class| self.engine.class(class));
        let partition =
            line.partition.as_ref().and_then(|name| self.partitions.get(name)).copied().unwrap_or(PartitionId::DEFAULT);
        let word = line.criticality.as_deref().unwrap_or("critical");
        let criticality = Criticality::from_word(word).ok_or("criticality: is unknown")?;
        let subject = line
            .label
            .as_deref()
            .map(|label| Subject::new(line.namespace.as_deref().unwrap_or_default(), label, line.run.as_deref()));
        let deadline = line.deadline.map_or(Timestamp::NEVER, Timestamp::from_nanos);
        let ask = Ask { partition, class, criticality, subject, deadline };
        let arrival =
            if line.waits == Some(false) { self.engine.arrive_now(now, &ask) } else { self.engine.arrive(now, &ask) };
        Ok(match arrival {
            Arrival::Admit(slot) => {
                self.requests.insert(id, Whereabouts::Runs(slot));
                answer_word(None)
            }
            Arrival::Wait(place) | Arrival::Ask(place, _) => {
                self.waiting.insert(place.key().index, id);
                self.requests.insert(id, Whereabouts::Waits(place));
                "place"
            }
            Arrival::Reject(refusal) => answer_word(Some(refusal.reason)),
        })
    }

    fn claim(&mut self, now: Timestamp, id: u64) -> &'static str {
        let Some(Whereabouts::Waits(place)) = self.requests.get(&id) else {
            return if self.requests.contains_key(&id) { answer_word(None) } else { "nothing" };
        };
        match self.engine.claim(now, place) {
            Poll::Pending => "place",
            Poll::Ready(Ok(slot)) => {
                self.requests.insert(id, Whereabouts::Runs(slot));
                answer_word(None)
            }
            Poll::Ready(Err(refusal)) => {
                self.requests.remove(&id);
                answer_word(Some(refusal.reason))
            }
        }
    }

    fn leave(&mut self, now: Timestamp, id: u64) {
        match self.requests.remove(&id) {
            Some(Whereabouts::Waits(place)) => self.engine.cancel(now, &place),
            Some(Whereabouts::Runs(mut slot)) => {
                self.engine.observe(now, &mut slot, Outcome::Cancelled);
                self.engine.finish(now, &mut slot);
            }
            None => {}
        }
    }

    /// Ends a request, or a part of it. A request that still waits here leaves when it has ended in the capture.
    fn end(&mut self, now: Timestamp, id: u64, line: &CaptureRow) -> Result<(), String> {
        const OUTCOMES: [Outcome; 4] = [Outcome::Cancelled, Outcome::Ignore, Outcome::Overload, Outcome::Success];
        let known = |word| OUTCOMES.into_iter().find(|&it| it.as_str() == word);
        let outcome = match line.outcome.as_deref() {
            Some(word) => Some(known(word).ok_or("outcome: is unknown")?),
            None => None,
        };
        if let (Some(Whereabouts::Waits(_)), Verb::Finish) = (self.requests.get(&id), line.verb) {
            self.leave(now, id);
            return Ok(());
        }
        let Some(Whereabouts::Runs(slot)) = self.requests.get_mut(&id) else { return Ok(()) };
        match outcome {
            Some(outcome) if line.verb == Verb::Abandon => drop(self.engine.abandon(now, slot, outcome)),
            Some(outcome) => self.engine.observe(now, slot, outcome),
            None => {}
        }
        match line.verb {
            Verb::Overload => self.engine.observe_late_overload(now, slot),
            Verb::Finish => {
                self.engine.finish(now, slot);
                self.requests.remove(&id);
            }
            _ => {}
        }
        Ok(())
    }
}
