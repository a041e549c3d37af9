use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Wake, Waker},
    time::Duration,
};

use admission_testkit::ByHand;
use tokio::time::Instant;
use tower_admission::{
    Admission, AdmissionBuilder, Clock, Outcome, Reason, Ticket,
    limit::{Aimd, Fixed, Limit, TwoPoint},
    percent,
};

use super::{assert_at_rest, ms, poll_once};

#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_the_wait_timeout_and_not_before() {
    let admission = Admission::builder().limit(Fixed::new(1)).build().unwrap();
    let held = admission.try_admit(Ticket::new()).unwrap();
    let start = Instant::now();
    let rejection = admission.admit(Ticket::new()).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::QueueTimeout);
    assert!((500..510).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    drop(held);
    assert_at_rest(&admission, 2);
}

#[tokio::test(start_paused = true)]
async fn the_callers_deadline_ends_a_wait_earlier() {
    let admission = Admission::builder().limit(Fixed::new(1)).queue(10).build().unwrap();
    let _held = admission.try_admit(Ticket::new()).unwrap();
    let start = Instant::now();
    let rejection = admission.admit(Ticket::new().timeout(ms(1_500))).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::Deadline);
    assert!((1_500..1_510).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    let expired = admission.admit(Ticket::new().timeout(Duration::ZERO)).await.unwrap_err();
    assert_eq!(expired.reason(), Reason::Deadline, "one whose deadline passed doesn't wait at all");
}

#[tokio::test(start_paused = true)]
async fn the_gate_is_short_and_the_line_is_patient() {
    let admission = Admission::builder().limit(Fixed::new(1)).queue(1).max_waiting(1).build().unwrap();
    let running = admission.admit(Ticket::new()).await.unwrap();
    let in_line = tokio::spawn(admission.admit(Ticket::new()));
    tokio::task::yield_now().await;
    let start = Instant::now();
    let at_gate = tokio::spawn(admission.admit(Ticket::new()));
    tokio::task::yield_now().await;
    let snapshot = admission.snapshot();
    assert_eq!((snapshot.in_flight, snapshot.waiting, snapshot.at_gate), (1, 1, 1));
    let full = admission.admit(Ticket::new()).await.unwrap_err();
    assert_eq!((full.reason(), start.elapsed()), (Reason::GateFull, Duration::ZERO));
    let timed_out = at_gate.await.unwrap().unwrap_err();
    assert_eq!(timed_out.reason(), Reason::GateTimeout);
    assert!((5_000..5_010).contains(&start.elapsed().as_millis()));
    // An hour later the one in line still has its place.
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    running.finish(Outcome::Success);
    in_line.await.unwrap().unwrap().finish(Outcome::Success);
    assert_at_rest(&admission, 4);
}

#[tokio::test(start_paused = true)]
async fn max_wait_bounds_the_line() {
    let admission = Admission::builder().limit(Fixed::new(1)).queue(1).max_wait(ms(700)).build().unwrap();
    let _held = admission.try_admit(Ticket::new()).unwrap();
    let start = Instant::now();
    let rejection = admission.admit(Ticket::new()).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::QueueTimeout);
    assert!((700..710).contains(&start.elapsed().as_millis()));
}

#[test]
fn a_place_and_an_unfetched_grant_are_given_back_when_dropped() {
    let admission = Admission::builder().limit(Fixed::new(1)).build().unwrap();
    for grant_first in [false, true] {
        let held = admission.try_admit(Ticket::new()).unwrap();
        let mut waiter = admission.admit(Ticket::new());
        assert!(poll_once(&mut waiter).is_none());
        if grant_first {
            drop(held);
            assert_eq!(admission.snapshot().in_flight, 1, "the waiter holds the slot without knowing it");
            drop(waiter);
        } else {
            drop(waiter);
            drop(held);
        }
        assert_eq!(admission.snapshot().in_flight, 0);
    }
    assert_at_rest(&admission, 4);
}

#[test]
fn a_grant_that_is_given_up_goes_to_the_next_in_line() {
    let admission = Admission::builder().limit(Fixed::new(1)).max_waiting(2).build().unwrap();
    let held = admission.try_admit(Ticket::new()).unwrap();
    let mut first = admission.admit(Ticket::new());
    let mut second = admission.admit(Ticket::new());
    assert!(poll_once(&mut first).is_none() && poll_once(&mut second).is_none());
    drop(held);
    assert!(poll_once(&mut second).is_none(), "it is not its turn");
    drop(first);
    assert!(poll_once(&mut second).unwrap().is_ok());
}

