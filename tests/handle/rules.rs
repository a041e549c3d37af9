//! Caps, rates and budgets through the public API.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use admission_testkit::ByHand;
use tokio::{
    sync::Barrier,
    time::{Instant, advance},
};
use tower_admission::{
    Admission, Cap, ClassLimits, Labels, Outcome, Rate, RateMode, Reason, Rules, Ticket, WhenFull, limit::Fixed,
};

use super::{ms, poll_once};

fn ticket() -> Ticket<'static> {
    Ticket::new().namespace("ns").label("a")
}

fn with(limits: ClassLimits) -> Admission {
    let rules = Rules::new().override_key("ns:*", "*", limits);
    Admission::builder().limit(Fixed::new(10)).queue(100).rules(rules).build().unwrap()
}

/// A rule of each kind that allows one, and the reason that it gives.
fn each_kind(mode: RateMode, when_full: WhenFull) -> [(Reason, ClassLimits); 5] {
    let cap = Cap::from(1).when_full(when_full);
    let rate = Rate::from(1).mode(mode).when_full(when_full);
    [
        (Reason::LabelCap, ClassLimits::new().max_in_flight(cap)),
        (Reason::NamespaceCap, ClassLimits::new().max_in_flight_per_namespace(cap)),
        (Reason::Rate, ClassLimits::new().max_per_minute(rate)),
        (Reason::Rate, ClassLimits::new().max_per_minute_per_namespace(rate)),
        (Reason::Budget, ClassLimits::new().budget("shared", rate)),
    ]
}

const fn is_cap(reason: Reason) -> bool {
    matches!(reason, Reason::LabelCap | Reason::NamespaceCap)
}

