//! What laws are told of requests: whether an answer came too late, and whether others were refused beside free slots.

use std::{
    cell::Cell,
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::{
    Arrival, Ask, Borrower, Engine, JournalEntry, PartitionId, Reason, Slot, Wanted,
    limit::{Aimd, Gradient2, Limit, LimitAlgorithm, LimitState, Sample, TwoPoint, Vegas},
    plan::{Bound, Mode, PartitionMode, PartitionPlan, Plan},
    shares::WHOLE,
};
use crate::{Outcome, Timestamp, tests::at};

/// A law that keeps its samples.
#[derive(Clone, Debug, Default)]
struct Keeps(Arc<Mutex<Vec<Sample>>>);

impl LimitAlgorithm for Keeps {
    fn limit(&self) -> usize {
        4
    }

    fn on_sample(&mut self, sample: &Sample) {
        self.0.lock().unwrap().push(sample.clone());
    }
}

fn engine(mode: PartitionMode, law: &Keeps) -> Engine {
    let half = |name: &str| PartitionPlan::of(name, WHOLE / 2, mode);
    engine_of(Box::new(law.clone()), vec![half("default"), half("other")])
}

fn engine_of(law: Box<dyn LimitAlgorithm>, partitions: Vec<PartitionPlan>) -> Engine {
    Engine::new(Plan::plain(law, partitions, Bound::of(0, None), Bound::of(0, None)))
}

fn arrive(engine: &mut Engine, now: Timestamp, deadline: Timestamp) -> Option<Slot> {
    match engine.arrive(now, &Ask { deadline, ..Ask::of(PartitionId::DEFAULT) }) {
        Arrival::Admit(slot) => Some(slot),
        _ => None,
    }
}

#[test]
fn samples_at_once_teach_what_they_teach_one_by_one() {
    let laws: [fn() -> Limit; 5] = [
        || Aimd::new(Duration::from_millis(60)).into(),
        || Limit::per_sample(Aimd::new(Duration::from_millis(60))),
        || Gradient2::new().into(),
        || Vegas::new().into(),
        || TwoPoint::new().into(),
    ];
    for law in laws {
        let engine = || engine_of(law().into_law(), vec![PartitionPlan::burst("default", WHOLE)]);
        let (mut at_once, mut one_by_one, mut moves) = (engine(), engine(), 0);
        for batch in 0..400_u64 {
            let before = at_once.limit();
            let sample = |it: u64| {
                let (number, slow) = (batch * 9 + it, batch % 50 > 40);
                let rtt = Duration::from_millis(if slow { 90 } else { 20 } + number * 7 % 30);
                let mut sample = Sample::new(at(number * 5), rtt, before, Outcome::Success);
                (sample.running, sample.weight) = (if number % 100 > 0 { before } else { 0 }, 1 + (number % 5) as u32);
                sample
            };
            let mut samples: Vec<_> = (0..9).map(sample).collect();
            at_once.learn(Borrower::of(PartitionId::DEFAULT), &mut samples.clone(), true);
            for sample in &mut samples {
                one_by_one.learn(Borrower::of(PartitionId::DEFAULT), std::slice::from_mut(sample), true);
            }
            if batch == 0 {
                let listed = |engine: &Engine| engine.journal_since(0, 99, Wanted::Decisions);
                let (last, each) = (listed(&at_once), listed(&one_by_one));
                assert_eq!((last.len(), each.len()), (1, 9), "of many that are told at once the last is listed");
                let told = |entry: &JournalEntry| (entry.at_seconds, entry.in_flight);
                assert_eq!(told(&last[0]), told(&each[8]));
            }
            moves += usize::from(at_once.limit() != before);
            assert_eq!(format!("{:?}", at_once.snapshot()), format!("{:?}", one_by_one.snapshot()), "{batch}");
        }
        assert!(moves > 3, "{moves} {:?}", at_once.snapshot().limit_state);
    }
}

/// Runs a request that takes 10 ms, and returns its sample.
fn sample_of(engine: &mut Engine, law: &Keeps, mut slot: Slot, outcome: Outcome) -> Sample {
    engine.observe(at(10), &mut slot, outcome);
    engine.finish(at(10), &mut slot);
    law.0.lock().unwrap().pop().unwrap()
}

#[test]
fn an_answer_after_its_deadline_is_no_answer_for_a_law() {
    let ended = |deadline, outcome| {
        let law = Keeps::default();
        let mut engine = engine(PartitionMode::Burst, &law);
        let slot = arrive(&mut engine, at(0), deadline).unwrap();
        sample_of(&mut engine, &law, slot, outcome).outcome
    };
    assert_eq!(ended(at(9), Outcome::Success), Outcome::Cancelled);
    assert_eq!(ended(at(9), Outcome::Overload), Outcome::Overload, "what the service says itself stands");
    for in_time in [at(10), at(11), Timestamp::NEVER] {
        assert_eq!(ended(in_time, Outcome::Success), Outcome::Success, "{in_time:?}");
    }
}

#[test]
fn a_law_hears_of_a_refusal_beside_free_slots_once() {
    let law = Keeps::default();
    let mut engine = engine(PartitionMode::HardCap, &law);
    let mut slots: Vec<_> = (0..2).filter_map(|_| arrive(&mut engine, at(0), Timestamp::NEVER)).collect();
    for _ in 0..2 {
        assert!(arrive(&mut engine, at(0), Timestamp::NEVER).is_none(), "two of four slots are its cap");
    }
    assert!(sample_of(&mut engine, &law, slots.remove(0), Outcome::Success).refused);
    assert!(!sample_of(&mut engine, &law, slots.remove(0), Outcome::Success).refused, "none was refused since");
}

/// The control of the test above: without free slots the law sees by itself that the limit is met.
#[test]
fn a_refusal_by_the_limit_itself_is_nothing_new() {
    let law = Keeps::default();
    let mut engine = engine(PartitionMode::Burst, &law);
    let mut slots: Vec<_> = (0..4).filter_map(|_| arrive(&mut engine, at(0), Timestamp::NEVER)).collect();
    assert!(arrive(&mut engine, at(0), Timestamp::NEVER).is_none());
    let sample = sample_of(&mut engine, &law, slots.remove(0), Outcome::Success);
    assert_eq!((sample.refused, sample.in_flight, sample.running), (false, 1, 4));
    slots.iter_mut().for_each(|slot| engine.finish(at(11), slot));
}

thread_local!(static BROKEN: Cell<bool> = const { Cell::new(false) });

/// A law of which only the bounds matter: the limit is the least, until it is broken.
#[derive(Debug)]
struct Least(usize, usize);

impl LimitAlgorithm for Least {
    fn limit(&self) -> usize {
        assert!(!BROKEN.get(), "a law may panic");
        self.0
    }

    fn on_sample(&mut self, _: &Sample) {}

    fn state(&self) -> LimitState {
        LimitState::new("least").within(self.0, self.1)
    }
}

/// An engine with places for waiters, on which a request ran for five seconds and was given up.
fn after_a_late_request(law: Least, mode: PartitionMode, places: usize) -> Engine {
    after_a_request(law, mode, places, Outcome::Cancelled)
}

/// The same for a request that ended in one way or another, after its deadline.
fn after_a_request(law: Least, mode: PartitionMode, places: usize, outcome: Outcome) -> Engine {
    let half = |name: &str| PartitionPlan::of(name, WHOLE / 2, mode);
    let places = Bound::of(places, None);
    let mut engine = Engine::new(Plan::plain(Box::new(law), vec![half("default"), half("other")], places, places));
    let mut slot = arrive(&mut engine, at(0), at(1_000)).unwrap();
    engine.observe(at(5_000), &mut slot, outcome);
    engine.finish(at(5_000), &mut slot);
    engine
}

#[test]
fn nothing_starts_while_a_limit_pauses_and_what_waits_starts_after_it() {
    let mut engine = after_a_late_request(Least(1, 9), PartitionMode::Burst, 2);
    assert!(engine.is_paused() && !engine.is_quiet());
    let snapshot = engine.snapshot();
    assert_eq!((&*snapshot.limit_state.state, snapshot.limit), ("paused", 1));
    assert!(snapshot.limit_state.sentence.contains("no request starts for a while"), "{snapshot:?}");
    assert_eq!(engine.next_change(), at(10_000));
    let mut slot = arrive(&mut engine, at(10_000), Timestamp::NEVER).unwrap();
    engine.observe(at(15_000), &mut slot, Outcome::Cancelled);
    engine.finish(at(15_000), &mut slot);
    let Arrival::Wait(place) = engine.arrive(at(15_000), &Ask::of(PartitionId::DEFAULT)) else { panic!("it waits") };
    let Arrival::Reject(refusal) = engine.arrive_now(at(16_000), &Ask::of(PartitionId::DEFAULT)) else { panic!() };
    assert_eq!((refusal.reason, refusal.retry_after), (Reason::Limit, Duration::from_secs(14)));
    assert_eq!(engine.next_wakeup(), Some(at(30_000)), "a driver wakes the waiter");
    engine.tick(at(29_999));
    assert_eq!((engine.running(), engine.take_notice()), (0, None));
    engine.tick(at(30_000));
    assert_eq!((engine.running(), engine.take_notice(), engine.is_paused()), (1, Some(place.key()), false));
}

#[test]
fn no_request_waits_in_a_pause_for_a_guarantee_or_beyond_its_deadline() {
    let reason = |places, deadline| {
        let mut engine = after_a_late_request(Least(1, 9), PartitionMode::Burst, places);
        let ask = Ask { deadline, ..Ask::of(PartitionId::DEFAULT) };
        match engine.arrive(at(9_000), &ask) {
            Arrival::Reject(refusal) => Some(refusal.reason),
            _ => None,
        }
    };
    assert_eq!(reason(0, Timestamp::NEVER), Some(Reason::Limit), "no slot comes to the share");
    assert_eq!(reason(1, at(9_800)), Some(Reason::Deadline), "the pause ends later");
    assert_eq!(reason(1, Timestamp::NEVER), None);
    let left = |mode| after_a_late_request(Least(1, 9), mode, 0).capacity.pause_left(at(9_000), PartitionId::DEFAULT);
    assert_eq!([PartitionMode::Burst, PartitionMode::Overcommit].map(left), [1, 0].map(Duration::from_secs));
}

/// Work that takes longer than its callers wait would else stop all others: after each pause it is the first to run.
#[test]
fn an_answer_that_comes_too_late_begins_no_pause() {
    let is_paused = |outcome| after_a_request(Least(1, 9), PartitionMode::Burst, 2, outcome).is_paused();
    assert!(!is_paused(Outcome::Success) && is_paused(Outcome::Cancelled), "the work of the other may go on");
}

#[test]
fn an_answer_and_a_mode_end_a_pause_and_a_fixed_limit_has_none() {
    let paused = || after_a_late_request(Least(1, 9), PartitionMode::Burst, 2);
    let runs = |engine: &mut Engine| arrive(engine, at(5_500), Timestamp::NEVER).is_some();
    assert!(!runs(&mut paused()));
    let mut answered = after_a_late_request(Least(2, 9), PartitionMode::Burst, 2);
    assert!(!answered.is_paused(), "two slots take two late requests");
    let [mut late, mut other] = [(); 2].map(|()| arrive(&mut answered, at(5_000), Timestamp::NEVER).unwrap());
    answered.observe(at(10_000), &mut late, Outcome::Cancelled);
    answered.finish(at(10_000), &mut late);
    assert!(answered.is_paused());
    let Arrival::Wait(_) = answered.arrive(at(10_000), &Ask::of(PartitionId::DEFAULT)) else { panic!("it waits") };
    answered.observe(at(10_005), &mut other, Outcome::Success);
    assert_eq!((answered.is_paused(), answered.running()), (false, 2), "and the waiter runs");
    let mut at_least = paused();
    for (now, outcome) in [(10_000, Outcome::Success), (15_000, Outcome::Cancelled)] {
        let mut slot = arrive(&mut at_least, at(now), Timestamp::NEVER).unwrap();
        at_least.observe(at(now + 5_000), &mut slot, outcome);
        at_least.finish(at(now + 5_000), &mut slot);
    }
    assert_eq!(at_least.next_change(), at(25_000), "after an answer, the next pause is as short as the first");
    let mut observed = paused();
    observed.set_mode(at(5_250), Mode::Observe);
    assert!(runs(&mut observed));
    assert!(runs(&mut after_a_late_request(Least(4, 4), PartitionMode::Burst, 2)), "the limit was set");
    assert!(
        runs(&mut after_a_late_request(Least(1, 9), PartitionMode::Overcommit, 2)),
        "this partition has a slot of its own"
    );
}

/// The control: a law that looks at half of its limit cuts what brings nothing, and pauses at its least limit only.
#[test]
fn a_limit_that_comes_down_step_by_step_pauses_before_it_is_at_its_least() {
    let paused_at = |law: Box<dyn LimitAlgorithm>| {
        let mut engine = engine_of(law, vec![PartitionPlan::burst("default", WHOLE)]);
        let paused = (1..200).find(|number| {
            let mut slot = arrive(&mut engine, at(number * 5_000), at(number * 5_000 + 1_000)).unwrap();
            engine.observe(at(number * 5_000 + 4_000), &mut slot, Outcome::Cancelled);
            engine.finish(at(number * 5_000 + 4_000), &mut slot);
            engine.is_paused()
        });
        (paused, engine.snapshot().limit)
    };
    let gradient = |initial| paused_at(Box::new(Gradient2::new().initial(initial).min(5)));
    assert_eq!([20, 6].map(gradient), [(Some(80), 1), (Some(32), 1)], "four rounds, and no fewer than 32");
    assert_eq!(paused_at(Box::new(TwoPoint::new().initial(20))), (None, 20));
}

#[test]
fn after_a_pause_each_answer_in_time_lets_one_more_request_run() {
    let mut engine = after_a_late_request(Least(3, 9), PartitionMode::Burst, 0);
    let end = |engine: &mut Engine, now, mut slot, outcome| {
        engine.observe(now, &mut slot, outcome);
        engine.finish(now, &mut slot);
    };
    let late = [(); 2].map(|()| arrive(&mut engine, at(5_000), Timestamp::NEVER).unwrap());
    late.into_iter().for_each(|slot| end(&mut engine, at(10_000), slot, Outcome::Cancelled));
    assert!(engine.is_paused());
    let limits = [1, 2, 3, 4].map(|second| {
        let now = at(60_000 + second * 1_000);
        let running: Vec<_> = std::iter::from_fn(|| arrive(&mut engine, now, Timestamp::NEVER)).collect();
        let (snapshot, count) = (engine.snapshot(), running.len());
        running.into_iter().for_each(|slot| end(&mut engine, at(60_500 + second * 1_000), slot, Outcome::Success));
        (snapshot.limit, count, &*snapshot.limit_state.state == "resuming")
    });
    assert_eq!(limits, [(1, 1, true), (2, 2, true), (3, 3, false), (3, 3, false)], "no more than the law says");
}

#[test]
fn a_law_that_panics_after_a_pause_leaves_the_limit_as_it_is() {
    let mut engine = after_a_late_request(Least(1, 9), PartitionMode::Burst, 0);
    let mut slot = arrive(&mut engine, at(60_000), Timestamp::NEVER).unwrap();
    BROKEN.set(true);
    engine.observe(at(60_005), &mut slot, Outcome::Success);
    engine.finish(at(60_005), &mut slot);
    BROKEN.set(false);
    assert_eq!((engine.snapshot().limit, engine.is_paused()), (1, false));
}
