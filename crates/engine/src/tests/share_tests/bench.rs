//! Callers in virtual time, in front of an engine and of servers of their own.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    task::Poll,
};

use crate::{
    Arrival, Ask, Engine, Outcome, PartitionId, Place, Slot, Timestamp,
    limit::{Fixed, Limit},
    plan::{Bound, PartitionMode, PartitionPlan, Plan},
    tests::Dice,
};

/// Time that a request takes, or its mean.
const HOLD: u64 = 50_000_000;
/// What is measured begins after this time.
const WARM_UP: u64 = 1_000_000_000;

/// When callers ask.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Callers {
    /// At the same instants as the callers of other partitions.
    Together,
    /// In a rhythm of their own, half a period early or late at the most.
    Jittered,
    /// At random, with times to serve that are exponential.
    Poisson,
    /// Five requests at once, in a rhythm as above.
    Waves,
    /// For each slot that they can have, at each moment.
    Flood,
    /// The same with requests that take fifteen times as long. Their callers leave early, if `leaves`.
    LongFlood { leaves: bool },
}

impl Callers {
    pub(super) const CALM: [Self; 4] = [Self::Together, Self::Jittered, Self::Poisson, Self::Waves];

    pub(super) const fn is_flood(self) -> bool {
        matches!(self, Self::Flood | Self::LongFlood { .. })
    }
}

/// A partition and its callers.
#[derive(Clone, Debug)]
pub(super) struct Tenant {
    pub(super) part: u32,
    pub(super) mode: PartitionMode,
    pub(super) callers: Callers,
    /// What the callers need of the share, if they are calm.
    pub(super) load: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) limit: usize,
    pub(super) tenants: Vec<Tenant>,
    /// Whether requests take a place in the room for guarantees; else they take a slot or are refused.
    pub(super) waits: bool,
    pub(super) seed: u64,
}

/// In percent, or in percent of a time to serve.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) asked: u64,
    pub(super) refused: f64,
    pub(super) own_refused: f64,
    /// How much more the worst-off partition was refused than on a server of its own.
    pub(super) worst: f64,
    /// Most refusals of one calm partition in a row.
    pub(super) row: u64,
    pub(super) own_row: u64,
    pub(super) used: f64,
    pub(super) wait_p50: f64,
    pub(super) wait_p99: f64,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Event {
    End(u64),
    Leave(u64),
    Ask(usize),
}

/// What became of the requests of one partition.
#[derive(Debug, Default)]
struct Tally {
    asked: u64,
    refused: u64,
    in_a_row: u64,
    longest: u64,
}

impl Tally {
    fn count(&mut self, is_served: bool) {
        self.asked += 1;
        self.refused += u64::from(!is_served);
        self.in_a_row = if is_served { 0 } else { self.in_a_row + 1 };
        self.longest = self.longest.max(self.in_a_row);
    }
}

#[derive(Debug)]
pub(super) struct Bench {
    engine: Engine,
    limit: usize,
    tenants: Vec<Tenant>,
    waits: bool,
    now: u64,
    dice: Dice,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    running: HashMap<u64, Slot>,
    waiting: HashMap<u32, (Place, usize, u64, u64)>,
    ids: u64,
    own: Vec<BinaryHeap<Reverse<u64>>>,
    shares: Vec<usize>,
    tallies: Vec<Tally>,
    own_tallies: Vec<Tally>,
    waits_until_served: Vec<u64>,
    /// Slots in use, summed over time.
    used: u128,
}

impl Bench {
    pub(super) fn new(setup: &Setup) -> Self {
        let Setup { limit, tenants, waits, seed } = setup.clone();
        let partitions = tenants.len();
        let plan = |(number, it): (usize, &Tenant)| PartitionPlan::of(&number.to_string(), it.part, it.mode);
        let plans: Vec<_> = tenants.iter().enumerate().map(plan).collect();
        let none = Bound::of(0, Some(std::time::Duration::ZERO));
        let engine = Engine::new(Plan::plain(Limit::from(Fixed::new(limit)).into_law(), plans, none, none));
        let shares = engine.capacity.partitions().map(|(_, it)| it.share).collect();
        let tallies = || std::iter::repeat_with(Tally::default).take(partitions).collect();
        Self {
            engine,
            limit,
            tenants,
            waits,
            now: 0,
            dice: Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            events: BinaryHeap::new(),
            running: HashMap::new(),
            waiting: HashMap::new(),
            ids: 0,
            own: vec![BinaryHeap::new(); partitions],
            shares,
            tallies: tallies(),
            own_tallies: tallies(),
            waits_until_served: Vec::new(),
            used: 0,
        }
    }

