//! How long callers wait, and what follows from it.

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Request, Response};
use tokio::time::{Instant, advance};
use tower::{Layer, ServiceExt};
use tower_admission::{
    Admission, AdmissionLayer, Outcome, Permit, Reason, Ticket,
    limit::{Fixed, Limit, LimitAlgorithm, Sample},
    percent,
    policy::{Abandoned, Policy},
};

use super::{assert_at_rest, ms, poll_once};

/// Requests after which the engine lends the slots of a quiet handle, however little that paid before.
const QUIET: usize = 100;

/// Serves so many requests that the engine lends slots.
fn serve_quietly(admission: &Admission) {
    for _ in 0..QUIET {
        admission.try_admit(Ticket::new()).unwrap().finish(Outcome::Success);
    }
}

/// Counts what it is told: successes, and requests that were given up. Keeps the time of the last of these.
#[derive(Clone, Debug, Default)]
struct Told {
    successes: Arc<AtomicUsize>,
    cancelled: Arc<AtomicUsize>,
    last: Arc<Mutex<Option<Duration>>>,
    slots: usize,
}

impl Told {
    fn with(slots: usize) -> Self {
        Self { slots, ..Self::default() }
    }

    fn counts(&self) -> (usize, usize) {
        (self.successes.load(Ordering::Relaxed), self.cancelled.load(Ordering::Relaxed))
    }
}

impl LimitAlgorithm for Told {
    fn limit(&self) -> usize {
        self.slots
    }

