//! The incident that the two-phase admission comes from, in virtual time.
//!
//! 3,704 tasks of 229 to 245 s arrive in a burst. With 800 slots and a wait of 30 s, most are rejected: no task that
//! waits 30 s for a slot that is held for four minutes gets it. With 200 slots and a queue of 3,600, no task is
//! rejected.

use std::{cmp::Reverse, collections::BinaryHeap, task::Poll, time::Duration};

use crate::{
    Arrival, Ask, Engine, PartitionId, Place, Slot,
    limit::{Fixed, Limit},
    plan::{Bound, PartitionPlan, Places, Plan},
    shares::WHOLE,
};
use crate::{Outcome, Timestamp};

const TASKS: u64 = 3_704;

struct Report {
    rejected: usize,
    served: usize,
    drained: Duration,
    peak_running: usize,
    longest_wait: Duration,
    out_of_order: usize,
}

enum Event {
    Arrive,
    End(Slot),
}

/// Returns how long task `number` takes: 229 to 245 s, scattered evenly over the tasks.
fn duration(number: u64) -> Duration {
    Duration::from_secs(229) + Duration::from_millis(number.wrapping_mul(7_919) % 16_001)
}

fn plan(slots: usize, queue: Option<usize>) -> Plan {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let (line, gate) = match queue {
        None => ((Places::Limit { at_least: 0 }, seconds(30)), (Places::Exactly(0), None)),
        Some(queue) => ((Places::Exactly(queue), None), (Places::Limit { at_least: 0 }, seconds(5))),
    };
    let partitions = vec![PartitionPlan::burst("default", WHOLE)];
    let bound = |(places, wait)| Bound { places, wait };
    Plan { queue, ..Plan::plain(Limit::from(Fixed::new(slots)).into_law(), partitions, bound(line), bound(gate)) }
}

/// Lets the tasks arrive evenly within `spread` and runs until no task is left.
fn run(plan: Plan, spread: Duration) -> Report {
    let mut engine = Engine::new(plan);
    let mut report = Report {
        rejected: 0,
        served: 0,
        drained: Duration::ZERO,
        peak_running: 0,
        longest_wait: Duration::ZERO,
        out_of_order: 0,
    };
    // Events by time; the number keeps ties in order and is the task's.
    let mut agenda: BinaryHeap<Reverse<(Timestamp, u64)>> = BinaryHeap::new();
    let mut events = std::collections::HashMap::new();
    for number in 0..TASKS {
        let at = Timestamp::ZERO.after(spread * u32::try_from(number).unwrap() / u32::try_from(TASKS).unwrap());
        agenda.push(Reverse((at, number)));
        events.insert(number, Event::Arrive);
    }
    let mut waiting: Vec<(u64, Timestamp, Place)> = Vec::new();
    let mut last_granted = 0;
    let mut now;
    loop {
        let next = agenda.peek().map_or(Timestamp::NEVER, |&Reverse((at, _))| at);
        let wakeup = engine.next_wakeup().unwrap_or(Timestamp::NEVER);
        now = next.min(wakeup);
        if now == Timestamp::NEVER {
            break;
        }
        let mut started = Vec::new();
        if wakeup <= next {
            engine.tick(now);
        } else {
            let Reverse((_, number)) = agenda.pop().unwrap();
            match events.remove(&number).unwrap() {
                Event::Arrive => match engine.arrive(now, &Ask::of(PartitionId::DEFAULT)) {
                    Arrival::Admit(slot) => started.push((number, slot)),
                    Arrival::Wait(place) => waiting.push((number, now, place)),
                    Arrival::Ask(..) => unreachable!("no rule is shared"),
                    Arrival::Reject(_) => report.rejected += 1,
                },
                Event::End(mut slot) => {
                    engine.observe(now, &mut slot, Outcome::Success);
                    engine.finish(now, &mut slot);
                    report.served += 1;
                    report.drained = now.since(Timestamp::ZERO);
                }
            }
        }
        while engine.take_notice().is_some() {}
        waiting.retain(|(number, since, place)| match engine.claim(now, place) {
            Poll::Pending => true,
            Poll::Ready(Ok(slot)) => {
                report.longest_wait = report.longest_wait.max(now.since(*since));
                report.out_of_order += usize::from(*number < last_granted);
                last_granted = *number;
                started.push((*number, slot));
                false
            }
            Poll::Ready(Err(_)) => {
                report.rejected += 1;
                false
            }
        });
        for (number, slot) in started {
            agenda.push(Reverse((now.after(duration(number)), number)));
            events.insert(number, Event::End(slot));
        }
        report.peak_running = report.peak_running.max(engine.snapshot().in_flight);
    }
    assert_eq!(report.rejected + report.served, usize::try_from(TASKS).unwrap(), "nobody got lost");
    report
}

#[test]
fn the_short_wait_rejects_most_of_the_burst() {
    for (spread, rejected) in [(0, 2_904), (195, 2_904), (300, 2_104)] {
        let report = run(plan(800, None), Duration::from_secs(spread));
        assert_eq!(report.rejected, rejected, "spread over {spread} s");
        assert_eq!(report.peak_running, 800);
    }
}

#[test]
fn the_queue_serves_all_of_it_in_order() {
    for spread in [0, 60] {
        let report = run(plan(200, Some(3_600)), Duration::from_secs(spread));
        assert_eq!(report.rejected, 0);
        assert_eq!(report.peak_running, 200);
        let minutes = report.drained.as_secs_f64() / 60.0;
        assert!((74.0..=76.0).contains(&minutes), "drained in {minutes} min");
        assert!(report.longest_wait <= Duration::from_secs(72 * 60), "{:?}", report.longest_wait);
        assert_eq!(report.out_of_order, 0, "first come, first served");
    }
}