    pub(super) fn run(mut self, seconds: u64) -> Figures {
        let end = seconds * 1_000_000_000;
        for partition in 0..self.tenants.len() {
            if !self.tenants[partition].callers.is_flood() {
                self.plan_next(partition);
            }
        }
        self.flood();
        while let Some(&Reverse((time, event))) = self.events.peek() {
            if time > end {
                break;
            }
            match self.engine.next_wakeup() {
                Some(wakeup) if wakeup.as_nanos() < time => {
                    self.pass(wakeup.as_nanos().max(self.now));
                    self.engine.tick(self.at());
                }
                _ => {
                    self.events.pop();
                    self.pass(time);
                    match event {
                        Event::End(id) => self.end(id),
                        Event::Leave(id) => self.leave(id),
                        Event::Ask(partition) => {
                            for _ in 0..if self.tenants[partition].callers == Callers::Waves { 5 } else { 1 } {
                                self.ask_calmly(partition);
                            }
                            self.plan_next(partition);
                        }
                    }
                }
            }
            self.answer();
            self.flood();
        }
        self.figures(end)
    }

    fn at(&self) -> Timestamp {
        Timestamp::from_nanos(self.now)
    }

    fn pass(&mut self, time: u64) {
        assert!(self.engine.running() <= self.limit, "never over the limit");
        if self.now >= WARM_UP {
            self.used += self.engine.running() as u128 * u128::from(time - self.now);
        }
        self.now = time;
    }

