use tonic::Code;
use tower_admission::{Admission, AdmissionLayer, Labels, limit::Fixed};

use super::{classify, hold, request, send, serve};
use crate::support::{Probe, at_rest, bounded, eventually, grpc};

/// One runs; two of a label may wait, and two of a run.
fn two_may_wait() -> Admission {
    let labels = Labels::new().max_waiting(2).max_waiting_per_run(2);
    Admission::builder().limit(Fixed::new(1)).queue(100).labels(labels).build().unwrap()
}

async fn waiting(admission: &Admission, count: usize) {
    eventually(&format!("{count} wait"), || admission.snapshot().waiting == count).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_label_and_a_run_that_have_as_many_waiting_as_may_get_429_on_axum() {
    let (admission, probe) = (two_may_wait(), Probe::open());
    let (server, _) = serve(&admission, &probe).await;
    let held = hold(&admission, &probe);
    let mut waiters = Vec::new();
    for tenant in ["loud", "loud", "quiet"] {
        waiters.push(send(&server, request("/", &[("x-tenant", tenant)])));
    }
    waiting(&admission, 3).await;
    let refused = send(&server, request("/", &[("x-tenant", "loud")]));
    let (status, retry_after, body) = bounded("one too many of the label", refused).await.unwrap();
    assert_eq!(status, 429, "{body}");
    assert!(retry_after.is_some() && body.contains(r#""reason":"label_queue_full""#), "{body}");

    // Of a run the waiting are counted over all labels.
    for tenant in ["a", "b"] {
        waiters.push(send(&server, request("/", &[("x-tenant", tenant), ("x-job", "42")])));
    }
    waiting(&admission, 5).await;
    let refused = send(&server, request("/", &[("x-tenant", "c"), ("x-job", "42")]));
    let (status, retry_after, body) = bounded("one too many of the run", refused).await.unwrap();
    assert_eq!(status, 429, "{body}");
    assert!(retry_after.is_some() && body.contains(r#""reason":"run_cap""#), "{body}");
    // Another run of the same label may wait, and so may whoever has neither.
    waiters.push(send(&server, request("/", &[("x-tenant", "c"), ("x-job", "43")])));
    waiters.push(send(&server, request("/", &[])));
    waiting(&admission, 7).await;

    drop(held);
    for waiter in waiters {
        assert_eq!(bounded("those who wait", waiter).await.unwrap().0, 200);
    }
    at_rest(&admission, &probe).await;
    let rejected = &admission.snapshot().partitions[0].rejected;
    assert_eq!((rejected["label_queue_full"], rejected["run_cap"], rejected.len()), (1, 1, 2));
    assert_eq!(admission.label("", "loud").unwrap().rejected, 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_label_and_a_run_that_have_as_many_waiting_as_may_are_exhausted_on_tonic() {
    let (admission, probe) = (two_may_wait(), Probe::open());
    let server = grpc::serve(AdmissionLayer::new(&admission).classify(classify()), &probe).await;
    let held = hold(&admission, &probe);
    let channel = grpc::connect(server.address).await;
    let call =
        |headers: &[(&'static str, &'static str)]| tokio::spawn(grpc::call(channel.clone(), grpc::SAY, headers, None));
    let mut waiters = vec![call(&[("x-tenant", "loud")]), call(&[("x-tenant", "loud")])];
    waiters.extend(["a", "b"].map(|tenant| call(&[("x-tenant", tenant), ("x-job", "42")])));
    waiting(&admission, 4).await;
    for (headers, reason) in
        [(&[("x-tenant", "loud")][..], "label_queue_full: "), (&[("x-tenant", "c"), ("x-job", "42")], "run_cap: ")]
    {
        let status = bounded("one too many", call(headers)).await.unwrap().unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.message().starts_with(reason), "{status}");
        assert!(status.metadata().contains_key("grpc-retry-pushback-ms"));
    }
    drop(held);
    for waiter in waiters {
        assert_eq!(bounded("those who wait", waiter).await.unwrap().unwrap(), "hello");
    }
    at_rest(&admission, &probe).await;
    drop(channel);
    server.stop().await;
}
