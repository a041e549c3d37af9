//! The order of turns.

use std::collections::HashMap;

use proptest::prelude::*;

use super::{super::cases, *};

/// What callers do: a request comes, a slot comes free, a waiter leaves.
#[derive(Clone, Debug)]
enum Step {
    Ask { label: usize, level: usize },
    Free(usize),
    Leave(usize),
}

fn steps(levels: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0..NAMES.len(), levels).prop_map(|(label, level)| Step::Ask { label, level }),
        4 => (0usize..64).prop_map(Step::Free),
        1 => (0usize..64).prop_map(Step::Leave),
    ];
    prop::collection::vec(step, 1..300)
}

fn rules(caps: impl Strategy<Value = Option<usize>>) -> impl Strategy<Value = Vec<LabelRule>> {
    let rule = (caps, prop_oneof![Just(1u32), Just(2), Just(3)]).prop_map(|(cap, weight)| LabelRule { cap, weight });
    prop::collection::vec(rule, NAMES.len())
}

impl Room {
    fn take(&mut self, step: &Step) {
        match *step {
            Step::Ask { label, level } => self.arrive(NAMES[label], level, None, None),
            Step::Free(which) => self.free(which),
            Step::Leave(which) => self.leave(which),
        }
    }
}

/// Asserts start-time fair queueing: between two grants of one label, each other label of its weight that had a waiter
/// all the time got exactly one. Returns how many pairs of labels were compared.
fn check_turns(rules: &[LabelRule], steps: &[Step], plan: Plan) -> Result<usize, TestCaseError> {
    let mut room = Room::new(with_rules(plan, rules.iter().copied()));
    let mut looked_at = 0;
    // For each label: its waiters, grants since it has a waiter, and grants so far when it had its own.
    let mut waiting = [0_usize; NAMES.len()];
    let mut since = [0_usize; NAMES.len()];
    let mut grants: [Vec<usize>; NAMES.len()] = Default::default();
    let mut seen = 0;
    for step in steps {
        room.take(step);
        for index in seen..room.granted.len() {
            let label = NAMES.iter().position(|&name| name == room.granted[index].label).unwrap();
            if let Some(&last) = grants[label].last().filter(|&&last| since[label] <= last) {
                for other in (0..NAMES.len()).filter(|&it| it != label && rules[it].weight == rules[label].weight) {
                    if waiting[other] > 0 && since[other] <= last {
                        let between = grants[other].iter().filter(|&&grant| grant > last).count();
                        prop_assert_eq!(between, 1, "{} between two of {}", NAMES[other], NAMES[label]);
                        looked_at += 1;
                    }
                }
            }
            grants[label].push(index);
            waiting[label] -= 1;
            if waiting[label] == 0 {
                since[label] = usize::MAX;
            }
        }
        seen = room.granted.len();
        for (label, name) in NAMES.iter().enumerate() {
            waiting[label] = room.waiting_of(name);
            since[label] = match (waiting[label], since[label]) {
                (0, _) => usize::MAX,
                (_, usize::MAX) => seen,
                (_, since) => since,
            };
        }
    }
    Ok(looked_at)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(256), ..ProptestConfig::default() })]

    #[test]
    fn within_a_label_first_come_is_first_served(
        rules in rules(prop::option::of(1usize..3)),
        (slots, places, gate) in (1usize..4, 1usize..12, 0usize..6),
        fifo in any::<bool>(),
        steps in steps(0..4),
    ) {
        let mut plan = plan(slots, places);
        plan.queue = Some(places);
        plan.gate.places = Places::Exactly(gate);
        plan.discipline = if fifo { Discipline::Fifo } else { Discipline::Fair };
        let mut room = Room::new(with_rules(plan, rules));
        steps.iter().for_each(|step| room.take(step));
        let mut last: HashMap<_, u64> = HashMap::new();
        for caller in &room.granted {
            let before = last.insert((caller.label, caller.level), caller.number);
            prop_assert!(before.is_none_or(|before| before < caller.number), "{caller:?} after {before:?}");
        }
    }

    #[test]
    fn equal_labels_get_exactly_one_turn_each(
        rules in rules(Just(None)),
        slots in 1usize..4,
        steps in steps(1..2),
    ) {
        check_turns(&rules, &steps, plan(slots, 10_000))?;
    }

    #[test]
    fn a_full_label_blocks_no_other(
        rules in rules(prop::option::of(1usize..3)),
        slots in 1usize..8,
        steps in steps(0..4),
    ) {
        let mut room = Room::new(with_rules(plan(slots, 10_000), rules.clone()));
        for step in &steps {
            room.take(step);
            if room.running.len() < slots {
                for (name, rule) in NAMES.iter().zip(&rules) {
                    let running = room.running.iter().filter(|(caller, _)| caller.label == *name).count();
                    let is_full = rule.cap.is_some_and(|cap| running >= cap);
                    prop_assert!(is_full || room.waiting_of(name) == 0, "{name} waits beside a free slot");
                }
            }
        }
    }

    #[test]
    fn no_request_starves_as_long_as_slots_come_free(aging in 1u32..20, steps in steps(0..4)) {
        let mut room = Room::new(Plan { aging: Some(aging), ..plan(1, 10_000) });
        // By when each caller is served at the latest, counted in grants. A level has its turn after it was passed over
        // often enough and other starving levels went before it; within a level, each label has one turn in each round.
        let mut latest: HashMap<u64, usize> = HashMap::new();
        let turn = 4 * (aging as usize + 1);
        for step in &steps {
            room.take(step);
            if let Some((caller, _)) = room.waiting.last().filter(|(caller, _)| caller.number == room.arrived) {
                let same = |it: &Caller| (it.label, it.level) == (caller.label, caller.level);
                let ahead = room.waiting.iter().filter(|(it, _)| same(it)).count();
                latest.entry(caller.number).or_insert(room.granted.len() + (ahead + 1) * NAMES.len() * turn);
            }
            for (caller, _) in &room.waiting {
                prop_assert!(room.granted.len() <= latest[&caller.number], "{caller:?} starves");
            }
        }
    }
}

