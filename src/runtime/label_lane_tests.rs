//! Lanes for labels. A quiet handle lends slots to labels. Caps bind there while the limit, the caps and the threads change.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
};

use super::quiet_tests::{Op, Settings, World};
use crate::{Admission, Criticality, Labels, Outcome, PartitionMode, Permit, Ticket, limit::Fixed};

/// A request with a label arrives, and waits if it has to.
fn of(label: usize) -> Op {
    Op::Arrive { partition: 1, criticality: Criticality::Critical, label: Some(label), timeout: None, waits: true }
}

/// A handle with these settings, after requests of two of them, one at a time.
fn world(settings: Settings) -> World {
    let mut world = World::new(settings, 1);
    for round in 0..200 {
        assert_eq!(world.step(&of(round % 2)), "admitted");
        world.step(&Op::Finish(0, Outcome::Success));
    }
    world
}

const SETTINGS: Settings =
    Settings { limit: 40, queue: 4, is_learned: false, second: PartitionMode::Burst, label_cap: 3 };

/// The control for requests with a label, whose cap binds on lent slots as well.
#[test]
fn a_quiet_handle_lends_to_labels() {
    let mut world = world(SETTINGS);
    for label in [0, 1, 0, 1, 0, 1] {
        assert_eq!(world.step(&of(label)), "admitted");
    }
    assert!(world.permits.iter().all(Permit::is_lent), "{:?}", world.permits);
    assert_eq!(world.step(&of(0)), "waits");
    let snapshot = world.admission.snapshot();
    let counts = snapshot.labels.iter().map(|it| (&*it.name, it.in_flight, it.waiting, it.admitted));
    assert_eq!(counts.collect::<Vec<_>>(), [("a", 3, 1, 103), ("b", 3, 0, 103)]);
}

#[test]
fn a_cap_that_shrinks_binds_on_slots_that_are_lent() {
    let mut world = world(Settings { label_cap: 5, ..SETTINGS });
    let leave = |number| Op::Finish(number, Outcome::Success);
    (0..5).for_each(|_| assert_eq!(world.step(&of(0)), "admitted"));
    assert!(world.permits.iter().all(Permit::is_lent));
    world.step(&Op::Reload(Settings { label_cap: 2, ..SETTINGS }));
    // Slots are lent again, while five of the label run.
    while !world.permits.get(5).is_some_and(Permit::is_lent) {
        (5..world.permits.len()).for_each(|_| drop(world.step(&leave(5))));
        assert_eq!(world.step(&of(1)), "admitted");
    }
    for left in (2..5).rev() {
        world.step(&leave(0));
        assert_eq!(world.step(&of(0)), "waits", "{left} of 2 run");
        world.step(&Op::Cancel(0));
    }
    world.step(&leave(0));
    assert_eq!(world.step(&of(0)), "admitted");
}

/// More threads than the cap of each label lets in, under a limit and caps that change: at no time do more run than may, and
/// each request is counted once, under its label.
#[test]
fn caps_bind_and_counts_are_exact_under_threads() {
    const LABELS: [&str; 3] = ["a", "b", "c"];
    const REQUESTS: u64 = 300_000;
    let settings = |limit, cap| Admission::builder().limit(Fixed::new(limit)).shed().labels(Labels::new().cap(cap));
    let admission = settings(64, 2).build().expect("valid settings");
    let running: Arc<[AtomicUsize; 3]> = Arc::default();
    let [admitted, lent] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
    let is_over = Arc::new(AtomicBool::new(false));
    let callers = (0..4).map(|caller| {
        let (admission, running) = (admission.clone(), Arc::clone(&running));
        let (admitted, lent) = (Arc::clone(&admitted), Arc::clone(&lent));
        thread::spawn(move || {
            for request in 0..REQUESTS {
                // Mostly a label of its own for each caller, so that slots are lent; then one for all.
                let label = if request % 8_192 < 8_000 { caller % 3 } else { 0 };
                let Ok(permit) = admission.try_admit(Ticket::new().label(LABELS[label])) else { continue };
                let now = running[label].fetch_add(1, Ordering::SeqCst) + 1;
                assert!(now <= 2, "{now} of a label run, 2 may");
                admitted.fetch_add(1, Ordering::Relaxed);
                lent.fetch_add(u64::from(permit.is_lent()), Ordering::Relaxed);
                running[label].fetch_sub(1, Ordering::SeqCst);
                permit.finish(Outcome::Success);
            }
        })
    });
    let callers: Vec<_> = callers.collect();
    let changes = thread::spawn({
        let (admission, is_over) = (admission.clone(), Arc::clone(&is_over));
        move || {
            let mut round = 0;
            while !is_over.load(Ordering::Relaxed) {
                round += 1;
                admission.reload(settings([64, 8][round % 2], 1 + round / 2 % 2)).expect("valid settings");
                assert!(admission.snapshot().in_flight <= 64);
                thread::yield_now();
            }
        }
    });
    callers.into_iter().for_each(|it| it.join().expect("no thread panicked"));
    is_over.store(true, Ordering::Relaxed);
    changes.join().expect("no thread panicked");
    let (snapshot, [admitted, lent]) = (admission.snapshot(), [admitted, lent].map(|it| it.load(Ordering::Relaxed)));
    let of_labels = |count: fn(&crate::engine::LabelSnapshot) -> u64| snapshot.labels.iter().map(count).sum::<u64>();
    assert_eq!((snapshot.in_flight, of_labels(|it| it.in_flight as u64)), (0, 0));
    assert_eq!((snapshot.admitted(), of_labels(|it| it.admitted)), (admitted, admitted));
    assert_eq!(snapshot.admitted() + snapshot.rejected(), 4 * REQUESTS);
    assert!(lent > admitted / 20, "{lent} of {admitted} were lent");
}
