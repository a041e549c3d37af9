use std::collections::HashMap;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tower_admission::{Admission, Labels, Outcome, Ticket, limit::Fixed, percent};

use super::{ms, poll_once};

/// All metrics that the recorder has, by name and labels.
fn read(snapshotter: &Snapshotter) -> HashMap<String, DebugValue> {
    let values = snapshotter.snapshot().into_vec().into_iter();
    values
        .map(|(key, _, _, value)| {
            let labels: Vec<_> = key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            (format!("{}{{{}}}", key.key().name(), labels.join(",")), value)
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_recorder_that_comes_late_sees_everything_that_was_counted() {
    let admission = Admission::builder().name("api").limit(Fixed::new(2)).partition("a", percent(50)).build().unwrap();
    admission.publish_metrics(); // without a recorder, and with nothing to say
    let first = admission.admit(Ticket::new().partition("a")).await.unwrap();
    let second = admission.admit(Ticket::new()).await.unwrap();
    let mut waiter = admission.admit(Ticket::new());
    assert!(poll_once(&mut waiter).is_none());
    assert!(admission.try_admit(Ticket::new()).is_err());
    tokio::time::advance(ms(100)).await;
    first.finish(Outcome::Success);
    let third = poll_once(&mut waiter).unwrap().unwrap();

    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || admission.publish_metrics());
    let values = read(&snapshotter);
    let gauge = |value: f64| DebugValue::Gauge(value.into());
    for (name, value) in [
        ("admission_limit{limiter=api}", gauge(2.0)),
        ("admission_partition_limit{limiter=api,partition=a}", gauge(1.0)),
        ("admission_in_flight{limiter=api,partition=a}", gauge(0.0)),
        ("admission_in_flight{limiter=api,partition=default}", gauge(2.0)),
        ("admission_waiting{limiter=api,partition=default,stage=line}", gauge(0.0)),
        ("admission_admitted_total{limiter=api,partition=a}", DebugValue::Counter(1)),
        ("admission_admitted_total{limiter=api,partition=default}", DebugValue::Counter(2)),
        ("admission_queued_total{limiter=api,partition=default}", DebugValue::Counter(1)),
        ("admission_rejected_total{limiter=api,partition=default,reason=limit}", DebugValue::Counter(1)),
        ("admission_rejected_total{limiter=api,partition=default,reason=queue_full}", DebugValue::Counter(0)),
        ("admission_outcomes_total{limiter=api,partition=a,outcome=success}", DebugValue::Counter(1)),
    ] {
        assert_eq!(values.get(name), Some(&value), "{name} in {values:#?}");
    }
    for name in
        ["admission_rtt_seconds{limiter=api,partition=a}", "admission_wait_seconds{limiter=api,partition=default}"]
    {
        let Some(DebugValue::Histogram(samples)) = values.get(name) else { panic!("{name} in {values:#?}") };
        assert_eq!(samples.len(), 1);
        assert!((0.075..=0.125).contains(&samples[0].into_inner()), "{name}: {samples:?}");
    }
    drop((second, third));
}

#[tokio::test(start_paused = true)]
async fn the_driver_publishes_each_second() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let admission = Admission::builder().name("driven").limit(Fixed::new(2)).build().unwrap();
    let _permit = admission.admit(Ticket::new()).await.unwrap();
    tokio::time::sleep(ms(2_100)).await;
    let values = read(&snapshotter);
    let admitted = values.get("admission_admitted_total{limiter=driven,partition=default}");
    assert_eq!(admitted, Some(&DebugValue::Counter(1)), "{values:#?}");
}

#[tokio::test(start_paused = true)]
async fn what_becomes_of_requests_is_told_by_label() {
    let labels = Labels::new().label_cap("gold", 4).metrics(1);
    let admission = Admission::builder().name("api").limit(Fixed::new(1)).queue(2).max_wait(ms(500)).max_waiting(0);
    let admission = admission.labels(labels).build().unwrap();
    let gold = || Ticket::new().label("gold");
    let first = admission.admit(gold()).await.unwrap();
    let mut waits = admission.admit(gold());
    let mut leaves = admission.admit(gold());
    assert!(poll_once(&mut waits).is_none() && poll_once(&mut leaves).is_none());
    admission.admit(gold()).await.unwrap_err();
    admission.try_admit(Ticket::new().label("other")).unwrap_err();
    drop(leaves);
    tokio::time::advance(ms(100)).await;
    let mut in_vain = admission.admit(gold());
    assert!(poll_once(&mut in_vain).is_none());
    first.finish(Outcome::Success);
    let second = poll_once(&mut waits).unwrap().unwrap();
    tokio::time::advance(ms(600)).await;
    in_vain.await.unwrap_err();
    second.finish(Outcome::Overload);
    drop(admission.admit(gold()).await.unwrap());
    let _runs = admission.admit(gold()).await.unwrap();

    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || admission.publish_metrics());
    let values = read(&snapshotter);
    let gold = "limiter=api,class=,namespace=,label=gold,overflow=false";
    let others = "limiter=api,class=,namespace=,label=,overflow=true";
    for (name, labels, value) in [
        ("requests_total", gold, DebugValue::Counter(7)),
        ("requests_total", others, DebugValue::Counter(1)),
        ("in_flight", gold, DebugValue::Gauge(1.0.into())),
        ("waiting", gold, DebugValue::Gauge(0.0.into())),
        ("available", gold, DebugValue::Gauge(3.0.into())),
        ("utilisation_ratio", gold, DebugValue::Gauge(0.25.into())),
    ] {
        let name = format!("admission_label_{name}{{{labels}}}");
        assert_eq!(values.get(&name), Some(&value), "{name} in {values:#?}");
    }
    // Six of the seven have ended: each in one way.
    let of_gold = [("success", 1), ("overload", 1), ("cancelled", 2), ("timeout", 1), ("denied", 1), ("ignored", 0)];
    let of_others = [("denied", 1), ("timeout", 0)];
    let outcomes = of_gold.map(|it| (gold, it)).into_iter().chain(of_others.map(|it| (others, it)));
    for (labels, (outcome, count)) in outcomes {
        let name = format!("admission_label_outcomes_total{{{labels},outcome={outcome}}}");
        assert_eq!(values.get(&name), Some(&DebugValue::Counter(count)), "{name}");
    }
    for name in ["admission_label_rtt_seconds", "admission_label_wait_seconds"] {
        let Some(DebugValue::Histogram(samples)) = values.get(&format!("{name}{{{gold}}}")) else { panic!("{name}") };
        assert_eq!(samples.len(), 1, "{name}");
        assert!((0.075..=0.125).contains(&samples[0].into_inner()), "{name}: {samples:?}");
    }
    assert!(!values.contains_key(&format!("admission_label_available{{{others}}}")), "no slots of their own");
}
