//! Clients of a server: the same calls each time.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    fmt::Write as _,
    task::Poll,
    time::Duration,
};

use super::shown;
use crate::{
    Arrival, Ask, Counted, Criticality, Engine, JournalEvent, NoRoom, Outcome, PartitionId, Place, Refusal, Slot,
    StoreState, Subject, Timestamp, Wanted,
    plan::{Mode, Plan},
    tests::Dice,
};

const LABELS: [&str; 14] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"];
const RUNS: [&str; 4] = ["r1", "r2", "r3", "r4"];

struct Waiting {
    place: Place,
    /// Time when its caller leaves.
    leaves: Timestamp,
    /// Time when the store answers, for a request that asks it.
    answer: Option<Timestamp>,
}

/// A server and its clients.
pub(super) struct Clients {
    pub(super) told: String,
    /// Labels that requests have.
    pub(super) names: u64,
    pub(super) is_slow: bool,
    /// Whether requests have deadlines soon.
    pub(super) is_impatient: bool,
    /// Whether nearly all requests are of one partition.
    pub(super) is_noisy: bool,
    /// Milliseconds that the store takes for an answer.
    pub(super) store_takes: u64,
    engine: Engine,
    now: Timestamp,
    dice: Dice,
    waiting: Vec<Waiting>,
    slots: BTreeMap<u64, Slot>,
    ends: BinaryHeap<Reverse<(Timestamp, u64)>>,
    number: u64,
    /// The last entry of the journal that was told of.
    heard: u64,
    /// What happened in this second, by what it was.
    tally: BTreeMap<String, u64>,
}

impl Clients {
    pub(super) fn new(plan: Plan) -> Self {
        let mut engine = Engine::new(plan);
        engine.begin_sampling();
        Self {
            told: String::new(),
            names: 4,
            is_slow: false,
            is_impatient: false,
            is_noisy: false,
            store_takes: 3,
            engine,
            now: Timestamp::ZERO,
            dice: Dice(0x9E37_79B9_7F4A_7C15),
            waiting: Vec::new(),
            slots: BTreeMap::new(),
            ends: BinaryHeap::new(),
            number: 0,
            heard: 0,
            tally: BTreeMap::new(),
        }
    }

    fn note(&mut self, what: impl Into<String>) {
        *self.tally.entry(what.into()).or_default() += 1;
    }

    fn refused(&mut self, refusal: &Refusal) {
        let empty = if refusal.empty { ", empty" } else { "" };
        // Rounded to what a header says.
        let retry = refusal.retry_after.as_secs_f64().ceil();
        self.note(format!("{} (of {}, again in {retry} s{empty})", refusal.reason.as_str(), refusal.bound));
    }

    fn runs(&mut self, slot: Slot, how: &str) {
        self.note(how);
        let longest = if self.is_slow { 500 } else { 90 };
        let time = 10 + self.dice.below(longest) * (1 + 4 * u64::from(self.dice.one_in(20)));
        self.number += 1;
        self.ends.push(Reverse((self.now.after(Duration::from_millis(time)), self.number)));
        self.slots.insert(self.number, slot);
    }

    fn arrive(&mut self) {
        let class = ["", "bulk", "report", "other"][self.dice.below(4) as usize];
        let partition = if self.is_noisy && !self.dice.one_in(12) { 1 } else { self.dice.below(5).min(2) as usize };
        let partition = PartitionId::from_index(partition).unwrap();
        let levels = Criticality::ALL;
        let criticality = levels[if self.dice.one_in(3) { self.dice.below(4) as usize } else { 1 }];
        let label = LABELS[(self.dice.below(self.names * 2) as usize).min(self.names as usize - 1)];
        let run = self.dice.one_in(3).then(|| RUNS[self.dice.below(4) as usize]);
        let subject = (!self.dice.one_in(6)).then(|| Subject::new("ns", label, run));
        let hurries = self.is_impatient || self.dice.one_in(10);
        let deadline_in = if hurries { 20 + self.dice.below(400) } else { 5_000 };
        let deadline = if hurries { self.now.after(Duration::from_millis(deadline_in)) } else { Timestamp::NEVER };
        let class = self.engine.class(class);
        let ask = Ask { class, criticality, subject, deadline, ..Ask::of(partition) };
        let leaves = self.now.after(Duration::from_millis(50 + self.dice.below(4_000)));
        let waits = !self.dice.one_in(9);
        let arrival = if waits { self.engine.arrive(self.now, &ask) } else { self.engine.arrive_now(self.now, &ask) };
        match arrival {
            Arrival::Admit(slot) => self.runs(slot, if waits { "admitted" } else { "admitted without a wait" }),
            Arrival::Reject(refusal) => self.refused(&refusal),
            Arrival::Wait(place) => {
                self.note("waits");
                self.waiting.push(Waiting { place, leaves, answer: None });
            }
            Arrival::Ask(place, _) => {
                self.note("asks");
                self.waiting.push(Waiting { place, leaves, answer: Some(self.answered_at()) });
            }
        }
    }

