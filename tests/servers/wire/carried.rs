//! What other programs put into the headers of a request on its way.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{HeaderValue, Request, Response};
use proptest::{collection::vec, prelude::*};
use tower::{ServiceBuilder, ServiceExt, service_fn};
use tower_admission::{
    Admission, AdmissionLayer, Criticality, Ticket,
    classify::{Classify, RequestHead, by_baggage, demote_retries},
    limit::Fixed,
    response::Grant,
};

use crate::support::eventually;

/// The label that a request with these lines of baggage gets.
fn label(lines: &[&[u8]]) -> Option<String> {
    let mut request = Request::new(String::new());
    for line in lines {
        request.headers_mut().append("baggage", HeaderValue::from_bytes(line).unwrap());
    }
    let admission = Admission::builder().limit(Fixed::new(9)).build().unwrap();
    let told = service_fn(async |request: Request<String>| {
        let grant = request.extensions().get::<Grant>().unwrap();
        Ok::<_, Infallible>(Response::new(grant.label().unwrap_or_default().to_owned()))
    });
    let layer = AdmissionLayer::new(&admission).classify(by_baggage("tenant").as_label()).annotate();
    let service = ServiceBuilder::new().layer(layer).service(told);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let body = runtime.block_on(async {
        let answer = service.oneshot(request).await.unwrap();
        http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes()
    });
    Some(String::from_utf8(body.to_vec()).unwrap()).filter(|label| !label.is_empty())
}

#[test]
fn a_member_of_baggage_is_found_and_decoded() {
    for (lines, expected) in [
        (&[&b"tenant=acme"[..]][..], "acme"),
        (&[b"a=b , tenant = acme ;since=2024;tenant=x, tenant=other"], "acme"),
        (&[b"a=b", b"tenant=acme"], "acme"),
        (&[b"a=\xff", b"tenant=acme"], "acme"),
        (&[b"xtenant=1,Tenant=2,tenant=3"], "3"),
        (&[b"tenant=a=b+c"], "a=b+c"),
        (&[b"tenant=b%C3%BCro%20100%25"], "b\u{fc}ro 100%"),
        (&[b"tenant=%61%2C%3b"], "a,;"),
    ] {
        assert_eq!(label(lines).as_deref(), Some(expected), "{lines:?}");
    }
}

#[test]
fn a_value_that_is_none_counts_as_missing() {
    let lines: [&[&[u8]]; 10] = [
        &[],
        &[b""],
        &[b"tenant"],
        &[b"tenant="],
        &[b"tenant=;a=b"],
        // The first one counts, also where a later one would do.
        &[b"tenant=%,tenant=acme"],
        &[b"tenant=%6"],
        &[b"tenant=%+1"],
        &[b"tenant=%6g"],
        &[b"tenant=%ff"],
    ];
    for lines in lines {
        assert_eq!(label(lines), None, "{lines:?}");
    }
}

