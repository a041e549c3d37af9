//! Dry runs: places in line, reloads, slots that expire, and any verbs in any order.

use std::{sync::Arc, task::Poll, time::Duration};

use crate::{
    Arrival, Ask, ClassId, Engine, PartitionId, Place, Slot, Subject,
    limit::{Aimd, Fixed, Limit},
    plan::{Bound, Mode, PartitionMode, PartitionPlan, Plan},
    shares::WHOLE,
};
use crate::{
    Outcome, Timestamp,
    rules::WhenFull,
    settings::{Cap, ClassLimits, Rate, Rules},
    tests::Dice,
};

const LABELS: [&str; 3] = ["a", "b", "c"];

fn cap(dice: &mut Dice, binds: bool) -> Cap {
    let words = [WhenFull::Queue, WhenFull::Reject, WhenFull::RespondEmpty];
    let cap = Cap::from(1 + dice.roll(4)).when_full(words[dice.roll(3)]);
    if binds && dice.one_in(2) { cap } else { cap.observe() }
}

fn rate(dice: &mut Dice, binds: bool) -> Rate {
    let rate = Rate::from(u32::try_from(10 + dice.roll(50)).unwrap_or(1));
    let rate = if dice.one_in(2) { rate.smooth() } else { rate };
    let rate = if dice.one_in(2) { rate.when_full(WhenFull::Queue) } else { rate };
    if binds && dice.one_in(2) { rate } else { rate.observe() }
}

/// Some limits; where `binds` is not set, all of them observe.
fn limits(dice: &mut Dice, binds: bool) -> ClassLimits {
    let mut limits = ClassLimits::new();
    if dice.one_in(2) {
        limits = limits.max_in_flight(cap(dice, binds));
    }
    if dice.one_in(2) {
        limits = limits.max_in_flight_per_namespace(cap(dice, binds));
    }
    if dice.one_in(3) {
        limits = limits.max_pending(cap(dice, binds));
    }
    if dice.one_in(3) {
        limits = limits.max_per_minute(rate(dice, binds));
    }
    if dice.one_in(3) {
        limits = limits.max_per_minute_per_namespace(rate(dice, binds));
    }
    limits
}

fn plan(dice: &mut Dice, binds: bool, (time_to_live, sheds): Fixtures) -> Plan {
    let law = |dice: &mut Dice| {
        let limit = 1 + dice.roll(6);
        let aimd = Aimd::new(Duration::from_millis(500)).initial(limit).max(8);
        if dice.one_in(3) { Limit::per_sample(aimd) } else { Fixed::new(limit).into() }.into_law()
    };
    let modes = [PartitionMode::Burst, PartitionMode::HardCap, PartitionMode::Overcommit];
    let partitions = ["default", "one", "two"].map(|name| PartitionPlan {
        name: Arc::from(name),
        part: if name == "default" { WHOLE / 2 } else { WHOLE / 4 },
        mode: modes[dice.roll(3)],
        observes: name != "default" && dice.one_in(2),
        withheld: 0,
    });
    let bound = |places, seconds| Bound::of(places, Some(Duration::from_secs(seconds)));
    let rules = Rules::new().default_limits(limits(dice, binds)).class("bulk", limits(dice, binds));
    let mut problems = Vec::new();
    let rules = rules.into_plan(None, &mut problems);
    assert!(problems.is_empty(), "{problems:?}");
    let shadow = dice.one_in(2).then(|| law(dice));
    let (line, gate) =
        (bound(if sheds { 0 } else { 1 + dice.roll(4) }, 20), bound(if sheds { 0 } else { dice.roll(3) }, 2));
    let queue = dice.one_in(2).then_some(4);
    Plan { rules, shadow, time_to_live, queue, ..Plan::plain(law(dice), partitions.into(), line, gate) }
}

/// The settings that no reload changes here: the time to live of slots, and whether no request can wait.
type Fixtures = (Option<Duration>, bool);