#[test]
fn the_test_of_turns_looks_at_many_of_them_and_finds_a_wrong_order() {
    let equal = [LabelRule::default(); NAMES.len()];
    let ask = |label| Step::Ask { label, level: 1 };
    let mut steps: Vec<_> = (0..60).map(|number| ask(number / 10)).collect();
    steps.extend((0..40).map(|_| Step::Free(0)));
    let looked_at = check_turns(&equal, &steps, plan(1, 100)).unwrap();
    assert!(looked_at > 100, "it looked at {looked_at} pairs");
    let by_arrival = Plan { discipline: Discipline::Fifo, ..plan(1, 100) };
    assert!(check_turns(&equal, &steps, by_arrival).is_err());
}

#[test]
fn shares_follow_the_weights_within_one_percent() {
    const GRANTS: u32 = 20_000;
    for weights in [[1, 1, 1, 1, 1, 1], [1, 2, 3, 4, 5, 6], [1, 1, 10, 10, 100, 7]] {
        let rules = weights.map(|weight| LabelRule { cap: None, weight });
        let mut room = Room::new(with_rules(plan(2, 10_000), rules));
        // Every label always has two waiters; which label comes first changes.
        let mut counts = [0_u32; NAMES.len()];
        for round in 0..GRANTS {
            for offset in 0..NAMES.len() {
                let name = NAMES[(round as usize + offset) % NAMES.len()];
                while room.waiting_of(name) < 2 {
                    room.ask(name);
                }
            }
            room.free(round as usize);
            let label = room.granted.last().unwrap().label;
            counts[NAMES.iter().position(|&name| name == label).unwrap()] += 1;
        }
        let sum = f64::from(weights.iter().sum::<u32>());
        for (count, weight) in counts.into_iter().zip(weights) {
            let due = f64::from(GRANTS) * f64::from(weight) / sum;
            let off = (f64::from(count) / due - 1.0).abs();
            // A count is whole, so one turn more or less is no fault.
            assert!(off <= 0.01 || (f64::from(count) - due).abs() <= 1.0, "{weights:?}: {count} instead of {due}");
        }
    }
}

