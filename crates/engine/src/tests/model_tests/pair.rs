//! Engine and model side by side: each verb goes to both.

use std::{collections::BTreeSet, task::Poll, time::Duration};

use proptest::prelude::*;

use super::{
    super::super::{
        Arrival, Ask, ClassId, Engine, PartitionId, Place, Slot, Subject,
        ids::{LabelId, RuleClassId},
        plan::Mode,
        tokens::Stage,
    },
    labels::Worker,
    model::{Model, Person},
    setup::{Answer, At, Hints, LABELS, Mistake, NAMESPACES, Name, RUNS, Request, Setup},
};
use crate::{Criticality, Outcome, Timestamp, words::nanos};

const WORKERS: [&str; 3] = ["one", "two", "three"];

#[derive(Clone, Debug)]
pub(super) enum Verb {
    Arrive(Request),
    ArriveWithoutWaiting(Request),
    Claim(usize),
    Cancel(usize),
    Finish(usize),
    Observe(usize),
    /// Sets how long work takes.
    Learn(u64),
    Report {
        name: Name,
        worker: usize,
        slots: usize,
        valid: u64,
    },
    RemoveWorker {
        name: Name,
        worker: usize,
    },
    Resize(usize),
    SetMode(Mode),
    /// The handle drains. The flag says whether waiters are served.
    Close(bool),
    /// A reload of what can be changed of these settings.
    Reload(Setup),
    Tick,
    Pass(u64),
}

/// Runs the engine and the model side by side.
pub(super) struct Pair {
    pub(super) engine: Engine,
    pub(super) model: Model,
    /// Waiters, as both sides know them.
    pub(super) waiting: Vec<(u64, Place)>,
    running: Vec<(u64, Slot)>,
    pub(super) arrived: u64,
}

fn subject((namespace, label): Name, run: Option<usize>) -> Subject<'static> {
    Subject::new(NAMESPACES[namespace], LABELS[label], run.map(|run| RUNS[run]))
}

impl Pair {
    pub(super) fn new(setup: &Setup, mistake: Mistake) -> Self {
        let engine = Engine::new(setup.plan());
        let model = Model::new(setup, mistake);
        Self { engine, model, waiting: Vec::new(), running: Vec::new(), arrived: 0 }
    }

