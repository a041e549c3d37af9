//! The engine against a naive model: the same random verbs, the same answers.
//!
//! The model stores all requests in one list in order of arrival and looks at all of them each time. It shares nothing
//! with the engine but the arithmetic of shares, which has tests of its own. Where the engine may choose among equals,
//! and where it estimates, the model asks it and checks that the choice is allowed. Models that are wrong on purpose,
//! at the end, show that the comparison can fail.

mod arrive;
mod compare;
mod labels;
mod model;
mod pair;
mod queue;
mod reload;
mod reserved;
mod room;
mod setup;

use std::time::Duration;

use proptest::{prelude::*, strategy::ValueTree};

use self::{
    pair::{Pair, Verb},
    setup::{LABELS, LabelSetup, Mistake, NAMESPACES, Name, RUNS, Request, SECOND, Setup},
};
use crate::{
    kept_tests::seeds,
    plan::{Discipline, LabelRule, Mode, PartitionMode},
    shares::WHOLE,
    tests::cases,
};

fn modes() -> impl Strategy<Value = PartitionMode> {
    prop_oneof![2 => Just(PartitionMode::Burst), 1 => Just(PartitionMode::HardCap), 1 => Just(PartitionMode::Overcommit)]
}

fn parts() -> impl Strategy<Value = Vec<(u32, PartitionMode)>> {
    let parts = prop_oneof![
        4 => Just(vec![WHOLE]),
        1 => Just(vec![0, WHOLE]),
        2 => Just(vec![400_000, 600_000]),
        1 => Just(vec![100_000, 300_000, 600_000]),
        1 => Just(vec![0, 10_000, 490_000, 500_000]),
    ];
    parts.prop_flat_map(|parts| {
        let count = parts.len();
        prop::collection::vec(modes(), count).prop_map(move |modes| parts.iter().copied().zip(modes).collect())
    })
}

fn disciplines() -> impl Strategy<Value = Discipline> {
    let adaptive = (1u64..2 * SECOND, 1u64..SECOND).prop_map(|(interval, short_wait)| Discipline::AdaptiveLifo {
        interval: Duration::from_nanos(interval),
        short_wait: Duration::from_nanos(short_wait),
    });
    prop_oneof![2 => Just(Discipline::Fair), 1 => Just(Discipline::Fifo), 1 => adaptive]
}

fn rules() -> impl Strategy<Value = LabelRule> {
    let cap = prop_oneof![2 => Just(None), 1 => (1usize..4).prop_map(Some)];
    let weight = prop_oneof![3 => Just(1u32), 1 => Just(2), 1 => Just(4)];
    (cap, weight).prop_map(|(cap, weight)| LabelRule { cap, weight })
}

fn label_setups() -> impl Strategy<Value = LabelSetup> {
    let rule = (prop::option::of(0..NAMESPACES.len()), 0..LABELS.len(), rules());
    let max_labels = prop_oneof![1usize..4, Just(100)];
    let max_waiting = prop_oneof![1usize..7, Just(100)];
    let max_waiting_per_run = prop_oneof![1usize..5, Just(100)];
    let wait = prop::option::of(1u64..10);
    (max_labels, max_waiting, max_waiting_per_run, wait, any::<bool>(), rules(), prop::collection::vec(rule, 0..5))
        .prop_map(|(max_labels, max_waiting, max_waiting_per_run, wait, enforce_workers, default, rules)| LabelSetup {
            max_labels,
            max_waiting,
            max_waiting_per_run,
            wait,
            enforce_workers,
            default,
            rules,
        })
}

fn setups() -> impl Strategy<Value = Setup> {
    prop_oneof![4 => mixed(), 2 => crowded(), 1 => shedding()]
}

/// Setups without waiting, so slots are held back for partitions, labels and levels.
fn shedding() -> impl Strategy<Value = Setup> {
    (mixed(), 2usize..9).prop_map(|(setup, limit)| Setup { limit, queue: None, extra: 0, ..setup })
}

/// Setups with few slots and many places, so that the order of turns matters.
fn crowded() -> impl Strategy<Value = Setup> {
    let caps = prop::collection::vec(1usize..3, LABELS.len());
    (mixed(), 1usize..5, 5usize..30, caps).prop_map(|(mut setup, limit, places, caps)| {
        setup.parts = vec![(WHOLE, PartitionMode::Burst)];
        setup.queue = setup.queue.map(|_| places);
        setup.extra = places;
        setup.time_to_live = None;
        if setup.discipline == Discipline::Fifo {
            setup.discipline = Discipline::Fair;
        }
        let labels = &mut setup.labels;
        (labels.max_labels, labels.max_waiting, labels.max_waiting_per_run) = (100, 100, 100);
        let rule = |(label, cap)| (None, label, LabelRule { cap: Some(cap), weight: 1 });
        labels.rules.extend(caps.into_iter().enumerate().filter(|&(_, cap)| cap < limit).map(rule));
        Setup { limit, line_wait: None, gate_wait: 100, ..setup }
    })
}

