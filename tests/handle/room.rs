//! The room for guarantees: requests within the share of their partition wait for a slot that was lent, also where nothing else
//! waits.

use std::time::Duration;

use tokio::time::Instant;
use tower_admission::{
    Admission, BuildError, DrainMode, Outcome, Permit, Reason, Ticket,
    limit::{Aimd, Fixed},
    percent,
};

use super::{assert_at_rest, ms, poll_once};

fn web() -> Ticket<'static> {
    Ticket::new().partition("web")
}

/// A handle that sheds, of whose four slots two are of `web`, and whose default partition uses all four.
fn lent() -> (Admission, Vec<Permit>) {
    let admission = Admission::builder().limit(Fixed::new(4)).shed().partition("web", percent(50)).build().unwrap();
    let held = (0..4).map(|_| admission.try_admit(Ticket::new()).unwrap()).collect();
    (admission, held)
}

#[tokio::test(start_paused = true)]
async fn a_request_within_its_share_gets_the_next_slot_and_all_others_are_shed() {
    let (admission, mut held) = lent();
    let (mut first, mut second) = (admission.admit(web()), admission.admit(web()));
    assert!(poll_once(&mut first).is_none() && poll_once(&mut second).is_none());
    for beyond in [web(), Ticket::new(), Ticket::new().partition("web").label("tenant")] {
        assert_eq!(admission.admit(beyond).await.unwrap_err().reason(), Reason::Limit);
    }
    assert_eq!(admission.try_admit(web()).unwrap_err().reason(), Reason::Limit, "it does not wait");
    let snapshot = admission.snapshot();
    let web_now = snapshot.partition("web").unwrap();
    assert_eq!((snapshot.in_flight, web_now.waiting, web_now.in_room), (4, 2, 2));
    held.pop().unwrap().finish(Outcome::Success);
    assert_eq!(admission.admit(Ticket::new()).await.unwrap_err().reason(), Reason::Limit, "the slot is taken");
    let permit = poll_once(&mut first).unwrap().unwrap();
    assert!(poll_once(&mut second).is_none());
    drop((permit, second, held));
    assert_at_rest(&admission, 11);
}

#[tokio::test(start_paused = true)]
async fn a_wait_there_ends_after_half_of_what_is_left_or_half_a_second() {
    let (admission, held) = lent();
    // Nothing has finished yet: a guess of 50 ms.
    for (ticket, wait) in [(web(), 50), (web().timeout(ms(60)), 30), (web().timeout(ms(1_000)), 50)] {
        let start = Instant::now();
        let refused = admission.admit(ticket).await.unwrap_err();
        assert_eq!(refused.reason(), Reason::QueueTimeout);
        assert!((wait..wait + 10).contains(&start.elapsed().as_millis()), "{wait}: {:?}", start.elapsed());
    }
    tokio::time::sleep(Duration::from_secs(9)).await;
    drop(held);
    let held: Vec<_> = (0..4).map(|_| admission.try_admit(Ticket::new()).unwrap()).collect();
    let start = Instant::now();
    admission.admit(web()).await.unwrap_err();
    assert!((500..510).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    drop(held);
    assert_at_rest(&admission, 12);
}

#[tokio::test(start_paused = true)]
async fn a_hang_up_a_mode_a_reload_and_a_drain_end_a_wait_there() -> Result<(), BuildError> {
    let (admission, held) = lent();
    let mut gone = admission.admit(web());
    assert!(poll_once(&mut gone).is_none());
    drop(gone);
    assert_eq!(admission.snapshot().waiting, 0);

    let mut observed = admission.admit(web());
    assert!(poll_once(&mut observed).is_none());
    admission.set_mode(tower_admission::Mode::Observe);
    assert!(poll_once(&mut observed).is_some_and(|it| it.is_ok()), "nothing binds");
    admission.set_mode(tower_admission::Mode::Enforce);

    // A larger limit has a slot for it.
    let mut waits = admission.admit(web());
    assert!(poll_once(&mut waits).is_none());
    admission.reload(Admission::builder().limit(Fixed::new(5)).shed().partition("web", percent(50)))?;
    assert!(poll_once(&mut waits).is_some_and(|it| it.is_ok()));

    let full: Vec<_> = std::iter::from_fn(|| admission.try_admit(Ticket::new()).ok()).collect();
    let mut drained = admission.admit(web());
    assert!(poll_once(&mut drained).is_none());
    admission.drain(DrainMode::RejectWaiting);
    assert_eq!(poll_once(&mut drained).unwrap().unwrap_err().reason(), Reason::Draining);
    drop((full, held));
    admission.drained().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_is_not_lent_is_there_at_once() {
    let build = |share| Admission::builder().limit(Fixed::new(10)).shed().partition("web", share).build();
    let admission = build(percent(60).lend(50)).unwrap();
    let flood: Vec<_> = std::iter::from_fn(|| admission.try_admit(Ticket::new()).ok()).collect();
    assert_eq!((flood.len(), admission.snapshot().reserved), (7, 3), "half of six slots are not lent");
    let web: Vec<_> = std::iter::from_fn(|| admission.try_admit(web()).ok()).collect();
    assert_eq!(web.len(), 3);
    drop(flood);
    let again: Vec<_> = std::iter::from_fn(|| admission.try_admit(Ticket::new()).ok()).collect();
    assert_eq!(
        (again.len(), admission.snapshot().reserved),
        (6, 1),
        "a slot is held back since one of web was refused"
    );
    drop((again, web));
    for (lent, message) in [(-1.0, "found -1 %"), (101.0, "found 101 %"), (f64::NAN, "found NaN %")] {
        let error = build(percent(60).lend(lent)).unwrap_err().to_string();
        assert!(error.contains("partitions.web.lend") && error.contains(message), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_share_that_is_too_small_for_how_long_requests_take_is_warned_of() {
    let admission = Admission::builder().limit(Aimd::new(ms(900)).initial(10)).patience(ms(1_000));
    let admission = admission.partition("few", percent(20)).partition("many", percent(60)).build().unwrap();
    for _ in 0..4 {
        let all: Vec<_> = std::iter::from_fn(|| admission.try_admit(Ticket::new()).ok()).collect();
        tokio::time::sleep(ms(800)).await;
        all.into_iter().for_each(|it| it.finish(Outcome::Success));
    }
    let warnings: Vec<_> = admission.warnings().into_iter().filter(|it| it.contains("slots, each held for")).collect();
    assert!(warnings.iter().any(|it| it.contains("partition few is 2 slots, each held for 800ms")), "{warnings:?}");
    assert!(warnings.iter().all(|it| !it.contains("many")), "{warnings:?}");
}