    const fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.model.now)
    }

    pub(super) fn step(&mut self, verb: &Verb) -> Result<(), TestCaseError> {
        let now = self.now();
        self.measure();
        match *verb {
            Verb::Pass(nanos) => self.model.now += nanos,
            Verb::Tick => {
                self.engine.tick(now);
                self.measure();
                self.model.tick();
            }
            Verb::Resize(limit) => {
                self.engine.advance(now);
                self.engine.capacity.resize(limit);
                self.engine.dispatch(now);
                self.model.limit = limit;
                self.model.trim_held();
                self.model.settle();
            }
            Verb::SetMode(mode) => {
                self.engine.set_mode(now, mode);
                self.model.set_mode(mode);
            }
            Verb::Close(serves_waiting) => {
                self.engine.close(now, serves_waiting);
                self.model.close(serves_waiting);
            }
            Verb::Reload(ref setup) => {
                let setup = self.model.reloaded(setup);
                self.engine.reload(now, setup.plan());
                self.model.reload(setup);
            }
            Verb::Arrive(request) => self.arrive(request, true)?,
            Verb::ArriveWithoutWaiting(request) => self.arrive(request, false)?,
            Verb::Claim(which) if !self.waiting.is_empty() => self.claim(which % self.waiting.len())?,
            Verb::Cancel(which) if !self.waiting.is_empty() => {
                let (id, place) = self.waiting.remove(which % self.waiting.len());
                self.engine.cancel(now, &place);
                let index = self.model.people.iter().position(|person| person.id == id).unwrap();
                let person = self.model.people.remove(index);
                self.model.end_unless_there(Model::key_of(&person));
                if person.at == At::Granted {
                    self.model.give_back(id, person.partition);
                }
                self.model.settle();
            }
            Verb::Finish(which) if !self.running.is_empty() => {
                let (id, mut slot) = self.running.remove(which % self.running.len());
                let counted = slot.is_counted();
                self.engine.finish(now, &mut slot);
                self.measure();
                if counted {
                    self.model.give_back(id, slot.partition.index());
                    self.model.settle();
                }
            }
            Verb::Observe(which) if !self.running.is_empty() => {
                let which = which % self.running.len();
                self.engine.observe(now, &mut self.running[which].1, Outcome::Success);
                self.measure();
                // The law brings its own limit back.
                if self.model.limit != self.engine.capacity.limit() {
                    self.model.limit = self.engine.capacity.limit();
                    self.model.trim_held();
                    self.model.settle();
                }
            }
            Verb::Learn(nanos) => {
                let time = Duration::from_nanos(nanos);
                (0..16).for_each(|_| {
                    self.engine.estimates.answered(
                        (ClassId::OTHERS, PartitionId::DEFAULT),
                        Timestamp::ZERO,
                        time,
                        false,
                    )
                });
                self.engine.estimates.held(time);
            }
            Verb::Report { name, worker, slots, valid } => {
                let valid_for = Duration::from_nanos(valid);
                let before = self.names();
                let noted = self.engine.report_worker(
                    now,
                    None,
                    &subject(name, None),
                    WORKERS[worker],
                    Some((slots, valid_for)),
                );
                let forgotten = before.difference(&self.names()).next().copied();
                let worker = Worker { id: worker, slots, until: self.model.now + valid, active: true };
                prop_assert_eq!(noted, self.model.report(name, worker, forgotten));
            }
            Verb::RemoveWorker { name, worker } => {
                self.engine.report_worker(now, None, &subject(name, None), WORKERS[worker], None);
                self.model.remove_worker(name, worker);
            }
            // There is no waiter or slot for this verb.
            Verb::Claim(_) | Verb::Cancel(_) | Verb::Finish(_) | Verb::Observe(_) => {}
        }
        self.model.note_idle();
        self.engine.check_all();
        self.compare()
    }

    /// The model takes from the engine what it learned from times.
    fn measure(&mut self) {
        self.model.hold = nanos(self.engine.estimates.hold().reservation_time());
        self.model.likely = self.engine.estimates.likely(ClassId::OTHERS).map(nanos);
    }

    /// Returns the labels that the engine knows.
    pub(super) fn names(&self) -> BTreeSet<Name> {
        let number = |names: &[&str], name: &str| names.iter().position(|known| *known == name);
        let named = self.engine.quotas.in_use();
        named.filter_map(|it| Some((number(&NAMESPACES, it.namespace)?, number(&LABELS, it.name)?))).collect()
    }

    fn arrive(&mut self, request: Request, waits: bool) -> Result<(), TestCaseError> {
        let now = self.now();
        let partition = request.partition % self.model.setup.parts.len();
        // A request for a partition that is gone goes to the default one.
        let partition = if self.model.retired[partition] { 0 } else { partition };
        let before = self.names();
        let mut request = Request { partition, ..request };
        if request.deadline_in != Some(0) && self.overflows(&request) {
            request.deadline_in = None;
        }
        let ask = Ask {
            partition: PartitionId::from_index(partition).unwrap(),
            class: ClassId::OTHERS,
            criticality: Criticality::ALL[request.level],
            subject: request.name.map(|name| subject(name, request.run)),
            deadline: request.deadline_in.map_or(Timestamp::NEVER, |it| now.after(Duration::from_nanos(it))),
        };
        let late = self.is_late(&ask);
        let pays = self.engine.capacity.pays(ask.partition, self.engine.estimates.hold().reservation_time());
        self.arrived += u64::from(self.model.mode != Mode::Off || self.model.closed);
        let arrival = if waits {
            self.engine.arrive(now, &ask)
        } else {
            match self.engine.arrive_without_waiting(now, &ask) {
                Ok(slot) => Arrival::Admit(slot),
                Err(refusal) => Arrival::Reject(refusal),
            }
        };
        let entry = if let Arrival::Wait(place) = &arrival { place.key().index } else { 0 };
        let hints = Hints {
            late,
            pays,
            forgotten: before.difference(&self.names()).next().copied(),
            pushed_out: self.pushed_out(),
            entry,
        };
        let expected = if waits {
            self.model.arrive(&request, &hints)
        } else {
            self.model.arrive_without_waiting(&request, &hints)
        };
        let answer = match arrival {
            Arrival::Admit(slot) => {
                let id = if slot.is_counted() { self.model.ids } else { 0 };
                self.running.push((id, slot));
                Answer::Admitted
            }
            Arrival::Wait(place) => {
                self.waiting.push((self.model.ids, place));
                Answer::Waits
            }
            Arrival::Ask(..) => unreachable!("no rule is shared"),
            Arrival::Reject(refusal) => Answer::Rejected(refusal.reason),
        };
        prop_assert_eq!(answer, expected);
        Ok(())
    }

    /// Whether the request's label has no entry and finds no room.
    fn overflows(&mut self, request: &Request) -> bool {
        let Some(name) = request.name.filter(|_| self.model.mode != Mode::Off || self.model.closed) else {
            return false;
        };
        let overflowed = self.engine.quotas.table().overflowed;
        let now = self.now();
        let label = self.engine.quotas.intern(now, RuleClassId::OTHERS, &subject(name, None)).0;
        self.engine.quotas.set_overflowed(overflowed);
        label == LabelId::OVERFLOW
    }

    /// Whether the engine predicts that a deadline is missed. The prediction is tested elsewhere; here it is only
    /// heeded. It is asked for after what the arrival does first, all of which may be done twice. The exception is a
    /// label that finds no room, which may find some then: requests of such a label have no deadline.
    fn is_late(&mut self, ask: &Ask<'_>) -> bool {
        let (now, engine) = (self.now(), &mut self.engine);
        engine.advance(now);
        if self.model.mode == Mode::Off || self.model.closed || ask.deadline == Timestamp::NEVER {
            return false;
        }
        let overflowed = engine.quotas.table().overflowed;
        let label = engine.label_of::<false>(now, ask);
        engine.quotas.set_overflowed(overflowed);
        if engine.capacity.next_decay() <= now {
            engine.dispatch(now);
        }
        engine.will_miss_deadline(now, ask, label)
    }

    /// Returns the waiter that the engine rejected and that the model does not know of yet.
    fn pushed_out(&self) -> Option<u64> {
        let known = |id| self.model.people.iter().any(|person: &Person| person.id == id && person.waits());
        let refused = |place: &Place| matches!(self.engine.queue.get(place.key()).stage, Stage::Refused(_));
        self.waiting.iter().find(|(id, place)| refused(place) && known(*id)).map(|(id, _)| *id)
    }

    fn claim(&mut self, which: usize) -> Result<(), TestCaseError> {
        let id = self.waiting[which].0;
        let index = self.model.people.iter().position(|person| person.id == id).unwrap();
        let before = self.model.people[index].at;
        self.model.expire(Some(id), false);
        let at = self.model.people[index].at;
        if before != at {
            self.model.settle();
        }
        let answer = match self.engine.claim(self.now(), &self.waiting[which].1) {
            Poll::Pending => Answer::Waits,
            Poll::Ready(answer) => {
                self.model.people.remove(index);
                let _answered = self.waiting.remove(which);
                match answer {
                    Ok(slot) => {
                        self.model.fetch(id);
                        self.running.push((id, slot));
                        Answer::Admitted
                    }
                    Err(refusal) => Answer::Rejected(refusal.reason),
                }
            }
        };
        let expected = match at {
            At::Gate | At::Line => Answer::Waits,
            At::Granted => Answer::Admitted,
            At::Refused(reason) => Answer::Rejected(reason),
        };
        prop_assert_eq!(answer, expected);
        Ok(())
    }
}
