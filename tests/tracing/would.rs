//! What spans say of requests that run only because decisions don't bind.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use admission_testkit::Moody;
use tower_admission::{
    Admission, Cap, ClassLimits, Mode, PartitionMode, Permit, Rate, Rejection, Rules, Ticket, WhenFull,
    limit::Fixed,
    percent,
    store::{Keys, Leases},
};
use tracing::{Instrument, field::Empty, instrument::Instrumented, subscriber::DefaultGuard};
use tracing_subscriber::prelude::*;

use super::Kept;

/// Requests in spans of their own.
struct Traced {
    kept: Kept,
    sent: AtomicUsize,
    _listens: DefaultGuard,
}

impl Traced {
    fn new() -> Self {
        let kept = Kept::default();
        let listens = tracing_subscriber::registry().with(kept.clone()).set_default();
        Self { kept, sent: AtomicUsize::new(0), _listens: listens }
    }

    fn request(
        &self,
        admission: &Admission,
        ticket: Ticket<'_>,
    ) -> (String, Instrumented<impl Future<Output = Result<Permit, Rejection>> + use<>>) {
        let path = format!("/{}", self.sent.fetch_add(1, Ordering::Relaxed));
        let span = tracing::info_span!(
            "request",
            path,
            admission.outcome = Empty,
            admission.reason = Empty,
            admission.partition = Empty
        );
        (path, admission.admit(ticket).instrument(span))
    }

    /// Outcome and reason, in words.
    fn says(&self, path: &str) -> String {
        let fields = self.kept.span(path);
        let reason = fields.get("admission.reason").map_or("", |reason| reason);
        format!("{} {reason}", fields["admission.outcome"]).trim_end().to_owned()
    }

    /// A request that doesn't wait, what its span says, and its permit.
    async fn send(&self, admission: &Admission, ticket: Ticket<'_>) -> (String, Option<Permit>) {
        let (path, answer) = self.request(admission, ticket);
        let permit = answer.await.ok();
        (self.says(&path), permit)
    }
}

/// A cap that turns away.
fn one() -> Cap {
    Cap::from(1).when_full(WhenFull::Reject)
}

fn of(label: &'static str) -> Ticket<'static> {
    Ticket::new().label(label)
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_observes() {
    let traced = Traced::new();
    let rules = || Rules::new().class("capped", ClassLimits::new().max_in_flight(1));
    let admission = Admission::builder().limit(Fixed::new(1)).rules(rules()).queue(1).build().unwrap();
    admission.set_mode(Mode::Observe);
    let (first, _first) = traced.send(&admission, Ticket::new()).await;
    let (second, _second) = traced.send(&admission, Ticket::new()).await;
    assert_eq!([first, second], ["admitted", "would_queue limit"]);
    admission.set_mode(Mode::Off);
    assert_eq!(traced.send(&admission, Ticket::new()).await.0, "admitted", "nothing is judged");

    let shedding = Admission::builder().limit(Fixed::new(2)).rules(rules()).shed().build().unwrap();
    shedding.set_mode(Mode::Observe);
    let (first, _first) = traced.send(&shedding, of("a").class("capped")).await;
    let (second, _second) = traced.send(&shedding, of("a").class("capped")).await;
    let (third, _third) = traced.send(&shedding, Ticket::new()).await;
    let (fourth, _fourth) = traced.send(&shedding, Ticket::new()).await;
    assert_eq!(
        [first, second, third, fourth],
        ["admitted", "would_reject label_cap", "admitted", "would_reject limit"]
    );
    shedding.set_mode(Mode::Enforce);
    let (fifth, permit) = traced.send(&shedding, Ticket::new()).await;
    assert_eq!((&*fifth, permit.is_none()), ("rejected limit", true), "control: it binds");
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_observes_beside_one_that_enforces() {
    let traced = Traced::new();
    let admission = Admission::builder()
        .limit(Fixed::new(4))
        .shed()
        .partition("looks", percent(25).with_mode(PartitionMode::HardCap).observe())
        .partition("binds", percent(25).hard_cap())
        .build()
        .unwrap();
    let mut held = Vec::new();
    let mut said = Vec::new();
    for partition in ["looks", "looks", "binds", "binds"] {
        let (says, permit) = traced.send(&admission, Ticket::new().partition(partition)).await;
        said.push(says);
        held.extend(permit);
    }
    assert_eq!(said, ["admitted", "would_reject partition_cap", "admitted", "rejected partition_cap"]);
    held.clear();
    assert_eq!(traced.send(&admission, Ticket::new().partition("looks")).await.0, "admitted");
}

#[tokio::test(start_paused = true)]
async fn rules_that_observe() {
    let traced = Traced::new();
    let rules = Rules::new()
        .class("cap", ClassLimits::new().max_in_flight(one().observe()))
        .class("line", ClassLimits::new().max_in_flight(Cap::from(1).when_full(WhenFull::Queue).observe()))
        .class("rate", ClassLimits::new().max_per_minute(Rate::from(1).when_full(WhenFull::Reject).observe()));
    let admission = Admission::builder().limit(Fixed::new(100)).queue(10).rules(rules).build().unwrap();
    let mut held = Vec::new();
    for (class, second) in
        [("cap", "would_reject label_cap"), ("line", "would_queue label_cap"), ("rate", "would_reject rate")]
    {
        for expected in ["admitted", second] {
            let (says, permit) = traced.send(&admission, of("a").class(class)).await;
            assert_eq!(says, expected, "{class}");
            held.extend(permit);
        }
    }
    let rejected = admission.snapshot().partitions[0].would_reject.clone();
    assert_eq!(rejected.values().sum::<u64>(), 2, "spans say what is counted: {rejected:?}");
}

#[tokio::test(start_paused = true)]
async fn who_has_waited_is_told_of_with_its_own_health() {
    let traced = Traced::new();
    let rules = Rules::new().class("cap", ClassLimits::new().max_in_flight(one().observe()));
    let admission = Admission::builder().limit(Fixed::new(2)).queue(10).rules(rules).build().unwrap();
    let (_, first) = traced.send(&admission, of("a").class("cap")).await;
    let (_, second) = traced.send(&admission, of("b")).await;
    let (beyond, waits) = traced.request(&admission, of("a").class("cap"));
    let beyond_waits = tokio::spawn(waits);
    let (plain, waits) = traced.request(&admission, of("b"));
    let plain_waits = tokio::spawn(waits);
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(admission.snapshot().waiting, 2, "there is no slot for them");
    drop(second);
    let held = beyond_waits.await.unwrap().unwrap();
    drop(first);
    let _plain = plain_waits.await.unwrap().unwrap();
    assert_eq!([traced.says(&beyond), traced.says(&plain)], ["would_reject label_cap", "admitted"]);
    drop(held);
    assert_eq!(traced.send(&admission, of("c").class("cap")).await.0, "admitted");
}

#[tokio::test(start_paused = true)]
async fn who_asks_a_store_as_well() {
    let traced = Traced::new();
    let limits = ClassLimits::new().max_in_flight(9).max_per_minute(Rate::from(1).observe());
    let leases = Leases::builder().build(Arc::new(Moody::new()));
    let admission = Admission::builder().limit(Fixed::new(100)).rules(Rules::new().default_limits(limits));
    let admission = admission.shared(leases, Keys::new("test").unwrap()).build().unwrap();
    let (first, _first) = traced.send(&admission, of("a")).await;
    let (second, _second) = traced.send(&admission, of("a")).await;
    assert_eq!([&*first, &*second], ["admitted", "would_reject rate"]);
    assert_eq!(admission.snapshot().store.unwrap().granted, 2, "the store was asked for both");
}
