use tower_admission::{Admission, AdmissionBuilder, AdmissionLayer, Labels, limit::Fixed};

use super::{classify, request, send, serve};
use crate::support::{Probe, at_rest, bounded, eventually, grpc};

const CAP: usize = 3;
const CAPPED: usize = 20;
const OTHERS: usize = 50;

fn capped() -> AdmissionBuilder {
    Admission::builder().limit(Fixed::new(10)).queue(1_000).labels(Labels::new().label_cap("capped", CAP))
}

async fn as_many_run_as_may(admission: &Admission, probe: &Probe) {
    eventually("as many of the label run as may, and the others of it wait", || {
        let label = admission.label("", "capped");
        label.is_some_and(|label| (label.in_flight, label.waiting) == (CAP, CAPPED - CAP)) && probe.running() == CAP
    })
    .await;
}

async fn all_ran(admission: &Admission, probe: &Probe) {
    assert_eq!((probe.peak(), probe.started()), (CAP, CAPPED as u64));
    at_rest(admission, probe).await;
    let label = admission.label("", "capped").unwrap();
    assert_eq!((label.cap, label.admitted, label.rejected), (Some(CAP), CAPPED as u64, 0));
    assert_eq!(admission.label("", "other").unwrap().admitted, OTHERS as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_label_at_its_cap_waits_and_others_go_on_on_axum() {
    let (admission, probe) = (capped().build().unwrap(), Probe::closed());
    let (server, _) = serve(&admission, &probe).await;
    let capped: Vec<_> = (0..CAPPED).map(|_| send(&server, request("/held", &[("x-tenant", "capped")]))).collect();
    as_many_run_as_may(&admission, &probe).await;
    for _ in 0..OTHERS {
        let other = send(&server, request("/", &[("x-tenant", " other ")]));
        assert_eq!(bounded("another label", other).await.unwrap().0, 200);
    }
    as_many_run_as_may(&admission, &probe).await;
    probe.release();
    for one in capped {
        assert_eq!(bounded("the label", one).await.unwrap().0, 200);
    }
    all_ran(&admission, &probe).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_label_at_its_cap_waits_and_others_go_on_on_tonic() {
    let (admission, probe) = (capped().build().unwrap(), Probe::closed());
    let server = grpc::serve(AdmissionLayer::new(&admission).classify(classify()), &probe).await;
    let channel = grpc::connect(server.address).await;
    let call = |method, tenant| tokio::spawn(grpc::call(channel.clone(), method, &[("x-tenant", tenant)], None));
    let capped: Vec<_> = (0..CAPPED).map(|_| call(grpc::SAY, "capped")).collect();
    as_many_run_as_may(&admission, &probe).await;
    for _ in 0..OTHERS {
        assert_eq!(bounded("another label", call(grpc::ECHO, "other")).await.unwrap().unwrap(), "hello");
    }
    as_many_run_as_may(&admission, &probe).await;
    probe.release();
    for one in capped {
        assert_eq!(bounded("the label", one).await.unwrap().unwrap(), "hello");
    }
    all_ran(&admission, &probe).await;
    drop(channel);
    server.stop().await;
}

/// The control: where the label has no cap, as many run as the limit allows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_label_without_a_cap_uses_the_whole_limit() {
    let (admission, probe) = (capped().labels(Labels::new()).build().unwrap(), Probe::closed());
    let (server, _) = serve(&admission, &probe).await;
    let all: Vec<_> = (0..CAPPED).map(|_| send(&server, request("/held", &[("x-tenant", "capped")]))).collect();
    eventually("ten run", || probe.running() == 10).await;
    probe.release();
    for one in all {
        assert_eq!(bounded("the label", one).await.unwrap().0, 200);
    }
    at_rest(&admission, &probe).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_label_at_its_cap_is_refused_at_once_where_caps_reject() {
    let labels = Labels::new().cap(9).label_cap("capped", CAP).caps_reject(true);
    let (admission, probe) = (capped().labels(labels).build().unwrap(), Probe::closed());
    let (server, _) = serve(&admission, &probe).await;
    let tenant = |name| request("/held", &[("x-tenant", name)]);
    let capped: Vec<_> = (0..CAP).map(|_| send(&server, tenant("capped"))).collect();
    eventually("as many of the label run as may", || probe.running() == CAP).await;
    for _ in 0..2 {
        let (status, retry_after, body) = bounded("one more", send(&server, tenant("capped"))).await.unwrap();
        assert_eq!((status, retry_after.is_some()), (429, true));
        assert!(body.contains(r#""reason":"label_cap""#), "{body}");
    }
    let rules = &admission.label("", "capped").unwrap().rules;
    assert_eq!(rules.iter().map(|rule| (&*rule.rule, &*rule.when_full)).collect::<Vec<_>>(), [("label_cap", "reject")]);
    // For the limit, labels below their caps wait as ever.
    let others: Vec<_> = (0..9).map(|_| send(&server, tenant("other"))).collect();
    eventually("two of them wait", || admission.snapshot().waiting == 2).await;
    let (status, ..) = bounded("one more", send(&server, tenant("capped"))).await.unwrap();
    assert_eq!(status, 429);
    probe.release();
    for one in capped.into_iter().chain(others) {
        assert_eq!(bounded("the label", one).await.unwrap().0, 200);
    }
    let again = send(&server, tenant("capped"));
    assert_eq!(bounded("there is room again", again).await.unwrap().0, 200);
    at_rest(&admission, &probe).await;
    assert_eq!(admission.label("", "capped").unwrap().rejected, 3);
    server.stop().await;
}