#[derive(Default)]
struct Counting(AtomicUsize);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn as_many_are_woken_as_get_a_slot() {
    const WAITERS: usize = 10_000;
    let admission = Admission::builder().limit(Fixed::new(100)).max_waiting(WAITERS).build().unwrap();
    let held: Vec<_> = (0..100).map(|_| admission.try_admit(Ticket::new()).unwrap()).collect();
    let counter = Arc::new(Counting::default());
    let waker = Waker::from(Arc::clone(&counter));
    let mut context = std::task::Context::from_waker(&waker);
    let mut waiters: Vec<_> = (0..WAITERS).map(|_| Box::pin(admission.admit(Ticket::new()))).collect();
    for waiter in &mut waiters {
        assert!(waiter.as_mut().poll(&mut context).is_pending());
    }
    drop(held);
    assert_eq!(counter.0.load(Ordering::Relaxed), 100, "no spurious wake-up among {WAITERS} waiters");
    drop(waiters);
    assert_at_rest(&admission, 100 + WAITERS as u64);
}

#[test]
fn unknown_callers_are_in_the_default_partition() {
    let admission = Admission::builder().limit(Fixed::new(10)).partition("known", percent(50)).build().unwrap();
    let _known = admission.try_admit(Ticket::new().partition("known")).unwrap();
    let _unknown = admission.try_admit(Ticket::new().partition("stranger")).unwrap();
    let snapshot = admission.snapshot();
    assert_eq!(snapshot.partition("known").unwrap().in_flight, 1);
    assert_eq!(snapshot.partition("default").unwrap().in_flight, 1);
}

#[test]
fn a_hard_cap_is_the_callers_own_and_named_in_the_rejection() {
    let admission =
        Admission::builder().limit(Fixed::new(10)).shed().partition("batch", percent(20).hard_cap()).build().unwrap();
    let _running: Vec<_> = (0..2).map(|_| admission.try_admit(Ticket::new().partition("batch")).unwrap()).collect();
    let rejection = admission.try_admit(Ticket::new().partition("batch")).unwrap_err();
    assert_eq!((rejection.reason(), rejection.partition()), (Reason::PartitionCap, "batch"));
    assert!(rejection.reason().is_caller_limit());
    let _other = admission.try_admit(Ticket::new()).unwrap();
}

#[test]
fn where_nobody_waits_the_next_freed_slot_is_kept_for_whoever_was_turned_away_below_its_share() {
    let clock = ByHand::default();
    let admission = Admission::builder()
        .limit(Fixed::new(4))
        .shed()
        .clock(clock.clone())
        .partition("noisy", percent(50))
        .partition("red", percent(50))
        .build()
        .unwrap();
    let try_admit = |name: &'static str| admission.try_admit(Ticket::new().partition(name));
    let mut noisy: Vec<_> = (0..4).map(|_| try_admit("noisy").unwrap()).collect();
    assert!(try_admit("red").is_err(), "a full server is full");
    drop(noisy.pop());
    assert!(try_admit("noisy").is_err(), "this slot is kept");
    let _red = try_admit("red").unwrap();
    // What is kept and not used is let go after some time.
    assert!(try_admit("red").is_err());
    drop(noisy.pop());
    assert!(try_admit("noisy").is_err());
    clock.set(ms(10_001));
    assert!(try_admit("noisy").is_ok());
}

#[derive(Clone, Debug)]
struct Mad(Arc<AtomicUsize>);

impl Clock for Mad {
    fn now(&self) -> Duration {
        // Ten years ahead, back to zero, the end of time, a nanosecond: whatever a clock can say.
        match self.0.fetch_add(1, Ordering::Relaxed) % 4 {
            0 => Duration::from_secs(315_360_000),
            1 => Duration::ZERO,
            2 => Duration::MAX,
            _ => Duration::from_nanos(1),
        }
    }
}

#[test]
fn a_mad_clock_neither_panics_nor_leaks() {
    let clock = Mad(Arc::default());
    let admission = Admission::builder().limit(Fixed::new(2)).queue(2).clock(clock).build().unwrap();
    for round in 0..1_000u64 {
        let mut admits: Vec<_> = (0..6).map(|_| admission.admit(Ticket::new().timeout(ms(round)))).collect();
        let _permits: Vec<_> = admits.iter_mut().filter_map(poll_once).collect();
        assert!(admission.snapshot().in_flight <= 2);
    }
    assert_at_rest(&admission, 6_000);
}

#[test]
fn without_a_runtime_waits_end_when_the_handle_is_told_to_look() {
    let clock = ByHand::default();
    let admission = Admission::builder().limit(Fixed::new(1)).clock(clock.clone()).build().unwrap();
    let _held = admission.try_admit(Ticket::new()).unwrap();
    let mut waiter = admission.admit(Ticket::new().timeout(ms(400)));
    assert!(poll_once(&mut waiter).is_none());
    assert_eq!(admission.next_wakeup(), Some(ms(400)));
    clock.set(ms(400));
    admission.tick();
    assert_eq!(admission.snapshot().waiting, 0);
    assert_eq!(poll_once(&mut waiter).unwrap().unwrap_err().reason(), Reason::Deadline);
    assert_eq!(admission.next_wakeup(), None);
}

