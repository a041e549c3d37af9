//! What would have become of the requests of a capture under another policy.
//!
//! A closed loop: requests come when they came, their clients leave when they left, and each is served for as long as it was,
//! from whenever it gets its slot on. What ran yet when the capture ended holds its slot to that end.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Wake, Waker},
};

use tower_admission::{Admission, Permit, Rejection, permit::Admit};

use super::{
    candidate::Candidate,
    captured::{Captured, Request, Step},
    policy::{Policy, VirtualClock},
};

/// What became of all requests.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Fates {
    pub admitted: u64,
    pub left: u64,
    pub rejected: BTreeMap<String, u64>,
    /// How long the admitted requests waited, in nanoseconds, sorted.
    pub waits: Vec<u64>,
    pub limit_end: usize,
    /// What became of each request; `None` where that is not known, or was not decided.
    pub each: Vec<Option<Fate>>,
}

/// What became of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fate {
    /// It got a slot after this number of nanoseconds, and was answered after its deadline or before.
    Served {
        wait: u64,
        is_late: bool,
    },
    Refused(String),
    Left,
}

impl Fates {
    pub fn all_rejected(&self) -> u64 {
        self.rejected.values().sum()
    }

    /// In milliseconds.
    #[expect(clippy::cast_precision_loss, reason = "milliseconds to be shown")]
    pub fn wait(&self, per_cent: usize) -> f64 {
        let at = (self.waits.len() * per_cent / 100).min(self.waits.len().saturating_sub(1));
        self.waits.get(at).map_or(0.0, |&nanos| nanos as f64 / 1e6)
    }

    /// Counts what became of each request. Those that ran before are not counted.
    fn of(captured: &Captured, each: Vec<Option<Fate>>, limit_end: usize) -> Self {
        let mut fates = Self { limit_end, ..Self::default() };
        for (_, fate) in captured.requests.iter().zip(&each).filter(|(request, _)| !request.is_present) {
            match fate {
                Some(Fate::Served { wait, .. }) => {
                    fates.admitted += 1;
                    fates.waits.push(*wait);
                }
                Some(Fate::Refused(reason)) => *fates.rejected.entry(reason.clone()).or_default() += 1,
                Some(Fate::Left) => fates.left += 1,
                None => {}
            }
        }
        fates.waits.sort_unstable();
        Self { each, ..fates }
    }
}

/// What became of them when they were recorded.
pub fn recorded(captured: &Captured) -> Fates {
    let fate = |request: &Request| match (request.started, &request.rejected) {
        (Some(start), _) => {
            let is_late = request.is_late(start);
            Some(Fate::Served { wait: start.saturating_sub(request.at), is_late })
        }
        (None, Some(reason)) => Some(Fate::Refused(reason.clone())),
        (None, None) => request.left.map(|_| Fate::Left),
    };
    Fates::of(captured, captured.requests.iter().map(fate).collect(), 0)
}

/// Something that will happen. Of two at the same time, an end comes before the rest, so that its slot is free; else the one
/// that was planned first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Event {
    Arrive(usize),
    Operate(usize),
    Leave(usize),
    Answer(usize),
    Finish(usize),
}

enum Stage {
    Waits(Pin<Box<Admit>>),
    Runs(Permit),
    Over,
}

struct Woken {
    request: usize,
    list: Arc<Mutex<Vec<usize>>>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.list.lock().expect("nobody panics with it").push(self.request);
    }
}

struct Run<'a> {
    captured: &'a Captured,
    admission: Admission,
    now: u64,
    events: BinaryHeap<Reverse<(u64, bool, u64, Event)>>,
    planned: u64,
    stages: BTreeMap<usize, Stage>,
    woken: Arc<Mutex<Vec<usize>>>,
    each: Vec<Option<Fate>>,
}

/// What becomes of them under `policy`.
pub fn what_if(captured: &Captured, policy: &Policy) -> Fates {
    what_if_under(captured, &Candidate::Scenario(policy.clone()))
}

