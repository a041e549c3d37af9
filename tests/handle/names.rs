//! Namespaces, runs and requests without a label, through the public API.

use std::time::Duration;

use tokio::time::{Instant, advance};
use tower_admission::{
    Admission, AdmissionBuilder, ClassLimits, DrainMode, Labels, Mode, Outcome, Rate, RateMode, Reason, Rules, Ticket,
    limit::Fixed,
};

use super::{ms, poll_once};

fn rate_per_label(max: u32) -> Rules {
    Rules::new().default_limits(ClassLimits::new().max_per_minute(Rate::from(max)))
}

/// Bounds for labels do not hold for requests without one, also after a reload.
#[tokio::test(start_paused = true)]
async fn a_reload_gives_requests_without_a_label_no_cap() {
    let with_rules = |builder: AdmissionBuilder| builder.rules(rate_per_label(1_000));
    for has_rules in [false, true] {
        for namespace in ["", "ns"] {
            let settings = || {
                let builder = Admission::builder().limit(Fixed::new(10)).shed().labels(Labels::new().cap(1));
                if has_rules { with_rules(builder) } else { builder }
            };
            let unlabelled = || Ticket::new().namespace(namespace);
            let admission = settings().build().unwrap();
            let _first = admission.try_admit(unlabelled()).unwrap();
            let _second = admission.try_admit(unlabelled()).unwrap();
            admission.reload(settings()).unwrap();
            let _third = admission.try_admit(unlabelled()).unwrap();
            // The control: a request with a label is bound by it.
            let _labelled = admission.try_admit(unlabelled().label("a")).unwrap();
            let refused = admission.try_admit(unlabelled().label("a")).unwrap_err();
            assert_eq!(refused.reason(), Reason::LabelCap);
        }
    }
}

/// Each of them is bound as before, once a reload brings rules or takes them.
#[tokio::test(start_paused = true)]
async fn a_request_without_a_label_takes_no_entry_of_a_label() {
    let labels = || Labels::new().max_labels(3).cap(1);
    let admission =
        Admission::builder().limit(Fixed::new(100)).shed().labels(labels()).rules(rate_per_label(1_000)).build();
    let admission = admission.unwrap();
    let _held: Vec<_> = (0..3).map(|i| admission.try_admit(Ticket::new().label(i.to_string())).unwrap()).collect();
    // The table is full of labels in use.
    let unlabelled: Vec<_> = (0..3).map(|_| admission.try_admit(Ticket::new()).unwrap()).collect();
    let _shared = admission.try_admit(Ticket::new().label("3")).unwrap();
    let refused = admission.try_admit(Ticket::new().label("4")).unwrap_err();
    assert_eq!(refused.reason(), Reason::LabelCap, "labels without an entry share one");
    assert_eq!((unlabelled.len(), admission.snapshot().labels_known), (3, 3));
}

#[test]
fn labels_are_counted_and_classes_are_not() {
    for classes in 0..4 {
        let rules = (0..classes).fold(Rules::new(), |rules, class| {
            rules.class(format!("class {class}"), ClassLimits::new().max_per_minute(Rate::from(1_000)))
        });
        let admission = Admission::builder().limit(Fixed::new(10)).rules(rules).build().unwrap();
        assert_eq!(admission.snapshot().labels_known, 0, "{classes} classes, no request");
        admission.try_admit(Ticket::new()).unwrap().finish(Outcome::Success);
        assert_eq!(admission.snapshot().labels_known, 0, "a request without a label is none");
        for class in 0..classes {
            let ticket = Ticket::new().class(format!("class {class}")).label("a");
            admission.try_admit(ticket).unwrap().finish(Outcome::Success);
        }
        assert_eq!(admission.snapshot().labels_known, classes, "one label in each class");
    }
}

#[tokio::test(start_paused = true)]
async fn runs_of_two_namespaces_are_two() {
    let labels = Labels::new().max_waiting_per_run(5);
    let admission = Admission::builder().limit(Fixed::new(1)).queue(100).labels(labels).build().unwrap();
    let ticket =
        |namespace: &'static str, label: &'static str| Ticket::new().namespace(namespace).label(label).run("1");
    let held = admission.try_admit(Ticket::new()).unwrap();
    let mut waiting: Vec<_> = (0..5).map(|_| admission.admit(ticket("evil", "a"))).collect();
    assert!(waiting.iter_mut().all(|wait| poll_once(wait).is_none()));
    // The control: another label of the same namespace and run.
    assert_eq!(admission.admit(ticket("evil", "b")).await.unwrap_err().reason(), Reason::RunCap);
    let mut good = admission.admit(ticket("good", "a"));
    assert!(poll_once(&mut good).is_none(), "it waits: five wait for a run of another namespace");
    let waiters = admission.waiters("good", "a");
    assert_eq!((waiters.len(), waiters[0].run.as_deref()), (1, Some("1")));
    drop((waiting, good, held));
    super::assert_at_rest(&admission, 8);
}