#[test]
fn no_more_is_read_than_each_platform_passes_on() {
    let padded = |bytes: usize| [vec![b'a'; bytes - 12], b",tenant=acme".to_vec()].concat();
    assert_eq!(label(&[&padded(8_192)]).as_deref(), Some("acme"));
    assert_eq!(label(&[&padded(8_193)]), None);
    assert_eq!(label(&[&padded(8_192), b"tenant=late"]).as_deref(), Some("acme"));
    assert_eq!(label(&[&vec![b'a'; 8_192], b"tenant=late"]), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Nothing panics, and what is encoded by the specification is what is found.
    #[test]
    fn what_is_encoded_is_found(value in "[a-z\u{e4}%,;= ]{1,20}", before in vec(9u8..=255, 0..40)) {
        let value = format!("<{value}>");
        let encoded: String = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let mut before: Vec<u8> = before.into_iter().filter(|byte| HeaderValue::from_bytes(&[*byte]).is_ok()).collect();
        let member = format!("tenant={encoded}");
        prop_assert_eq!(label(&[&before, member.as_bytes()]), Some(value));
        before.extend(member.bytes());
        label(&[&before]);
    }
}

/// Serves these requests one at a time, once all of them wait. Returns their names in the order in which they were served.
async fn order<C: Classify>(classify: C, requests: &[(&'static str, &'static str, &'static str)]) -> Vec<String> {
    let admission = Admission::builder().limit(Fixed::new(1)).queue(99).build().unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&served);
    let work = service_fn(move |request: Request<String>| {
        notes.lock().unwrap().push(request.into_body());
        async { Ok::<_, Infallible>(Response::new(String::new())) }
    });
    let service = ServiceBuilder::new().layer(AdmissionLayer::new(&admission).classify(classify)).service(work);
    let held = admission.try_admit(Ticket::new()).unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for (number, &(name, header, value)) in requests.iter().enumerate() {
        let request = Request::builder().header(header, value).body(name.to_owned()).unwrap();
        tasks.spawn(service.clone().oneshot(request));
        eventually("it waits", || admission.snapshot().waiting == number + 1).await;
    }
    drop(held);
    while let Some(answer) = tasks.join_next().await {
        assert_eq!(answer.unwrap().unwrap().status(), 200);
    }
    let served = served.lock().unwrap();
    served.clone()
}

#[tokio::test]
async fn under_overload_first_attempts_are_served_before_retries() {
    const PREVIOUS: &str = "grpc-previous-rpc-attempts";
    const ATTEMPT: &str = "x-envoy-attempt-count";
    let requests = [
        ("second retry", PREVIOUS, "2"),
        ("retry", PREVIOUS, "1"),
        ("retry by Envoy", ATTEMPT, "2"),
        ("first by Envoy", ATTEMPT, "1"),
        ("first", "x-other", "7"),
        ("unreadable", PREVIOUS, "-1"),
    ];
    let as_they_came = requests.map(|(name, ..)| name);
    assert_eq!(order(|_: &RequestHead<'_>, _: &mut Ticket<'_>| {}, &requests).await, as_they_came, "the control");
    let after = |first: [&'static str; 6]| first.map(str::to_owned).to_vec();
    let demoted = after(["first by Envoy", "first", "unreadable", "second retry", "retry", "retry by Envoy"]);
    for from in [0, 1] {
        assert_eq!(order(demote_retries(from), &requests).await, demoted, "{from}");
    }
    let second = after(["retry", "retry by Envoy", "first by Envoy", "first", "unreadable", "second retry"]);
    assert_eq!(order(demote_retries(2), &requests).await, second);
    assert_eq!(order(demote_retries(3), &requests).await, as_they_came);
    // Two steps for the second retry.
    let twice = after(["first by Envoy", "first", "unreadable", "retry", "retry by Envoy", "second retry"]);
    assert_eq!(order((demote_retries(1), demote_retries(2)), &requests).await, twice);
}

#[tokio::test]
async fn a_retry_is_refused_before_a_first_attempt_and_each_level_is_lowered() {
    for (level, lowered) in [
        (Criticality::CriticalPlus, Criticality::Critical),
        (Criticality::Critical, Criticality::SheddablePlus),
        (Criticality::SheddablePlus, Criticality::Sheddable),
    ] {
        let admission = Admission::builder().limit(Fixed::new(1)).queue(1).max_waiting(1).build().unwrap();
        let work = service_fn(async |_: Request<String>| Ok::<_, Infallible>(Response::new(String::new())));
        let set = move |_: &RequestHead<'_>, ticket: &mut Ticket<'_>| ticket.set_criticality(level);
        let layer = AdmissionLayer::new(&admission).classify((set, demote_retries(1)));
        let service = ServiceBuilder::new().layer(layer).service(work);
        let held = admission.try_admit(Ticket::new()).unwrap();
        let retry = Request::builder().header("grpc-previous-rpc-attempts", "1").body(String::new()).unwrap();
        let retry = tokio::spawn(service.clone().oneshot(retry));
        eventually("it waits", || admission.snapshot().waiting == 1).await;
        // A request of the level that a retry has now does not push it out.
        let equal =
            tokio::time::timeout(Duration::from_millis(20), admission.admit(Ticket::new().criticality(lowered)));
        assert!(!matches!(equal.await, Ok(Ok(_))));
        let first = tokio::spawn(service.clone().oneshot(Request::new(String::new())));
        assert_eq!(retry.await.unwrap().unwrap().status(), 503, "{level}: it made room");
        drop(held);
        assert_eq!(first.await.unwrap().unwrap().status(), 200);
    }
}