    /// A number from 0 to 1.
    fn random(&mut self) -> f64 {
        (self.dice.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Callers that come at random, and floods beside them, need times that are exponential.
    fn hold(&mut self, partition: usize) -> u64 {
        let is_random = match self.tenants[partition].callers {
            it if it.is_flood() => self.tenants.iter().any(|it| it.callers == Callers::Poisson),
            callers => callers == Callers::Poisson,
        };
        if is_random { (-(1.0 - self.random()).ln() * HOLD as f64) as u64 } else { HOLD }
    }

    fn plan_next(&mut self, partition: usize) {
        let Tenant { callers, load, .. } = self.tenants[partition];
        let period = HOLD as f64 / (load * self.shares[partition] as f64);
        let gap = match callers {
            Callers::Together | Callers::Flood | Callers::LongFlood { .. } => period,
            Callers::Jittered => period * (0.5 + self.random()),
            Callers::Poisson => -(1.0 - self.random()).ln() * period,
            Callers::Waves => 5.0 * period * (0.5 + self.random()),
        };
        self.events.push(Reverse((self.now + gap as u64, Event::Ask(partition))));
    }

    fn ask_calmly(&mut self, partition: usize) {
        let hold = self.hold(partition);
        let own = &mut self.own[partition];
        while own.peek().is_some_and(|&Reverse(end)| end <= self.now) {
            own.pop();
        }
        let is_served = own.len() < self.shares[partition];
        if is_served {
            own.push(Reverse(self.now + hold));
        }
        let counts = self.now >= WARM_UP;
        if counts {
            self.own_tallies[partition].count(is_served);
        }
        if !self.ask(partition, hold) && counts {
            self.tallies[partition].count(false);
        }
    }

    /// Returns whether the request was not refused.
    fn ask(&mut self, partition: usize, hold: u64) -> bool {
        let (now, ask) = (self.at(), Ask::of(PartitionId::from_index(partition).unwrap()));
        match if self.waits { self.engine.arrive(now, &ask) } else { self.engine.arrive_now(now, &ask) } {
            Arrival::Admit(slot) => self.start(slot, partition, hold, 0),
            Arrival::Wait(place) => {
                self.waiting.insert(place.key().index, (place, partition, hold, self.now));
            }
            Arrival::Reject(_) => return false,
            Arrival::Ask(..) => unreachable!("no rule is shared"),
        }
        true
    }

    fn start(&mut self, slot: Slot, partition: usize, hold: u64, waited: u64) {
        self.ids += 1;
        self.running.insert(self.ids, slot);
        self.events.push(Reverse((self.now + hold, Event::End(self.ids))));
        if self.tenants[partition].callers == (Callers::LongFlood { leaves: true }) {
            self.events.push(Reverse((self.now + HOLD / 5, Event::Leave(self.ids))));
        }
        if self.now >= WARM_UP {
            self.tallies[partition].count(true);
            if self.is_measured(partition) {
                self.waits_until_served.push(waited);
            }
        }
    }

    fn end(&mut self, id: u64) {
        let mut slot = self.running.remove(&id).unwrap();
        self.engine.observe(self.at(), &mut slot, Outcome::Success);
        self.engine.finish(self.at(), &mut slot);
    }

    /// Its slot is held for as long as its work may go on.
    fn leave(&mut self, id: u64) {
        if let Some(slot) = self.running.get_mut(&id) {
            self.engine.abandon(Timestamp::from_nanos(self.now), slot, Outcome::Cancelled);
        }
    }

    fn answer(&mut self) {
        while let Some(key) = self.engine.take_notice() {
            let (place, partition, hold, since) = self.waiting.remove(&key.index).unwrap();
            match self.engine.claim(self.at(), &place) {
                Poll::Ready(Ok(slot)) => self.start(slot, partition, hold, self.now - since),
                Poll::Ready(Err(_)) if self.now >= WARM_UP => self.tallies[partition].count(false),
                Poll::Ready(Err(_)) => {}
                Poll::Pending => panic!("a wait ended without an answer"),
            }
        }
    }

    /// Whether the figures are about a partition: about those that are calm, or about all where none is.
    fn is_measured(&self, partition: usize) -> bool {
        let is_calm = |it: &Tenant| !it.callers.is_flood();
        is_calm(&self.tenants[partition]) || !self.tenants.iter().any(is_calm)
    }

    fn flood(&mut self) {
        for partition in 0..self.tenants.len() {
            while self.tenants[partition].callers.is_flood() {
                let is_long = matches!(self.tenants[partition].callers, Callers::LongFlood { .. });
                let hold = self.hold(partition) as f64 * if is_long { 15.0 } else { 1.0 };
                // The first ones have run for a while: else the slots would come free all at once, for ever.
                let hold = if self.now == 0 { self.random() * hold } else { hold };
                if !self.ask(partition, hold as u64) {
                    break;
                }
            }
        }
    }

    fn figures(mut self, end: u64) -> Figures {
        let measured: Vec<usize> = (0..self.tenants.len()).filter(|&it| self.is_measured(it)).collect();
        let percent = |it: &Tally| 100.0 * it.refused as f64 / it.asked.max(1) as f64;
        let of = |tallies: &[Tally]| {
            let sum = |count: fn(&Tally) -> u64| measured.iter().map(|&it| count(&tallies[it])).sum::<u64>();
            let (asked, refused) = (sum(|it| it.asked), sum(|it| it.refused));
            let longest = measured.iter().map(|&it| tallies[it].longest).max().unwrap_or(0);
            (percent(&Tally { asked, refused, ..Tally::default() }), longest)
        };
        let ((refused, row), (own_refused, own_row)) = (of(&self.tallies), of(&self.own_tallies));
        let worst = |&it: &usize| percent(&self.tallies[it]) - percent(&self.own_tallies[it]);
        let worst = measured.iter().map(worst).fold(f64::MIN, f64::max);
        self.waits_until_served.sort_unstable();
        let waits = &self.waits_until_served;
        let quantile = |part: f64| {
            let index = (waits.len() as f64 * part) as usize;
            waits.get(index.min(waits.len().saturating_sub(1))).map_or(0.0, |&it| 100.0 * it as f64 / HOLD as f64)
        };
        Figures {
            asked: measured.iter().map(|&it| self.own_tallies[it].asked).sum(),
            refused,
            own_refused,
            worst,
            row,
            own_row,
            used: 100.0 * self.used as f64 / ((end - WARM_UP) as f64 * self.limit as f64),
            wait_p50: quantile(0.5),
            wait_p99: quantile(0.99),
        }
    }
}
