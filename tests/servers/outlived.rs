//! Clients that leave while the work of their request goes on, at real servers: what that does to the backend.

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use admission_testkit::grpc::Served;
use axum::{Extension, Router, routing::get};
use tower::Layer;
use tower_admission::{
    Admission, AdmissionLayer,
    limit::Fixed,
    permit::SlotKeeper,
    policy::{Abandoned, Policy},
};

use crate::support::{Client, Greeter, H1, H2, Probe, Server, Version, client, eventually, grpc};

const LIMIT: usize = 4;
/// Clients that leave, one after the other.
const IMPATIENT: usize = 40;

fn four_run() -> Admission {
    Admission::builder().limit(Fixed::new(LIMIT)).queue(1_000).build().unwrap()
}

/// A handler whose work goes on in the background, as a query does, until the probe is opened; with its slot, if it is told how.
fn background(probe: &Probe) -> Router {
    let probe = probe.clone();
    let handler = move |keeper: Option<Extension<SlotKeeper>>| {
        let (probe, kept) = (probe.clone(), keeper.and_then(|Extension(keeper)| keeper.keep()));
        async move {
            let work = tokio::spawn(async move {
                probe.run().await;
                drop(kept);
            });
            work.await.unwrap();
            "done"
        }
    };
    Router::new().route("/", get(handler))
}

/// The same where callers wait for a minute.
fn patient() -> Admission {
    Admission::builder().limit(Fixed::new(LIMIT)).patience(Duration::from_secs(60)).build().unwrap()
}

/// How clients call.
#[derive(Clone, Copy, Debug)]
enum Caller {
    Http(Version),
    Grpc,
}

const HTTP: [Caller; 2] = [Caller::Http(H1), Caller::Http(H2)];

impl Caller {
    async fn call(self, address: SocketAddr) {
        match self {
            Self::Http(version) => drop(Client::connect(address, version).await.get("/").await),
            Self::Grpc => drop(grpc::say(grpc::connect(address).await, None).await),
        }
    }
}

/// Clients come and leave before they are answered, each after the server has taken note of it. Returns how much work is under
/// way then.
async fn come_and_leave(server: Server, caller: Caller, admission: &Admission, probe: &Probe) -> usize {
    let address = server.address;
    for number in 0..IMPATIENT {
        let inside = |snapshot: tower_admission::snapshot::Snapshot| snapshot.waiting + snapshot.in_flight;
        let arrived = || admission.snapshot().admitted() as usize + admission.snapshot().waiting;
        let before = arrived();
        let request = tokio::spawn(caller.call(address));
        eventually("the request is in", || arrived() > before || inside(admission.snapshot()) > number).await;
        let (started, admitted) = (probe.started(), admission.snapshot().admitted());
        if admission.snapshot().waiting == 0 {
            eventually("its work has begun", || probe.started() >= admitted.min(started + 1)).await;
        }
        request.abort();
        let _ = request.await;
        eventually("the server knows", || {
            let now = admission.snapshot();
            now.waiting == 0 && now.in_flight == now.abandoned
        })
        .await;
    }
    let under_way = probe.running();
    probe.release();
    eventually("all work has ended", || probe.running() == 0).await;
    server.stop().await;
    under_way
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_work_keeps_is_taken_until_the_work_ends() {
    let kept = Policy::new().abandoned(Abandoned::Kept);
    for caller in HTTP {
        let (admission, probe) = (four_run(), Probe::closed());
        let app = background(&probe).layer(AdmissionLayer::new(&admission).policy(kept));
        assert_eq!(come_and_leave(Server::axum(app).await, caller, &admission, &probe).await, LIMIT, "{caller:?}");
        eventually("all slots are free", || admission.snapshot().in_flight == 0).await;
        assert_eq!(admission.snapshot().abandoned, 0);
        assert_eq!(probe.peak(), LIMIT);

        // The control: nothing is said of the work, and all of it is under way at once.
        let (admission, probe) = (four_run(), Probe::closed());
        let app = background(&probe).layer(AdmissionLayer::new(&admission));
        assert_eq!(come_and_leave(Server::axum(app).await, caller, &admission, &probe).await, IMPATIENT, "{caller:?}");
    }
}

/// Where it is known how long callers wait, work goes on unless it is told to stop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_goes_on_where_patience_is_set() {
    for caller in HTTP {
        for (told, expected) in [(Policy::new(), LIMIT), (Policy::new().abandoned(Abandoned::Stops), IMPATIENT)] {
            let (admission, probe) = (patient(), Probe::closed());
            let app = background(&probe).layer(AdmissionLayer::new(&admission).policy(told));
            let under_way = come_and_leave(Server::axum(app).await, caller, &admission, &probe).await;
            assert_eq!(under_way, expected, "{caller:?} {told:?}");
        }
    }
}