/// Returns how many grants others get while a request of a label waits that was just served, beside so many strangers. A stranger
/// that was served comes back at once under the next of these names. Names that are `known` were all served before.
fn overtaken_by_strangers(waiting: usize, names: &[&'static str], known: bool) -> usize {
    let mut room = Room::new(plan(1, 10_000));
    for name in names.iter().filter(|_| known) {
        room.ask(name);
        room.free(0);
    }
    let mut names = names.iter().cycle();
    // While the names were away, the calm label had turns.
    (0..3).for_each(|_| room.ask("calm"));
    (0..2).for_each(|_| room.free(0));
    names.by_ref().take(waiting).for_each(|name| room.ask(name));
    room.ask("calm");
    for (overtaken, name) in names.enumerate().take(2_000) {
        room.free(0);
        if room.granted.last().unwrap().label == "calm" {
            return overtaken;
        }
        room.ask(name);
    }
    2_000
}

#[test]
fn new_names_do_not_go_before_a_label_that_was_served() {
    let names: Vec<&'static str> = (0..2_100).map(|number| &*format!("stranger {number}").leak()).collect();
    for waiting in [1, 2, 10, 40] {
        let overtaken = overtaken_by_strangers(waiting, &names, false);
        assert!(overtaken <= waiting, "{overtaken} of {waiting} strangers and those after them");
        // Labels that are known and were away owe nothing, so each of them has one turn.
        assert_eq!(overtaken_by_strangers(waiting, &names[..50], true), 50, "turns of fifty tenants");
    }
}

/// Returns how many grants go to more important requests before a sheddable one is served, if that is within 10,000.
fn passed_over(aging: Option<u32>) -> Option<usize> {
    let mut room = Room::new(Plan { aging, ..plan(1, 10_000) });
    room.ask("a");
    room.arrive("b", 3, None, None);
    (0..10_000).find(|_| {
        room.arrive("a", 0, None, None);
        room.free(0);
        room.granted.last().is_some_and(|caller| caller.level == 3)
    })
}

#[test]
fn without_aging_the_less_important_starve() {
    assert_eq!(passed_over(Some(16)), Some(16));
    assert_eq!(passed_over(None), None);
}

#[test]
fn a_level_that_may_not_run_does_not_hide_one_that_starves() {
    let capped = LabelRule { cap: Some(1), weight: 1 };
    let mut room = Room::new(with_rules(Plan { aging: Some(4), ..plan(2, 1_000) }, [capped]));
    // The slot of "a" is held for ever, and a request of "a" waits for it, at the lowest level.
    room.ask("a");
    room.ask("b");
    room.arrive("a", 3, None, None);
    room.arrive("c", 2, None, None);
    let served = (0..100).find(|_| {
        room.arrive("b", 0, None, None);
        room.free(1);
        room.granted.last().is_some_and(|caller| caller.label == "c")
    });
    assert_eq!(served, Some(4));
}

#[test]
fn a_waiter_that_joins_a_level_that_was_passed_over_takes_turns_at_once() {
    let mut room = Room::new(Plan { aging: None, ..plan(1, 10_000) });
    room.ask("a");
    (0..20).for_each(|_| room.arrive("b", 3, None, None));
    (0..500).for_each(|_| {
        room.arrive("a", 0, None, None);
        room.free(0);
    });
    (0..20).for_each(|_| room.arrive("c", 3, None, None));
    (0..10).for_each(|_| room.free(0));
    let labels: Vec<_> = room.granted.iter().rev().take(10).map(|caller| caller.label).collect();
    assert_eq!(labels.iter().filter(|&&label| label == "c").count(), 5, "{labels:?}");
}
