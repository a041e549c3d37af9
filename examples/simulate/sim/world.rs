//! One run: a loop over events in virtual time, with the real handle in the middle.
//!
//! The handle is driven as a program would drive it: a request is an `Admit` that is polled when its waker says so, a
//! slot is a `Permit` that is finished when the server is done or dropped when the client leaves, and whatever the
//! handle wants to do by time it says by `next_wakeup` and does in `tick`.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use tower_admission::{Admission, Admit, Outcome, Permit, Rejection, Ticket};

use super::{
    arrivals::{Arrival, Generator},
    policy::{Policy, VirtualClock},
    random::Stream,
    record::{Answer, Record, STEP},
    scenario::Scenario,
    server::{Abandoned, Job, Server},
    timeline::Moment,
};

/// Something that will happen. Of two at the same time, the one that was planned first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Event {
    /// The next request of a tenant arrives.
    Arrive(usize, Option<u64>),
    /// A pause of a client is over.
    Retry(Call),
    /// The client of an attempt gives up.
    Leave(u32, u64),
    /// The answer is back from where it was delayed.
    Deliver(u32, u64),
    /// The world changes.
    Change(usize),
    /// A piece of time is over.
    Sample,
}

/// What a client wants, whichever attempt it is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Call {
    tenant: usize,
    number: u64,
    first: u64,
    attempt: u32,
    /// Nanoseconds as the bits of a float.
    work: u64,
}

#[derive(Debug)]
struct Attempt {
    call: Call,
    arrived: u64,
    /// Tells this attempt from others that used the same entry.
    serial: u64,
    stage: Stage,
    left: bool,
}

#[derive(Debug)]
enum Stage {
    Waiting(Admit),
    /// In the server, or its answer on the way back. Without a permit if the client left and took it along.
    Running(Option<Permit>, Job),
    Free,
}

#[derive(Debug)]
struct Woken {
    id: u32,
    serial: u64,
    list: Arc<Mutex<Vec<(u32, u64)>>>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).push((self.id, self.serial));
    }
}

struct World<'a> {
    scenario: &'a Scenario,
    abandoned: Abandoned,
    clock: VirtualClock,
    admission: Admission,
    now: u64,
    moment: Moment,
    moment_hint: usize,
    server: Server,
    generators: Vec<Generator<'a>>,
    works: Vec<Stream>,
    numbers: Vec<u64>,
    seed: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    planned: u64,
    attempts: Vec<Attempt>,
    free: Vec<u32>,
    serial: u64,
    waiting: usize,
    in_flight: usize,
    woken: Arc<Mutex<Vec<(u32, u64)>>>,
    limited: bool,
    record: Record,
}

/// Runs `scenario` under `policy`: the same seed gives the same record, bit for bit.
pub(crate) fn run(scenario: &Scenario, policy: &Policy, seed: u64) -> Record {
    let clock = VirtualClock::default();
    let admission = policy.build(&clock);
    let (moment, _) = scenario.timeline.at(0, &mut 0);
    let tenants = 0..scenario.tenants.len() as u64;
    let generator = |(tenant, index)| {
        let it: &super::scenario::Tenant = tenant;
        Generator::new(&it.arrivals, &scenario.timeline, Stream::new(seed, 1, index))
    };
    let mut world = World {
        scenario,
        abandoned: scenario.server.abandoned,
        clock,
        limited: admission.snapshot().mode == "enforce",
        admission,
        now: 0,
        moment,
        moment_hint: 0,
        server: Server::new(scenario.server.clone(), &moment),
        generators: scenario.tenants.iter().zip(tenants.clone()).map(generator).collect(),
        works: tenants.map(|index| Stream::new(seed, 2, index)).collect(),
        numbers: vec![0; scenario.tenants.len()],
        seed,
        events: BinaryHeap::new(),
        planned: 0,
        attempts: Vec::new(),
        free: Vec::new(),
        serial: 0,
        waiting: 0,
        in_flight: 0,
        woken: Arc::default(),
        record: Record::new(scenario),
    };
    for (index, &(at, _)) in scenario.timeline.moments().iter().enumerate() {
        world.plan(at, Event::Change(index));
    }
    (0..scenario.tenants.len()).for_each(|tenant| world.plan_arrival(tenant));
    world.plan(STEP, Event::Sample);
    world.run();
    world.record
}

