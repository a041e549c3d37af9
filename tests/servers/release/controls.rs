//! The checks can fail: what leaks a slot, or counts one twice, is found out.

use http::{Request, Response};
use http_body_util::BodyExt;
use tower::{Layer, ServiceExt};
use tower_admission::{AdmissionLayer, Outcome, Ticket};

use super::{ATTEMPTS, LIMIT, eight_run};
use crate::support::{Ends, Probe, conserved, eventually, is_idle};

#[tokio::test]
async fn a_wrapper_that_forgets_the_body_is_found_out() {
    let (admission, probe) = (eight_run(), Probe::open());
    let service = probe.arrivals().layer(AdmissionLayer::new(&admission).layer(Ends::new(&probe)));
    for leaked in 1..=LIMIT {
        let answer = service.clone().oneshot(Request::new(String::new())).await.unwrap();
        std::mem::forget(answer.into_body());
        let snapshot = admission.snapshot();
        assert_eq!(snapshot.in_flight, leaked);
        assert!(!is_idle(&snapshot));
    }
    // And whoever comes next waits for ever, which is what the bounds of all tests are for.
    let next = tokio::spawn(service.oneshot(Request::new(String::new())));
    eventually("the next one waits", || admission.snapshot().waiting == 1).await;
    next.abort();
}

#[tokio::test]
async fn a_permit_that_is_forgotten_is_found_out() {
    let (admission, probe) = (eight_run(), Probe::open());
    probe.count_arrival();
    std::mem::forget(admission.try_admit(Ticket::new()).unwrap());
    assert!(!is_idle(&admission.snapshot()));
    assert!(conserved(&admission.snapshot(), &probe).is_err());
}

#[tokio::test]
async fn a_request_that_is_counted_twice_or_never_is_found_out() {
    let (admission, probe) = (eight_run(), Probe::open());
    probe.count_arrival();
    assert!(conserved(&admission.snapshot(), &probe).is_err(), "never");
    for _ in 0..2 {
        admission.try_admit(Ticket::new()).unwrap().finish(Outcome::Success);
    }
    assert!(conserved(&admission.snapshot(), &probe).is_err(), "twice");
    probe.count_arrival();
    assert!(conserved(&admission.snapshot(), &probe).is_ok());
}

/// A wrapper that lets go of the slot as soon as the head is there, as those do that don't wrap the body.
#[tokio::test]
async fn a_wrapper_that_releases_too_early_is_found_out() {
    let (admission, probe) = (eight_run(), Probe::open());
    let ends = Ends::new(&probe);
    let mut bodies = Vec::new();
    for _ in 0..ATTEMPTS {
        let permit = admission.try_admit(Ticket::new()).unwrap();
        let answer: Response<_> = ends.clone().oneshot(Request::new(String::new())).await.unwrap();
        permit.finish(Outcome::Success);
        bodies.push(answer.into_body());
    }
    assert_eq!(probe.peak(), ATTEMPTS);
    for body in bodies {
        body.collect().await.unwrap();
    }
}
