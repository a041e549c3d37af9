//! One run: a loop over events in virtual time, with the real handle in the middle.
//!
//! The handle is driven as a program would drive it: a request is an `Admit` that is polled when its waker says so, a
//! slot is a `Permit` that is finished when the server is done or dropped when the client leaves, and whatever the
//! handle wants to do by time it says by `next_wakeup` and does in `tick`.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{Arc, Mutex},
};

use tower_admission::{Admission, Clock, Permit, permit::Admit};

use super::{
    arrivals::{Arrival, Generator},
    policy::{Policy, VirtualClock},
    random::Stream,
    record::{Record, STEP},
    scenario::Scenario,
    server::{Abandoned, Job, Server},
    timeline::Moment,
};

/// Something that will happen. Of two at the same time, the one that was planned first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Event {
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
pub(super) struct Call {
    pub(super) tenant: usize,
    pub(super) number: u64,
    pub(super) first: u64,
    pub(super) attempt: u32,
    /// Nanoseconds as the bits of a float.
    pub(super) work: u64,
    /// When its client leaves, if that is early; it is not counted then.
    pub(super) leaves: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) call: Call,
    pub(super) arrived: u64,
    /// Tells this attempt from others that used the same entry.
    pub(super) serial: u64,
    pub(super) stage: Stage,
    pub(super) left: bool,
}

#[derive(Debug)]
pub(super) enum Stage {
    Waiting(Admit),
    /// In the server, or, without a job there, its answer on the way back. Without a permit if the client left and
    /// took it along.
    Running(Option<Permit>, Option<Job>),
    Free,
}

/// Whose wakers were called: the attempt and its serial number.
pub(super) type WokenList = Arc<Mutex<Vec<(u32, u64)>>>;

pub(super) struct World<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) abandoned: Abandoned,
    clock: VirtualClock,
    pub(super) admission: Admission,
    pub(super) now: u64,
    pub(super) moment: Moment,
    moment_hint: usize,
    pub(super) server: Server,
    generators: Vec<Generator<'a>>,
    works: Vec<Stream>,
    numbers: Vec<u64>,
    pub(super) seed: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    planned: u64,
    pub(super) attempts: Vec<Attempt>,
    pub(super) free: Vec<u32>,
    pub(super) serial: u64,
    pub(super) waiting: usize,
    pub(super) in_flight: usize,
    pub(super) woken: WokenList,
    limited: bool,
    pub(super) record: Record,
}

/// Runs `scenario` under `policy`: the same seed gives the same record, bit for bit.
pub fn run(scenario: &Scenario, policy: &Policy, seed: u64) -> Record {
    run_without(scenario, policy, seed, &[])
}

/// The same, while the tenants that are marked send nothing. The others send what they would have sent anyway.
pub fn run_without(scenario: &Scenario, policy: &Policy, seed: u64, silent: &[bool]) -> Record {
    let clock = VirtualClock::default();
    let admission = policy.build(&clock);
    let (moment, _) = scenario.timeline.at(0, &mut 0);
    let tenants = 0..scenario.tenants.len() as u64;
    let generator = |(tenant, index)| {
        let it: &super::tenants::Tenant = tenant;
        Generator::new(&it.arrivals, &scenario.timeline, Stream::new(seed, 1, index))
    };
    let mut world = World {
        scenario,
        abandoned: scenario.server.abandoned,
        clock,
        limited: policy.has_limit(),
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
    let speaks = |tenant: &usize| !silent.get(*tenant).copied().unwrap_or(false);
    (0..scenario.tenants.len()).filter(speaks).for_each(|tenant| world.plan_arrival(tenant));
    world.plan(STEP, Event::Sample);
    world.run();
    world.record
}

impl World<'_> {
    pub(super) fn plan(&mut self, at: u64, event: Event) {
        self.planned += 1;
        self.events.push(Reverse((at, self.planned, event)));
    }

    fn plan_arrival(&mut self, tenant: usize) {
        if let Some(Arrival { at, work }) = self.generators[tenant].next_arrival()
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
            let is_stopped = |&(from, to): &(u64, u64)| from <= next && next < to;
            self.now = self.now.max(self.scenario.stop.filter(is_stopped).map_or(next, |(_, to)| to));
            self.clock.set(self.now);
            if wakeup == Some(next) {
                self.record.note(next, 1);
                self.admission.tick();
                let next = self.admission.next_wakeup();
                assert!(next.is_none_or(|at| at > self.clock.now()), "the handle wants to be told the same time again");
            } else if done == Some(next) {
                if let Some(id) = self.server.finish(next) {
                    self.record.note(next, 2 + u64::from(id) * 8);
                    self.served(id);
                }
            } else if let Some(Reverse((at, _, event))) = self.events.pop() {
                self.happen(at, event);
            }
            self.poll_woken();
        }
        self.record.end(self.now);
    }

    /// Whether nothing is planned but the next sample.
    fn only_samples_left(&self) -> bool {
        self.events.len() <= 1
    }

    /// What was planned for this time, which is earlier where the process had stopped.
    fn happen(&mut self, at: u64, event: Event) {
        match event {
            Event::Arrive(tenant, work) => {
                self.plan_arrival(tenant);
                let number = self.numbers[tenant];
                self.numbers[tenant] += 1;
                let drawn = self.scenario.service.draw(&mut self.works[tenant], &self.moment);
                let work = work.unwrap_or_else(|| drawn.to_bits());
                let leaves = self.scenario.clients.leaves_early(self.seed, tenant, number);
                let call = Call { tenant, number, first: at, attempt: 0, work, leaves };
                self.count(call, |record, now| record.arrived(now, tenant));
                self.arrive(at, call);
            }
            Event::Retry(call) => self.arrive(at, call),
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
}