struct Scene {
    engine: Engine,
    now: Timestamp,
    slots: Vec<Slot>,
    places: Vec<Place>,
    dice: Dice,
    /// Whether any rule binds.
    binds: bool,
    fixtures: Fixtures,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let binds = dice.one_in(2);
        let fixtures = (dice.one_in(4).then_some(Duration::from_secs(3)), dice.one_in(3));
        let engine = Engine::new(plan(&mut dice, binds, fixtures));
        Self { engine, now: Timestamp::ZERO, slots: Vec::new(), places: Vec::new(), dice, binds, fixtures }
    }

    fn arrive(&mut self) {
        let class = if self.dice.one_in(2) { self.engine.class("bulk") } else { ClassId::OTHERS };
        let partition = PartitionId::from_index(self.dice.roll(3)).unwrap_or(PartitionId::DEFAULT);
        let label = LABELS[self.dice.roll(3)];
        let subject = self.dice.one_in(2).then_some(Subject::new("ns", label, None));
        let ask = Ask { class, subject, ..Ask::of(partition) };
        let observes = self.engine.capacity.partition(partition).plan.observes;
        let waits = self.dice.one_in(2);
        let arrival = if waits {
            self.engine.arrive(self.now, &ask)
        } else {
            self.engine.arrive_without_waiting(self.now, &ask).map_or_else(Arrival::Reject, Arrival::Admit)
        };
        if observes && !self.binds {
            assert!(matches!(arrival, Arrival::Admit(_)), "what observes lets everybody in: {arrival:?}");
        }
        match arrival {
            Arrival::Admit(slot) => self.slots.push(slot),
            Arrival::Wait(place) => self.places.push(place),
            Arrival::Reject(_) => {}
            Arrival::Ask(..) => unreachable!("no rule is shared"),
        }
    }

    fn claim(&mut self) {
        if self.places.is_empty() {
            return;
        }
        let which = self.dice.roll(self.places.len());
        match self.engine.claim(self.now, &self.places[which]) {
            Poll::Ready(answer) => {
                drop(self.places.swap_remove(which));
                self.slots.extend(answer.ok());
            }
            Poll::Pending if self.dice.one_in(3) => {
                let place = self.places.swap_remove(which);
                self.engine.cancel(self.now, &place);
            }
            Poll::Pending => {}
        }
    }

    fn finish(&mut self) {
        if self.slots.is_empty() {
            return;
        }
        let which = self.dice.roll(self.slots.len());
        let mut slot = self.slots.swap_remove(which);
        let outcome = if self.dice.one_in(4) { Outcome::Overload } else { Outcome::Success };
        self.engine.observe(self.now, &mut slot, outcome);
        self.engine.finish(self.now, &mut slot);
    }

    fn step(&mut self) {
        match self.dice.roll(24) {
            0..10 => self.arrive(),
            10..14 => self.claim(),
            14..19 => self.finish(),
            19..22 => {
                self.now = self.now.after(Duration::from_millis(self.dice.roll(900) as u64));
                self.engine.tick(self.now);
            }
            22 if self.dice.one_in(4) => {
                let mode = [Mode::Enforce, Mode::Observe, Mode::Off][self.dice.roll(3)];
                self.engine.set_mode(self.now, mode);
            }
            23 if self.dice.one_in(4) => {
                self.binds = self.dice.one_in(2);
                let plan = plan(&mut self.dice, self.binds, self.fixtures);
                self.engine.reload(self.now, plan);
            }
            _ => {}
        }
        self.engine.check_all();
    }

    /// Has all requests leave; nothing is left of any of them.
    fn leave(mut self) {
        for place in std::mem::take(&mut self.places) {
            self.engine.cancel(self.now, &place);
        }
        while !self.slots.is_empty() {
            self.finish();
        }
        self.engine.check_all();
        let snapshot = self.engine.snapshot();
        assert_eq!(snapshot.in_flight + snapshot.waiting + snapshot.at_gate, 0);
        assert!(snapshot.partitions.iter().all(|it| it.in_flight_over_limit == 0));
        assert!(snapshot.shadow.is_none_or(|shadow| shadow.in_flight == 0), "the shadow law counts nobody");
        for id in self.engine.quotas.ids() {
            assert_eq!((self.engine.quotas.label(id).running, self.engine.quotas.marks(id)), (0, (0, 0, 0)));
        }
        for label in self.engine.all_labels() {
            let caps = label.rules.iter().filter(|rule| !rule.rule.contains("per_minute"));
            caps.for_each(|rule| assert_eq!(rule.used, 0, "{rule:?}"));
        }
    }
}

#[test]
fn whatever_comes_in_whatever_order_nothing_is_lost_and_nothing_is_left() {
    let (mut outside, mut beyond, mut waited, mut in_shadow) = (0, 0, 0, 0);
    for seed in 1..400 {
        let mut scene = Scene::new(seed);
        for _ in 0..250 {
            scene.step();
            let engine = &scene.engine;
            outside += usize::from(engine.capacity.slots().over_limit > 0);
            beyond += engine.quotas.ids().filter(|&id| engine.quotas.marks(id).1 > 0).count();
            let marks = engine.quotas.ids().map(|id| engine.quotas.marks(id));
            waited += marks.filter(|(beyond, running, _)| beyond > running).count();
            in_shadow += usize::from(engine.snapshot().shadow.is_some_and(|it| it.would_reject + it.would_queue > 0));
        }
        scene.leave();
    }
    for (count, what) in [(outside, "outside"), (beyond, "beyond"), (waited, "waiting"), (in_shadow, "in shadow")] {
        assert!(count > 500, "{what} was met {count} times only");
    }
}