/// The gate and the line together take no longer than a label may wait.
#[tokio::test(start_paused = true)]
async fn the_bound_on_a_labels_wait_holds_for_gate_and_line_together() {
    let labels = Labels::new().max_wait(ms(10_000));
    let builder = Admission::builder().limit(Fixed::new(1)).queue(1).admission_timeout(ms(9_000)).labels(labels);
    let admission = builder.build().unwrap();
    let held = admission.try_admit(Ticket::new()).unwrap();
    let first = tokio::spawn(admission.admit(Ticket::new()));
    tokio::task::yield_now().await;
    let start = Instant::now();
    let second = tokio::spawn(admission.admit(Ticket::new().label("a")));
    tokio::task::yield_now().await;
    assert_eq!((admission.snapshot().waiting, admission.snapshot().at_gate), (1, 1));
    advance(ms(8_500)).await;
    drop(held);
    let _held = first.await.unwrap().unwrap();
    tokio::task::yield_now().await;
    assert_eq!((admission.snapshot().waiting, admission.snapshot().at_gate), (1, 0), "it came in from the gate");
    assert_eq!(second.await.unwrap().unwrap_err().reason(), Reason::QueueTimeout);
    let waited = start.elapsed();
    assert!(waited >= ms(10_000) && waited <= ms(10_002), "{waited:?}");
}

#[test]
fn a_handle_that_drains_lets_in_nobody_in_any_mode() {
    for mode in [Mode::Off, Mode::Observe, Mode::Enforce] {
        for drains_first in [false, true] {
            let admission = Admission::builder().limit(Fixed::new(10)).build().unwrap();
            if drains_first {
                admission.drain(DrainMode::RejectWaiting);
            }
            admission.set_mode(mode);
            // The control: the mode lets in everybody else.
            assert_eq!(admission.try_admit(Ticket::new()).is_ok(), !drains_first, "{mode:?}");
            admission.drain(DrainMode::RejectWaiting);
            let refused = admission.try_admit(Ticket::new()).unwrap_err();
            assert_eq!(refused.reason(), Reason::Draining, "{mode:?}");
            let mut waits = admission.admit(Ticket::new());
            assert_eq!(poll_once(&mut waits).unwrap().unwrap_err().reason(), Reason::Draining, "{mode:?}");
            assert!(!admission.is_ready(), "{mode:?}");
        }
    }
}

/// Invented names give no label, no namespace and no request without a label a second rate: each has used 99 of 100.
#[tokio::test(start_paused = true)]
async fn invented_names_renew_no_rate() {
    const TOLD_APART: usize = 100;
    let smooth = RateMode::Smooth { burst: std::num::NonZeroU32::new(100).unwrap() };
    for mode in [RateMode::Window, smooth] {
        let rate = || Rate::from(100).mode(mode);
        let rules = [
            ClassLimits::new().max_per_minute(rate()),
            ClassLimits::new().max_per_minute_per_namespace(rate()),
            ClassLimits::new().budget("shared", rate()),
        ];
        for limits in rules {
            for subject in [Ticket::new(), Ticket::new().namespace("mine").label("a"), Ticket::new().namespace("mine")]
            {
                let labels = Labels::new().max_labels(TOLD_APART);
                let rules = Rules::new().default_limits(limits.clone());
                let builder = Admission::builder().limit(Fixed::new(10)).shed().labels(labels).rules(rules);
                let admission = builder.build().unwrap();
                for _ in 0..99 {
                    admission.try_admit(subject.clone()).unwrap().finish(Outcome::Success);
                }
                for invented in 0..1_000 {
                    let name = format!("invented {invented}");
                    drop(admission.try_admit(Ticket::new().namespace(&name).label(&name)));
                }
                admission.try_admit(subject.clone()).unwrap().finish(Outcome::Success);
                let refused = admission.try_admit(subject.clone());
                assert!(refused.is_err(), "{mode:?}: {subject:?} {limits:?} started a 101st request");
                let snapshot = admission.snapshot();
                assert!(snapshot.labels_known <= TOLD_APART && snapshot.labels_overflowed > 0);
                advance(Duration::from_secs(120)).await;
                admission.try_admit(subject.clone()).unwrap().finish(Outcome::Success);
            }
        }
    }
}