    fn answered_at(&self) -> Timestamp {
        self.now.after(Duration::from_millis(self.store_takes))
    }

    /// Gives an answer to a request that asked the store; returns it where it goes on to wait.
    fn answer(&mut self, it: Waiting) -> Option<Waiting> {
        let no_room = NoRoom { rule: Counted::LabelCap, retry_after: None };
        match self.dice.below(8) {
            0 => {
                let refusal = self.engine.reject_remote(self.now, &it.place, no_room);
                self.refused(&refusal);
                None
            }
            1 => match self.engine.requeue(self.now, &it.place, no_room) {
                Ok(_) => {
                    self.note("goes back into the line");
                    Some(Waiting { answer: None, ..it })
                }
                Err(refusal) => {
                    self.refused(&refusal);
                    None
                }
            },
            2 if self.engine.snapshot().health.state.starts_with("store") => {
                let after = Some(Duration::from_millis(1_200));
                let refusal = self.engine.reject_without_store(self.now, &it.place, after);
                self.refused(&refusal);
                None
            }
            _ => self.claim(it, "admitted by the store"),
        }
    }

    fn claim(&mut self, it: Waiting, how: &str) -> Option<Waiting> {
        match self.engine.claim(self.now, &it.place) {
            Poll::Pending => return Some(it),
            Poll::Ready(Ok(slot)) => self.runs(slot, how),
            Poll::Ready(Err(refusal)) => self.refused(&refusal),
        }
        None
    }

    /// Lets all waiters look whether their wait has ended.
    fn look_at_waiters(&mut self) {
        while self.engine.take_notice().is_some() {}
        for it in std::mem::take(&mut self.waiting) {
            let left = match it.answer {
                Some(at) if at <= self.now => self.answer(it),
                Some(_) => Some(it),
                None if it.leaves <= self.now => {
                    self.note("left the line");
                    self.engine.cancel(self.now, &it.place);
                    None
                }
                None => {
                    if self.dice.one_in(12) {
                        let label = self.engine.queue.get(it.place.key()).label;
                        self.engine.retry_remote(self.now, label, Counted::LabelCap);
                    }
                    if self.engine.has_to_ask_for(&it.place).is_some() {
                        self.note("asks after a wait");
                        Some(Waiting { answer: Some(self.answered_at()), ..it })
                    } else {
                        self.claim(it, "admitted after a wait")
                    }
                }
            };
            self.waiting.extend(left);
        }
    }

    fn end(&mut self, number: u64) {
        let Some(mut slot) = self.slots.remove(&number) else { return };
        let outcome = match self.dice.below(40) {
            0 => Outcome::Overload,
            1 => Outcome::Cancelled,
            2 => Outcome::Ignore,
            _ => Outcome::Success,
        };
        self.engine.observe(self.now, &mut slot, outcome);
        if outcome == Outcome::Success && self.dice.one_in(30) {
            self.engine.observe_overload(self.now, &slot, true);
        }
        self.engine.finish(self.now, &mut slot);
    }