impl World<'_> {
    fn plan(&mut self, at: u64, event: Event) {
        self.planned += 1;
        self.events.push(Reverse((at, self.planned, event)));
    }

    fn plan_arrival(&mut self, tenant: usize) {
        if let Some(Arrival { at, work }) = self.generators[tenant].next()
            && at < self.scenario.duration
        {
            self.plan(at, Event::Arrive(tenant, work.map(f64::to_bits)));
        }
    }

    fn run(&mut self) {
        let end = self.scenario.duration.saturating_add(self.scenario.drain);
        loop {
            let planned = self.events.peek().map(|Reverse((at, ..))| *at);
            let wakeup = self.admission.next_wakeup().map(|at| u64::try_from(at.as_nanos()).unwrap_or(u64::MAX));
            let done = self.server.next_done();
            let Some(next) = [planned, wakeup, done].into_iter().flatten().min() else { break };
            let idle = self.server.len() == 0 && self.waiting == 0 && self.in_flight == 0;
            if next > end || (next > self.scenario.duration && idle && self.only_samples_left()) {
                break;
            }
            self.now = self.now.max(next);
            self.clock.set(self.now);
            if wakeup == Some(next) {
                self.record.note(next, 1);
                self.admission.tick();
            } else if done == Some(next) {
                if let Some(id) = self.server.finish(next) {
                    self.record.note(next, 2 + u64::from(id) * 8);
                    self.served(id);
                }
            } else if let Some(Reverse((_, _, event))) = self.events.pop() {
                self.happen(event);
            }
            self.poll_woken();
        }
    }

    /// Whether nothing is planned but the next sample.
    fn only_samples_left(&self) -> bool {
        self.events.len() <= 1
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive(tenant, work) => {
                self.plan_arrival(tenant);
                let number = self.numbers[tenant];
                self.numbers[tenant] += 1;
                let drawn = self.scenario.service.draw(&mut self.works[tenant], &self.moment);
                let work = work.unwrap_or(drawn.to_bits());
                self.record.arrived(self.now, tenant);
                self.arrive(Call { tenant, number, first: self.now, attempt: 0, work });
            }
            Event::Retry(call) => self.arrive(call),
            Event::Leave(id, serial) => self.leave(id, serial),
            Event::Deliver(id, serial) if self.attempts[id as usize].serial == serial => self.deliver(id),
            Event::Deliver(..) => {}
            Event::Change(_) => {
                (self.moment, _) = self.scenario.timeline.at(self.now, &mut self.moment_hint);
                self.server.change(self.now, &self.moment);
            }
            Event::Sample => {
                let limit = if self.limited { self.admission.snapshot().limit } else { 0 };
                let (in_flight, waiting) = (self.in_flight, self.waiting);
                let bin = self.record.bin(self.now - 1);
                (bin.limit, bin.in_flight, bin.waiting) = (limit, in_flight, waiting);
                self.record.note(self.now, 3 + ((limit as u64) << 8));
                self.plan(self.now + STEP, Event::Sample);
            }
        }
    }

    fn arrive(&mut self, call: Call) {
        self.record.note(self.now, 4 + call.number * 8);
        self.record.bin(self.now).attempts += 1;
        let clients = &self.scenario.clients;
        let mut ticket = Ticket::new().partition(self.scenario.tenants[call.tenant].partition.as_str());
        if clients.sends_deadline && clients.deadline < u64::MAX {
            ticket.limit_timeout(Duration::from_nanos(clients.deadline));
        }
        let stage = Stage::Waiting(self.admission.admit(ticket));
        self.serial += 1;
        let attempt = Attempt { call, arrived: self.now, serial: self.serial, stage, left: false };
        let id =
            self.free.pop().unwrap_or_else(|| u32::try_from(self.attempts.len()).expect("fewer than 2^32 attempts"));
        match self.attempts.get_mut(id as usize) {
            Some(entry) => *entry = attempt,
            None => self.attempts.push(attempt),
        }
        self.waiting += 1;
        if clients.deadline < u64::MAX {
            let leaves = self.now.saturating_add(clients.deadline);
            self.plan(leaves, Event::Leave(id, self.serial));
        }
        self.poll(id);
    }

    fn poll_woken(&mut self) {
        loop {
            let woken = std::mem::take(&mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner));
            if woken.is_empty() {
                break;
            }
            for (id, serial) in woken {
                let attempt = &self.attempts[id as usize];
                if attempt.serial == serial && matches!(attempt.stage, Stage::Waiting(_)) {
                    self.poll(id);
                }
            }
        }
    }

    fn poll(&mut self, id: u32) {
        let attempt = &mut self.attempts[id as usize];
        let Stage::Waiting(admit) = &mut attempt.stage else { return };
        let waker = Waker::from(Arc::new(Woken { id, serial: attempt.serial, list: Arc::clone(&self.woken) }));
        let Poll::Ready(answer) = Pin::new(admit).poll(&mut Context::from_waker(&waker)) else { return };
        self.waiting -= 1;
        let call = attempt.call;
        match answer {
            Ok(permit) => {
                let job = self.server.start(self.now, id, f64::from_bits(call.work));
                self.in_flight += 1;
                self.attempts[id as usize].stage = Stage::Running(Some(permit), job);
            }
            Err(rejection) => {
                self.record.note(self.now, 5 + (rejection.reason() as u64) * 8);
                self.record.bin(self.now).rejected += 1;
                self.release(id);
                self.retry(call, Some(&rejection));
            }
        }
    }

    fn release(&mut self, id: u32) {
        let attempt = &mut self.attempts[id as usize];
        attempt.stage = Stage::Free;
        attempt.serial = 0;
        self.free.push(id);
    }

    /// The server is done with a request.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time of less than a hundred days")]
    fn served(&mut self, id: u32) {
        match self.moment.delay as u64 {
            0 => self.deliver(id),
            delay => self.plan(self.now + delay, Event::Deliver(id, self.attempts[id as usize].serial)),
        }
    }

    fn deliver(&mut self, id: u32) {
        let attempt = &mut self.attempts[id as usize];
        let Stage::Running(permit, _) = std::mem::replace(&mut attempt.stage, Stage::Free) else { return };
        let answer = Answer {
            tenant: attempt.call.tenant,
            first: attempt.call.first,
            arrived: attempt.arrived,
            in_time: !attempt.left,
        };
        self.record.answered(self.now, answer);
        self.release(id);
        if let Some(permit) = permit {
            self.in_flight -= 1;
            permit.finish(Outcome::Success);
        }
    }

    /// The client gives up, if it is still there.
    fn leave(&mut self, id: u32, serial: u64) {
        let attempt = &mut self.attempts[id as usize];
        if attempt.serial != serial {
            return;
        }
        self.record.note(self.now, 6 + u64::from(id) * 8);
        let call = attempt.call;
        attempt.left = true;
        match &mut attempt.stage {
            Stage::Waiting(_) => {
                self.waiting -= 1;
                // Whoever gives up a place may let others in: they are polled after this event.
                self.release(id);
            }
            Stage::Running(permit, job) => {
                let job = *job;
                match self.abandoned {
                    Abandoned::Held => {}
                    Abandoned::RunsOn => {
                        self.in_flight -= usize::from(permit.is_some());
                        drop(permit.take());
                    }
                    Abandoned::Stops => {
                        self.in_flight -= usize::from(permit.is_some());
                        drop(permit.take());
                        let answer =
                            Answer { tenant: call.tenant, first: call.first, arrived: attempt.arrived, in_time: false };
                        self.record.answered(self.now, answer);
                        self.server.stop(self.now, job);
                        self.release(id);
                    }
                }
            }
            Stage::Free => return,
        }
        self.retry(call, None);
    }

    /// Plans the next attempt of a client that was rejected or gave up, if it makes one.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "times of less than a hundred days"
    )]
    fn retry(&mut self, call: Call, rejection: Option<&Rejection>) {
        let clients = &self.scenario.clients;
        if call.attempt >= clients.retries {
            return;
        }
        let mut pause = clients.pause(call.attempt);
        if clients.jitter {
            let index = call.number.wrapping_mul(128) + u64::from(call.attempt);
            pause = (Stream::new(self.seed, 3 + call.tenant as u64, index).uniform() * pause as f64) as u64;
        }
        if let Some(rejection) = rejection.filter(|_| clients.heeds_retry_after) {
            pause = pause.saturating_add(u64::try_from(rejection.retry_after().as_nanos()).unwrap_or(u64::MAX));
        }
        self.plan(self.now.saturating_add(pause), Event::Retry(Call { attempt: call.attempt + 1, ..call }));
    }
}
