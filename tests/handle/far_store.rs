//! A store at some distance: what local shares, late answers and many instances at once come to. In virtual time.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use admission_testkit::Moody;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tower_admission::{
    Admission, Cap, ClassLimits, Reason, Rules, Ticket, WhenFull,
    limit::Fixed,
    store::{Claim, Claims, Keys, LeaseDenied, Leases, OnStoreFailure},
};

use super::ms;

const LIMIT: Duration = Duration::from_millis(50);
const OPEN: OnStoreFailure = OnStoreFailure::FailOpen;

fn cap(name: &str, bound: u32, on_store_failure: OnStoreFailure) -> Claims {
    let key = Keys::new("far").unwrap().cap("a", "label", name);
    Claims::new(vec![Claim::cap(key, NonZeroU32::new(bound).unwrap()).on_store_failure(on_store_failure)]).unwrap()
}

fn instance(store: &Moody, seed: u64, local_shares: bool) -> Leases {
    Leases::builder().local_shares(local_shares).seed(seed).build(Arc::new(store.clone()))
}

/// What workers met, all in all.
#[derive(Debug, Default)]
struct Met {
    admitted: AtomicU64,
    full: AtomicU64,
    failed: AtomicU64,
    running: AtomicU64,
    peak: AtomicU64,
}

impl Met {
    fn counts(&self) -> [u64; 4] {
        [&self.admitted, &self.full, &self.failed, &self.peak].map(|count| count.load(Relaxed))
    }
}

/// Asks again and again for so long, and works for `takes` each time.
async fn work(leases: Leases, claims: Claims, lasts: Duration, takes: Duration, met: Arc<Met>) {
    let until = Instant::now() + lasts;
    while Instant::now() < until {
        match leases.admit(&claims).await {
            Ok(_held) => {
                met.admitted.fetch_add(1, Relaxed);
                met.peak.fetch_max(met.running.fetch_add(1, Relaxed) + 1, Relaxed);
                sleep(takes).await;
                met.running.fetch_sub(1, Relaxed);
            }
            Err(refused) => {
                let count = if matches!(refused, LeaseDenied::Full { .. }) { &met.full } else { &met.failed };
                count.fetch_add(1, Relaxed);
                sleep(ms(5)).await;
            }
        }
    }
}

/// Four instances of six workers share a cap of 8 for 10 s.
async fn four_by_six(store: &Moody, local_shares: bool, on_store_failure: OnStoreFailure) -> [u64; 4] {
    let (met, mut tasks) = (Arc::<Met>::default(), JoinSet::new());
    for seed in 0..4 {
        let leases = instance(store, seed, local_shares);
        for _ in 0..6 {
            tasks.spawn(work(leases.clone(), cap("c", 8, on_store_failure), ms(10_000), ms(20), Arc::clone(&met)));
        }
    }
    tasks.join_all().await;
    met.counts()
}

#[tokio::test(start_paused = true)]
async fn local_shares_stand_at_every_round_trip_that_the_time_limit_allows() {
    for tenths in 1..10 {
        let takes = LIMIT * tenths / 10;
        for on_store_failure in [OnStoreFailure::FailClosed, OPEN] {
            let store = Moody::far(LIMIT, move |_| takes);
            let [admitted, full, failed, peak] = four_by_six(&store, true, on_store_failure).await;
            println!("{takes:?}, {on_store_failure:?}: {admitted} admitted, {full} full, {failed} failed, peak {peak}");
            assert_eq!(failed, 0, "{takes:?}: the store answers all the time");
            assert!(peak <= 8, "{takes:?}: {peak} at once");
            assert!(admitted > 2_000, "{takes:?}: {admitted} of 4000");
        }
    }
}

/// The refill goes on without the request that asked for it, so the next one finds its units.
#[tokio::test(start_paused = true)]
async fn a_refill_outlives_its_caller() {
    let store = Moody::far(LIMIT, |_| ms(40));
    let (leases, claims) = (instance(&store, 1, true), cap("c", 8, OnStoreFailure::FailClosed));
    let left = tokio::time::timeout(ms(10), leases.admit(&claims)).await;
    assert!(left.is_err(), "it left");
    sleep(ms(40)).await;
    let began = Instant::now();
    assert!(leases.admit(&claims).await.is_ok());
    assert_eq!((began.elapsed(), store.asked()), (Duration::ZERO, vec![1]), "without a question of its own");
}

/// A late answer among others that come is no outage.
#[tokio::test(start_paused = true)]
async fn rules_that_fail_open_bind_while_the_store_is_up() {
    for local_shares in [false, true] {
        let store = Moody::far(ms(2), |number| if number % 7 == 0 { ms(9) } else { ms(1) });
        let [admitted, full, failed, peak] = four_by_six(&store, local_shares, OPEN).await;
        println!("shares {local_shares}: {admitted} admitted, {full} full, {failed} late, peak {peak} of 8");
        assert!(peak <= 8, "{peak} at once, shares {local_shares}");
        assert!(failed > 0 || local_shares, "control: some answers are late");
    }
}