const SMOOTH: RateMode = RateMode::Smooth { burst: NonZeroU32::MIN };

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_rule_is_served_when_it_has_room() {
    for mode in [RateMode::Window, SMOOTH] {
        for (reason, limits) in each_kind(mode, WhenFull::Queue) {
            // Waits are not to end before the rate has room.
            let rules = Rules::new().override_key("ns:*", "*", limits);
            let admission = Admission::builder()
                .limit(Fixed::new(10))
                .queue(100)
                .labels(Labels::new().max_wait(ms(600_000)))
                .rules(rules)
                .build()
                .unwrap();
            let start = Instant::now();
            advance(ms(7_000)).await;
            let first = admission.admit(ticket()).await.unwrap();
            let mut waiting = admission.admit(ticket());
            assert!(poll_once(&mut waiting).is_none());
            let other = admission.admit(Ticket::new().namespace("elsewhere").label("a")).await.unwrap();
            drop(other);
            if is_cap(reason) {
                let waiting = tokio::spawn(waiting);
                tokio::task::yield_now().await;
                first.finish(Outcome::Success);
                waiting.await.unwrap().unwrap().finish(Outcome::Success);
                assert_eq!(start.elapsed(), ms(7_000), "{reason}: as soon as the other one ended");
            } else {
                first.finish(Outcome::Success);
                let due = ms(if mode == SMOOTH { 67_000 } else { 60_000 });
                assert_eq!(admission.next_wakeup(), Some(due), "{reason} {mode:?}");
                // The driver wakes it; Tokio's timers go by the millisecond.
                waiting.await.unwrap().finish(Outcome::Success);
                let late = start.elapsed().saturating_sub(due);
                assert!(start.elapsed() >= due && late <= ms(2), "{reason} {mode:?}: {:?}", start.elapsed());
            }
            super::assert_at_rest(&admission, 3);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_turned_away_comes_back_at_the_right_time() {
    for mode in [RateMode::Window, SMOOTH] {
        for when_full in [WhenFull::Reject, WhenFull::RespondEmpty] {
            for (reason, limits) in each_kind(mode, when_full) {
                let admission = with(limits);
                advance(ms(7_123)).await;
                let first = admission.admit(ticket()).await.unwrap();
                let rejection = admission.admit(ticket()).await.unwrap_err();
                let next = admission.try_admit(ticket()).unwrap_err();
                // A start of its own is promised to each.
                assert_eq!((next.reason(), next.retry_after() > rejection.retry_after()), (reason, !is_cap(reason)));
                assert_eq!((rejection.reason(), rejection.bound()), (reason, 1));
                assert_eq!(rejection.responds_empty(), when_full == WhenFull::RespondEmpty, "{reason}");
                drop(first);
                if !is_cap(reason) {
                    advance(rejection.retry_after() - Duration::from_nanos(1)).await;
                    let early = admission.try_admit(ticket()).unwrap_err();
                    assert_eq!(early.reason(), reason, "{mode:?}");
                    advance(Duration::from_nanos(1)).await;
                }
                drop(admission.try_admit(ticket()).unwrap());
            }
        }
    }
}

/// There was room on arrival and there is none when the turn comes.
#[tokio::test(start_paused = true)]
async fn who_finds_a_rule_full_at_the_grant_is_turned_away() {
    for when_full in [WhenFull::Reject, WhenFull::RespondEmpty] {
        for (reason, limits) in each_kind(RateMode::Window, when_full) {
            let admission = with(limits);
            let held: Vec<_> = (0..10).map(|_| admission.try_admit(Ticket::new()).unwrap()).collect();
            let waiting: Vec<_> = (0..2).map(|_| tokio::spawn(admission.admit(ticket()))).collect();
            tokio::task::yield_now().await;
            assert_eq!(admission.snapshot().waiting, 2);
            drop(held);
            let [first, second] = <[_; 2]>::try_from(waiting).unwrap();
            let first = first.await.unwrap().unwrap();
            let rejection = second.await.unwrap().unwrap_err();
            assert_eq!((rejection.reason(), rejection.responds_empty()), (reason, when_full == WhenFull::RespondEmpty));
            drop(first);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pending_is_counted_while_waiting_and_running() {
    let admission = with(ClassLimits::new().max_pending(2).max_in_flight(1));
    let first = admission.try_admit(ticket()).unwrap();
    let mut waiting = admission.admit(ticket());
    assert!(poll_once(&mut waiting).is_none());
    let rejection = admission.admit(ticket()).await.unwrap_err();
    assert_eq!((rejection.reason(), rejection.bound()), (Reason::PendingFull, 2));
    drop(waiting);
    drop(first);
    drop(admission.try_admit(ticket()).unwrap());
}

#[test]
fn a_deadline_that_has_passed_is_a_rejection() {
    let admission = with(ClassLimits::new().max_in_flight(1));
    for ticket in [ticket(), Ticket::new()] {
        let rejection = admission.try_admit(ticket.timeout(Duration::ZERO)).unwrap_err();
        assert_eq!(rejection.reason(), Reason::Deadline);
    }
}

const TASKS: usize = 64;
const LABELS: [&str; 4] = ["a", "b", "c", "d"];
const CLASSES: [&str; 2] = ["one", "two"];

/// How many of each class and label were admitted in this minute.
type Ledger = [[AtomicU64; LABELS.len()]; CLASSES.len()];

/// 64 tasks on real threads: what each rule says was used is what was admitted, in each minute, and never more than may.
///
/// 50,000 decisions, or as many as `TOWER_ADMISSION_DECISIONS` says.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_is_refused_by_one_rule_is_charged_by_none_whatever_happens_at_once() {
    let decisions: usize =
        std::env::var("TOWER_ADMISSION_DECISIONS").ok().and_then(|it| it.parse().ok()).unwrap_or(50_000);
    const MINUTES: usize = 20;
    const GROUP: u32 = 400;
    let each = decisions.div_ceil(TASKS * MINUTES);
    let scale = |max: u32| u32::try_from(each).unwrap() * max / 50 + 1;
    let limits = |label_rate, namespace_rate| {
        ClassLimits::new()
            .max_in_flight(Cap::from(9).when_full(WhenFull::Reject))
            .max_in_flight_per_namespace(20)
            .max_per_minute(scale(label_rate))
            .max_per_minute_per_namespace(scale(namespace_rate))
            .budget("shared", scale(GROUP))
    };
    let rules = Rules::new().class("one", limits(80, 150)).class("two", limits(70, 280));
    let clock = ByHand::default();
    let admission =
        Admission::builder().limit(Fixed::new(100)).shed().rules(rules).clock(clock.clone()).build().unwrap();
    let ledger: Arc<Ledger> = Arc::default();
    let barrier = Arc::new(Barrier::new(TASKS + 1));
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (admission, ledger, barrier) = (admission.clone(), Arc::clone(&ledger), Arc::clone(&barrier));
            tokio::spawn(async move {
                for _ in 0..MINUTES {
                    for decision in 0..each {
                        let (class, label) = ((task + decision) % 2, (task * 7 + decision / 2) % LABELS.len());
                        let ticket = Ticket::new().class(CLASSES[class]).namespace("ns").label(LABELS[label]);
                        if let Ok(permit) = admission.try_admit(ticket) {
                            ledger[class][label].fetch_add(1, Ordering::SeqCst);
                            if decision % 3 == 0 {
                                tokio::task::yield_now().await;
                            }
                            permit.finish(Outcome::Success);
                        }
                    }
                    barrier.wait().await;
                    barrier.wait().await;
                }
            })
        })
        .collect();
    let mut by_reason = [0; 5];
    for _ in 0..MINUTES {
        barrier.wait().await;
        check(&admission, &ledger, scale(GROUP));
        ledger.iter().flatten().for_each(|count| count.store(0, Ordering::SeqCst));
        clock.pass(Duration::from_secs(60));
        barrier.wait().await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    let snapshot = admission.snapshot();
    for (reason, count) in snapshot.partitions.iter().flat_map(|partition| &partition.rejected) {
        let words = ["label_cap", "namespace_cap", "rate", "budget", "limit"];
        by_reason[words.iter().position(|word| word == reason).unwrap()] += count;
    }
    assert_eq!(snapshot.admitted() + snapshot.rejected(), (each * TASKS * MINUTES) as u64);
    assert!(by_reason[2] > 0 && by_reason[3] > 0, "rates and budgets refuse: {by_reason:?}");
}

/// What the rules say, against what was admitted.
fn check(admission: &Admission, ledger: &Ledger, group: u32) {
    let snapshot = admission.snapshot();
    assert_eq!(snapshot.in_flight, 0);
    let admitted = |class: usize, label: usize| ledger[class][label].load(Ordering::SeqCst) as usize;
    let of_class = |class| (0..LABELS.len()).map(|label| admitted(class, label)).sum::<usize>();
    let all = of_class(0) + of_class(1);
    assert!(all <= group as usize);
    assert_eq!(snapshot.labels.len(), CLASSES.len() * LABELS.len());
    for it in &snapshot.labels {
        let class = CLASSES.iter().position(|class| *class == it.class).unwrap();
        let label = LABELS.iter().position(|label| *label == it.name).unwrap();
        for rule in &it.rules {
            let expected = match &*rule.rule {
                "max_per_minute" => admitted(class, label),
                "max_per_minute_per_namespace" => of_class(class),
                "budget" => all,
                _ => 0,
            };
            assert_eq!(rule.used, expected, "{} of {} {}", rule.rule, it.class, it.name);
            assert!(rule.used <= rule.bound, "{} of {} {}", rule.rule, it.class, it.name);
        }
    }
}