fn mixed() -> impl Strategy<Value = Setup> {
    let queue = prop::option::of(1usize..9);
    let waits = (prop::option::of(1u64..10), 1u64..5, prop::option::of(1u64..5));
    let aging = prop::option::weighted(0.8, 1u32..5);
    (1usize..8, parts(), queue, 0usize..6, waits, disciplines(), aging, label_setups()).prop_map(
        |(limit, parts, queue, extra, (line_wait, gate_wait, time_to_live), discipline, aging, labels)| Setup {
            limit,
            parts,
            queue,
            extra,
            line_wait,
            gate_wait,
            discipline,
            aging,
            labels,
            time_to_live,
        },
    )
}

fn names() -> impl Strategy<Value = Name> {
    let few = 0..3usize;
    (prop_oneof![5 => Just(0), 1 => Just(1usize)], prop_oneof![3 => few, 1 => 0..LABELS.len()])
}

fn requests() -> impl Strategy<Value = Request> {
    let name = prop::option::weighted(0.8, names());
    let run = prop::option::weighted(0.3, 0..RUNS.len());
    let level = prop_oneof![3 => Just(1usize), 2 => 0usize..4];
    let deadline_in = prop_oneof![2 => Just(None), 1 => (0..8 * SECOND).prop_map(Some), 1 => Just(Some(5 * SECOND))];
    (0usize..4, name, run, level, deadline_in).prop_map(|(partition, name, run, level, deadline_in)| Request {
        partition,
        name,
        run,
        level,
        deadline_in,
    })
}

fn verbs() -> impl Strategy<Value = Vec<Verb>> {
    // A handle that drains has little left to show.
    let close = (0..6, any::<bool>()).prop_map(|(n, serves)| if n == 0 { Verb::Close(serves) } else { Verb::Tick });
    let verb = prop_oneof![
        16 => requests().prop_map(Verb::Arrive),
        2 => requests().prop_map(Verb::ArriveWithoutWaiting),
        8 => (0usize..64).prop_map(Verb::Claim),
        3 => (0usize..64).prop_map(Verb::Cancel),
        9 => (0usize..64).prop_map(Verb::Finish),
        3 => (0usize..64).prop_map(Verb::Observe),
        1 => (names(), 0usize..3, 0usize..3, 0..8 * SECOND)
            .prop_map(|(name, worker, slots, valid)| Verb::Report { name, worker, slots, valid }),
        1 => (1..2 * SECOND).prop_map(Verb::Learn),
        1 => (names(), 0usize..3).prop_map(|(name, worker)| Verb::RemoveWorker { name, worker }),
        1 => (1usize..9).prop_map(Verb::Resize),
        1 => prop_oneof![6 => Just(Mode::Enforce), 1 => Just(Mode::Observe), 1 => Just(Mode::Off)].prop_map(Verb::SetMode),
        1 => setups().prop_map(Verb::Reload),
        1 => close,
        2 => Just(Verb::Tick),
        5 => prop_oneof![8 => 0..3 * SECOND, 1 => Just(700 * SECOND)].prop_map(Verb::Pass),
    ];
    prop::collection::vec(verb, 1..200)
}

fn run(setup: &Setup, verbs: &[Verb], mistake: Mistake) -> Result<(), TestCaseError> {
    let mut pair = Pair::new(setup, mistake);
    verbs.iter().try_for_each(|verb| pair.step(verb))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(1_000),
        max_shrink_iters: 20_000,
        failure_persistence: seeds(),
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_engine_does_what_the_model_does(setup in setups(), verbs in verbs()) {
        run(&setup, &verbs, Mistake::None)?;
    }
}

#[test]
fn a_model_with_a_mistake_is_found_out() {
    const MOST: usize = 5_000;
    for mistake in Mistake::ALL {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let found = (0..MOST).any(|_| {
            let setup = setups().new_tree(&mut runner).unwrap().current();
            let verbs = verbs().new_tree(&mut runner).unwrap().current();
            let outcome = std::panic::catch_unwind(|| run(&setup, &verbs, mistake));
            !matches!(outcome, Ok(Ok(())))
        });
        assert!(found, "{mistake:?} went unnoticed in {MOST} runs");
    }
}
