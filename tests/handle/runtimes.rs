//! Each wait ends in time on the runtime on which its waiter lives, whatever becomes of other runtimes.

use std::{
    convert::Infallible,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use admission_testkit::ByHand;
use bytes::Bytes;
use futures_util::{FutureExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, StreamBody};
use tokio::{
    runtime::{Builder, Runtime},
    task::yield_now,
    time::{Instant, timeout},
};
use tower::{Layer, ServiceExt, service_fn};
use tower_admission::{Admission, AdmissionLayer, Clock, Reason, Ticket, limit::Fixed};

use super::{ms, poll_once};
use crate::support::OnMetric;

/// Much longer than the wait, also on a machine that is busy with other tests.
const FAR: Duration = Duration::from_secs(5);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

fn full() -> Admission {
    Admission::builder().limit(Fixed::new(1)).queue(100).max_wait(ms(20)).build().unwrap()
}

/// Waits on this runtime, in a task of its own: what bounds the wait must not poll it.
fn assert_ends(runtime: &Runtime, admission: &Admission, what: &str) {
    let reason = runtime.block_on(async {
        let wait = tokio::spawn(admission.admit(Ticket::new()));
        let Ok(answer) = timeout(FAR, wait).await else { panic!("a wait of 20 ms has not ended after 5 s: {what}") };
        answer.unwrap().unwrap_err().reason()
    });
    assert_eq!(reason, Reason::QueueTimeout, "{what}");
}

/// A request that is served and one that waits, on a runtime that nobody drives any more afterwards.
fn warm_up(admission: &Admission, looks: bool) -> Runtime {
    let runtime = runtime();
    runtime.block_on(async {
        drop(admission.try_admit(Ticket::new()));
        for _ in 0..if looks { 3 } else { 0 } {
            yield_now().await;
        }
    });
    runtime
}

#[test]
fn a_runtime_that_is_kept_and_not_driven_keeps_no_wait_from_ending() {
    for looks in [false, true] {
        let admission = full();
        let kept = [warm_up(&admission, looks), warm_up(&admission, looks)];
        assert_ends(&kept[1], &admission_with_holder(&admission), "on the runtime itself");
        let _held = admission.try_admit(Ticket::new()).unwrap();
        let serving = runtime();
        for _ in 0..10 {
            assert_ends(&serving, &admission, "on another runtime");
        }
        // Also those that others have led meanwhile.
        for runtime in &kept {
            assert_ends(runtime, &admission, "on a runtime that is driven again");
        }
    }
}

/// The same handle, full until this is dropped.
fn admission_with_holder(admission: &Admission) -> impl std::ops::Deref<Target = Admission> {
    struct Full(Admission, #[expect(dead_code, reason = "it is held")] tower_admission::Permit);
    impl std::ops::Deref for Full {
        type Target = Admission;

        fn deref(&self) -> &Admission {
            &self.0
        }
    }
    Full(admission.clone(), admission.try_admit(Ticket::new()).unwrap())
}

#[test]
fn runtimes_may_come_and_go_in_any_order() {
    let admission = full();
    let _held = admission.try_admit(Ticket::new()).unwrap();
    let mut others: Vec<Runtime> = Vec::new();
    let stays = runtime();
    for round in 0..12 {
        let next = runtime();
        assert_ends(&next, &admission, "on a new runtime");
        others.push(next);
        assert_ends(&stays, &admission, "on one that stays");
        if round % 3 == 2 {
            // Of the two that are left one is older and one is newer than the runtime that ends.
            drop(others.remove(round % others.len()));
            assert_ends(&stays, &admission, "after another one has ended");
            assert_ends(&others[0], &admission, "on another one that stays");
        }
    }
    let snapshot = admission.snapshot();
    assert_eq!((snapshot.in_flight, snapshot.waiting), (1, 0));
}

/// A deadline that comes to be earlier than all that the drivers know reaches each of them.
#[test]
fn an_earlier_deadline_is_heard_of_on_each_runtime() {
    let admission = Admission::builder().limit(Fixed::new(1)).queue(100).build().unwrap();
    let _held = admission.try_admit(Ticket::new()).unwrap();
    let (kept, serving) = (warm_up(&admission, true), runtime());
    serving.block_on(async {
        // Its driver sleeps for long.
        let patient = tokio::spawn(admission.admit(Ticket::new().timeout(Duration::from_secs(600))));
        for _ in 0..3 {
            yield_now().await;
        }
        let hasty = tokio::spawn(admission.admit(Ticket::new().timeout(ms(20))));
        let started = Instant::now();
        let answer = timeout(FAR, hasty).await.expect("it ends in time").unwrap();
        assert!(answer.is_err() && started.elapsed() < FAR);
        patient.abort();
    });
    drop(kept);
}

/// A worker that has just woken or started the driver, and blocks then: the driver was kept for that worker.
#[test]
fn a_worker_that_blocks_keeps_no_wait_of_another_worker_from_ending() {
    for is_first in [false, true] {
        let admission = Admission::builder().limit(Fixed::new(1)).queue(100).build().unwrap();
        let _held = admission.try_admit(Ticket::new()).unwrap();
        let workers = Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
        workers.block_on(async {
            let patient = Ticket::new().timeout(Duration::from_secs(600));
            let patient = (!is_first).then(|| tokio::spawn(admission.admit(patient)));
            if patient.is_some() {
                while admission.snapshot().waiting == 0 {
                    yield_now().await;
                }
            }
            let (release, blocked) = std::sync::mpsc::channel::<()>();
            let (tell, told) = tokio::sync::oneshot::channel();
            let blocks = {
                let admission = admission.clone();
                tokio::spawn(async move {
                    let mut hasty = admission.admit(Ticket::new().timeout(ms(10)));
                    assert!(poll_once(&mut hasty).is_none());
                    tell.send(()).unwrap();
                    let _ = blocked.recv_timeout(Duration::from_secs(20));
                })
            };
            told.await.unwrap();
            let wait = tokio::spawn(admission.admit(Ticket::new().timeout(ms(20))));
            let ended = timeout(FAR, wait).await.is_ok();
            release.send(()).unwrap();
            blocks.await.unwrap();
            patient.iter().for_each(|patient| patient.abort());
            assert!(ended, "a wait of 20 ms has not ended after 5 s; is it the first: {is_first}");
        });
    }
}

/// A clock that is slow, so that the lock is nearly always taken.
#[derive(Debug)]
struct Slow {
    origin: Instant,
    is_slow: Arc<AtomicBool>,
}

impl Clock for Slow {
    fn now(&self) -> Duration {
        let now = Instant::now();
        while self.is_slow.load(Ordering::Relaxed) && now.elapsed() < Duration::from_micros(100) {
            std::hint::spin_loop();
        }
        self.origin.elapsed()
    }
}

fn pause(micros: u64) {
    let started = Instant::now();
    while started.elapsed() < Duration::from_micros(micros) {
        std::hint::spin_loop();
    }
}

/// The runtime of the driver ends just while a waiter of another runtime relies on it.
#[test]
fn a_driver_that_ends_while_a_wait_begins_is_replaced() {
    let is_slow = Arc::new(AtomicBool::new(false));
    let clock = Slow { origin: Instant::now(), is_slow: Arc::clone(&is_slow) };
    let builder = Admission::builder().limit(Fixed::new(1)).queue(10).max_wait(ms(5)).clock(clock);
    let admission = builder.build().unwrap();
    let _held = admission.try_admit(Ticket::new()).unwrap();
    let mut attempts = 0;
    for attempt in 0..400 {
        let ends = warm_up(&admission, true);
        let mut wait = admission.admit(Ticket::new());
        if poll_once(&mut wait).is_some() {
            // This thread was held up for longer than the wait.
            continue;
        }
        attempts += 1;
        let start = Arc::new(Barrier::new(3));
        is_slow.store(true, Ordering::Relaxed);
        // They fight for the lock.
        let fights: Vec<_> = (0..1)
            .map(|_| {
                let (admission, start) = (admission.clone(), Arc::clone(&start));
                thread::spawn(move || {
                    start.wait();
                    for _ in 0..8 {
                        admission.tick();
                        pause(100);
                    }
                })
            })
            .collect();
        let waits = {
            let start = Arc::clone(&start);
            thread::spawn(move || {
                runtime().block_on(async {
                    let wait = tokio::spawn(async move {
                        start.wait();
                        wait.await
                    });
                    timeout(FAR, wait).await.ok()
                })
            })
        };
        start.wait();
        pause(attempt % 16 * 25);
        drop(ends);
        fights.into_iter().for_each(|fight| fight.join().unwrap());
        is_slow.store(false, Ordering::Relaxed);
        let answer = waits.join().unwrap();
        assert!(answer.is_some(), "attempt {attempt}: a wait of 5 ms has not ended after 5 s");
    }
    assert!(attempts > 100, "{attempts}");
}

/// A body that sends nothing has a timer of the runtime that drove it first.
#[test]
fn a_body_may_outlive_the_runtime_of_its_timer() {
    let admission = Admission::builder().patience(ms(20)).build().unwrap();
    let silent = service_fn(|_: Request<Empty<Bytes>>| async {
        Ok::<_, Infallible>(Response::new(StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>())))
    });
    let service = AdmissionLayer::new(&admission).layer(silent);
    let runtime = runtime();
    let mut body = runtime.block_on(async { Box::pin(service.oneshot(Request::default()).await.unwrap().into_body()) });
    runtime.block_on(async { assert!(body.frame().now_or_never().is_none()) });
    drop(runtime);
    assert!(body.frame().now_or_never().is_none());
    assert_eq!(admission.snapshot().in_flight, 1);
    drop(body);
    assert_eq!(admission.snapshot().in_flight, 0);
}

/// No request waits, so none could miss the driver but for the metrics.
#[test]
fn metrics_are_published_although_the_first_runtime_is_not_driven() {
    let (hand, asked) = (ByHand::default(), AtomicU64::new(0));
    let admission = Admission::builder().limit(Fixed::new(9)).clock(hand.clone()).build().unwrap();
    let _kept = warm_up(&admission, true);
    let recorder = OnMetric(|| _ = asked.fetch_add(1, Ordering::Relaxed));
    let _guard = metrics::set_default_local_recorder(&recorder);
    runtime().block_on(async {
        for seconds in [10, 20] {
            hand.set(Duration::from_secs(seconds));
            drop(admission.try_admit(Ticket::new()).unwrap());
            for _ in 0..3 {
                yield_now().await;
            }
            assert!(asked.swap(0, Ordering::Relaxed) > 0, "after {seconds} s");
        }
    });
}
