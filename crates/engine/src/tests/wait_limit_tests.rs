//! How long a request may wait, by what answers take and by its own deadline.

use std::time::Duration;

use crate::{
    Arrival, Ask, Engine, Outcome, PartitionId, Slot, Timestamp,
    limit::Fixed,
    plan::{Bound, Discipline, PartitionMode, PartitionPlan, Places, Plan},
    shares::WHOLE,
};

const SLOTS: usize = 10;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn admitted(engine: &mut Engine, now: Timestamp) -> Slot {
    let Arrival::Admit(slot) = engine.arrive(now, &Ask::of(PartitionId::DEFAULT)) else { panic!("a slot is free") };
    slot
}

/// For how long a request waits that has so much time, once many slots were held for so long, if no slot comes free.
fn wait(held: Duration, has: Duration) -> Duration {
    let places = |count| Bound { places: Places::Exactly(count), wait: None };
    let mode = PartitionMode::Burst;
    let all = PartitionPlan { name: "default".into(), part: WHOLE, mode, observes: false, withheld: 0 };
    let discipline = Discipline::BurstCredit { longest: ms(800), standing: ms(25), credit: ms(10_000) };
    let plan = Plan::plain(Box::new(Fixed::new(SLOTS)), vec![all], places(100), places(0));
    let mut engine = Engine::new(Plan { discipline, ..plan });
    let mut now = Timestamp::ZERO;
    for _ in 0..100 {
        let mut slot = admitted(&mut engine, now);
        now = now.after(held);
        engine.observe(now, &mut slot, Outcome::Success);
        engine.finish(now, &mut slot);
    }
    let running: Vec<_> = (0..SLOTS).map(|_| admitted(&mut engine, now)).collect();
    let ask = Ask { deadline: now.after(has), ..Ask::of(PartitionId::DEFAULT) };
    assert!(matches!(engine.arrive(now, &ask), Arrival::Wait(_)));
    let ends = engine.next_wakeup().unwrap().since(now);
    drop(running);
    ends
}

#[test]
fn a_wait_leaves_the_time_of_two_answers() {
    assert_eq!(wait(ms(10), ms(1_000)), ms(800), "the control: the longest wait");
    assert_eq!(wait(ms(300), ms(1_000)), ms(400));
    assert_eq!(wait(ms(300), ms(5_000)), ms(800), "the deadline is that of the request");
    assert_eq!(wait(ms(10), ms(300)), ms(280));
}

#[test]
fn where_answers_take_all_of_the_time_a_request_still_waits_for_two_turns() {
    assert_eq!(wait(ms(600), ms(1_000)), ms(120));
    assert_eq!(wait(ms(900), ms(1_000)), ms(180));
    assert_eq!(wait(ms(100), ms(150)), ms(25), "or for as long as it always may");
}
