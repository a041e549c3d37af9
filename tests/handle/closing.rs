//! A handle that drains.

use std::{
    future::Future,
    task::{Context, Waker},
    time::Duration,
};

use tower_admission::{
    Admission, DrainMode, Mode, Reason, Ticket,
    journal::{ChangeEntry, JournalEvent},
    limit::Fixed,
};

use super::poll_once;

#[test]
fn no_mode_reopens_a_handle_that_drains() {
    for mode in [Mode::Off, Mode::Observe, Mode::Enforce] {
        for leave in [DrainMode::RejectWaiting, DrainMode::ServeWaiting] {
            for drains_first in [true, false] {
                let admission = Admission::builder().limit(Fixed::new(2)).build().unwrap();
                if drains_first {
                    admission.drain(leave);
                    admission.set_mode(mode);
                } else {
                    admission.set_mode(mode);
                    admission.drain(leave);
                }
                let refused = admission.try_admit(Ticket::new()).map(drop).unwrap_err();
                assert_eq!(refused.reason(), Reason::Draining, "{mode:?}, {leave:?}, {drains_first}");
                let refused = poll_once(&mut admission.admit(Ticket::new())).unwrap().map(drop).unwrap_err();
                assert_eq!(refused.reason(), Reason::Draining, "{mode:?}, {leave:?}, {drains_first}");
                assert!(!admission.is_ready());
                assert_eq!(admission.snapshot().rejected(), 2, "a request that is turned away is counted");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_leaves_is_not_ready_and_admits_until_it_drains() {
    let settings = |seconds| Admission::builder().limit(Fixed::new(2)).drain_after(Duration::from_secs(seconds));
    let admission = settings(5).build().unwrap();
    let quiet = admission.try_admit(Ticket::new()).unwrap();
    admission.reload(settings(10)).unwrap();
    let start = tokio::time::Instant::now();
    let mut left = Box::pin(admission.leave(DrainMode::ServeWaiting));
    assert!(!admission.is_ready() && !admission.snapshot().draining);
    let headline = |admission: &Admission| admission.snapshot().health.headline;
    assert!(
        headline(&admission).ends_with("; leaving: not ready any more, and drains soon"),
        "{}",
        headline(&admission)
    );
    for second in 1..10 {
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(left.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending(), "{second}");
        drop(admission.try_admit(Ticket::new()).unwrap());
        drop(admission.try_admit(Ticket::new().label("a")).unwrap());
    }
    let mut waiter = Box::pin(admission.admit(Ticket::new()));
    let taken = [admission.try_admit(Ticket::new()).unwrap()];
    assert!(poll_once(&mut waiter).is_none(), "no slot is free");
    left.await;
    assert_eq!(start.elapsed(), Duration::from_secs(10));
    assert_eq!(admission.try_admit(Ticket::new()).unwrap_err().reason(), Reason::Draining);
    assert!(headline(&admission).starts_with("draining: ") && !headline(&admission).contains("leaving"));
    let changes = admission.journal().into_iter().filter_map(|it| match it.event {
        JournalEvent::Change(change @ (ChangeEntry::Leave | ChangeEntry::Drain)) => Some((change, it.at_seconds)),
        _ => None,
    });
    let changes: Vec<_> = changes.collect();
    let [(ChangeEntry::Leave, left), (ChangeEntry::Drain, drained)] = changes[..] else { panic!("{changes:?}") };
    assert!((drained - left - 10.0).abs() < 0.1, "{left} and {drained}");
    drop((quiet, taken));
    drop(waiter);
    admission.drained().await;

    // A future that is dropped changes nothing; without time to wait, or a runtime, the handle drains at once.
    let admission = settings(3).build().unwrap();
    drop(admission.leave(DrainMode::RejectWaiting));
    tokio::time::sleep(Duration::from_secs(2)).await;
    drop(admission.try_admit(Ticket::new()).unwrap());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(admission.try_admit(Ticket::new()).unwrap_err().reason(), Reason::Draining);
    let admission = settings(0).build().unwrap();
    drop(admission.leave(DrainMode::RejectWaiting));
    assert!(admission.snapshot().draining);
    let admission = settings(60).build().unwrap();
    std::thread::scope(|scope| scope.spawn(|| drop(admission.leave(DrainMode::RejectWaiting))).join().unwrap());
    assert!(admission.snapshot().draining);
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_leaves_and_is_told_to_drain_waits_no_longer() {
    let admission = Admission::builder().drain_after(Duration::from_secs(60)).build().unwrap();
    let [left, again] = [DrainMode::ServeWaiting, DrainMode::RejectWaiting].map(|mode| admission.leave(mode));
    assert!(tokio::time::timeout(Duration::from_secs(1), admission.drained()).await.is_err(), "control: it leaves");
    admission.drain(DrainMode::ServeWaiting);
    tokio::time::timeout(Duration::from_secs(1), async { (left.await, again.await) }).await.unwrap();
}
