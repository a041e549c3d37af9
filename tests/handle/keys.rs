//! Partitions and labels by key: what was looked up before means the same as its name.

use std::convert::Infallible;

use http::{Request, Response};
use tower::{Layer, ServiceExt, service_fn};
use tower_admission::{
    Admission, AdmissionLayer, Labels, Outcome, Ticket,
    classify::{LabelKey, PartitionKey, label_by_extension, partition_by_extension},
    limit::Fixed,
    percent,
    snapshot::Snapshot,
};

use super::poll_once;

fn build(partitions: &[&str]) -> Admission {
    let labels = Labels::new().label_cap("acme", 2);
    let builder = Admission::builder().limit(Fixed::new(10)).shed().labels(labels);
    partitions.iter().fold(builder, |it, name| it.partition(*name, percent(10))).build().unwrap()
}

fn admitted(snapshot: &Snapshot, partition: &str) -> u64 {
    snapshot.partitions.iter().find(|it| it.name == *partition).map_or(0, |it| it.admitted)
}

#[test]
fn a_key_counts_for_the_same_label_as_its_name() {
    let admission = build(&[]);
    let key = LabelKey::new("", " acme ").unwrap();
    let by_key = || {
        let mut ticket = Ticket::new();
        ticket.set_label_key(&key);
        admission.try_admit(ticket)
    };
    let by_name = || admission.try_admit(Ticket::new().label("acme"));
    let (first, second) = (by_key().unwrap(), by_name().unwrap());
    assert_eq!(by_key().unwrap_err().reason().as_str(), "label_cap");
    assert_eq!(by_name().unwrap_err().reason().as_str(), "label_cap");
    first.finish(Outcome::Success);
    second.finish(Outcome::Success);
    let labels = admission.snapshot().labels;
    assert_eq!(labels.len(), 1, "{labels:?}");
    assert_eq!((labels[0].name.as_str(), labels[0].admitted, labels[0].rejected), ("acme", 2, 2));
}

#[test]
fn the_namespace_of_a_key_is_the_namespace_of_its_label() {
    let admission = build(&[]);
    let key = LabelKey::new("test", "acme").unwrap();
    let mut ticket = Ticket::new().namespace("another");
    ticket.set_label_key(&key);
    admission.try_admit(ticket).unwrap().finish(Outcome::Success);
    assert!(admission.label("test", "acme").is_some() && admission.label("another", "acme").is_none());
}

#[test]
fn a_key_of_a_partition_means_its_name_in_every_handle() {
    let admission = build(&["gold", "silver"]);
    assert_eq!(admission.partition_key("bronze"), None);
    let key = admission.partition_key("silver").unwrap();
    assert_eq!(key.name(), "silver");
    let other = build(&["silver", "gold"]);
    let without = build(&["gold"]);
    for handle in [&admission, &other, &without] {
        let mut ticket = Ticket::new();
        ticket.set_partition_key(&key);
        handle.try_admit(ticket).unwrap().finish(Outcome::Success);
    }
    for (handle, partition) in [(&admission, "silver"), (&other, "silver"), (&without, "default")] {
        assert_eq!(admitted(&handle.snapshot(), partition), 1, "{partition}");
    }
}

#[test]
fn a_key_stays_valid_over_reloads() {
    let admission = build(&["gold", "silver"]);
    let key = admission.partition_key("silver").unwrap();
    let admit = || {
        let mut ticket = Ticket::new();
        ticket.set_partition_key(&key);
        admission.try_admit(ticket).unwrap().finish(Outcome::Success);
    };
    let with = |names: &[&str]| {
        let builder = Admission::builder().limit(Fixed::new(10)).shed();
        names.iter().fold(builder, |it, name| it.partition(*name, percent(10)))
    };
    admit();
    // Another order, and one more.
    admission.reload(with(&["bronze", "silver", "gold"])).unwrap();
    admit();
    assert_eq!(admitted(&admission.snapshot(), "silver"), 2);
    // While a partition is not in the settings, its name means the default partition, and so does its key.
    admission.reload(with(&["gold"])).unwrap();
    let before = admitted(&admission.snapshot(), "default");
    admit();
    admission.try_admit(Ticket::new().partition("silver")).unwrap().finish(Outcome::Success);
    assert_eq!(admitted(&admission.snapshot(), "default"), before + 2);
    admission.reload(with(&["gold", "silver"])).unwrap();
    admit();
    assert_eq!(admitted(&admission.snapshot(), "silver"), 3);
}

#[test]
fn a_waiter_keeps_what_its_keys_said() {
    let admission = Admission::builder().limit(Fixed::new(1)).partition("gold", percent(50)).build().unwrap();
    let running = admission.try_admit(Ticket::new()).unwrap();
    let mut waiting = {
        let (partition, label) = (admission.partition_key("gold").unwrap(), LabelKey::new("", "acme").unwrap());
        let mut ticket = Ticket::new();
        ticket.set_partition_key(&partition);
        ticket.set_label_key(&label);
        admission.admit(ticket)
    };
    assert!(poll_once(&mut waiting).is_none());
    assert_eq!(admission.label("", "acme").unwrap().waiting, 1);
    running.finish(Outcome::Success);
    poll_once(&mut waiting).unwrap().unwrap().finish(Outcome::Success);
    assert_eq!(admitted(&admission.snapshot(), "gold"), 1);
}

#[tokio::test]
async fn a_layer_reads_keys_from_the_extensions_of_a_request() {
    #[derive(Clone)]
    struct Claims {
        plan: Option<PartitionKey>,
        tenant: LabelKey,
    }
    let admission = build(&["gold"]);
    let layer = AdmissionLayer::new(&admission).classify((
        partition_by_extension(|claims: &Claims| claims.plan.as_ref()),
        label_by_extension(|claims: &Claims| Some(&claims.tenant)),
    ));
    let service =
        layer.layer(service_fn(|_: Request<String>| async { Ok::<_, Infallible>(Response::new("done".to_owned())) }));
    let claims = Claims { plan: admission.partition_key("gold"), tenant: LabelKey::new("", "acme").unwrap() };
    let with = |claims: Option<Claims>| {
        let mut request = Request::new(String::new());
        if let Some(claims) = claims {
            request.extensions_mut().insert(claims);
        }
        request
    };
    for request in [with(Some(claims.clone())), with(Some(Claims { plan: None, ..claims })), with(None)] {
        assert!(service.clone().oneshot(request).await.unwrap().status().is_success());
    }
    let snapshot = admission.snapshot();
    assert_eq!((admitted(&snapshot, "gold"), admitted(&snapshot, "default")), (1, 2));
    assert_eq!(snapshot.labels[0].admitted, 2);
}
