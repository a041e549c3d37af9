//! A run: all instances, the network and the ledger, round by round.

mod rest;

use std::{
    cell::RefCell,
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Once},
};

use tower_admission::Mode;

use super::{
    draw::is_rarely_seen,
    instance::{Command, Instance},
    ledger::{Attempts, Broken, Event, Ledger},
    network::Network,
    plan::{Control, Plan, What},
    request::Request,
};
use crate::random::Stream;

/// Time between two looks at an instance.
const LOOKS_EVERY: u64 = 96;
const SELDOM: u64 = 3_000;

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Of all that was seen, in its order: the same for the same plan.
    pub hash: u64,
    pub attempts: Attempts,
    pub broken: Option<Broken>,
    /// Time that has passed in the world, in milliseconds, and the number of instances.
    pub time: u64,
    pub instances: usize,
}

/// Something that ends by itself.
#[derive(Clone, Copy, Debug)]
enum Later {
    Starts(usize),
    GoesOn(usize),
    Connects(usize),
    StoreIsBack,
    StoreIsQuick,
    ClockRuns(usize),
    Binds(usize),
}

struct World<'a> {
    plan: &'a Plan,
    now: u64,
    network: Arc<Network>,
    instances: Vec<Option<Instance>>,
    paused: Vec<bool>,
    /// The links of instances, also of those that are dead.
    links: Vec<usize>,
    later: BTreeMap<(u64, usize), Later>,
    planned: usize,
    limit: Vec<usize>,
    cap: Vec<usize>,
    requests: u64,
    /// The next request of each caller: when, and which.
    calls: Vec<(u64, u32, Stream)>,
    events: Vec<(u64, usize, Event)>,
    ledger: Ledger,
    store_ahead: u64,
    spent: Attempts,
}

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    static WATCHES: RefCell<bool> = const { RefCell::new(false) };
}

/// Has panics of this thread noted rather than printed. Those on purpose never come to the hook.
fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if WATCHES.with_borrow(|watches| *watches) {
                PANIC.with_borrow_mut(|panic| *panic = Some(info.to_string()));
            } else {
                before(info);
            }
        }));
    });
}

/// Runs a plan.
pub fn run(plan: &Plan) -> Report {
    watch_panics();
    // Whatever the library draws on this thread, such as the jitter of a time to come back.
    fastrand::seed(plan.seed);
    WATCHES.with_borrow_mut(|watches| *watches = true);
    let ended = catch_unwind(AssertUnwindSafe(|| World::new(plan).run()));
    WATCHES.with_borrow_mut(|watches| *watches = false);
    let panic = PANIC.take();
    let mut report = ended.unwrap_or_else(|_| Report {
        hash: 0,
        attempts: Attempts::default(),
        broken: None,
        time: 0,
        instances: plan.settings.instances,
    });
    if let Some(what) = panic {
        report.broken.get_or_insert(Broken { promise: "no panic", at: report.time, what });
    }
    report
}

impl<'a> World<'a> {
    fn new(plan: &'a Plan) -> Self {
        let settings = &plan.settings;
        let behind = plan.faults.iter().find_map(|(_, fault)| match fault.what {
            What::FailOver { behind } => Some(behind),
            _ => None,
        });
        let clock_at = Stream::new(plan.seed, 107, 0).below(120_000);
        let lost = settings.network.lost;
        let network = Network::new(plan.seed, settings.round, lost, clock_at, behind);
        let calls =
            plan.callers.iter().map(|(number, caller)| (caller.from, 0, Stream::new(plan.seed, 108, *number as u64)));
        let cap = settings.shared.as_ref().map_or(1, |shared| shared.cap);
        let mut world = Self {
            plan,
            now: 0,
            network,
            instances: (0..settings.instances).map(|_| None).collect(),
            paused: vec![false; settings.instances],
            links: vec![0; settings.instances],
            later: BTreeMap::new(),
            planned: 0,
            limit: vec![settings.limit; settings.instances],
            cap: vec![cap; settings.instances],
            requests: 0,
            calls: calls.collect(),
            events: Vec::new(),
            ledger: Ledger::new(plan),
            store_ahead: clock_at,
            spent: Attempts::default(),
        };
        world.ledger.store_clock(clock_at);
        if plan.control == Some(Control::TwoStores) {
            world.network.split();
        }
        (0..settings.instances).for_each(|index| world.start(index));
        world
    }

    fn run(mut self) -> Report {
        let mut faults: Vec<_> = self.plan.faults.iter().map(|(_, fault)| fault).collect();
        faults.sort_by_key(|fault| fault.at);
        let mut faults = faults.into_iter().peekable();
        let load = self.plan.settings.load;
        while self.now < load && self.ledger.broken.is_none() {
            while let Some(fault) = faults.next_if(|fault| fault.at <= self.now) {
                self.spent.faults += 1;
                self.happen(&fault.what);
            }
            self.end_what_is_over();
            self.call();
            self.round();
        }
        self.rest();
        self.report()
    }

    fn report(mut self) -> Report {
        let mut attempts = self.ledger.attempts;
        attempts += self.spent;
        for instance in self.instances.iter().flatten() {
            let (looks, waits) = instance.looks();
            attempts.looks += looks;
            attempts.waits += waits;
        }
        attempts.asked = self.network.asked();
        self.network.clear();
        Report {
            hash: self.ledger.hash,
            attempts,
            broken: self.ledger.broken.take(),
            time: self.now,
            instances: self.plan.settings.instances,
        }
    }

    fn start(&mut self, index: usize) {
        let (limit, cap) = (self.limit[index], self.cap[index]);
        let instance = Instance::start(self.plan, &self.network, index, self.now, limit, cap);
        self.links[index] = instance.link().number();
        self.ledger.begin(index, self.now, limit, cap);
        self.paused[index] = false;
        self.instances[index] = Some(instance);
    }

