//! Work that goes on when its request was dropped: a handler that spawned it, and a client that left.

use axum::{Router, extract::State, http::StatusCode, routing::get};
use tokio::{io::AsyncWriteExt, net::TcpStream};
use tower_admission::{Admission, AdmissionLayer, Outcome, Ticket, classify::paths, limit::Fixed};

use crate::support::{Probe, Server, eventually, is_idle};

const LIMIT: usize = 2;
const CLIENTS: usize = 20;

fn handle() -> Admission {
    Admission::builder().limit(Fixed::new(LIMIT)).shed().build().unwrap()
}

/// Asks, and leaves as soon as the request was admitted or rejected.
async fn ask_and_leave(server: &Server, admission: &Admission) {
    let before = |admission: &Admission| {
        let snapshot = admission.snapshot();
        snapshot.admitted() + snapshot.rejected()
    };
    let known = before(admission);
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    socket.write_all(b"GET /report HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    eventually("it was decided", || before(admission) > known).await;
}

/// The limitation: the slot is that of the request, and the work is not stopped with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_was_handed_over_outlives_the_slot_of_its_request() {
    let (admission, probe) = (handle(), Probe::closed());
    let work = probe.clone();
    let report = async move || {
        let task = tokio::spawn(async move { work.run().await });
        task.await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
    };
    let server = Server::axum(Router::new().route("/report", get(report)).layer(AdmissionLayer::new(&admission))).await;
    for round in 1..=CLIENTS {
        ask_and_leave(&server, &admission).await;
        eventually("the slot is free", || is_idle(&admission.snapshot())).await;
        eventually("the work goes on", || probe.running() == round).await;
    }
    assert_eq!(probe.running(), CLIENTS, "at a limit of {LIMIT}");
    probe.release();
    server.stop().await;
}

/// The remedy: the route is exempt, and its handler takes a permit that lives in the task.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permit_in_the_task_bounds_work_that_outlives_its_request() {
    async fn report(State((admission, work)): State<(Admission, Probe)>) -> Result<(), StatusCode> {
        let permit = admission.admit(Ticket::new()).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
        let task = tokio::spawn(async move {
            work.run().await;
            permit.finish(Outcome::Success);
        });
        task.await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
    }
    let (admission, probe) = (handle(), Probe::closed());
    let layer = AdmissionLayer::new(&admission).exempt(paths(["/report"]));
    let app = Router::new().route("/report", get(report)).layer(layer).with_state((admission.clone(), probe.clone()));
    let server = Server::axum(app).await;
    for _ in 0..CLIENTS {
        ask_and_leave(&server, &admission).await;
    }
    eventually("two run", || probe.running() == LIMIT).await;
    let snapshot = admission.snapshot();
    assert_eq!((snapshot.in_flight, snapshot.rejected()), (LIMIT, (CLIENTS - LIMIT) as u64));
    assert_eq!((probe.peak(), probe.started()), (LIMIT, LIMIT as u64), "of {CLIENTS}");
    probe.release();
    eventually("all slots are free", || is_idle(&admission.snapshot())).await;
    server.stop().await;
}