    fn on_sample(&mut self, sample: &Sample) {
        if sample.outcome == Outcome::Success {
            self.successes.fetch_add(1, Ordering::Relaxed);
        } else {
            self.cancelled.fetch_add(1, Ordering::Relaxed);
            *self.last.lock().unwrap() = sample.rtt;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn alone_it_bounds_the_queue_and_the_wait() {
    let admission = Admission::builder().patience(ms(1_000)).build().unwrap();
    let snapshot = admission.snapshot();
    assert_eq!((snapshot.limit, snapshot.queue, &*snapshot.discipline), (20, 10_000, "burst_credit"));
    assert!(admission.warnings().is_empty(), "{:?}", admission.warnings());
    let held: Vec<_> = (0..20).map(|_| admission.try_admit(Ticket::new()).unwrap()).collect();
    let start = Instant::now();
    let rejection = admission.admit(Ticket::new()).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::QueueTimeout);
    assert!((800..810).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    drop(held);
    assert_at_rest(&admission, 21);
}

/// What is set holds, whether it is set before or after.
#[tokio::test(start_paused = true)]
async fn each_setting_can_still_be_set() {
    let shed = [Admission::builder().shed().patience(ms(1_000)), Admission::builder().patience(ms(1_000)).shed()];
    for builder in shed {
        let admission = builder.limit(Fixed::new(1)).build().unwrap();
        let _held = admission.try_admit(Ticket::new()).unwrap();
        let rejection = poll_once(&mut admission.admit(Ticket::new())).unwrap().unwrap_err();
        assert_eq!((rejection.reason(), admission.snapshot().queue), (Reason::Limit, 0));
    }
    let admission = Admission::builder().max_wait(ms(100)).queue(7).limit(Fixed::new(1)).patience(ms(1_000));
    let admission = admission.build().unwrap();
    assert_eq!((admission.snapshot().limit, admission.snapshot().queue), (1, 7));
    let _held = admission.try_admit(Ticket::new()).unwrap();
    let start = Instant::now();
    admission.admit(Ticket::new()).await.unwrap_err();
    assert!((100..110).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    let zero = Admission::builder().patience(ms(0)).build().unwrap_err().to_string();
    assert!(zero.contains("patience: found 0, allowed is any longer time"), "{zero}");
}

/// On slots that the engine lends and on slots that it gives, before and after a reload, a late answer is no success.
#[tokio::test(start_paused = true)]
async fn an_answer_after_the_patience_is_waste() {
    for slots in [1, 8] {
        let told = Told::with(slots);
        let builder = || Admission::builder().queue(9).max_wait(ms(10_000)).limit(Limit::per_sample(told.clone()));
        let admission = builder().patience(ms(1_000)).build().unwrap();
        let run = async |ticket: Ticket<'static>, lasts: u64| {
            let before = told.counts();
            serve_quietly(&admission);
            let permit = admission.admit(ticket).await.unwrap();
            advance(ms(lasts)).await;
            permit.finish(Outcome::Success);
            // Samples of lent slots are told at the next turn.
            let _ = admission.snapshot();
            let after = told.counts();
            (after.0 - before.0 - QUIET, after.1 - before.1)
        };
        for _ in 0..3 {
            assert_eq!(run(Ticket::new(), 999).await, (1, 0), "{slots} slots, in time");
            assert_eq!(run(Ticket::new(), 1_001).await, (0, 1), "{slots} slots, too late");
            assert_eq!(run(Ticket::new().timeout(ms(5_000)), 1_001).await, (1, 0), "the deadline that is sent counts");
            assert_eq!(run(Ticket::new().label("tenant"), 1_001).await, (0, 1), "with a label");
        }
        admission.reload(builder().patience(ms(3_000))).unwrap();
        assert_eq!(run(Ticket::new(), 1_001).await, (1, 0), "{slots} slots, more patience");
        assert_eq!(run(Ticket::new(), 3_001).await, (0, 1), "{slots} slots, too late for it");
        admission.reload(builder()).unwrap();
        assert_eq!(run(Ticket::new(), 100_000).await, (1, 0), "{slots} slots, no patience is known");
    }
}

/// A request whose handler may keep its slot comes by the same way as others, and is then counted by the engine.
#[tokio::test(start_paused = true)]
async fn a_late_answer_is_waste_where_the_slot_may_be_kept() {
    let told = Told::with(8);
    let admission = Admission::builder().limit(Limit::per_sample(told.clone())).patience(ms(1_000)).build().unwrap();
    let layer = AdmissionLayer::new(&admission).policy(Policy::new().abandoned(Abandoned::Kept));
    let service = layer.layer(tower::service_fn(async |request: Request<String>| {
        let lasts = request.body().parse().expect("a number of milliseconds");
        advance(ms(lasts)).await;
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    let answer = async |lasts: u64| {
        let before = told.counts();
        serve_quietly(&admission);
        drop(service.clone().oneshot(Request::new(lasts.to_string())).await.unwrap());
        let _ = admission.snapshot();
        let after = told.counts();
        (after.0 - before.0 - QUIET, after.1 - before.1)
    };
    for _ in 0..3 {
        assert_eq!(answer(999).await, (1, 0), "in time");
        assert_eq!(answer(1_001).await, (0, 1), "too late");
    }
    assert_at_rest(&admission, 6 * (QUIET as u64 + 1));
}

/// A caller that leaves long before its time is over says nothing of the server's time, on whichever slot its request runs.
#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_early_brings_no_time() {
    for (patience, slots) in [(Some(1_000), 1), (Some(1_000), 8), (None, 8)] {
        let given_up = Told::with(slots);
        let builder = Admission::builder().queue(9).max_wait(ms(10_000)).limit(Limit::per_sample(given_up.clone()));
        let builder = if let Some(patience) = patience { builder.patience(ms(patience)) } else { builder };
        let admission = builder.build().unwrap();
        for (leaves, told) in [(10, patience.is_none()), (490, patience.is_none()), (510, true), (1_000, true)] {
            serve_quietly(&admission);
            let permit = admission.admit(Ticket::new()).await.unwrap();
            advance(ms(leaves)).await;
            drop(permit);
            let _ = admission.snapshot();
            let time = given_up.last.lock().unwrap().take();
            assert_eq!(time, told.then(|| ms(leaves)), "{slots} slots, left after {leaves} ms of {patience:?}");
        }
    }
}

/// Callers that leave early, and nobody else: the limit stays what it is.
#[tokio::test(start_paused = true)]
async fn callers_that_leave_early_do_not_move_the_limit() {
    for early in [true, false] {
        let admission = Admission::builder().patience(ms(1_000)).build().unwrap();
        for _ in 0..300 {
            let permits: Vec<_> = (0..15).map(|_| admission.try_admit(Ticket::new()).unwrap()).collect();
            advance(ms(10)).await;
            permits.into_iter().for_each(|permit| permit.finish(Outcome::Success));
        }
        let calm = admission.snapshot().limit;
        for _ in 0..100 {
            let mut permits = Vec::new();
            while let Ok(permit) = admission.try_admit(Ticket::new()) {
                permits.push(permit);
            }
            advance(ms(if early { 100 } else { 1_000 })).await;
            drop(permits);
        }
        let limit = admission.snapshot().limit;
        assert_eq!(limit == calm, early, "{limit}, {calm} before; the control: nothing is answered in time");
    }
}

/// In an overload that lasts no request waits for long; before that, and after a calm, requests wait for as long as it pays.
#[tokio::test(start_paused = true)]
async fn a_burst_may_wait_and_a_standing_overload_may_not() {
    let admission = Admission::builder().patience(ms(1_000)).limit(Fixed::new(1)).partition("a", percent(10));
    let admission = admission.build().unwrap();
    let mut permit = Some(admission.try_admit(Ticket::new()).unwrap());
    let mut waits = Vec::new();
    let mut longest = Vec::new();
    // One request each 50 ms, each of which takes 100 ms.
    for step in 0..1_200_u64 {
        if step % 50 == 0 {
            longest.push(0);
        }
        let mut wait = admission.admit(Ticket::new());
        if poll_once(&mut wait).is_none() {
            waits.push((Instant::now(), wait));
        }
        advance(ms(50)).await;
        if step % 2 == 1 {
            permit.take().into_iter().for_each(|permit| permit.finish(Outcome::Success));
        }
        waits.retain_mut(|(since, wait)| match poll_once(wait) {
            None => true,
            Some(Err(_)) => false,
            Some(Ok(granted)) => {
                let waited = since.elapsed().as_millis();
                longest.last_mut().into_iter().for_each(|longest| *longest = waited.max(*longest));
                permit = Some(granted);
                false
            }
        });
    }
    // Each entry is about 2.5 s.
    assert!(longest[1] >= 600, "{longest:?}");
    assert!(longest[12..].iter().all(|&longest| longest <= 300), "{longest:?}");
    drop((waits, permit));
    advance(ms(10_000)).await;
    let held = admission.try_admit(Ticket::new()).unwrap();
    let start = Instant::now();
    admission.admit(Ticket::new()).await.unwrap_err();
    assert!((800..810).contains(&start.elapsed().as_millis()), "after a calm: {:?}", start.elapsed());
    drop(held);
}

/// A partition that floods uses up the credit of its own bursts, and not that of another partition.
#[tokio::test(start_paused = true)]
async fn a_flood_of_a_partition_leaves_the_bursts_of_another_partition_their_waits() {
    let builder = Admission::builder().patience(ms(1_000)).limit(Fixed::new(4));
    let admission = builder.partition("noisy", percent(50)).partition("calm", percent(50)).build().unwrap();
    let mut running: Vec<(Instant, Permit)> = Vec::new();
    let mut waits = Vec::new();
    let (mut served, mut refused) = ([0, 0], [0, 0]);
    // Four requests each 25 ms, of which each takes 50 ms; after 20 s each partition sends twelve requests more.
    for step in 0..900 {
        let burst = if step == 800 { 12 } else { 0 };
        for (partition, count) in [("noisy", 4 + burst), ("calm", burst)] {
            let tickets = (0..count).map(|_| admission.admit(Ticket::new().partition(partition)));
            waits.extend(tickets.map(|wait| (step, partition, wait)));
        }
        waits.retain_mut(|(came, partition, wait)| {
            let Some(answer) = poll_once(wait) else { return true };
            if *came == 800 {
                let of = if answer.is_ok() { &mut served } else { &mut refused };
                of[usize::from(*partition == "calm")] += 1;
            }
            running.extend(answer.ok().map(|permit| (Instant::now(), permit)));
            false
        });
        advance(ms(25)).await;
        let ended = running.extract_if(.., |(start, _)| start.elapsed() >= ms(50));
        ended.for_each(|(_, permit)| permit.finish(Outcome::Success));
    }
    assert_eq!((served[1], refused[1]), (12, 0), "the burst of the partition that was calm");
    assert!(refused[0] > served[0], "control: {served:?} of both were served, {refused:?} refused");
}
