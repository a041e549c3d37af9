use std::time::Duration;

use tower_admission::{Admission, limit::Fixed};

use super::{hold, request, send, serve};
use crate::support::{Probe, at_rest, bounded, eventually};

/// The line has three places and nobody waits at the gate.
fn three_may_wait() -> Admission {
    let builder = Admission::builder().limit(Fixed::new(1)).queue(3).admission_timeout(Duration::ZERO);
    builder.build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_matters_more_pushes_out_what_matters_less_and_goes_first() {
    let (admission, probe) = (three_may_wait(), Probe::open());
    let (server, started) = serve(&admission, &probe).await;
    let held = hold(&admission, &probe);
    let mut waiters = Vec::new();
    for (count, name) in ["first", "second", "third"].into_iter().enumerate() {
        let headers = [("x-tenant", name), ("x-name", name), ("x-criticality", "sheddable")];
        waiters.push(send(&server, request("/", &headers)));
        eventually("it waits", || admission.snapshot().waiting == count + 1).await;
    }
    let equal = send(&server, request("/", &[("x-tenant", "fourth"), ("x-criticality", "sheddable")]));
    let (status, _, body) = bounded("one that matters as little", equal).await.unwrap();
    assert!(status == 503 && body.contains(r#""reason":"gate_full""#), "{status} {body}");

    let headers = [("x-tenant", "vip"), ("x-name", "vip"), ("x-criticality", "CRITICAL-PLUS")];
    let vip = send(&server, request("/", &headers));
    let (status, _, body) = bounded("the newest that matters least", waiters.pop().unwrap()).await.unwrap();
    assert!(status == 503 && body.contains(r#""reason":"pushed_out""#), "{status} {body}");
    drop(held);
    assert_eq!(bounded("the one that matters", vip).await.unwrap().0, 200);
    for waiter in waiters {
        assert_eq!(bounded("the others", waiter).await.unwrap().0, 200);
    }
    assert_eq!(*started.lock().unwrap(), ["vip", "first", "second"]);
    at_rest(&admission, &probe).await;
    server.stop().await;
}

/// Ten requests of one label came before one of another: it is the second to be served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_take_turns() {
    let admission = Admission::builder().limit(Fixed::new(1)).queue(100).build().unwrap();
    let probe = Probe::open();
    let (server, started) = serve(&admission, &probe).await;
    let held = hold(&admission, &probe);
    let mut waiters = Vec::new();
    for count in 0..11 {
        let name = if count < 10 { "heavy" } else { "light" };
        waiters.push(send(&server, request("/", &[("x-tenant", name), ("x-name", name)])));
        eventually("it waits", || admission.snapshot().waiting == count + 1).await;
    }
    drop(held);
    for waiter in waiters {
        assert_eq!(bounded("all", waiter).await.unwrap().0, 200);
    }
    let started = started.lock().unwrap().clone();
    assert_eq!(started.iter().position(|name| name == "light"), Some(1), "{started:?}");
    at_rest(&admission, &probe).await;
    server.stop().await;
}
