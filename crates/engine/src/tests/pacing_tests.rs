//! Requests that may wait start one after the other where a law wants that, and none waits for longer than it must.

use std::time::Duration;

use proptest::prelude::*;

use crate::{
    Arrival, Ask, Engine, Outcome, PartitionId, Slot, Timestamp,
    ids::Key,
    limit::{LimitAlgorithm, Sample},
    plan::{Bound, Mode, PartitionMode, PartitionPlan, Plan},
    shares::WHOLE,
};

/// A law that wants this time from one start to the next from its first sample on, and up to so many.
#[derive(Clone, Copy, Debug)]
struct Paced {
    limit: usize,
    gap: Duration,
    samples: usize,
    until: usize,
}

impl LimitAlgorithm for Paced {
    fn limit(&self) -> usize {
        self.limit
    }

    fn on_sample(&mut self, _: &Sample) {
        self.samples += 1;
    }

    fn pacing(&self) -> Duration {
        if (1..self.until).contains(&self.samples) { self.gap } else { Duration::ZERO }
    }
}

fn at(micros: u64) -> Timestamp {
    Timestamp::ZERO.after(Duration::from_micros(micros))
}

fn plan(limit: usize, gap: Duration, line: usize) -> Plan {
    let law = Paced { limit, gap, samples: 0, until: usize::MAX };
    let places = |count| Bound::of(count, None);
    let all = PartitionPlan::burst("default", WHOLE);
    Plan::plain(Box::new(law), vec![all], places(line), places(0))
}

fn ask() -> Ask<'static> {
    Ask::of(PartitionId::DEFAULT)
}

/// An engine whose law has had its sample by 1 ms.
fn paced(limit: usize, gap_millis: u64, line: usize) -> Engine {
    let mut engine = Engine::new(plan(limit, Duration::from_millis(gap_millis), line));
    let Arrival::Admit(slot) = engine.arrive(at(0), &ask()) else { panic!("the first one runs") };
    end(&mut engine, at(1_000), slot);
    engine
}

fn end(engine: &mut Engine, now: Timestamp, mut slot: Slot) {
    engine.observe(now, &mut slot, Outcome::Success);
    engine.finish(now, &mut slot);
}

fn end_at_once(engine: &mut Engine, now: Timestamp) {
    let slot = engine.arrive_without_waiting(now, &ask()).unwrap();
    end(engine, now, slot);
}

fn waits(engine: &mut Engine, now: Timestamp) -> Key {
    let Arrival::Wait(place) = engine.arrive(now, &ask()) else { panic!("it waits") };
    place.key()
}

#[test]
fn waiters_start_one_after_the_other_although_slots_are_free() {
    let mut engine = paced(100, 10, 100);
    assert!(engine.is_paused() && !engine.is_quiet(), "no slot is lent");
    let Arrival::Admit(first) = engine.arrive(at(20_000), &ask()) else { panic!("no start is due before it") };
    let (second, third) = (waits(&mut engine, at(20_000)), waits(&mut engine, at(21_000)));
    assert_eq!(engine.next_wakeup(), Some(at(28_000)), "two milliseconds are the credit of a late timer");
    end(&mut engine, at(25_000), first);
    assert_eq!(engine.take_notice(), None, "a slot that comes free starts none sooner");
    assert!(engine.arrive_without_waiting(at(25_000), &ask()).is_ok(), "a request that may not wait is not held back");
    // However many such requests start, they don't hold back those that wait.
    (0..50).for_each(|_| end_at_once(&mut engine, at(25_000)));
    assert_eq!(engine.next_wakeup(), Some(at(28_000)));
    engine.tick(at(27_999));
    assert_eq!(engine.take_notice(), None);
    engine.tick(at(28_000));
    assert_eq!((engine.take_notice(), engine.take_notice()), (Some(second), None));
    engine.tick(at(38_000));
    assert_eq!(engine.take_notice(), Some(third));
    let snapshot = engine.snapshot();
    assert_eq!(snapshot.limit_state.pacing_seconds, Some(0.01));
    assert!(snapshot.limit_state.sentence.contains("starts are 10 ms apart"), "{}", snapshot.limit_state.sentence);
}

#[test]
fn a_partition_with_slots_of_its_own_does_not_end_pacing_for_others() {
    let half = |name: &str, mode| PartitionPlan::of(name, WHOLE / 2, mode);
    let partitions = vec![half("default", PartitionMode::Burst), half("own", PartitionMode::Overcommit)];
    let mut engine = Engine::new(Plan { partitions, ..plan(100, Duration::from_millis(10), 100) });
    let Arrival::Admit(slot) = engine.arrive(at(0), &ask()) else { panic!("the first one runs") };
    end(&mut engine, at(1_000), slot);
    let Arrival::Admit(first) = engine.arrive(at(20_000), &ask()) else { panic!("no start is due before it") };
    let waiters = [waits(&mut engine, at(20_000)), waits(&mut engine, at(20_000))];
    end(&mut engine, at(21_000), first);
    assert_eq!(engine.take_notice(), None);
    for (key, due) in waiters.into_iter().zip([28_000, 38_000]) {
        engine.tick(at(due));
        assert_eq!((engine.take_notice(), engine.take_notice()), (Some(key), None));
    }
}

#[test]
fn starts_that_a_timer_is_late_for_happen_together() {
    let law = Paced { limit: 100, gap: Duration::from_micros(250), samples: 1, until: usize::MAX };
    let mut engine = Engine::new(Plan { law: Box::new(law), ..plan(100, Duration::ZERO, 100) });
    let Arrival::Admit(slot) = engine.arrive(at(0), &ask()) else { panic!("the first one runs") };
    end(&mut engine, at(1_000), slot);
    let started = (0..50).filter(|_| matches!(engine.arrive(at(20_000), &ask()), Arrival::Admit(_))).count();
    assert_eq!(started, 9, "of two milliseconds, and the one that is due now");
    engine.tick(at(21_100));
    let granted = std::iter::from_fn(|| engine.take_notice()).count();
    assert_eq!(granted, 4, "1.1 ms later");
}