/// Instances that come late get their part of a cap that others have shared out.
#[tokio::test(start_paused = true)]
async fn an_admission_that_does_not_wait_asks_for_its_part_as_well() {
    let store = Moody::far(LIMIT, |_| ms(1));
    let claims = cap("c", 200, OnStoreFailure::FailClosed);
    let (early, mut tasks) = (Arc::<Met>::default(), JoinSet::new());
    for seed in 0..90 {
        let leases = instance(&store, seed, true);
        for _ in 0..4 {
            tasks.spawn(work(leases.clone(), claims.clone(), ms(8_000), ms(30), Arc::clone(&early)));
        }
    }
    sleep(ms(3_000)).await;
    let mut each = Vec::new();
    for seed in 90..100 {
        let met = Arc::<Met>::default();
        tasks.spawn(work(instance(&store, seed, true), claims.clone(), ms(5_000), ms(30), Arc::clone(&met)));
        each.push(met);
    }
    tasks.join_all().await;
    let served: Vec<_> = each.iter().map(|met| met.admitted.load(Relaxed)).collect();
    println!("early {:?}, late starters in 5 s: {served:?}", early.counts());
    assert!(served.iter().all(|&served| served >= 50), "each needs one of two units: {served:?}");
}

/// How long a request waits for its answer at most, recalls and all.
#[tokio::test(start_paused = true)]
async fn a_question_takes_one_time_limit_whatever_follows_it() {
    let share = OnStoreFailure::LocalShare { instances: NonZeroU32::new(2).unwrap() };
    // The store does not answer; it answers, and others hold all there is; it takes all but the whole time.
    for (takes, on_store_failure) in
        [(ms(200), share), (ms(10), share), (ms(30), OnStoreFailure::FailClosed), (ms(45), share)]
    {
        let store = Moody::far(LIMIT, move |_| takes);
        if takes < LIMIT {
            let other = instance(&store, 9, true);
            let claims = Claims::new(vec![Claim::cap(
                Keys::new("far").unwrap().cap("default", "label", "l"),
                NonZeroU32::new(2).unwrap(),
            )]);
            let claims = claims.unwrap();
            let held = [other.wait(&claims).await.unwrap(), other.wait(&claims).await.unwrap()];
            tokio::spawn(async move {
                sleep(ms(60_000)).await;
                drop(held);
            });
        }
        let two = ClassLimits::new()
            .max_in_flight(Cap::from(2).when_full(WhenFull::Reject).on_store_failure(on_store_failure));
        let builder = Admission::builder().limit(Fixed::new(100)).rules(Rules::new().default_limits(two));
        let admission = builder.shared(instance(&store, 1, true), Keys::new("far").unwrap()).build().unwrap();
        let mut held = Vec::new();
        for _ in 0..3 {
            let began = Instant::now();
            let answer = admission.admit(Ticket::new().label("l")).await;
            let after = began.elapsed();
            println!("{takes:?}: {:?} after {after:?}", answer.as_ref().map_err(|it| it.reason()).map(|_| ()));
            assert!(after <= LIMIT + ms(2), "{takes:?}: {after:?}");
            match answer {
                Ok(permit) => held.push(permit),
                Err(it) => assert!(matches!(it.reason(), Reason::LabelCap | Reason::StoreUnavailable), "{it:?}"),
            }
        }
    }
}

/// Instances that start together do not renew together.
#[tokio::test(start_paused = true)]
async fn renewals_are_spread_over_their_period() {
    const INSTANCES: u64 = 200;
    let store = Moody::far(LIMIT, |_| ms(1));
    let (all, mut tasks) =
        ((0..INSTANCES).map(|seed| instance(&store, seed, true)).collect::<Vec<_>>(), JoinSet::new());
    for leases in &all {
        for label in 0..20 {
            let (leases, claims) = (leases.clone(), cap(&label.to_string(), 4_000, OnStoreFailure::FailClosed));
            tasks.spawn(async move { leases.admit(&claims).await.unwrap() });
        }
    }
    let _held = tasks.join_all().await;
    sleep(ms(20_000)).await;
    let seconds = store.asked();
    let renewals = &seconds[3..20];
    println!("renewals in each second: {renewals:?}");
    let (most, mean) = (*renewals.iter().max().unwrap(), renewals.iter().sum::<u64>() / renewals.len() as u64);
    assert!(mean > 1_400 && most < 2 * mean, "at most {most}, {mean} in the mean");
}

/// A renewal is asked for while the question for a second unit is on its way, and its answer is there first.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_overtakes_a_question_for_more_costs_no_request_its_unit() {
    let store = Moody::far(Duration::from_secs(5), |number| if number == 2 { ms(3_000) } else { ms(1) });
    let builder = Leases::builder().local_shares(true).seed(1).expiry(Duration::from_secs(10));
    let (leases, claims) = (builder.build(Arc::new(store.clone())), cap("orders", 9, OPEN));
    let _first = leases.admit(&claims).await.expect("nothing is used");
    sleep(ms(500)).await;
    let asked_at = Instant::now();
    let _second = leases.admit(&claims).await.expect("one of nine is used");
    assert!((ms(3_000)..ms(3_100)).contains(&asked_at.elapsed()), "the first question takes as long");
    assert_eq!(store.asked().iter().sum::<u64>(), 4, "a unit, more, a renewal, and more once again");
}
