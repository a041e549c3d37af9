//! What a request is told whose wait is over: which rule was in its way.

use std::time::Duration;

use admission_testkit::ByHand;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use tokio::time::advance;
use tower::{Layer, ServiceExt, service_fn};
use tower_admission::{
    Admission, AdmissionLayer, Cap, ClassLimits, Labels, Rate, Reason, Rules, Ticket, WhenFull,
    classify::RequestHead,
    journal::{DecisionEntry, JournalEntry, JournalEvent},
    limit::Fixed,
    percent,
    response::Rejections,
};

use super::ms;

fn classify(_: &RequestHead<'_>, ticket: &mut Ticket<'_>) {
    ticket.set_namespace("ns");
    ticket.set_label("a");
    ticket.set_partition("p");
}

/// Sends one request that waits until its wait is over; answers status, problem details, `RateLimit-Policy` and `RateLimit`.
async fn answer(admission: &Admission) -> (u16, serde_json::Value, String, String) {
    let layer = AdmissionLayer::new(admission).classify(classify).rejections(Rejections::new().rate_limit_fields());
    let inner = service_fn(|_: Request<Empty<bytes::Bytes>>| async {
        Ok::<_, std::convert::Infallible>(Response::new(Empty::<bytes::Bytes>::new()))
    });
    let response = layer.layer(inner).oneshot(Request::new(Empty::new())).await.unwrap();
    let (head, body) = response.into_parts();
    let field = |name| head.headers.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
    let (policy, left) = (field("ratelimit-policy"), field("ratelimit"));
    let body = body.collect().await.unwrap().to_bytes();
    (head.status.as_u16(), serde_json::from_slice(&body).unwrap(), policy, left)
}