/// What becomes of them under a policy, or the configuration of a server.
pub fn what_if_under(captured: &Captured, policy: &Candidate) -> Fates {
    let clock = VirtualClock::default();
    let admission = policy.build(&clock, captured.limit);
    if policy.takes_mode() {
        admission.set_mode(captured.mode);
    }
    let mut run = Run {
        captured,
        admission,
        now: 0,
        events: BinaryHeap::new(),
        planned: 0,
        stages: BTreeMap::new(),
        woken: Arc::default(),
        each: vec![None; captured.requests.len()],
    };
    for (i, (at, _)) in captured.steps.iter().enumerate() {
        run.plan(*at, Event::Operate(i));
    }
    // What ran already has its slots before a waiter asks.
    for is_present in [true, false] {
        for (i, request) in captured.requests.iter().enumerate().filter(|(_, it)| it.is_present == is_present) {
            run.plan(request.at, Event::Arrive(i));
        }
    }
    while let Some((at, event)) = run.next() {
        run.now = at;
        clock.set(at);
        match event {
            Some(event) => run.happen(event),
            None => run.admission.tick(),
        }
        run.poll_woken();
    }
    let limit_end = run.admission.snapshot().limit;
    Fates::of(captured, run.each, limit_end)
}

impl Run<'_> {
    fn plan(&mut self, at: u64, event: Event) {
        self.planned += 1;
        let is_end = matches!(event, Event::Answer(_) | Event::Finish(_));
        self.events.push(Reverse((at, !is_end, self.planned, event)));
    }

    /// What happens next, and when; nothing in particular where the handle has something to do.
    fn next(&mut self) -> Option<(u64, Option<Event>)> {
        let planned = self.events.peek().map(|&Reverse((at, ..))| at);
        let wakeup = self.admission.next_wakeup().and_then(|at| u64::try_from(at.as_nanos()).ok());
        match (planned, wakeup.filter(|_| !self.stages.is_empty())) {
            (planned, Some(wakeup)) if planned.is_none_or(|at| wakeup < at) => Some((wakeup.max(self.now), None)),
            (None, _) => None,
            _ => self.events.pop().map(|Reverse((at, .., event))| (at, Some(event))),
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive(i) => self.arrive(i),
            Event::Operate(i) => match &self.captured.steps[i].1 {
                Step::Mode(mode) => self.admission.set_mode(*mode),
                Step::Drain(leave) => self.admission.drain(*leave),
                Step::Worker(report) => drop(self.admission.report_worker(report)),
                Step::WorkerGone(report) => self.admission.remove_worker(report),
            },
            Event::Leave(i) => {
                if let Some(Stage::Waits(_)) = self.stages.get(&i) {
                    self.stages.remove(&i);
                    self.each[i] = Some(Fate::Left);
                }
            }
            Event::Answer(i) => {
                if let Some(Stage::Runs(permit)) = self.stages.get_mut(&i) {
                    permit.observe(self.captured.requests[i].service.outcome);
                }
            }
            Event::Finish(i) => drop(self.stages.remove(&i)),
        }
    }

    fn arrive(&mut self, i: usize) {
        let request = &self.captured.requests[i];
        // It ran already: it gets a slot at once or not at all.
        if !request.asked.waits || request.is_present {
            let answer = self.admission.try_admit(request.ticket());
            return self.decided(i, answer);
        }
        self.stages.insert(i, Stage::Waits(Box::pin(self.admission.admit(request.ticket()))));
        if let Some(left) = request.left {
            self.plan(left, Event::Leave(i));
        }
        self.poll(i);
    }

    fn poll_woken(&mut self) {
        loop {
            let woken = std::mem::take(&mut *self.woken.lock().expect("nobody panics with it"));
            if woken.is_empty() {
                return;
            }
            woken.into_iter().for_each(|i| self.poll(i));
        }
    }

    fn poll(&mut self, i: usize) {
        let Some(Stage::Waits(admit)) = self.stages.get_mut(&i) else { return };
        let waker = Waker::from(Arc::new(Woken { request: i, list: Arc::clone(&self.woken) }));
        if let Poll::Ready(answer) = admit.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.stages.insert(i, Stage::Over);
            self.decided(i, answer);
        }
    }

    fn decided(&mut self, i: usize, answer: Result<Permit, Rejection>) {
        let request = &self.captured.requests[i];
        match answer {
            Ok(permit) => {
                let (wait, is_late) = (self.now - request.at, request.is_late(self.now));
                self.each[i] = Some(Fate::Served { wait, is_late });
                self.stages.insert(i, Stage::Runs(permit));
                // What did not end holds its slot until all of the capture has come.
                let end = self.now.max(self.captured.duration).saturating_add(1);
                let (rtt, held) = (request.service.rtt, request.service.held);
                if rtt < u64::MAX {
                    self.plan(self.now.saturating_add(rtt), Event::Answer(i));
                }
                self.plan(
                    if request.service.has_no_end() { end } else { self.now.saturating_add(held) },
                    Event::Finish(i),
                );
            }
            Err(rejection) => {
                self.stages.remove(&i);
                self.each[i] = Some(Fate::Refused(rejection.reason().to_string()));
            }
        }
    }
}
