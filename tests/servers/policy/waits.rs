//! How long a request waits, which ones don't, and when the slot of a stream is free.

use std::time::Duration;

use axum::{Router, body::Body, response::Response, routing::get};
use h2::client;
use http::Request;
use http_body_util::BodyExt;
use tokio::net::TcpStream;
use tonic::Code;
use tower_admission::{
    Admission, AdmissionLayer, Ticket,
    classify::paths,
    limit::Fixed,
    policy::{Policy, ReleaseAt},
};

use crate::support::{
    Client, Ends, Probe, Script, Server, Version, at_rest, bounded, client::get as request, eventually, grpc, is_idle,
};

fn one_runs() -> Admission {
    Admission::builder().limit(Fixed::new(1)).queue(10).build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_runs_into_its_grpc_timeout_leaves_the_line() {
    let (admission, probe) = (one_runs(), Probe::open());
    let server = grpc::serve(AdmissionLayer::new(&admission), &probe).await;
    probe.count_arrival();
    let held = admission.try_admit(Ticket::new()).unwrap();
    let channel = grpc::connect(server.address).await;
    let call = tokio::spawn(grpc::say(channel, Some(Duration::from_millis(200))));
    eventually("the call waits", || admission.snapshot().waiting == 1).await;
    let status = bounded("the call", call).await.unwrap().unwrap_err();
    // Whoever is first says so: the client, the server's own timeout, or the line.
    assert!([Code::Cancelled, Code::DeadlineExceeded, Code::ResourceExhausted].contains(&status.code()), "{status:?}");
    eventually("nobody waits", || admission.snapshot().waiting == 0).await;
    assert_eq!(admission.snapshot().in_flight, 1);
    assert_eq!(probe.started(), 0);
    drop(held);
    at_rest(&admission, &probe).await;
    server.stop().await;
}

/// The same without anybody else who watches the time: neither the client nor the server here has a timeout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_line_itself_answers_when_the_grpc_timeout_is_over() {
    let (admission, probe) = (one_runs(), Probe::open());
    let server = Ends::new(&probe).serve(AdmissionLayer::new(&admission)).await;
    probe.count_arrival();
    let held = admission.try_admit(Ticket::new()).unwrap();
    let socket = TcpStream::connect(server.address).await.unwrap();
    let (sender, connection) = client::handshake(socket).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::builder().method("POST").uri("http://test/test.Greeter/Say");
    let request = request.header("content-type", "application/grpc").header("grpc-timeout", "200m").body(()).unwrap();
    let (answer, _) = sender.ready().await.unwrap().send_request(request, true).unwrap();
    let answer = bounded("the call", answer).await.unwrap();
    assert_eq!(answer.headers()["grpc-status"], "4");
    assert!(answer.headers()["grpc-message"].to_str().unwrap().starts_with("deadline: "));
    let snapshot = admission.snapshot();
    assert_eq!((snapshot.waiting, snapshot.partitions[0].rejected["deadline"]), (0, 1));
    connection.abort();
    drop(held);
    at_rest(&admission, &probe).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exempt_paths_pass_while_the_limit_is_full() {
    let admission = Admission::builder().limit(Fixed::new(1)).shed().build().unwrap();
    let held = admission.try_admit(Ticket::new()).unwrap();
    let layer = AdmissionLayer::new(&admission).exempt(paths(["/healthz"]));
    let app = Router::new().route("/healthz", get(async || "ok")).route("/work", get(async || "done")).layer(layer);
    let server = Server::axum(app).await;
    let mut client = Client::connect(server.address, Version::H1).await;
    for _ in 0..100 {
        for (path, status) in [("/healthz", 200), ("/work", 503)] {
            assert_eq!(client.answer(request(path)).await.status(), status, "{path}");
        }
    }
    let snapshot = admission.snapshot();
    assert_eq!((snapshot.in_flight, snapshot.admitted(), snapshot.rejected()), (1, 1, 100));
    drop((held, client));
    server.stop().await;
}

/// A stream that stays open, with or without a policy.
async fn stream(policy: Policy) -> Response {
    let mut response = Response::new(Body::new(Script::endless()));
    response.extensions_mut().insert(policy);
    response
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_whose_slot_is_held_for_the_head_lets_others_run() {
    const STREAMS: usize = 50;
    let admission = one_runs();
    let app = Router::new()
        .route("/free", get(async || stream(Policy::new().release_at(ReleaseAt::ResponseHead)).await))
        .route("/held", get(async || stream(Policy::new()).await))
        .layer(AdmissionLayer::new(&admission));
    let server = Server::axum(app).await;
    let mut open = Vec::new();
    for _ in 0..STREAMS {
        let mut client = Client::connect(server.address, Version::H1).await;
        let mut answer = bounded("the head", client.get("/free")).await.unwrap();
        answer.frame().await.unwrap().unwrap();
        assert_eq!(admission.snapshot().in_flight, 0);
        open.push((client, answer));
    }
    // The control: where the policy says nothing, the slot is held as long as the stream is open.
    let mut client = Client::connect(server.address, Version::H1).await;
    let mut held = bounded("the head", client.get("/held")).await.unwrap();
    held.frame().await.unwrap().unwrap();
    assert_eq!(admission.snapshot().in_flight, 1);
    let mut next = Client::connect(server.address, Version::H1).await;
    let next = tokio::spawn(async move { next.get("/held").await.map(|answer| answer.status()) });
    eventually("the next one waits", || admission.snapshot().waiting == 1).await;
    client.kill();
    assert_eq!(bounded("the next one", next).await.unwrap().unwrap(), 200);
    eventually("all is given back", || is_idle(&admission.snapshot())).await;
    assert_eq!(admission.snapshot().admitted(), STREAMS as u64 + 2);
    drop((open, held));
    server.stop().await;
}
