use tower_admission::{Admission, Outcome, Ticket, limit::Fixed};

use super::{assert_at_rest, ms, poll_once};

fn one_for_a_second() -> Admission {
    Admission::builder().limit(Fixed::new(1)).queue(10).permit_time_to_live(ms(1_000)).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_holder_is_told_when_its_time_is_over_and_the_next_one_gets_the_slot() {
    let admission = one_for_a_second();
    let permit = admission.admit(Ticket::new()).await.unwrap();
    let mut waiter = admission.admit(Ticket::new());
    assert!(poll_once(&mut waiter).is_none());
    let before = tokio::time::timeout(ms(999), permit.expired()).await;
    assert!(before.is_err() && !permit.is_expired(), "it is told too early");
    let begin = tokio::time::Instant::now();
    permit.expired().await;
    assert!(begin.elapsed() <= ms(2), "it is told {:?} late", begin.elapsed());
    assert!(permit.is_expired());
    permit.expired().await; // and again, at once

    let next = waiter.await.unwrap();
    assert_eq!((admission.snapshot().in_flight, admission.snapshot().expired_slots), (1, 1));
    // What was taken back is not given back once more.
    permit.finish(Outcome::Success);
    assert_eq!(admission.snapshot().in_flight, 1);
    assert!(!next.is_expired());
    next.finish(Outcome::Success);
    assert_at_rest(&admission, 2);
}

#[tokio::test(start_paused = true)]
async fn whoever_is_done_in_time_is_not_overdue() {
    let admission = one_for_a_second();
    for _ in 0..5 {
        let permit = admission.admit(Ticket::new()).await.unwrap();
        tokio::time::sleep(ms(900)).await;
        assert!(!permit.is_expired());
        permit.finish(Outcome::Success);
    }
    assert_eq!(assert_at_rest(&admission, 5).expired_slots, 0);
}

#[tokio::test(start_paused = true)]
async fn permits_without_an_end_are_never_overdue() {
    let admission = Admission::builder().limit(Fixed::new(1)).build().unwrap();
    let permit = admission.admit(Ticket::new()).await.unwrap();
    assert!(tokio::time::timeout(ms(10_000_000), permit.expired()).await.is_err());
    drop(permit);
    assert_eq!(assert_at_rest(&admission, 1).expired_slots, 0);
}
