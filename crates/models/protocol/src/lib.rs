//! The protocol of leases: processes that take, renew and release leases of a cap, over a network that loses requests and
//! answers, while processes pause and the store fails over and forgets its last steps.
//!
//! All states are explored, as far as the bounds go. What the model's store answers is compared with what the shipped
//! stores answer to the same steps: `tests/stores.rs`.

use std::collections::BTreeMap;

use stateright::{Model, Property};

/// Time for which a lease lives, in ticks.
pub const EXPIRY: u8 = 2;

/// A mistake that the model is to find.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mistake {
    None,
    /// The store grants at once after it has forgotten its last steps.
    GrantsAfterFailOver,
    /// Work goes on after its lease has expired by the clock of its process.
    GoesOnAfterExpiry,
    /// A lease counts from its answer on, and not from when it was asked for.
    CountsFromTheAnswer,
    /// The store takes a lease back a tick before it has expired.
    ExpiresEarly,
    /// The store revives a lease that has expired.
    RenewsWhatIsGone,
}

/// What the model is about.
#[derive(Clone, Debug)]
pub struct Leases {
    pub cap: usize,
    pub processes: u8,
    /// Last tick that is explored.
    pub end: u8,
    pub mistake: Mistake,
}

/// The store: when each lease ends, by its token; a token is the number of its process.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Store {
    pub leases: BTreeMap<u8, u8>,
    /// No lease is granted before this tick: the store may have forgotten some.
    pub quiet_until: u8,
}

/// A question to the store.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Question {
    Acquire,
    Renew,
    Release,
}

impl Store {
    /// Answers whether a question was granted: a lease was taken, renewed, or given back.
    pub fn answer(&mut self, model: &Leases, now: u8, process: u8, question: Question) -> bool {
        let early = u8::from(model.mistake == Mistake::ExpiresEarly);
        let is_live = |until: u8| now + early < until;
        if model.mistake != Mistake::RenewsWhatIsGone || question != Question::Renew {
            self.leases.retain(|_, until| is_live(*until));
        }
        match question {
            Question::Acquire => {
                // A lease whose answer was lost counts as any other, until it expires.
                let grants = now >= self.quiet_until && self.leases.len() < model.cap;
                if grants {
                    self.leases.insert(process, now + EXPIRY);
                }
                grants
            }
            Question::Renew => {
                let is_there = self.leases.contains_key(&process) || model.mistake == Mistake::RenewsWhatIsGone;
                if is_there {
                    self.leases.insert(process, now + EXPIRY);
                }
                is_there
            }
            Question::Release => self.leases.remove(&process).is_some(),
        }
    }
}

/// A process: since when it relies on its lease, what it has asked and when, and what was answered.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Process {
    pub holds_from: Option<u8>,
    pub asked: Option<(Question, u8)>,
    pub answered: Option<(Question, u8, bool)>,
    pub is_paused: bool,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct State {
    pub now: u8,
    pub store: Store,
    /// The store as the replica knows it, which is a step behind.
    pub replica: Store,
    pub has_failed_over: bool,
    pub processes: Vec<Process>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Action {
    Ask(u8, Question),
    /// The store answers the question of a process.
    Answer(u8),
    LoseQuestion(u8),
    LoseAnswer(u8),
    Hear(u8),
    Pause(u8),
    GoOn(u8),
    Tick,
    FailOver,
}

impl Leases {
    /// Whether the work of a process runs: it relies on its lease, or is paused and can't stop what others see of it.
    fn runs(&self, process: &Process, now: u8) -> bool {
        let goes_on = self.mistake == Mistake::GoesOnAfterExpiry;
        process.holds_from.is_some_and(|from| goes_on || now < from + EXPIRY)
    }
}

impl Model for Leases {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State { processes: vec![Process::default(); self.processes.into()], ..State::default() }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (process, number) in state.processes.iter().zip(0..) {
            if process.is_paused {
                actions.push(Action::GoOn(number));
            } else {
                if process.asked.is_none() && process.answered.is_none() {
                    let questions: &[Question] = match process.holds_from {
                        None => &[Question::Acquire],
                        Some(_) => &[Question::Renew, Question::Release],
                    };
                    actions.extend(questions.iter().map(|&question| Action::Ask(number, question)));
                }
                if process.answered.is_some() {
                    actions.push(Action::Hear(number));
                }
                actions.push(Action::Pause(number));
            }
            if process.asked.is_some() {
                actions.extend([Action::Answer(number), Action::LoseQuestion(number)]);
            }
            if process.answered.is_some() {
                actions.push(Action::LoseAnswer(number));
            }
        }
        if state.now < self.end {
            actions.push(Action::Tick);
        }
        if !state.has_failed_over {
            actions.push(Action::FailOver);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        let now = state.now;
        match action {
            Action::Tick => {
                next.now += 1;
                // A process looks at its clock before it goes on with work; a paused process does nothing.
                for process in &mut next.processes {
                    let is_over = process.holds_from.is_some_and(|from| next.now >= from + EXPIRY);
                    if is_over && self.mistake != Mistake::GoesOnAfterExpiry {
                        process.holds_from = None;
                    }
                }
            }
            Action::FailOver => {
                next.store = state.replica.clone();
                next.has_failed_over = true;
                if self.mistake != Mistake::GrantsAfterFailOver {
                    next.store.quiet_until = now + EXPIRY;
                }
            }
            Action::Pause(number) => next.processes[usize::from(number)].is_paused = true,
            Action::GoOn(number) => next.processes[usize::from(number)].is_paused = false,
            Action::Ask(number, question) => {
                let process = &mut next.processes[usize::from(number)];
                if question == Question::Release {
                    // Units count as returned from the moment before the store is told.
                    process.holds_from = None;
                }
                process.asked = Some((question, now));
            }
            Action::LoseQuestion(number) => next.processes[usize::from(number)].asked = None,
            Action::Answer(number) => {
                let (question, at) = next.processes[usize::from(number)].asked.take()?;
                next.replica = state.store.clone();
                let granted = next.store.answer(self, now, number, question);
                next.processes[usize::from(number)].answered = Some((question, at, granted));
            }
            Action::LoseAnswer(number) => next.processes[usize::from(number)].answered = None,
            Action::Hear(number) => {
                let process = &mut next.processes[usize::from(number)];
                let (question, asked_at, granted) = process.answered.take()?;
                let from = if self.mistake == Mistake::CountsFromTheAnswer { now } else { asked_at };
                process.holds_from = match question {
                    Question::Release => None,
                    _ if granted && now < from + EXPIRY => Some(from),
                    _ => None,
                };
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no more run than the cap", |model: &Self, state: &State| {
                state.processes.iter().filter(|it| model.runs(it, state.now)).count() <= model.cap
            }),
            Property::sometimes("the cap is used up", |model: &Self, state: &State| {
                state.processes.iter().filter(|it| model.runs(it, state.now)).count() == model.cap
            }),
            Property::sometimes("a unit is taken over after it expired", |_: &Self, state: &State| {
                state.now > EXPIRY && state.processes.last().is_some_and(|it| it.holds_from.is_some())
            }),
        ]
    }
}
