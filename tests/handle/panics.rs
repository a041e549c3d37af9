//! Foreign code that panics (clocks, wakers, recorders) takes neither a request nor a slot with it.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use tokio::time::Instant;
use tower_admission::{
    Admission, DrainMode, Mode, Outcome, Ticket, WorkerReport,
    limit::{Aimd, Fixed},
};

use super::{ms, poll_once};
use crate::support::OnMetric;

/// A clock that panics when it is told to.
#[derive(Clone, Debug)]
struct Broken(Arc<AtomicBool>, Instant);

impl Broken {
    fn new() -> Self {
        Self(Arc::default(), Instant::now())
    }

    fn is(&self, broken: bool) {
        self.0.store(broken, Ordering::Relaxed);
    }
}

impl tower_admission::Clock for Broken {
    fn now(&self) -> Duration {
        assert!(!self.0.load(Ordering::Relaxed), "the clock is broken");
        self.1.elapsed()
    }
}

#[test]
fn a_clock_that_panics_as_a_slot_is_given_back_takes_neither_the_slot_nor_the_process() {
    let clock = Broken::new();
    let limits = [Aimd::new(ms(100)).initial(2).max(2).into(), tower_admission::limit::Limit::from(Fixed::new(2))];
    for limit in limits {
        clock.is(false);
        let admission = Admission::builder().limit(limit).shed().clock(clock.clone()).build().unwrap();
        let take = || {
            clock.is(false);
            let permit = admission.try_admit(Ticket::new()).unwrap();
            clock.is(true);
            permit
        };
        for _ in 0..3 {
            take().finish(Outcome::Success);
            drop(take());
            let mut observed = take();
            observed.observe(Outcome::Overload);
            drop(observed);
            // Given back while its thread panics: a second panic would end the process.
            let permit = take();
            thread::spawn(move || {
                let _permit = permit;
                panic!("so does the handler");
            })
            .join()
            .unwrap_err();
        }
        assert_eq!(admission.snapshot().in_flight, 0);
        assert_eq!(admission.snapshot().admitted(), 12);
        assert!(admission.warnings().iter().any(|it| it.contains("clock panicked")), "{:?}", admission.warnings());
    }
}

#[test]
fn whatever_reads_a_clock_that_panics_goes_on_with_the_last_time() {
    let clock = Broken::new();
    let builder = Admission::builder().limit(Fixed::new(1)).queue(9).max_wait(Duration::from_secs(600));
    let admission = builder.permit_time_to_live(Duration::from_secs(60)).clock(clock.clone()).build().unwrap();
    clock.is(true);
    let held = admission.try_admit(Ticket::new().timeout(ms(500))).unwrap();
    let mut first = admission.admit(Ticket::new().label("a"));
    let mut second = admission.admit(Ticket::new());
    assert!(poll_once(&mut first).is_none() && poll_once(&mut second).is_none());
    admission.tick();
    assert!(admission.report_worker(&WorkerReport::new("a", "w")));
    admission.remove_worker(&WorkerReport::new("a", "w"));
    assert_eq!((admission.snapshot().in_flight, admission.snapshot().waiting), (1, 2));
    assert_eq!(admission.waiters("", "a").len(), 1);
    drop(first);
    drop(held);
    drop(poll_once(&mut second).unwrap().unwrap());
    admission.set_mode(Mode::Observe);
    admission.set_mode(Mode::Enforce);
    admission.reload(Admission::builder().limit(Fixed::new(2))).unwrap();
    admission.publish_metrics();
    admission.drain(DrainMode::RejectWaiting);
    assert_eq!(admission.snapshot().in_flight, 0);
}

/// A waker that panics when it wakes and when it is dropped.
#[derive(Default)]
struct Explosive {
    woken: AtomicUsize,
    drops: Option<Arc<AtomicUsize>>,
}

impl Wake for Explosive {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::Relaxed);
        panic!("not now");
    }
}

impl Drop for Explosive {
    fn drop(&mut self) {
        if let Some(drops) = &self.drops {
            drops.fetch_add(1, Ordering::Relaxed);
            panic!("not even that");
        }
    }
}

/// A waker that is like any other, or one that counts only where a handle answers.
#[derive(Default)]
struct Sound(AtomicUsize, Option<Admission>);

impl Wake for Sound {
    fn wake(self: Arc<Self>) {
        if let Some(handle) = self.1.clone() {
            let (told, is_told) = mpsc::channel();
            thread::spawn(move || told.send(handle.warnings()));
            is_told.recv_timeout(Duration::from_secs(10)).expect("no lock is held while a waker is woken");
        }
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(waker))
}