    fn plan_later(&mut self, after: u64, later: Later) {
        self.planned += 1;
        self.later.insert((self.now + after, self.planned), later);
    }

    fn order(&mut self, index: usize, command: Command) {
        if let Some(instance) = &mut self.instances[index] {
            instance.inbox.push(command);
        }
    }

    fn happen(&mut self, what: &What) {
        let now = self.now;
        match *what {
            What::Crash { instance, down } => {
                if let Some(dead) = self.instances[instance].take() {
                    let link = dead.link().number();
                    self.collect(&dead);
                    dead.die(&self.network);
                    self.events.push((now, link, Event::Died));
                    self.plan_later(down, Later::Starts(instance));
                }
            }
            What::Pause { instance, time } => {
                if !self.paused[instance] && self.instances[instance].is_some() {
                    self.paused[instance] = true;
                    self.ledger.paused(self.links[instance], now, now + time);
                    self.plan_later(time, Later::GoesOn(instance));
                }
            }
            What::Cut { instance, questions, answers, time } => {
                self.network.cut(self.links[instance], questions, answers);
                self.ledger.was_cut(self.links[instance], now, now + time);
                self.plan_later(time, Later::Connects(instance));
            }
            What::StoreGone { time } => {
                self.network.set_gone(true);
                self.ledger.trouble(now, now + time);
                self.plan_later(time, Later::StoreIsBack);
            }
            What::StoreSlow { time, by } => {
                self.network.set_slow(by);
                self.ledger.trouble(now, now + time);
                self.plan_later(time, Later::StoreIsQuick);
            }
            What::StoreEmpty => {
                self.network.empty();
                self.ledger.store_lost(now);
            }
            What::FailOver { .. } => {
                self.network.fail_over();
                self.ledger.store_lost(now);
            }
            What::StoreJumps { by } => {
                self.network.jump(by);
                self.store_ahead += by;
                self.ledger.store_clock(self.store_ahead);
                self.ledger.store_lost(now);
            }
            What::ClockJumps { instance, by } => self.order(instance, Command::ClockJumps(by)),
            What::ClockStands { instance, time } => {
                self.order(instance, Command::ClockStands);
                self.plan_later(time, Later::ClockRuns(instance));
            }
            What::Reload { instance, limit, cap } => {
                for index in 0..self.instances.len() {
                    if instance.is_none_or(|only| only == index) {
                        (self.limit[index], self.cap[index]) = (limit, cap);
                        self.order(index, Command::Reload { limit, cap });
                    }
                }
            }
            What::Drain { instance, serves } => self.order(instance, Command::Drain { serves }),
            What::Unbound { instance, off, time } => {
                let mode = if off { Mode::Off } else { Mode::Observe };
                self.order(instance, Command::SetMode(mode));
                self.plan_later(time, Later::Binds(instance));
            }
        }
    }

    fn end_what_is_over(&mut self) {
        while let Some(entry) = self.later.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let later = entry.remove();
            self.end(later);
        }
    }

    fn end(&mut self, later: Later) {
        match later {
            Later::Starts(instance) => self.start(instance),
            Later::GoesOn(instance) => self.paused[instance] = false,
            Later::Connects(instance) => self.network.cut(self.links[instance], false, false),
            Later::StoreIsBack => self.network.set_gone(false),
            Later::StoreIsQuick => self.network.set_slow(0),
            Later::ClockRuns(instance) => self.order(instance, Command::ClockGoesOn),
            Later::Binds(instance) => self.order(instance, Command::SetMode(Mode::Enforce)),
        }
    }

    /// Has all requests come that are due.
    fn call(&mut self) {
        for (index, (number, caller)) in self.plan.callers.iter().enumerate() {
            loop {
                let (at, made, rng) = &mut self.calls[index];
                if *at > self.now || *made >= caller.requests {
                    break;
                }
                *at += rng.about(caller.every);
                let id = self.requests;
                let request = Request::draw(self.plan.seed, caller, *number, *made, id);
                *made += 1;
                if let Some(instance) = &mut self.instances[caller.instance] {
                    self.requests += 1;
                    instance.inbox.push(Command::Serve(request));
                }
            }
        }
    }

    fn collect(&mut self, instance: &Instance) {
        let link = instance.link().number();
        self.events.extend(instance.events().into_iter().map(|(at, event)| (at, link, event)));
    }

    fn round(&mut self) {
        let (from, until) = (self.now, self.now + self.plan.settings.round);
        let every = if is_rarely_seen(self.plan.seed) { SELDOM } else { LOOKS_EVERY };
        let looks = from % every < self.plan.settings.round;
        self.network.step(from);
        for index in 0..self.instances.len() {
            if self.paused[index] {
                continue;
            }
            let Some(mut instance) = self.instances[index].take() else { continue };
            if looks {
                instance.inbox.push(Command::Look);
            }
            instance.step(&self.network, from, until);
            if instance.link().missed() > 0 {
                self.ledger.store_missed(from);
            }
            self.collect(&instance);
            self.instances[index] = Some(instance);
        }
        self.now = until;
        if let Some(what) = PANIC.take() {
            self.ledger.breaks("no panic", from, what);
        }
        // What is seen at its very end may be followed by more of the same millisecond.
        self.events.sort_by_key(|&(at, link, _)| (at, link));
        let later = self.events.partition_point(|(at, ..)| *at < until);
        let later = self.events.split_off(later);
        let events = std::mem::replace(&mut self.events, later);
        self.ledger.take(&events);
    }
}