#[test]
fn without_a_runtime_a_look_gives_back_the_slots_of_abandoned_work() {
    let clock = ByHand::default();
    let admission = Admission::builder().limit(Fixed::new(1)).queue(10).clock(clock.clone()).build().unwrap();
    admission.try_admit(Ticket::new()).unwrap().abandon();
    let mut waiter = admission.admit(Ticket::new());
    assert!(poll_once(&mut waiter).is_none());
    assert_eq!(admission.next_wakeup(), Some(ms(1_000)));
    clock.set(ms(999));
    admission.tick();
    assert_eq!(admission.snapshot().abandoned, 1);
    clock.set(ms(1_000));
    admission.tick();
    assert_eq!((admission.snapshot().abandoned, admission.snapshot().in_flight), (0, 1));
    let _permit = poll_once(&mut waiter).unwrap().unwrap();
    assert_eq!(admission.next_wakeup(), None);
}

/// Tokio's time, and what it was set ahead by.
#[derive(Clone, Debug)]
struct Ahead(Instant, Arc<std::sync::Mutex<Duration>>);

impl Clock for Ahead {
    fn now(&self) -> Duration {
        self.0.elapsed() + *self.1.lock().unwrap()
    }
}

/// The driver sleeps for up to a second by Tokio's time, and knows nothing of the jump. The control: where a look counts as
/// missed after a second only, the wait takes 990 ms.
#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_ahead_holds_no_wait_up() {
    let ahead = Arc::default();
    let clock = Ahead(Instant::now(), Arc::clone(&ahead));
    let builder = Admission::builder().limit(Fixed::new(1)).queue(10).max_wait(ms(100));
    let admission = builder.clock(clock).build().unwrap();
    let held = admission.try_admit(Ticket::new()).unwrap();
    // The driver looks, and sleeps.
    tokio::time::sleep(ms(10)).await;
    *ahead.lock().unwrap() = Duration::from_secs(1);
    // As a server does, it has more requests than this one.
    let others = tokio::spawn({
        let admission = admission.clone();
        async move {
            for _ in 0..100 {
                tokio::time::sleep(ms(5)).await;
                assert!(admission.try_admit(Ticket::new()).is_err());
            }
        }
    });
    let start = Instant::now();
    let rejection = admission.admit(Ticket::new()).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::QueueTimeout);
    assert!((100..130).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    others.await.unwrap();
    drop(held);
    assert_at_rest(&admission, 102);
}

/// The waiters of a partition that came first may fill the line, until another partition needs its share of the places.
#[tokio::test(start_paused = true)]
async fn a_partition_below_its_share_has_a_place_in_a_full_line() {
    for share in [50, 0] {
        let builder = Admission::builder().limit(Fixed::new(20)).wait_timeout(ms(10_000));
        // The control: without a partition of its own, "web" has no share of anything.
        let admission = if share > 0 { builder.partition("web", percent(share)) } else { builder }.build().unwrap();
        let running: Vec<_> = (0..20).map(|_| admission.try_admit(Ticket::new()).unwrap()).collect();
        let mut bulk: Vec<_> = (0..20).map(|_| admission.admit(Ticket::new())).collect();
        assert!(bulk.iter_mut().all(|admit| poll_once(admit).is_none()), "the line is full");
        let refused = poll_once(&mut admission.admit(Ticket::new())).expect("an answer").unwrap_err();
        assert_eq!(refused.reason(), Reason::QueueFull);

        let mut web: Vec<_> = (0..11).map(|_| admission.admit(Ticket::new().partition("web"))).collect();
        let answers: Vec<_> = web.iter_mut().map(poll_once).collect();
        let waiting = answers.iter().filter(|answer| answer.is_none()).count();
        let pushed_out = bulk.iter_mut().map(poll_once).map(|answer| {
            answer.map(|result| {
                assert_eq!(result.unwrap_err().reason(), Reason::PushedOut);
            })
        });
        let pushed_out: Vec<_> = pushed_out.map(|answer| answer.is_some()).collect();
        if share == 0 {
            assert_eq!((waiting, pushed_out.contains(&true)), (0, false));
            continue;
        }
        assert_eq!(waiting, 10, "its share of the places, and not more");
        assert_eq!(pushed_out, [vec![false; 10], vec![true; 10]].concat(), "the newest of the other partition");
        running.into_iter().for_each(|permit| permit.finish(Outcome::Success));
        assert_eq!(web.iter_mut().take(10).filter_map(poll_once).filter(Result::is_ok).count(), 10);
        assert_eq!(bulk.iter_mut().take(10).filter_map(poll_once).filter(Result::is_ok).count(), 10);
    }
}

#[test]
fn where_a_law_learns_the_limit_its_first_guess_bounds_no_line() {
    let places = |builder: AdmissionBuilder| builder.build().unwrap().snapshot().queue;
    let limit = |limit: Limit| places(Admission::builder().limit(limit));
    assert_eq!(places(Admission::builder()), 1_000, "nothing is set");
    assert_eq!(limit(Aimd::new(ms(100)).max(5_000).into()), 1_000);
    assert_eq!(limit(TwoPoint::new().max(30).into()), 30, "no more than may ever run");
    assert_eq!(limit(Fixed::new(10).into()), 10);
    assert_eq!(limit(Fixed::new(2_000).into()), 2_000);
    assert_eq!(places(Admission::builder().max_waiting(7)), 7);
}
