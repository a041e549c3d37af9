//! Sixteen tasks do all that can be done with a handle.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use super::{bounds, fixed, poll_once};
use crate::{
    Admission, AdmissionBuilder, Outcome, Ticket,
    explore::{block_on, explore, thread},
    percent,
};

const TASKS: usize = 14;
const ROUNDS: usize = 3;

fn settings(limit: usize) -> AdmissionBuilder {
    fixed(limit).partition("a", percent(40)).partition("b", percent(20).hard_cap())
}

fn ticket(task: usize, round: usize) -> Ticket<'static> {
    let ticket = match task % 3 {
        0 => Ticket::new(),
        1 => Ticket::new().partition("a"),
        _ => Ticket::new().partition("b"),
    };
    match (task + round) % 4 {
        0 => ticket.label("one"),
        1 => ticket.label("two"),
        _ => ticket,
    }
}

/// A request that is served, or that cancels after a look.
fn round(admission: &Admission, task: usize, round: usize, served: &AtomicUsize) {
    let mut admit = Box::pin(admission.admit(ticket(task, round)));
    if (task + 3 * round) % 5 == 0 {
        // It may have been admitted at once.
        if let std::task::Poll::Ready(answer) = poll_once(&mut admit) {
            served.fetch_add(1, SeqCst);
            answer.expect("it is served").finish(Outcome::Success);
        }
        return;
    }
    let mut permit = block_on(admit).expect("it is served");
    served.fetch_add(1, SeqCst);
    if task % 2 == 0 {
        permit.observe(Outcome::Success);
    }
    thread::yield_now();
    drop(permit);
}

/// Arrivals in partitions, with and without labels, cancellations, reloads and snapshots: all are served or gone in the
/// end, each once, and no slot is lost.
pub fn a_crowd_is_served() {
    explore("a_crowd_is_served", bounds(0, 1_000), || {
        let admission = settings(4).build().expect("good settings");
        let served = Arc::new(AtomicUsize::new(0));
        let mut tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let (admission, served) = (admission.clone(), Arc::clone(&served));
                thread::spawn(move || (0..ROUNDS).for_each(|it| round(&admission, task, it, &served)))
            })
            .collect();
        let reloads = admission.clone();
        tasks.push(thread::spawn(move || {
            for limit in [2, 64, 1, 4] {
                reloads.reload(settings(limit)).expect("good settings");
                thread::yield_now();
            }
        }));
        let looks = admission.clone();
        tasks.push(thread::spawn(move || {
            for _ in 0..4 {
                let it = looks.snapshot();
                assert!(it.in_flight <= 64, "{} requests run", it.in_flight);
                let running: usize = it.partitions.iter().map(|it| it.in_flight).sum();
                assert_eq!(running, it.in_flight, "partitions and handle agree");
                thread::yield_now();
            }
        }));
        tasks.into_iter().for_each(|it| it.join().expect("it ends"));
        let it = admission.snapshot();
        assert_eq!((it.in_flight, it.waiting), (0, 0), "nothing runs or waits");
        let held: Vec<_> = std::iter::from_fn(|| admission.try_admit(Ticket::new()).ok()).take(9).collect();
        assert_eq!(held.len(), 4, "no slot is lost");
    });
}