#[test]
fn a_waker_that_panics_keeps_no_other_from_being_woken() {
    let admission = Admission::builder().limit(Fixed::new(2)).queue(9).build().unwrap();
    let held = [0, 1].map(|_| admission.try_admit(Ticket::new()).unwrap());
    let (explosive, sound) = (Arc::new(Explosive::default()), Arc::new(Sound(0.into(), Some(admission.clone()))));
    let mut waits = [0, 1].map(|_| admission.admit(Ticket::new()));
    assert!(poll(&mut waits[0], &Waker::from(Arc::clone(&explosive))).is_pending());
    assert!(poll(&mut waits[1], &Waker::from(Arc::clone(&sound))).is_pending());
    // Both are granted in one turn; the first of the two wakers panics.
    let finished =
        catch_unwind(AssertUnwindSafe(|| admission.reload(Admission::builder().limit(Fixed::new(4)).queue(9))));
    assert!(finished.is_ok_and(|reloaded| reloaded.is_ok()), "it is no business of the operator");
    assert_eq!((explosive.woken.load(Ordering::Relaxed), sound.0.load(Ordering::Relaxed)), (1, 1));
    drop(held);
    assert_eq!(waits.map(|mut wait| poll_once(&mut wait).unwrap().is_ok()), [true, true]);
    // The same where a slot is given back while its thread panics.
    let full = [0; 4].map(|_| admission.try_admit(Ticket::new()).unwrap());
    let mut wait = admission.admit(Ticket::new());
    assert!(poll(&mut wait, &Waker::from(Arc::clone(&explosive))).is_pending());
    thread::spawn(move || {
        let _full = full;
        panic!("so does the handler");
    })
    .join()
    .unwrap_err();
    assert!(poll_once(&mut wait).unwrap().is_ok());
    assert_eq!((admission.snapshot().in_flight, admission.snapshot().waiting), (0, 0));
}

#[test]
fn a_waker_that_panics_as_it_is_dropped_takes_no_slot_with_it() {
    let drops = Arc::new(AtomicUsize::new(0));
    let explosive = || Waker::from(Arc::new(Explosive { woken: AtomicUsize::new(0), drops: Some(Arc::clone(&drops)) }));
    let admission = Admission::builder().limit(Fixed::new(1)).queue(9).build().unwrap();
    for _ in 0..3 {
        let held = admission.try_admit(Ticket::new()).unwrap();
        let mut wait = admission.admit(Ticket::new());
        // The only reference to the waker is the one that is registered.
        let waker = explosive();
        assert!(poll(&mut wait, &waker).is_pending());
        let _ = catch_unwind(AssertUnwindSafe(|| drop(waker)));
        assert!(poll_once(&mut wait).is_none(), "another waker takes its place");
        drop(held);
        // Claimed before it was woken, with the waker still there.
        let held = poll_once(&mut wait).unwrap().unwrap();
        let mut leaves = admission.admit(Ticket::new());
        let waker = explosive();
        assert!(poll(&mut leaves, &waker).is_pending());
        let _ = catch_unwind(AssertUnwindSafe(|| drop(waker)));
        drop(leaves);
        drop(held);
    }
    assert_eq!(drops.load(Ordering::Relaxed), 6);
    assert_eq!((admission.snapshot().in_flight, admission.snapshot().waiting), (0, 0));
}

#[test]
fn futures_that_are_gone_leave_no_waker_behind() {
    let builder = Admission::builder().limit(Fixed::new(1)).permit_time_to_live(Duration::from_secs(60));
    let admission = builder.build().unwrap();
    let permit = admission.try_admit(Ticket::new()).unwrap();
    let sound = Arc::new(Sound::default());
    for _ in 0..100 {
        let other = Arc::new(Sound::default());
        let mut drained = Box::pin(admission.drained());
        assert!(poll(&mut drained, &Waker::from(Arc::clone(&other))).is_pending());
        assert!(poll(&mut drained, &Waker::from(Arc::clone(&sound))).is_pending());
        assert_eq!(Arc::strong_count(&other), 1, "the last waker counts");
        drop(drained);
        assert_eq!(Arc::strong_count(&sound), 1, "nobody waits any more");
    }
    // The control: those that still wait are told.
    let mut drained = [0, 1].map(|_| Box::pin(admission.drained()));
    for drained in &mut drained {
        assert!(poll(drained, &Waker::from(Arc::clone(&sound))).is_pending());
    }
    {
        let mut overdue = Box::pin(permit.expired());
        assert!(poll(&mut overdue, &Waker::from(Arc::clone(&sound))).is_pending());
    }
    assert_eq!(Arc::strong_count(&sound), 4);
    admission.drain(DrainMode::RejectWaiting);
    drop(permit);
    assert_eq!((sound.0.load(Ordering::Relaxed), Arc::strong_count(&sound)), (2, 1));
}

/// A recorder that can't be relied on.
pub(super) fn no_recorder() -> OnMetric<impl Fn()> {
    OnMetric(|| panic!("no metrics today"))
}

#[test]
fn a_recorder_that_panics_is_no_business_of_who_publishes() {
    let admission = Admission::builder().build().unwrap();
    metrics::with_local_recorder(&no_recorder(), || admission.publish_metrics());
    assert!(admission.warnings().iter().any(|it| it.contains("recorder panicked")), "{:?}", admission.warnings());
}

#[test]
fn a_recorder_that_publishes_does_not_wait_for_itself() {
    let (published, twice) = mpsc::channel();
    let admission = Admission::builder().build().unwrap();
    thread::spawn(move || {
        let eager = OnMetric(|| admission.publish_metrics());
        for _ in 0..2 {
            metrics::with_local_recorder(&eager, || admission.publish_metrics());
            published.send(admission.warnings()).unwrap();
        }
    });
    for _ in 0..2 {
        let warnings = twice.recv_timeout(ms(10_000)).expect("it waits for itself");
        assert!(!warnings.iter().any(|it| it.contains("recorder panicked")), "{warnings:?}");
    }
}
