//! When a request that was turned away is told to come back.

use std::time::Duration;

use tokio::time::advance;
use tower_admission::{
    Admission, Cap, ClassLimits, Labels, Outcome, Permit, Reason, Rules, Ticket, WhenFull, limit::Fixed, percent,
};

use super::ms;

const SECOND: Duration = Duration::from_secs(1);

/// Short work on a server that is full, so that it knows how long slots are held: 100 ms.
async fn warm_up(admission: &Admission, slots: usize, ticket: &Ticket<'static>) {
    for _ in 0..50 {
        let held: Vec<Permit> = (0..slots).map(|_| admission.try_admit(ticket.clone()).unwrap()).collect();
        advance(ms(100)).await;
        held.into_iter().for_each(|permit| permit.finish(Outcome::Success));
    }
    let usual = admission.snapshot().mean_hold_seconds;
    assert!((0.09..0.11).contains(&usual), "{usual}");
}

/// All slots are held for 25 s by work that usually takes 100 ms: whatever bound the slots belong to, and whether they
/// were taken together or one after the other.
#[tokio::test(start_paused = true)]
async fn a_refusal_knows_how_old_the_running_requests_are() {
    let one = || Ticket::new().namespace("ns").label("a").partition("p");
    let reject = |cap: usize| Cap::from(cap).when_full(WhenFull::Reject);
    let rules = |limits| Rules::new().override_key("ns:a", "*", limits);
    let builder = || Admission::builder().shed().limit(Fixed::new(200));
    let cases = [
        (Reason::Limit, builder(), 200),
        (Reason::LabelCap, builder().labels(Labels::new().label_cap("a", 20)), 20),
        (Reason::LabelCap, builder().rules(rules(ClassLimits::new().max_in_flight(reject(20)))), 20),
        (Reason::NamespaceCap, builder().rules(rules(ClassLimits::new().max_in_flight_per_namespace(reject(20)))), 20),
        (Reason::PartitionCap, builder().partition("p", percent(10).hard_cap()), 20),
    ];
    for (reason, builder, slots) in cases {
        let admission = builder.build().unwrap();
        let everyone = if reason == Reason::Limit { one() } else { Ticket::new() };
        warm_up(&admission, 200, &Ticket::new()).await;
        // Others come and go all the while, where there is room for them.
        let mut held = Vec::new();
        for _ in 0..slots {
            held.push(admission.try_admit(one()).unwrap());
            advance(10 * SECOND / u32::try_from(slots).unwrap()).await;
            if reason != Reason::Limit {
                drop(admission.try_admit(everyone.clone()).unwrap());
            }
        }
        advance(15 * SECOND).await;
        for seconds in 25..30_u64 {
            for _ in 0..40 {
                let rejection = admission.try_admit(one()).unwrap_err();
                let told = rejection.retry_after();
                assert_eq!(rejection.reason(), reason);
                assert!(
                    told >= Duration::from_secs(seconds) && told <= 2 * Duration::from_secs(seconds),
                    "{reason} {told:?}"
                );
            }
            advance(SECOND).await;
        }
        // The control: it moves again, and the estimate is what it was.
        held.drain(..slots / 2).for_each(drop);
        held.extend((0..slots / 2).map(|_| admission.try_admit(one()).unwrap()));
        advance(ms(50)).await;
        let told = admission.try_admit(one()).unwrap_err().retry_after();
        assert!(told < 5 * SECOND, "{reason}: {told:?}");
    }
}

/// A server that is idle for an hour has nothing that is old.
#[tokio::test(start_paused = true)]
async fn idleness_is_not_taken_for_work_that_hangs() {
    let admission = Admission::builder().shed().limit(Fixed::new(10)).build().unwrap();
    warm_up(&admission, 10, &Ticket::new()).await;
    for _ in 0..5 {
        // Not all slots are taken, so nobody reads a clock at the end.
        let few: Vec<_> = (0..5).map(|_| admission.try_admit(Ticket::new()).unwrap()).collect();
        advance(ms(50)).await;
        drop(few);
        advance(3_600 * SECOND).await;
        let _all: Vec<_> = (0..10).map(|_| admission.try_admit(Ticket::new()).unwrap()).collect();
        advance(ms(50)).await;
        let told = admission.try_admit(Ticket::new()).unwrap_err().retry_after();
        assert!(told < SECOND, "{told:?}");
    }
}
