//! Drivers that start, sleep, are told of earlier deadlines, and end with their runtime.

use super::{bounds, fixed, ms, of, poll_once};
use crate::{
    Admission, Reason, Ticket,
    explore::{Parker, block_on, explore, thread},
    tokio_here::{
        runtime::{Runtime, leave},
        time::pass,
    },
};

/// A handle whose only slot is taken, and whose waits end after 20 ms.
fn full() -> (Admission, crate::Permit) {
    let admission = fixed(1).max_wait(ms(20)).build().expect("good settings");
    let held = admission.try_admit(Ticket::new()).expect("a slot is free");
    (admission, held)
}

fn ends_by_time(answer: Result<crate::Permit, crate::Rejection>) {
    assert_eq!(answer.expect_err("no slot comes free").reason(), Reason::QueueTimeout);
}

/// As many waits, each of which lets so much time pass that it is over.
fn waits(count: usize, runtime: &Runtime, admission: &Admission) -> Vec<thread::JoinHandle<()>> {
    let waits = (0..count).map(|_| {
        let (runtime, admission) = (runtime.clone(), admission.clone());
        thread::spawn(move || {
            runtime.enter();
            let (mut wait, woken) = (Box::pin(admission.admit(Ticket::new())), Parker::new());
            assert!(woken.poll(&mut wait).is_pending());
            pass(ms(20));
            // A driver that looked before that has set its timer from then on.
            runtime.sleeps();
            pass(ms(20));
            // A look of its own would end it as well: this waits for the driver.
            woken.park();
            ends_by_time(block_on(wait));
            leave();
        })
    });
    waits.collect()
}

/// Waits begin, and time passes, while the driver of their runtime starts.
pub fn a_wait_ends_in_time_whenever_its_driver_starts() {
    let waiting = of(2, 8);
    explore("a_wait_ends_in_time_whenever_its_driver_starts", bounds(2, 300).long(), move || {
        let (runtime, (admission, held)) = (Runtime::new(), full());
        let waits = waits(waiting, &runtime, &admission);
        let worker = {
            let runtime = runtime.clone();
            thread::spawn(move || runtime.work())
        };
        waits.into_iter().for_each(|it| it.join().expect("it ends"));
        runtime.shut_down();
        worker.join().expect("it ends");
        drop(held);
        assert_eq!(admission.snapshot().in_flight, 0);
    });
}

/// A wait begins that ends earlier than the driver, which is about to sleep, knows.
pub fn an_earlier_end_reaches_a_driver_that_goes_to_sleep() {
    explore("an_earlier_end_reaches_a_driver_that_goes_to_sleep", bounds(3, 500), || {
        let (runtime, (admission, held)) = (Runtime::new(), full());
        runtime.enter();
        // Has a driver started, which has nothing to do but to publish, in a second.
        let mut wait = Box::pin(admission.admit(Ticket::new()));
        assert!(poll_once(&mut wait).is_pending());
        drop(wait);
        leave();
        let worker = {
            let runtime = runtime.clone();
            thread::spawn(move || runtime.work())
        };
        let waits = waits(of(1, 6), &runtime, &admission);
        waits.into_iter().for_each(|it| it.join().expect("it ends"));
        runtime.shut_down();
        worker.join().expect("it ends");
        drop(held);
    });
}

/// The runtime of a driver ends: a wait that relied on it is woken, finds another driver and ends in time.
pub fn waits_end_in_time_though_the_runtime_of_a_driver_ends() {
    explore("waits_end_in_time_though_the_runtime_of_a_driver_ends", bounds(2, 500), || {
        let (ending, staying, (admission, held)) = (Runtime::new(), Runtime::new(), full());
        let has_come = Parker::new();
        let waiter = {
            let (ending, staying, admission) = (ending.clone(), staying.clone(), admission.clone());
            let has_come = has_come.clone();
            thread::spawn(move || {
                ending.enter();
                let (mut wait, woken) = (Box::pin(admission.admit(Ticket::new())), Parker::new());
                assert!(woken.poll(&mut wait).is_pending());
                has_come.unpark();
                staying.enter();
                // It is polled there when it is woken, and not before.
                woken.park();
                ends_by_time(block_on(wait));
                leave();
            })
        };
        has_come.park();
        // The driver looks, and sleeps.
        ending.work_off();
        let worker = {
            let staying = staying.clone();
            thread::spawn(move || staying.work())
        };
        ending.shut_down();
        ending.work();
        pass(ms(20));
        staying.sleeps();
        pass(ms(20));
        waiter.join().expect("it ends");
        staying.shut_down();
        worker.join().expect("it ends");
        drop(held);
    });
}