#[test]
fn no_request_is_rejected_for_pacing_alone() {
    let mut engine = paced(100, 10, 0);
    for _ in 0..50 {
        assert!(matches!(engine.arrive(at(20_000), &ask()), Arrival::Admit(_)), "there is no line to wait in");
    }
    let mut engine = paced(100, 10, 5);
    engine.set_mode(at(20_000), Mode::Observe);
    for _ in 0..50 {
        assert!(matches!(engine.arrive(at(20_000), &ask()), Arrival::Admit(_)), "nothing binds in a dry run");
    }
    assert_eq!(engine.snapshot().in_flight, 50);
}

#[test]
fn a_waiter_starts_when_it_is_due_where_the_law_wants_no_pacing_meanwhile() {
    let law = Paced { limit: 100, gap: Duration::from_millis(10), samples: 0, until: 17 };
    let mut engine = Engine::new(Plan { law: Box::new(law), ..plan(100, Duration::ZERO, 100) });
    let Arrival::Admit(slot) = engine.arrive(at(0), &ask()) else { panic!("the first one runs") };
    end(&mut engine, at(1_000), slot);
    for _ in 0..15 {
        end_at_once(&mut engine, at(1_000));
    }
    let Arrival::Admit(mut streams) = engine.arrive(at(20_000), &ask()) else { panic!("no start is due before it") };
    let waiter = waits(&mut engine, at(20_000));
    // The answer begins, and its slot does not come free.
    engine.observe(at(21_000), &mut streams, Outcome::Success);
    assert_eq!(engine.next_wakeup(), Some(at(28_000)), "a driver wakes it");
    engine.tick(at(28_000));
    assert_eq!(engine.take_notice(), Some(waiter));
    assert!(
        matches!(engine.arrive(at(28_000), &ask()), Arrival::Admit(_)) && engine.is_quiet(),
        "no start is held back then"
    );
}

#[test]
fn a_reload_and_a_mode_that_binds_nothing_end_pacing() {
    let waiting = || {
        let mut engine = paced(100, 10, 100);
        assert!(matches!(engine.arrive(at(20_000), &ask()), Arrival::Admit(_)));
        let waiters: Vec<_> = (0..3).map(|_| waits(&mut engine, at(20_000))).collect();
        (engine, waiters)
    };
    let notices = |engine: &mut Engine| std::iter::from_fn(|| engine.take_notice()).collect::<Vec<_>>();
    let (mut engine, waiters) = waiting();
    engine.reload(at(21_000), plan(100, Duration::from_millis(10), 100));
    assert_eq!(notices(&mut engine), waiters, "the new law has no sample");
    for mode in [Mode::Observe, Mode::Off] {
        let (mut engine, waiters) = waiting();
        engine.set_mode(at(21_000), mode);
        assert_eq!(notices(&mut engine), waiters, "{mode:?}");
    }
}

proptest! {
    /// Whatever comes and goes, starts are as far apart as the law wants, but for the credit of a late timer; and a driver that wakes
    /// the engine when it asks for that starts each waiter.
    #[test]
    fn no_burst_starts_and_no_wakeup_is_lost(
        gap in 1_u64..20_000,
        limit in 1_usize..20,
        steps in prop::collection::vec((0_u8..4, 0_u64..15_000), 1..200),
    ) {
        let mut engine = Engine::new(plan(limit, Duration::from_micros(gap), 1_000));
        let Arrival::Admit(slot) = engine.arrive(at(0), &ask()) else { panic!("the first one runs") };
        end(&mut engine, at(0), slot);
        let (mut now, mut running, mut waiting, mut starts) = (1, Vec::new(), Vec::new(), Vec::new());
        let steps = steps.into_iter().chain((0..2_000).map(|_| (4, 20_000)));
        for (step, later) in steps {
            let wakeup = engine.next_wakeup().map_or(u64::MAX, |it| it.as_nanos().div_ceil(1_000));
            now = (now + later).min(wakeup.max(now));
            match step {
                0 | 1 => match engine.arrive(at(now), &ask()) {
                    Arrival::Admit(slot) => {
                        starts.push(now);
                        running.push(slot);
                    }
                    Arrival::Wait(place) => waiting.push(place),
                    _ => prop_assert!(false, "a line of a thousand has room"),
                },
                2 if !waiting.is_empty() => engine.cancel(at(now), &waiting.swap_remove(0)),
                _ => if let Some(slot) = running.pop() { end(&mut engine, at(now), slot) },
            }
            engine.tick(at(now));
            while let Some(key) = engine.take_notice() {
                let place = waiting.iter().position(|place| place.key() == key).map(|index| waiting.remove(index));
                if let Some(Ok(slot)) = place.map(|place| match engine.claim(at(now), &place) {
                    std::task::Poll::Ready(answer) => answer,
                    std::task::Poll::Pending => panic!("it was granted"),
                }) {
                    starts.push(now);
                    running.push(slot);
                }
            }
        }
        prop_assert!(waiting.is_empty(), "{} wait although {} of {limit} run", waiting.len(), engine.running());
        let together = (2_000 / gap).max(1) as usize + 1;
        for many in starts.windows(together + 1) {
            prop_assert!(many[together] > many[0], "{many:?} start at once, {gap} us apart");
        }
    }
}
