//! What is observed is what would have been: the same load on a handle that enforces and on one that observes, in virtual
//! time, with times that don't depend on load.

use std::{collections::BTreeMap, time::Duration};

use admission_testkit::ByHand;
use tower_admission::{
    Admission, AdmissionBuilder, Cap, ClassLimits, Mode, Outcome, PartitionMode, Permit, Rate, Reason, Rules, Share,
    Ticket, WhenFull, limit::Fixed, percent,
};

/// How many requests each scenario sends to either handle.
const ATTEMPTS: u64 = 40_000;

/// One request of the load.
#[derive(Clone, Copy, Debug)]
struct Request {
    at: u64,
    takes: u64,
    partition: &'static str,
    label: &'static str,
    class: &'static str,
}

/// Two minutes of arrivals at random moments, 3 ms apart on average, that take from 30 to 150 ms: some 30 at once. Calm and
/// rush alternate.
fn load() -> Vec<Request> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    };
    let mut at = 0;
    (0..ATTEMPTS)
        .map(|number| {
            let rush = number / 1_000 % 2 == 1;
            at += random(if rush { 4_200 } else { 7_800 });
            let takes = 30_000 + random(120_000);
            let partition = if random(3) == 0 { "web" } else { "other" };
            let label = ["a", "a", "b", "c"][usize::try_from(random(4)).unwrap()];
            let class = if random(2) == 0 { "query" } else { "task" };
            Request { at, takes, partition, label, class }
        })
        .collect()
}

#[derive(Debug, Default)]
struct Tally {
    /// Rejections by partition and reason, and those that would have been.
    rejected: Counts,
    would: Counts,
}

/// Sends the load, and ends each request that runs when its time has come. `look` sees what runs when each arrives.
fn send(settings: AdmissionBuilder, mode: Mode, look: impl FnMut(&Request, &[Request])) -> (Tally, Admission) {
    send_some(settings, mode, true, look)
}

/// The same, with labels or without.
fn send_some(
    settings: AdmissionBuilder,
    mode: Mode,
    labelled: bool,
    mut look: impl FnMut(&Request, &[Request]),
) -> (Tally, Admission) {
    let clock = ByHand::default();
    let admission = settings.clock(clock.clone()).mode(mode).build().unwrap();
    // By when they end, and by number.
    let mut running: BTreeMap<(u64, u64), (Permit, Request)> = BTreeMap::new();
    let mut tally = Tally::default();
    for (number, request) in (0..).zip(load()) {
        finish(&clock, &mut running, request.at);
        let now: Vec<_> = running.values().map(|(_, request)| *request).collect();
        look(&request, &now);
        let ticket = Ticket::new().partition(request.partition).class(request.class);
        let ticket = if labelled { ticket.namespace("ns").label(request.label) } else { ticket };
        match admission.try_admit(ticket) {
            Ok(permit) => {
                running.insert((request.at + request.takes, number), (permit, request));
            }
            Err(rejection) => {
                let key = (rejection.partition().to_owned(), rejection.reason().as_str());
                *tally.rejected.entry(key).or_default() += 1;
            }
        }
    }
    finish(&clock, &mut running, u64::MAX / 2_000);
    let snapshot = admission.snapshot();
    for partition in &snapshot.partitions {
        assert_eq!((partition.in_flight, partition.in_flight_over_limit), (0, 0), "nothing is left behind");
        for (reason, count) in &partition.would_reject {
            let reason = Reason::ALL.into_iter().map(Reason::as_str).find(|it| it == reason).unwrap();
            tally.would.insert((partition.name.clone(), reason), *count);
        }
    }
    assert!(snapshot.shadow.is_none_or(|shadow| shadow.in_flight == 0), "nothing is left behind");
    (tally, admission)
}

/// Ends all that end until then, and sets the clock.
fn finish(clock: &ByHand, running: &mut BTreeMap<(u64, u64), (Permit, Request)>, until: u64) {
    while let Some(first) = running.first_entry().filter(|first| first.key().0 <= until) {
        clock.set(Duration::from_micros(first.key().0));
        first.remove().0.finish(Outcome::Success);
    }
    clock.set(Duration::from_micros(until));
}

/// How far apart two counts are, as a part of the first.
#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn apart(real: u64, would: u64) -> f64 {
    real.abs_diff(would) as f64 / real.max(1) as f64
}

