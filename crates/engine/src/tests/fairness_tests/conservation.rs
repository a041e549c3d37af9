//! No request gets lost, and everything that is counted is counted back.

use proptest::prelude::*;

use super::{super::cases, *};

#[derive(Clone, Debug)]
enum Step {
    Ask { label: usize, level: usize, run: Option<usize>, deadline_in: Option<u64> },
    Free(usize),
    Leave(usize),
    Pass(u64),
    Report { label: usize, slots: usize },
}

const RUNS: [&str; 3] = ["one", "two", "three"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let deadline_in = prop::option::of(0u64..5_000);
    let step = prop_oneof![
        8 => (0..NAMES.len(), 0usize..4, prop::option::of(0..RUNS.len()), deadline_in)
            .prop_map(|(label, level, run, deadline_in)| Step::Ask { label, level, run, deadline_in }),
        5 => (0usize..64).prop_map(Step::Free),
        2 => (0usize..64).prop_map(Step::Leave),
        3 => (0u64..2_000).prop_map(Step::Pass),
        1 => (0..NAMES.len(), 0usize..3).prop_map(|(label, slots)| Step::Report { label, slots }),
    ];
    prop::collection::vec(step, 1..300)
}

fn plans() -> impl Strategy<Value = Plan> {
    let disciplines = prop_oneof![
        Just(Discipline::Fifo),
        Just(Discipline::Fair),
        Just(Discipline::AdaptiveLifo { interval: SECOND, short_wait: SECOND / 10 }),
    ];
    let bounds = (1usize..6, 0usize..6, 0usize..6, prop::option::of(1u64..4), prop::option::of(1u64..4));
    (bounds, disciplines, prop::option::of(1usize..3), 1usize..8).prop_map(
        |((slots, places, gate, wait, time_to_live), discipline, cap, max_labels)| {
            let mut plan = plan(slots, places);
            if places > 0 {
                plan.queue = Some(places);
                plan.gate = Bound::of(gate, Some(SECOND));
            }
            plan.discipline = discipline;
            plan.time_to_live = time_to_live.map(Duration::from_secs);
            plan.labels.wait = wait.map(Duration::from_secs);
            plan.labels.default.cap = cap;
            plan.labels.max_labels = max_labels;
            plan.labels.max_waiting_per_run = 2;
            plan.labels.enforce_workers = true;
            plan
        },
    )
}

/// Asserts that every request that came is running, waiting, finished, rejected or has left.
fn nobody_is_lost(room: &Room) -> Result<(), TestCaseError> {
    let snapshot = room.engine.snapshot();
    prop_assert_eq!(snapshot.waiting + snapshot.at_gate, room.waiting.len());
    prop_assert_eq!(snapshot.rejected(), room.refused.len() as u64);
    let left = snapshot.partitions[0].cancelled_waiting;
    prop_assert_eq!(room.arrived, snapshot.admitted() + snapshot.rejected() + left + room.waiting.len() as u64);
    prop_assert!(snapshot.in_flight <= snapshot.limit && snapshot.in_flight <= room.running.len());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(256), ..ProptestConfig::default() })]

    #[test]
    fn no_request_is_lost_and_every_count_returns_to_zero(plan in plans(), steps in steps()) {
        let mut room = Room::new(plan);
        for step in steps {
            match step {
                Step::Ask { label, level, run, deadline_in } => {
                    room.arrive(NAMES[label], level, run.map(|run| RUNS[run]), deadline_in.map(Duration::from_millis));
                }
                Step::Free(which) => room.free(which),
                Step::Leave(which) => room.leave(which),
                Step::Pass(time) => room.pass(Duration::from_millis(time)),
                Step::Report { label, slots } => {
                    let subject = Subject::new("", NAMES[label], None);
                    room.engine.report_worker(room.now, None, &subject, "worker", Some((slots, SECOND)));
                    room.answer();
                }
            }
            nobody_is_lost(&room)?;
        }
        // Workers fall silent and are forgotten, and all requests end.
        room.pass(700 * SECOND);
        while !room.waiting.is_empty() {
            room.leave(0);
        }
        while !room.running.is_empty() {
            room.free(0);
        }
        room.pass(SECOND);
        let engine = &room.engine;
        prop_assert_eq!((engine.capacity.running(), engine.queue.lengths().all()), (0, 0));
        prop_assert_eq!((engine.quotas.active(), engine.capacity.levels()), (0, [0; 4]));
        prop_assert!(engine.slot_ttl.holders().is_empty() && engine.queue.is_clean());
        for id in engine.quotas.ids() {
            let label = engine.quotas.label(id);
            prop_assert!(label.running == 0 && label.waiting == 0 && label.workers.is_none());
        }
    }
}
