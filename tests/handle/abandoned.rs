//! Requests that are given up while their work may go on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use admission_testkit::{Moody, ticket};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, advance, sleep, timeout},
};
use tower_admission::{
    Admission, Clock, DrainMode, Labels, Outcome, Permit, Reason, Ticket,
    limit::{Fixed, TwoPoint},
    percent,
};

use super::{assert_at_rest, ms};

/// A handle that has seen abandoned work, and then twenty answers of each of these kinds.
async fn taught(slots: usize, kinds: &[(&'static str, u64)]) -> Admission {
    let admission = Admission::builder().limit(Fixed::new(slots)).queue(100).max_wait(ms(60_000)).build().unwrap();
    admission.try_admit(Ticket::new()).unwrap().abandon();
    advance(ms(1_000)).await;
    admission.tick();
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
        assert_at_rest(&admission, 44);
    }
}

/// Work that was given up later than such work ends is no such work. After a second it has ended, and so has work whose slot expired.
#[tokio::test(start_paused = true)]
async fn what_has_taken_its_time_is_over() {
    for (after, abandoned) in [(100, 0), (500, 1), (1_000, 0)] {
        let admission = taught(1, &[("quick", 100)]).await;
        let permit = admission.try_admit(Ticket::new().class("quick")).unwrap();
        advance(ms(after)).await;
        permit.abandon();
        assert_eq!((admission.snapshot().in_flight, admission.snapshot().abandoned), (abandoned, abandoned), "{after}");
        let (waited, _permit) = wait(&admission).await;
        let left = u128::from(1_000 - after) * abandoned as u128;
        assert!((left..=left + 5).contains(&waited), "{after}: {waited}");
    }

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
    assert_eq!(snapshot.expired_slots, 1);
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

/// Callers that leave after ten milliseconds, again and again, whose work takes half a second, beside callers whose work takes
/// twenty milliseconds and that stay: never more than slots and answers, also where nothing tells the kinds of work apart.
#[tokio::test(start_paused = true)]
async fn leaving_early_does_not_walk_through_the_limit() {
    for (calm, quick, slow) in [("calm", "quick", "slow"), ("", "quick", "slow"), ("calm", "", ""), ("", "", "")] {
        for (goes_on, expected) in [(true, 0..=50), (false, 150..=usize::MAX)] {
            let builder = Admission::builder().limit(Fixed::new(8)).shed();
            let admission = builder.partition("calm", percent(50)).build().unwrap();
            let (mut under_way, mut most) = (Vec::<Instant>::new(), 0);
            for round in 0..4_000 {
                under_way.retain(|start| start.elapsed() < ms(500));
                let quick = admission.try_admit(Ticket::new().class(quick).partition(calm));
                let slow: Vec<_> = (0..8).map_while(|_| admission.try_admit(Ticket::new().class(slow)).ok()).collect();
                advance(ms(10)).await;
                under_way.extend(slow.iter().map(|_| Instant::now()));
                slow.into_iter().for_each(|permit| if goes_on { permit.abandon() } else { drop(permit) });
                most = most.max(under_way.len());
                advance(ms(10)).await;
                let Ok(permit) = quick else { continue };
                permit.finish(Outcome::Success);
                assert!(round < 3_990 || admission.snapshot().admitted() > 1_000);
            }
            assert!(expected.contains(&most), "{calm:?} {quick:?} {slow:?} {goes_on}: {most}");
        }
    }
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

/// Callers that send the next request as soon as the last one has ended. Of each hundred requests, `leave` are given up at half of
/// their time, and their work stops then. Returns how many requests a second were answered.
async fn answered_per_second(takes: u64, leave: u64, goes_on: bool) -> f64 {
    const SECONDS: u64 = 60;
    let admission = Admission::builder().limit(Fixed::new(20)).patience(ms(1_000)).build().unwrap();
    let (number, answered) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut callers = JoinSet::new();
    for _ in 0..40 {
        let (admission, number, answered) = (admission.clone(), Arc::clone(&number), Arc::clone(&answered));
        callers.spawn(async move {
            loop {
                let Ok(permit) = admission.admit(Ticket::new()).await else { continue };
                // 37 and 100 have no factor in common, so the ones that leave are spread.
                let leaves = number.fetch_add(1, Ordering::Relaxed) * 37 % 100 < leave;
                sleep(ms(if leaves { takes / 2 } else { takes })).await;
                match (leaves, goes_on) {
                    (false, _) => {
                        permit.finish(Outcome::Success);
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    (true, true) => permit.abandon(),
                    (true, false) => drop(permit),
                }
            }
        });
    }
    sleep(ms(SECONDS * 1_000)).await;
    callers.shutdown().await;
    answered.load(Ordering::Relaxed) as f64 / SECONDS as f64
}

/// What it costs to count work as going on that has stopped: the table of the page on placement.
#[tokio::test(start_paused = true)]
async fn what_a_guess_costs_where_work_stops() {
    // The time of requests, how many of a hundred are given up, and the part that is served at least.
    for (takes, leave, least) in [
        (20, 1, 0.95),
        (20, 5, 0.85),
        (20, 10, 0.85),
        (20, 50, 0.3),
        (100, 1, 0.95),
        (100, 5, 0.9),
        (100, 10, 0.85),
        (100, 50, 0.3),
        (200, 1, 0.95),
        (200, 10, 0.9),
        (200, 50, 0.3),
    ] {
        let stops = answered_per_second(takes, leave, false).await;
        let goes_on = answered_per_second(takes, leave, true).await;
        let part = goes_on / stops;
        println!("{takes} ms, {leave} % leave: {stops:.0} and {goes_on:.0} answers a second, {part:.3}");
        assert!(part >= least, "{takes} ms, {leave} %: {part}");
    }
}

/// A backend of forty workers, whose work of 40 ms goes on; requests that find no slot are refused. Five hundred callers a second
/// stay, and as many leave after 30 ms, or none. Returns the part of the requests of those that stay that was served.
async fn served_beside_leavers(leavers: bool, goes_on: bool) -> f64 {
    const REQUESTS: u64 = 10_000;
    let limit = TwoPoint::new();
    let admission = Admission::builder().limit(limit).shed().build().unwrap();
    let (workers, served) = (Arc::new(Semaphore::new(40)), Arc::new(AtomicU64::new(0)));
    let mut calls = JoinSet::new();
    let mut random = fastrand::Rng::with_seed(7);
    for number in 0..if leavers { 2 * REQUESTS } else { REQUESTS } {
        let mean = if leavers { 0.001 } else { 0.002 };
        sleep(Duration::from_secs_f64(-(1.0 - random.f64()).ln() * mean)).await;
        while calls.try_join_next().is_some() {}
        let Ok(permit) = admission.try_admit(Ticket::new()) else { continue };
        let (workers, served) = (Arc::clone(&workers), Arc::clone(&served));
        calls.spawn(async move {
            let work = tokio::spawn(async move {
                let _worker = workers.acquire().await;
                sleep(ms(40)).await;
            });
            if leavers && number % 2 == 1 {
                let _left = timeout(ms(30), work).await;
                if goes_on { permit.abandon() } else { drop(permit) }
            } else {
                work.await.unwrap();
                permit.finish(Outcome::Success);
                served.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    calls.join_all().await;
    served.load(Ordering::Relaxed) as f64 / REQUESTS as f64
}

/// A law that sheds, beside callers that leave.
#[tokio::test(start_paused = true)]
async fn callers_that_stay_are_served_beside_callers_that_leave() {
    let alone = served_beside_leavers(false, false).await;
    let stops = served_beside_leavers(true, false).await;
    let goes_on = served_beside_leavers(true, true).await;
    println!(
        "served: {alone:.3} alone; beside callers that leave {stops:.3}, and {goes_on:.3} where their work is counted"
    );
    assert!(alone > 0.98 && stops > 0.98 && goes_on > 0.98);
}

/// A clock that can be set back, and counts how often it is read. Each look takes a microsecond, so that a driver that never
/// sleeps comes to an end.
#[derive(Clone, Debug)]
struct SetBack {
    start: Instant,
    by: Arc<AtomicU64>,
    reads: Arc<AtomicU64>,
}

impl Clock for SetBack {
    fn now(&self) -> Duration {
        let reads = self.reads.fetch_add(1, Ordering::Relaxed);
        self.start.elapsed() + ms(5_000) + Duration::from_micros(reads) - ms(self.by.load(Ordering::Relaxed))
    }
}

/// The control: where a driver asks by the clock that went back whether such work has ended, it looks again and again until the
/// clock has caught up.
#[tokio::test(start_paused = true)]
async fn a_clock_that_was_set_back_keeps_no_driver_awake() {
    let clock = SetBack { start: Instant::now(), by: Arc::default(), reads: Arc::default() };
    let (by, reads) = (Arc::clone(&clock.by), Arc::clone(&clock.reads));
    let admission = Admission::builder().limit(Fixed::new(2)).queue(1).clock(clock).build().unwrap();
    let [permit, other] = [(); 2].map(|()| admission.try_admit(Ticket::new()).unwrap());
    // A wait that ends brings a driver; work that has been looked for, a time from which it is looked for again.
    timeout(ms(1_500), admission.admit(Ticket::new())).await.unwrap_err();
    drop(other);
    admission.try_admit(Ticket::new()).unwrap().abandon();
    sleep(ms(10)).await;
    admission.tick();
    by.store(1_200, Ordering::Relaxed);
    permit.abandon();
    let before = reads.load(Ordering::Relaxed);
    sleep(ms(50)).await;
    let reads = reads.load(Ordering::Relaxed) - before;
    assert!(reads < 100, "{reads} looks in 50 ms");
    assert_eq!(admission.snapshot().in_flight, 1, "a second of work is over by the time that was seen before");
}