/// What is left after the head of an answer is a stream, which ends with its reader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_left_frees_its_slot_at_once() {
    let admission = patient();
    let endless =
        get(async || axum::body::Body::from_stream(futures_util::stream::pending::<Result<&str, Infallible>>()));
    let app = Router::new().route("/", endless).layer(AdmissionLayer::new(&admission));
    let server = Server::axum(app).await;
    for version in [H1, H2] {
        for _ in 0..10 {
            let mut client = Client::connect(server.address, version).await;
            let response = client.get("/").await.unwrap();
            assert_eq!(admission.snapshot().in_flight, 1);
            drop((response, client));
            eventually("the slot is free", || admission.snapshot().in_flight == 0).await;
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detached_request_is_driven_to_its_end() {
    for caller in HTTP {
        let (admission, probe) = (four_run(), Probe::closed());
        let inside = probe.clone();
        // The work is that of the request itself: without the layer it would stop.
        let route = Router::new().route("/", get(async move || inside.run().await));
        let app = route.layer(AdmissionLayer::new(&admission).detach());
        assert_eq!(come_and_leave(Server::axum(app).await, caller, &admission, &probe).await, LIMIT, "{caller:?}");
        assert_eq!((probe.peak(), probe.started()), (LIMIT, LIMIT as u64));
        eventually("all slots are free", || admission.snapshot().in_flight == 0).await;

        let (admission, probe) = (four_run(), Probe::closed());
        let inside = probe.clone();
        let route = Router::new().route("/", get(async move || inside.run().await));
        let app = route.layer(AdmissionLayer::new(&admission));
        assert_eq!(
            come_and_leave(Server::axum(app).await, caller, &admission, &probe).await,
            0,
            "{caller:?}: it stops"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detached_call_of_tonic_is_driven_to_its_end() {
    let (admission, probe) = (four_run(), Probe::closed());
    let mut server = tonic::transport::Server::builder().layer(AdmissionLayer::new(&admission).detach());
    let server = Server::tonic(server.add_service(Served(Greeter(probe.clone())))).await;
    assert_eq!(come_and_leave(server, Caller::Grpc, &admission, &probe).await, LIMIT);
    assert_eq!((probe.peak(), probe.started()), (LIMIT, LIMIT as u64));
    eventually("all slots are free", || admission.snapshot().in_flight == 0).await;

    let (admission, probe) = (four_run(), Probe::closed());
    let server = grpc::serve(AdmissionLayer::new(&admission), &probe).await;
    assert_eq!(come_and_leave(server, Caller::Grpc, &admission, &probe).await, 0, "it stops");
    assert!(probe.started() > LIMIT as u64, "each came to its turn");
}

/// A client that stays gets the whole answer, a panic closes the connection as it does without the layer, and a handle that is met
/// twice is met once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detached_request_that_is_not_given_up_is_like_any_other() {
    let (admission, probe) = (four_run(), Probe::open());
    let inside = probe.clone();
    let route = get(async move || {
        inside.run().await;
        "done"
    });
    let layer = AdmissionLayer::new(&admission);
    let routes = Router::new()
        .route("/", route.layer(layer.clone()))
        .route("/panics", get(async || -> &'static str { panic!("a handler that panics, on purpose") }));
    let server = Server::axum(routes.layer(layer.detach())).await;
    for _ in 0..100 {
        let mut client = Client::connect(server.address, H1).await;
        assert_eq!(client.answer(client::get("/")).await.body(), "done");
        assert!(client.get("/panics").await.is_err());
    }
    eventually("all slots are free", || admission.snapshot().in_flight == 0).await;
    assert_eq!((admission.snapshot().admitted(), admission.snapshot().abandoned, probe.started()), (200, 0, 100));
    assert!(admission.warnings().iter().any(|it| it.contains("twice")), "{:?}", admission.warnings());
    server.stop().await;
}

/// A layer that detaches, behind another layer of the same handle, counts nothing. So what it drove on would be under way uncounted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_layer_detaches_nothing() {
    for caller in HTTP {
        let (admission, probe) = (four_run(), Probe::closed());
        let (inside, layer) = (probe.clone(), AdmissionLayer::new(&admission));
        let route = get(async move || inside.run().await).layer(layer.clone().detach());
        let app = Router::new().route("/", route).layer(layer);
        let server = Server::axum(app).await;
        assert_eq!(come_and_leave(server, caller, &admission, &probe).await, 0, "{caller:?}: it stops");
        assert_eq!((admission.snapshot().in_flight, probe.started()), (0, IMPATIENT as u64));
    }
}

/// A service without a server is detached in the same way.
#[tokio::test]
async fn without_a_server() {
    let (admission, probe) = (four_run(), Probe::closed());
    let inside = probe.clone();
    let service = tower::service_fn(move |_: http::Request<String>| {
        let probe = inside.clone();
        async move {
            probe.run().await;
            Ok::<_, Infallible>(http::Response::new(String::new()))
        }
    });
    let layer = AdmissionLayer::new(&admission).detach();
    let calls: Vec<_> = (0..LIMIT)
        .map(|_| tower::ServiceExt::oneshot(layer.layer(service.clone()), http::Request::new(String::new())))
        .collect();
    let mut calls: Vec<_> = calls.into_iter().map(Box::pin).collect();
    for call in &mut calls {
        assert!(crate::support::poll_once(call).await.is_pending());
    }
    eventually("all have begun", || probe.running() == LIMIT).await;
    drop(calls);
    assert_eq!((admission.snapshot().in_flight, admission.snapshot().abandoned), (LIMIT, LIMIT));
    probe.release();
    eventually("all slots are free", || admission.snapshot().in_flight == 0).await;
}
