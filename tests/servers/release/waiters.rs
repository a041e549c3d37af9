//! Those who leave while they wait, at every moment there is.

use std::{future::Future, pin::Pin, task::Poll, time::Duration};

use http::{Method, Request, Response};
use tokio::{sync::Barrier, time};
use tower::{Layer, Service};
use tower_admission::{
    Admission, AdmissionLayer, AdmissionService, Permit, Reason, Ticket, limit::Fixed, response::AdmissionBody,
};

use super::ATTEMPTS;
use crate::support::{Counting, Ends, Failure, Probe, Script, at_rest, bounded, poll_once};

struct Line {
    admission: Admission,
    probe: Probe,
    service: Counting<AdmissionService<Ends>>,
}

type Answer = Result<Response<AdmissionBody<Script>>, Failure>;

impl Line {
    /// One may run; all others wait.
    fn for_one(max_wait: Duration) -> Self {
        let admission = Admission::builder().limit(Fixed::new(1)).queue(ATTEMPTS).max_wait(max_wait).build().unwrap();
        let probe = Probe::open();
        let service = probe.arrivals().layer(AdmissionLayer::new(&admission).layer(Ends::new(&probe)));
        Self { admission, probe, service }
    }

    fn hold(&self) -> Permit {
        self.probe.count_arrival();
        self.admission.try_admit(Ticket::new()).unwrap()
    }

    /// A request that waits: it was polled, and there was no slot.
    async fn waiter(&self) -> Pin<Box<dyn Future<Output = Answer> + Send>> {
        let request = Request::builder().method(Method::GET).uri("/no-content").body(String::new()).unwrap();
        let mut waiter: Pin<Box<dyn Future<Output = Answer> + Send>> = Box::pin(self.service.clone().call(request));
        assert!(poll_once(&mut waiter).await.is_pending());
        waiter
    }

    async fn is_empty(&self) {
        at_rest(&self.admission, &self.probe).await;
        assert_eq!(self.probe.running(), 0);
        assert!(self.probe.peak() <= 1);
        let next = self.hold();
        assert_eq!(self.admission.snapshot().in_flight, 1);
        drop(next);
    }
}

const LONG: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn waiters_that_leave_before_their_turn_leave_nothing_behind() {
    let line = Line::for_one(LONG);
    let held = line.hold();
    let mut waiters = Vec::new();
    for _ in 0..ATTEMPTS {
        waiters.push(line.waiter().await);
    }
    assert_eq!(line.admission.snapshot().waiting, ATTEMPTS);
    // From both ends and from the middle.
    while !waiters.is_empty() {
        drop(waiters.swap_remove(waiters.len() / 2));
        waiters.pop();
        assert_eq!(line.admission.snapshot().waiting, waiters.len());
    }
    assert_eq!(line.admission.snapshot().partitions[0].cancelled_waiting, ATTEMPTS as u64);
    drop(held);
    assert_eq!(line.probe.started(), 0);
    line.is_empty().await;
}

#[tokio::test]
async fn a_waiter_that_leaves_with_a_slot_it_never_fetched_hands_it_to_the_next() {
    let line = Line::for_one(LONG);
    for _ in 0..ATTEMPTS {
        let held = line.hold();
        let (granted, mut next) = (line.waiter().await, line.waiter().await);
        drop(held);
        assert_eq!((line.admission.snapshot().in_flight, line.admission.snapshot().waiting), (1, 1));
        drop(granted);
        let Poll::Ready(answer) = poll_once(&mut next).await else { panic!("the slot was lost") };
        assert_eq!(answer.unwrap().status(), 204);
        assert_eq!(line.admission.snapshot().in_flight, 0);
    }
    line.is_empty().await;
    assert_eq!(line.probe.started(), ATTEMPTS as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_leaves_while_its_slot_comes_free_leaves_nothing_behind() {
    let line = Line::for_one(LONG);
    for _ in 0..ATTEMPTS {
        let (held, waiter) = (line.hold(), line.waiter().await);
        let barrier = std::sync::Arc::new(Barrier::new(2));
        let meet = std::sync::Arc::clone(&barrier);
        let release = tokio::spawn(async move {
            meet.wait().await;
            drop(held);
        });
        barrier.wait().await;
        drop(waiter);
        bounded("the release", release).await.unwrap();
        assert_eq!(line.admission.snapshot().in_flight, 0);
    }
    line.is_empty().await;
    assert_eq!(line.probe.started(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_slot_comes_free_when_its_time_is_up_is_answered_once() {
    const WAIT: Duration = Duration::from_millis(10);
    let line = Line::for_one(WAIT);
    let mut answered = [0, 0];
    for attempt in 0..ATTEMPTS {
        let (held, mut waiter) = (line.hold(), line.waiter().await);
        // A moment before, and at the very moment; polled afterwards or dropped.
        let early = [Duration::from_nanos(1), Duration::ZERO][attempt % 2];
        time::advance(WAIT - early).await;
        drop(held);
        if attempt % 3 == 0 {
            drop(waiter);
        } else {
            let Poll::Ready(answer) = poll_once(&mut waiter).await else { panic!("it still waits") };
            answered[usize::from(answer.unwrap().status() == 503)] += 1;
        }
        let snapshot = line.admission.snapshot();
        assert_eq!((snapshot.in_flight, snapshot.waiting), (0, 0));
        time::advance(LONG).await;
    }
    line.is_empty().await;
    let timed_out = line.admission.snapshot().partitions[0].rejected[Reason::QueueTimeout.as_str()];
    assert!(timed_out >= answered[1]);
    assert!(answered[0] > 0 && answered[1] > 0, "both happen: {answered:?}");
}