    /// Lets so many seconds pass, with so many requests in each.
    pub(super) fn seconds(&mut self, seconds: u64, requests: u64) {
        for _ in 0..seconds {
            let over = self.now.after(Duration::from_secs(1));
            let mut arrival = self.now;
            let between = 1_000_000_000 / requests;
            loop {
                let wakeup = self.engine.next_wakeup().unwrap_or(Timestamp::NEVER);
                let end = self.ends.peek().map_or(Timestamp::NEVER, |it| it.0.0);
                let soon = self.now.after(Duration::from_millis(20));
                let next = arrival.min(end).min(wakeup).min(soon).max(self.now);
                if next >= over {
                    break;
                }
                self.now = next;
                if wakeup <= next || soon <= next {
                    self.engine.tick(next);
                } else if end <= next {
                    let number = self.ends.pop().unwrap().0.1;
                    self.end(number);
                } else {
                    self.arrive();
                    arrival = arrival.after(Duration::from_nanos(between / 2 + self.dice.below(between)));
                }
                while self.engine.take_expired().is_some() {
                    self.note("a slot expired");
                }
                self.look_at_waiters();
            }
            self.now = over;
            self.engine.tick(over);
            let (second, limit, running) =
                (over.since(Timestamp::ZERO).as_secs(), self.engine.limit(), self.engine.running());
            write!(self.told, "{second} s: limit {limit}, {running} run").unwrap();
            for (what, count) in std::mem::take(&mut self.tally) {
                write!(self.told, "; {count} {what}").unwrap();
            }
            self.told.push('\n');
            self.tell_what_was_in_the_way();
        }
    }

    /// Tells of this second: of each bound that was in the way, how often, and how much of it was used the last time.
    fn tell_what_was_in_the_way(&mut self) {
        let mut bounds = BTreeMap::new();
        for entry in self.engine.journal_since(self.heard, 1_000, Wanted::Decisions) {
            self.heard = entry.sequence;
            let JournalEvent::Decision(it) = entry.event else { continue };
            let Some(rule) = it.rule else { continue };
            let one = bounds.entry((rule, format!("{:?}", it.decision))).or_insert((0, None, None, 0.0));
            *one = (one.0 + 1, it.used, it.bound, it.waited_seconds);
        }
        for ((rule, decision), (count, used, bound, waited)) in bounds {
            let (used, bound) = (used.unwrap_or_default(), bound.unwrap_or_default());
            writeln!(self.told, "    {decision} by {rule} {count} times: {used} of {bound} after {waited:.3} s")
                .unwrap();
        }
    }

    /// Tells all that can be seen.
    pub(super) fn look(&mut self) {
        self.engine.pass_time_for_look(self.now);
        shown::all(&self.engine, self.slots.values().next(), &mut self.told);
    }

    pub(super) fn reload(&mut self, plan: Plan) {
        let added = self.engine.reload(self.now, plan);
        writeln!(self.told, "reload, new: {added:?}").unwrap();
    }

    pub(super) fn set_mode(&mut self, mode: Mode) {
        self.engine.set_mode(self.now, mode);
        writeln!(self.told, "mode {}", mode.as_str()).unwrap();
    }

    pub(super) fn close(&mut self, serves_waiting: bool) {
        self.engine.close(self.now, serves_waiting);
        writeln!(self.told, "drains, and serves what waits: {serves_waiting}").unwrap();
    }

    pub(super) fn tell_store(&mut self, state: StoreState, down_for: Duration) {
        let change = self.engine.tell_store(self.now, state, down_for);
        writeln!(self.told, "store: {change:?}").unwrap();
    }

    pub(super) fn report_workers(&mut self, slots: &[(&str, usize)]) {
        for (label, slots) in slots {
            for worker in ["one", "two"] {
                let subject = Subject::new("ns", label, None);
                let valid = Duration::from_secs(if worker == "one" { 30 } else { 4 });
                let class = (*label == "a").then_some("bulk");
                let is_noted = self.engine.report_worker(self.now, class, &subject, worker, Some((*slots, valid)));
                writeln!(self.told, "worker {worker} of {label}: {slots} slots, noted: {is_noted}").unwrap();
            }
        }
        self.engine.report_worker(self.now, None, &Subject::new("ns", "c", None), "two", None);
    }
}