type Counts = BTreeMap<(String, &'static str), u64>;

/// Asserts that what one handle rejects is what the other one says that it would, by partition and reason. Within 2 % is
/// what is promised; in virtual time nothing is left to chance.
#[track_caller]
fn assert_same(what: &str, real: &Counts, would: &Counts) {
    println!("{what}: of {ATTEMPTS} attempts each, rejected {real:?}, would have rejected {would:?}");
    assert!(real.values().sum::<u64>() > 500, "{what}: {real:?} is too little to compare");
    assert_eq!(real, would, "{what}");
}

/// A rule of each kind, and of all kinds at once, enforcing or not.
fn rules(observes: bool) -> Vec<(&'static str, ClassLimits)> {
    let cap = |max| {
        let cap = Cap::from(max).when_full(WhenFull::Reject);
        if observes { cap.observe() } else { cap }
    };
    let waiting = |max| if observes { Cap::from(max).observe() } else { Cap::from(max) };
    let rate = |rate: Rate| if observes { rate.observe() } else { rate };
    let minute = |max| rate(Rate::from(max));
    let smooth = |max| rate(Rate::from(max).smooth());
    let all = ClassLimits::new()
        .max_in_flight(cap(9))
        .max_in_flight_per_namespace(cap(17))
        .max_per_minute(smooth(4_500))
        .max_per_minute_per_namespace(minute(9_500))
        .budget("shared", smooth(18_500))
        .max_pending(cap(10));
    vec![
        ("a cap on labels", ClassLimits::new().max_in_flight(cap(6))),
        ("a cap on labels where nobody can wait", ClassLimits::new().max_in_flight(waiting(6))),
        ("a cap on namespaces", ClassLimits::new().max_in_flight_per_namespace(cap(11))),
        ("a bound on pending", ClassLimits::new().max_pending(cap(6))),
        ("a rate by minutes", ClassLimits::new().max_per_minute(minute(4_000))),
        ("a smooth rate", ClassLimits::new().max_per_minute(smooth(4_000))),
        ("a rate of namespaces", ClassLimits::new().max_per_minute_per_namespace(minute(9_000))),
        ("a budget", ClassLimits::new().budget("shared", smooth(17_000))),
        ("all of them", all),
    ]
}

fn with(limits: &ClassLimits) -> AdmissionBuilder {
    let rules = Rules::new().class("query", limits.clone()).class("task", limits.clone());
    Admission::builder().limit(Fixed::new(10_000)).shed().rules(rules)
}

#[test]
fn rules_that_observe_say_what_they_would_reject_and_reject_nobody() {
    for ((what, enforcing), (_, observing)) in rules(false).into_iter().zip(rules(true)) {
        let (real, _) = send(with(&enforcing), Mode::Enforce, |_, _| {});
        let (shadow, admission) = send(with(&observing), Mode::Enforce, |_, _| {});
        assert!(shadow.rejected.is_empty(), "{what}: {:?} of {ATTEMPTS}", shadow.rejected);
        assert_eq!(admission.snapshot().admitted(), ATTEMPTS);
        assert_same(what, &real.rejected, &shadow.would);
    }
}

/// What runs beyond a cap that observes takes none of its room, also after a reload.
#[test]
fn a_reload_keeps_apart_what_runs_beyond_a_cap_of_a_namespace_that_observes() {
    let capped = |max| with(&ClassLimits::new().max_in_flight_per_namespace(Cap::from(max).observe()));
    let admission = capped(1).build().unwrap();
    let admit = || admission.try_admit(Ticket::new().namespace("ns").label("a").class("query")).unwrap();
    let beyond = || admission.snapshot().partitions.iter().flat_map(|it| it.would_reject.values()).sum::<u64>();
    let mut running = vec![admit(), admit()];
    let before = beyond();
    admission.reload(capped(2)).unwrap();
    running.push(admit());
    assert_eq!(beyond(), before, "one of two runs within the cap, and there is room for another");
    running.push(admit());
    assert_eq!(beyond(), before + 1);
    drop(running);
    assert_eq!(admission.snapshot().in_flight, 0);
}

#[test]
fn a_rule_that_observes_beside_others_that_bind_judges_what_these_let_through() {
    let limits = |observes: bool| {
        let rate = Rate::from(4_000).smooth();
        ClassLimits::new().max_in_flight(Cap::from(9).when_full(WhenFull::Reject)).max_per_minute(if observes {
            rate.observe()
        } else {
            rate
        })
    };
    let (_, real) = send(with(&limits(false)), Mode::Enforce, |_, _| {});
    let (observed, _) = send(with(&limits(true)), Mode::Enforce, |_, _| {});
    let caps: Vec<_> = observed.rejected.keys().map(|(_, reason)| *reason).collect();
    assert!(!caps.is_empty() && caps.iter().all(|reason| *reason == "label_cap"), "{caps:?}");
    assert!(observed.would.keys().all(|(_, reason)| *reason == "rate"), "{:?}", observed.would);
    assert!(real.snapshot().rejected() > 500);
}

#[test]
fn a_handle_that_observes_says_what_it_would_reject() {
    for limits in [ClassLimits::new(), rules(false).pop().unwrap().1] {
        let (real, _) = send(with(&limits).limit(Fixed::new(25)), Mode::Enforce, |_, _| {});
        let (shadow, _) = send(with(&limits).limit(Fixed::new(25)), Mode::Observe, |_, _| {});
        assert!(shadow.rejected.is_empty());
        assert_same("the handle", &real.rejected, &shadow.would);
    }
}

fn partitioned(web: Share) -> AdmissionBuilder {
    Admission::builder().limit(Fixed::new(30)).shed().partition("web", web)
}

#[test]
fn a_partition_that_observes_says_what_it_would_reject_and_others_fare_as_if_it_did() {
    for mode in [PartitionMode::HardCap, PartitionMode::Burst, PartitionMode::Overcommit] {
        let share = percent(25).with_mode(mode);
        let (real, _) = send(partitioned(share), Mode::Enforce, |_, _| {});
        let (shadow, _) = send(partitioned(share.observe()), Mode::Enforce, |_, _| {});
        let is_web = |key: &(String, &'static str)| key.0 == "web";
        let of = |counts: &BTreeMap<_, u64>, web| {
            counts.iter().filter(|(key, _)| is_web(key) == web).map(|(k, v)| (k.clone(), *v)).collect()
        };
        assert_eq!(of(&shadow.rejected, true), BTreeMap::new(), "{mode:?}: none of its {ATTEMPTS} is rejected");
        assert_same(mode.as_str(), &of(&real.rejected, false), &of(&shadow.rejected, false));
        let (real, shadow) = (of(&real.rejected, true), of(&shadow.would, true));
        // What an overcommitting one is owed it gets at once, so there is less to compare.
        assert_eq!(real, shadow, "{mode:?}");
        assert!(mode == PartitionMode::Overcommit || real.values().sum::<u64>() > 500, "{mode:?}: {real:?}");
    }
}

#[test]
fn a_shadow_law_says_what_it_would_reject() {
    let (real, _) = send_some(Admission::builder().limit(Fixed::new(25)).shed(), Mode::Enforce, false, |_, _| {});
    let real: u64 = real.rejected.values().sum();
    for mode in [Mode::Enforce, Mode::Observe] {
        let settings = Admission::builder().limit(Fixed::new(5_000)).shed().shadow_limit(Fixed::new(25));
        let (tally, admission) = send_some(settings, mode, false, |_, _| {});
        assert!(tally.rejected.is_empty());
        let shadow = admission.snapshot().shadow.unwrap();
        assert!(real > 500 && apart(real, shadow.would_reject) <= 0.02, "{real} {shadow:?}");
        assert_eq!((shadow.limit, shadow.would_queue, shadow.would_admit), (25, 0, 0));
        assert!(!shadow.counterfactual, "both limits are fixed");
    }
}

/// The negative control: what would be said if those who would have been rejected were counted as running.
#[test]
fn counting_the_rejected_as_running_would_be_far_off() {
    let (real, _) = send(Admission::builder().limit(Fixed::new(25)).shed(), Mode::Enforce, |_, _| {});
    let mut naive = 0;
    send(Admission::builder().limit(Fixed::new(25)).shed(), Mode::Observe, |_, running| {
        naive += u64::from(running.len() >= 25);
    });
    let real: u64 = real.rejected.values().sum();
    assert!(apart(real, naive) > 0.02, "the limit: {real} {naive}");

    let limits = ClassLimits::new().max_in_flight(Cap::from(6).when_full(WhenFull::Reject));
    let (real, _) = send(with(&limits), Mode::Enforce, |_, _| {});
    let mut naive = 0;
    let observing = ClassLimits::new().max_in_flight(Cap::from(6).when_full(WhenFull::Reject).observe());
    send(with(&observing), Mode::Enforce, |request, running| {
        let same = running.iter().filter(|it| it.label == request.label && it.class == request.class);
        naive += u64::from(same.count() >= 6);
    });
    let real = real.rejected[&("default".to_owned(), Reason::LabelCap.as_str())];
    assert!(apart(real, naive) > 0.02, "a cap: {real} {naive}");
}