/// Nine of ten slots are free, and a rule that lets requests wait is in the way. With all slots taken, the limit is.
#[tokio::test(start_paused = true)]
async fn a_wait_that_times_out_names_the_rule_that_was_in_its_way() {
    let wait = |cap: usize| Cap::from(cap).when_full(WhenFull::Queue);
    let rate = || Rate::from(1).when_full(WhenFull::Queue);
    let rules = |limits| Rules::new().override_key("ns:*", "*", limits);
    let concurrent = r#"qu="concurrent-requests""#;
    let builder = || Admission::builder().limit(Fixed::new(10)).queue(100).labels(Labels::new().max_wait(ms(5_000)));
    let label_cap = Labels::new().max_wait(ms(5_000)).label_cap("a", 1);
    let cases = [
        (Reason::QueueTimeout, builder(), 10, format!(r#""limit";q=10;{concurrent}"#)),
        (Reason::LabelCap, builder().labels(label_cap), 1, format!(r#""label_cap";q=1;{concurrent}"#)),
        (
            Reason::LabelCap,
            builder().rules(rules(ClassLimits::new().max_in_flight(wait(1)))),
            1,
            format!(r#""label_cap";q=1;{concurrent}"#),
        ),
        (
            Reason::NamespaceCap,
            builder().rules(rules(ClassLimits::new().max_in_flight_per_namespace(wait(1)))),
            1,
            format!(r#""namespace_cap";q=1;{concurrent}"#),
        ),
        (
            Reason::Rate,
            builder().rules(rules(ClassLimits::new().max_per_minute(rate()))),
            1,
            r#""rate";q=1;w=60"#.into(),
        ),
        (
            Reason::Rate,
            builder().rules(rules(ClassLimits::new().max_per_minute_per_namespace(rate()))),
            1,
            r#""rate";q=1;w=60"#.into(),
        ),
        (
            Reason::Budget,
            builder().rules(rules(ClassLimits::new().budget("b", rate()))),
            1,
            r#""budget";q=1;w=60"#.into(),
        ),
        (
            Reason::PartitionCap,
            builder().partition("p", percent(10).hard_cap()),
            1,
            format!(r#""partition_cap";q=1;{concurrent}"#),
        ),
    ];
    for (reason, builder, taken, policy) in cases {
        let admission = builder.build().unwrap();
        let held: Vec<_> = (0..taken)
            .map(|_| admission.try_admit(Ticket::new().namespace("ns").label("a").partition("p")).unwrap())
            .collect();
        let (status, problem, told, left) = answer(&admission).await;
        assert_eq!((status, &problem["status"], &problem["reason"]), (503, &503.into(), &reason.as_str().into()));
        let kind = if reason.is_caller_limit() { "quota-exceeded" } else { "temporary-reduced-capacity" };
        assert!(problem["type"].as_str().unwrap().ends_with(kind), "{problem}");
        assert!(problem["detail"].as_str().unwrap().starts_with(reason.describe()), "{problem}");
        assert_eq!(told, policy);
        let name = policy.split('"').nth(1).unwrap();
        assert_eq!(problem["violated-policies"], serde_json::json!([name]));
        assert!(left.starts_with(&format!(r#""{name}";r=0;t="#)), "{left}");
        let snapshot = admission.snapshot();
        let rejected: u64 = snapshot.partitions.iter().filter_map(|it| it.rejected.get(reason.as_str())).sum();
        assert_eq!((snapshot.rejected(), rejected), (1, 1), "{snapshot:#?}");
        let journal = admission.journal();
        let ended = journal.iter().rev().find_map(|entry| match &entry.event {
            JournalEvent::Decision(DecisionEntry { decision, reason, .. }) => Some((decision.as_str(), *reason)),
            _ => None,
        });
        assert_eq!(ended, Some(("timed_out", Some(reason))));
        drop(held);
        advance(Duration::from_secs(60)).await;
        // The control: the same rule, met on arrival by a request that can't wait.
        let held: Vec<_> = (0..taken)
            .map(|_| admission.try_admit(Ticket::new().namespace("ns").label("a").partition("p")).unwrap())
            .collect();
        let rejection = admission.try_admit(Ticket::new().namespace("ns").label("a").partition("p")).unwrap_err();
        assert_eq!((rejection.reason().is_caller_limit(), rejection.timed_out()), (reason.is_caller_limit(), false));
        drop(held);
    }
}

/// The bound that is told is that of the rule that is named.
#[tokio::test(start_paused = true)]
async fn bounds_on_waiting_are_told_as_such() {
    let labels = Labels::new().max_waiting(3).max_waiting_per_run(2);
    let admission = Admission::builder().limit(Fixed::new(10)).queue(100).labels(labels).build().unwrap();
    let _held: Vec<_> = (0..10).map(|_| admission.try_admit(Ticket::new()).unwrap()).collect();
    let wait = |run: &'static str| {
        let mut admit = admission.admit(Ticket::new().label("a").run(run));
        (super::poll_once(&mut admit), admit)
    };
    let _waiting = [wait("1"), wait("1")];
    let (refused, _) = wait("1");
    let refused = refused.unwrap().unwrap_err();
    assert_eq!((refused.reason(), refused.bound()), (Reason::RunCap, 2));
    let _third = wait("2");
    let (refused, _) = wait("3");
    let refused = refused.unwrap().unwrap_err();
    assert_eq!((refused.reason(), refused.bound()), (Reason::LabelQueueFull, 3));
    // A bound that was lowered: what is told is what waits.
    let fewer = Labels::new().max_waiting(9).max_waiting_per_run(1);
    admission.reload(Admission::builder().limit(Fixed::new(10)).queue(100).labels(fewer)).unwrap();
    assert!(wait("1").0.is_some());
    let told = |entry: &JournalEntry| match &entry.event {
        JournalEvent::Decision(it) => it.reason == Some(Reason::RunCap) && (it.used, it.bound) == (Some(2), Some(1)),
        _ => false,
    };
    assert!(admission.journal().iter().any(told));
}

/// A wait ends in the same moment in which the cap of its label has room: the cap was in its way all the time, and not the server. It
/// ended with `queue_timeout` before, for the label was not full any more.
#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_when_its_cap_has_room_ends_because_of_the_cap() {
    for (limit, reason) in [(10, Reason::LabelCap), (1, Reason::QueueTimeout)] {
        let labels = Labels::new().max_wait(ms(200)).label_cap("a", 1);
        // Tokio's timers know nothing of this clock.
        let clock = ByHand::default();
        let builder = Admission::builder().limit(Fixed::new(limit)).queue(100).labels(labels);
        let admission = builder.clock(clock.clone()).build().unwrap();
        let ticket = || Ticket::new().label("a");
        let held = admission.try_admit(ticket()).unwrap();
        let mut waits = admission.admit(ticket());
        assert!(super::poll_once(&mut waits).is_none());
        // No timer has its turn before the slot is given back.
        clock.set(ms(200));
        drop(held);
        assert_eq!(waits.await.unwrap_err().reason(), reason, "of {limit} slots");
    }
}
