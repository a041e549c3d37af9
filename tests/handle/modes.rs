use tower_admission::{
    Admission, Mode, Outcome, PartitionMode, Ticket,
    limit::{Aimd, Fixed, Limit},
    percent,
};

use super::{assert_at_rest, ms, poll_once};

#[test]
fn observing_lets_everything_through_and_says_what_it_would_have_done() {
    let admission = Admission::builder().limit(Fixed::new(2)).shed().build().unwrap();
    admission.set_mode(Mode::Observe);
    let permits: Vec<_> = (0..5).map(|_| poll_once(&mut admission.admit(Ticket::new())).unwrap().unwrap()).collect();
    let snapshot = admission.snapshot();
    assert_eq!(snapshot.in_flight, 2, "what runs beyond the limit is not counted against it");
    assert_eq!(snapshot.partitions[0].would_reject["limit"], 3);
    permits.into_iter().for_each(|permit| permit.finish(Outcome::Success));
    let snapshot = assert_at_rest(&admission, 5);
    assert_eq!(snapshot.rejected(), 0);
    assert_eq!(snapshot.partitions[0].successes, 5);
}

#[test]
fn off_counts_and_learns_nothing() {
    let admission = Admission::builder().limit(Fixed::new(1)).build().unwrap();
    admission.set_mode(Mode::Off);
    let permits: Vec<_> = (0..5).map(|_| admission.try_admit(Ticket::new()).unwrap()).collect();
    permits.into_iter().for_each(|permit| permit.finish(Outcome::Overload));
    let snapshot = assert_at_rest(&admission, 0);
    assert_eq!((&*snapshot.mode, snapshot.partitions[0].overloads), ("off", 0));
}

#[test]
fn those_who_wait_are_let_in_when_decisions_stop_to_bind_and_the_limit_holds_again_afterwards() {
    let admission = Admission::builder().limit(Fixed::new(1)).build().unwrap();
    let held = admission.try_admit(Ticket::new()).unwrap();
    let mut waiter = admission.admit(Ticket::new());
    assert!(poll_once(&mut waiter).is_none());
    admission.set_mode(Mode::Off);
    let admitted = poll_once(&mut waiter).unwrap().unwrap();
    admission.set_mode(Mode::Enforce);
    assert!(admission.try_admit(Ticket::new()).is_err(), "two run, one is allowed");
    drop(held);
    assert!(admission.try_admit(Ticket::new()).is_err(), "one runs, one is allowed");
    drop(admitted);
    assert!(admission.try_admit(Ticket::new()).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_permit_reports_once_and_silence_is_a_cancellation() {
    let admission = Admission::builder().limit(Fixed::new(4)).build().unwrap();
    let mut permit = admission.admit(Ticket::new()).await.unwrap();
    tokio::time::sleep(ms(40)).await;
    permit.observe(Outcome::Success);
    permit.observe(Outcome::Overload);
    assert_eq!(admission.snapshot().in_flight, 1, "it still holds its slot");
    permit.finish(Outcome::Overload);
    drop(admission.admit(Ticket::new()).await.unwrap());
    let panicked = tokio::spawn({
        let admission = admission.clone();
        async move {
            let _permit = admission.admit(Ticket::new()).await.unwrap();
            panic!("the work failed");
        }
    });
    assert!(panicked.await.unwrap_err().is_panic());
    let snapshot = assert_at_rest(&admission, 3);
    let it = &snapshot.partitions[0];
    assert_eq!((it.successes, it.overloads, it.cancelled, it.ignored), (1, 0, 1, 1));
    assert!((0.030..=0.050).contains(&it.rtt.p50), "{:?}", it.rtt);
}

#[tokio::test(start_paused = true)]
async fn a_shift_of_the_mix_does_not_move_a_limit_that_knows_the_classes() {
    for (knows, expected) in [(true, 20..=400), (false, 1..=1)] {
        let law = Limit::per_sample(Aimd::new(ms(100)).initial(20));
        let admission = Admission::builder().limit(law).build().unwrap();
        for (kind, millis, count) in [("look-up", 5, 200), ("report", 400, 200)] {
            for _ in 0..count {
                let ticket = if knows { Ticket::new().class(kind) } else { Ticket::new() };
                let permit = admission.admit(ticket).await.unwrap();
                tokio::time::advance(ms(millis)).await;
                permit.finish(Outcome::Success);
            }
        }
        let limit = admission.snapshot().limit;
        assert!(expected.contains(&limit), "{limit} where classes are known: {knows}");
    }
}

/// Two kinds of callers on a handle of four slots, each with half of them and nothing beyond: how many of five are let in.
fn let_in(default_observes: bool, other_observes: bool) -> (Admission, [usize; 2]) {
    let half = percent(50).hard_cap();
    let admission = Admission::builder()
        .limit(Fixed::new(4))
        .shed()
        .partition("web", if other_observes { half.observe() } else { half })
        .default_partition_mode(PartitionMode::HardCap)
        .default_partition_observe(default_observes)
        .build()
        .unwrap();
    let send =
        |name| (0..5).filter_map(|_| admission.try_admit(Ticket::new().partition(name)).ok()).collect::<Vec<_>>();
    let (strangers, web) = (send("nobody-knows-it"), send("web"));
    let counts = [strangers.len(), web.len()];
    assert_eq!(admission.snapshot().in_flight, 4, "what observes runs beside the limit");
    (admission, counts)
}

#[test]
fn the_default_partition_observes_while_another_one_enforces_and_the_reverse() {
    for (default_observes, other_observes, expected) in
        [(false, false, [2, 2]), (true, false, [5, 2]), (false, true, [2, 5]), (true, true, [5, 5])]
    {
        let (admission, counts) = let_in(default_observes, other_observes);
        assert_eq!(counts, expected, "{default_observes} {other_observes}");
        let snapshot = admission.snapshot();
        for (name, observes) in [("default", default_observes), ("web", other_observes)] {
            let it = snapshot.partition(name).unwrap();
            let (would, were) = (it.would_reject.get("partition_cap"), it.rejected.get("partition_cap"));
            let (three, none) = (Some(&3), None);
            assert_eq!((it.observes, would, were), if observes { (true, three, none) } else { (false, none, three) });
        }
    }
}

#[test]
fn a_reload_lets_the_default_partition_bind_again() {
    let settings = |observe| Admission::builder().limit(Fixed::new(1)).shed().default_partition_observe(observe);
    let admission = settings(true).build().unwrap();
    let send = || admission.try_admit(Ticket::new());
    let held = [send().unwrap(), send().unwrap()];
    admission.reload(settings(false)).unwrap();
    assert!(send().is_err());
    drop(held);
    assert!(send().is_ok());
    assert_eq!(admission.snapshot().partitions[0].in_flight_beyond, 0);
}
