//! Requests that are given up while their work may go on.

use admission_testkit::{Moody, ticket};
use tokio::time::{Instant, advance};
use tower_admission::{Admission, DrainMode, Labels, Outcome, Permit, Reason, Ticket, limit::Fixed};

use super::{assert_at_rest, ms};

/// A handle that has seen twenty answers of each of these kinds.
async fn taught(slots: usize, kinds: &[(&'static str, u64)]) -> Admission {
    let admission = Admission::builder().limit(Fixed::new(slots)).queue(100).max_wait(ms(60_000)).build().unwrap();
    for &(class, takes) in kinds {
        for _ in 0..20 {
            let permit = admission.try_admit(Ticket::new().class(class)).unwrap();
            advance(ms(takes)).await;
            permit.finish(Outcome::Success);
        }
    }
    admission
}

/// Waits for a slot; returns the milliseconds.
async fn wait(admission: &Admission) -> (u128, Permit) {
    let start = Instant::now();
    let permit = admission.admit(Ticket::new()).await.unwrap();
    (start.elapsed().as_millis(), permit)
}

#[tokio::test(start_paused = true)]
async fn a_slot_stays_taken_for_as_long_as_such_work_needs() {
    for (class, ends) in [("quick", 100..=105), ("slow", 900..=905)] {
        let admission = taught(1, &[("quick", 100), ("slow", 900)]).await;
        let start = Instant::now();
        let permit = admission.try_admit(Ticket::new().class(class)).unwrap();
        advance(ms(10)).await;
        permit.abandon();
        let snapshot = admission.snapshot();
        assert_eq!((snapshot.in_flight, snapshot.abandoned), (1, 1));
        admission.try_admit(Ticket::new()).unwrap_err();
        let (_, next) = wait(&admission).await;
        assert!(ends.contains(&start.elapsed().as_millis()), "{class}: {:?}", start.elapsed());
        assert_eq!(admission.snapshot().abandoned, 0);
        next.finish(Outcome::Success);
        assert_at_rest(&admission, 43);
    }
}

/// Work that took longer than such work does has ended, and so has work whose slot expired.
#[tokio::test(start_paused = true)]
async fn what_has_taken_its_time_is_over() {
    let admission = taught(1, &[("quick", 100)]).await;
    let permit = admission.try_admit(Ticket::new().class("quick")).unwrap();
    advance(ms(500)).await;
    permit.abandon();
    assert_eq!((admission.snapshot().in_flight, admission.snapshot().abandoned), (0, 0));

    let admission = Admission::builder().limit(Fixed::new(1)).permit_time_to_live(ms(200)).build().unwrap();
    let permit = admission.try_admit(Ticket::new()).unwrap();
    permit.abandon();
    let (waited, next) = wait(&admission).await;
    assert!((200..=210).contains(&waited), "{waited}");
    // Work whose slot was taken back is not in flight, so it is not abandoned either.
    assert_eq!((admission.snapshot().in_flight, admission.snapshot().abandoned), (1, 0));
    drop(next);
    advance(ms(2_000)).await;
    let snapshot = assert_at_rest(&admission, 2);
    assert_eq!(snapshot.overdue, 1);
}

/// Before anything is known, work lasts for a second; on slots that the engine lends as well.
#[tokio::test(start_paused = true)]
async fn nothing_is_known_yet() {
    for slots in [1, 16] {
        let admission = Admission::builder().limit(Fixed::new(slots)).queue(9).max_wait(ms(9_000)).build().unwrap();
        let permits: Vec<_> = (0..slots).map(|_| admission.try_admit(Ticket::new()).unwrap()).collect();
        permits.into_iter().for_each(Permit::abandon);
        assert_eq!((admission.snapshot().in_flight, admission.snapshot().abandoned), (slots, slots));
        let (waited, _permit) = wait(&admission).await;
        assert!((1_000..=1_010).contains(&waited), "{slots} slots: {waited}");
    }
}

/// Where the server plainly answers faster than it did, the slots come back as soon as that is known.
#[tokio::test(start_paused = true)]
async fn a_server_that_recovers_is_believed() {
    let admission = taught(10, &[("query", 1_000)]).await;
    let query = || admission.try_admit(Ticket::new().class("query")).unwrap();
    let given_up: Vec<_> = (0..9).map(|_| query()).collect();
    given_up.into_iter().for_each(Permit::abandon);
    let start = Instant::now();
    let mut answered = 0;
    while admission.snapshot().abandoned > 0 {
        let permit = query();
        advance(ms(5)).await;
        permit.finish(Outcome::Success);
        answered += 1;
        assert!(answered < 200);
    }
    let took = start.elapsed();
    // The mean and four times the distance from it, which grows at first.
    assert!(took < ms(900), "{took:?}, {answered} answers");
}

/// Callers that leave after ten milliseconds, again and again, whose work takes a hundred: never more than the limit.
#[tokio::test(start_paused = true)]
async fn leaving_early_does_not_walk_through_the_limit() {
    let most_under_way = async |tells: bool| {
        let admission = taught(8, &[("query", 100)]).await;
        let (mut under_way, mut most): (Vec<Instant>, usize) = (Vec::new(), 0);
        for _ in 0..2_000 {
            under_way.retain(|start| start.elapsed() < ms(100));
            while let Ok(permit) = admission.try_admit(Ticket::new().class("query")) {
                under_way.push(Instant::now());
                if tells {
                    permit.abandon()
                } else {
                    drop(permit)
                }
                most = most.max(under_way.len());
                if most > 200 {
                    return most;
                }
            }
            advance(ms(10)).await;
        }
        assert!(admission.snapshot().admitted() > 1_000, "a slot comes back when its work has ended");
        most
    };
    assert_eq!(most_under_way(true).await, 8);
    assert!(most_under_way(false).await > 200, "the control: nothing is said of the work");
}

/// It counts against its label, and a handle that drains waits for it.
#[tokio::test(start_paused = true)]
async fn it_counts_as_a_request_that_runs() {
    let labels = Labels::new().label_cap("a", 2).max_wait(ms(1));
    let admission = Admission::builder().limit(Fixed::new(10)).shed().labels(labels).build().unwrap();
    let one = || admission.try_admit(Ticket::new().label("a"));
    one().unwrap().abandon();
    let second = one().unwrap();
    one().unwrap_err();
    drop(second);
    let start = Instant::now();
    admission.drain(DrainMode::ServeWaiting);
    admission.drained().await;
    assert!((1_000..=1_100).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
}

/// A lease of rules that all instances share stays with the slot: the work goes on, wherever it is counted.
#[tokio::test(start_paused = true)]
async fn its_lease_is_kept_for_as_long_as_the_slot() {
    for goes_on in [true, false] {
        let store = Moody::new();
        let (one, other) = (store.handle().build().unwrap(), store.handle().build().unwrap());
        for _ in 0..9 {
            let permit = one.admit(ticket()).await.unwrap();
            if goes_on { permit.abandon() } else { drop(permit) }
        }
        advance(ms(900)).await;
        let answer = other.admit(ticket()).await;
        assert_eq!(answer.is_ok(), !goes_on, "{answer:?}");
        drop(answer);
        let start = Instant::now();
        let freed = loop {
            match other.admit(ticket()).await {
                Ok(permit) => break permit,
                Err(rejection) => assert_eq!(rejection.reason(), Reason::LabelCap),
            }
            advance(ms(10)).await;
            assert!(start.elapsed() < ms(1_200), "the slot ends within a second, and the lease within another");
        };
        freed.finish(Outcome::Success);
        for _ in 0..9 {
            other.admit(ticket()).await.unwrap().abandon();
        }
        assert_eq!(one.admit(ticket()).await.unwrap_err().reason(), Reason::LabelCap);
    }
}
