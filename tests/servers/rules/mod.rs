//! Caps on real servers: exactly as many as may, and "nothing" where that is the answer.

use std::{convert::Infallible, sync::Arc};

use axum::{Router, routing::get};
use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use tokio::{sync::watch, task::JoinSet};
use tower::{Layer, service_fn};
use tower_admission::{
    Admission, AdmissionLayer, Cap, ClassLimits, Rate, Rules, Ticket, WhenFull, classify::RequestHead, limit::Fixed,
    response::Rejections,
};

use crate::support::{Client, H1, H2, Server, bounded, client, eventually, is_idle};

fn classify(_: &RequestHead<'_>, ticket: &mut Ticket<'_>) {
    ticket.set_class("workflow");
    ticket.set_namespace("production");
    ticket.set_label("payments");
}

fn with(limits: ClassLimits) -> Admission {
    let rules = Rules::new().class("workflow", limits);
    Admission::builder().limit(Fixed::new(1_000)).queue(1_000).rules(rules).build().unwrap()
}

/// A server whose requests end with the round in which they came.
struct Rounds {
    admission: Admission,
    server: Server,
    round: Arc<watch::Sender<u64>>,
}

impl Rounds {
    async fn start(limits: ClassLimits) -> Self {
        let admission = with(limits);
        let round = Arc::new(watch::Sender::new(0));
        let held = Arc::clone(&round);
        let app = Router::new().route(
            "/",
            get(async move || {
                let mut round = held.subscribe();
                let _ = round.changed().await;
                "done"
            }),
        );
        let server = Server::axum(app.layer(AdmissionLayer::new(&admission).classify(classify))).await;
        Self { admission, server, round }
    }

    /// All clients start at once. Those that run are held until all others were answered.
    async fn run(&self, clients: Vec<Client>, may_run: usize) -> Vec<Client> {
        let count = clients.len();
        let mut tasks = JoinSet::new();
        for mut client in clients {
            tasks.spawn(async move {
                let status = client.answer(client::get("/")).await.status().as_u16();
                (client, status)
            });
        }
        let (mut clients, mut statuses) = (Vec::new(), Vec::new());
        while clients.len() < count {
            if clients.len() == count - may_run {
                eventually("all that may run do", || self.round.receiver_count() == may_run).await;
                self.round.send_modify(|round| *round += 1);
            }
            let (client, status) = bounded("an answer", tasks.join_next()).await.unwrap().unwrap();
            clients.push(client);
            statuses.push(status);
        }
        statuses.sort_unstable();
        let expected: Vec<_> = (0..count)
            .map(|client| if client < may_run { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS })
            .collect();
        assert!(statuses.iter().copied().eq(expected.iter().map(StatusCode::as_u16)), "{statuses:?}");
        eventually("nobody runs", || is_idle(&self.admission.snapshot())).await;
        clients
    }
}

/// 20 rounds, or as many as `TOWER_ADMISSION_ROUNDS` says.
fn rounds() -> usize {
    std::env::var("TOWER_ADMISSION_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(20)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_that_start_at_once_exactly_two_run() {
    let reject = Cap::from(2).when_full(WhenFull::Reject);
    for limits in [ClassLimits::new().max_in_flight(reject), ClassLimits::new().max_in_flight_per_namespace(2)] {
        let rounds_of = Rounds::start(limits).await;
        for starts in [10, 100] {
            let mut clients = Vec::new();
            for _ in 0..starts {
                clients.push(Client::connect(rounds_of.server.address, H1).await);
            }
            for _ in 0..rounds() {
                clients = rounds_of.run(clients, 2).await;
            }
        }
        let snapshot = rounds_of.admission.snapshot();
        assert_eq!(snapshot.admitted(), 2 * 2 * rounds() as u64);
        assert_eq!(snapshot.rejected(), (8 + 98) * rounds() as u64);
        rounds_of.server.stop().await;
    }
}

/// Whoever polls for work and finds a full rule is told that there is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_rule_that_says_so_answers_that_there_is_nothing() {
    let one = || Rate::from(1).when_full(WhenFull::RespondEmpty);
    let kinds = [
        ClassLimits::new().max_per_minute(one()),
        ClassLimits::new().max_per_minute_per_namespace(one()),
        ClassLimits::new().budget("shared", one()),
        ClassLimits::new().max_in_flight(Cap::from(1).when_full(WhenFull::RespondEmpty)),
        ClassLimits::new().max_in_flight_per_namespace(Cap::from(1).when_full(WhenFull::RespondEmpty)),
        ClassLimits::new().max_pending(Cap::from(1).when_full(WhenFull::RespondEmpty)),
    ];
    for limits in kinds {
        for (version, is_axum) in [(H1, true), (H2, true), (H1, false), (H2, false)] {
            let admission = with(limits.clone());
            let ticket = Ticket::new().class("workflow").namespace("production").label("payments");
            let held = admission.try_admit(ticket).unwrap();
            let layer = AdmissionLayer::new(&admission).classify(classify);
            let server = if is_axum {
                Server::axum(Router::new().route("/", get(async || "work")).layer(layer)).await
            } else {
                let handler =
                    service_fn(async |_| Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"work")))));
                Server::hyper(layer.layer(handler)).await
            };
            let mut client = Client::connect(server.address, version).await;
            let response = bounded("an answer", client.answer(client::get("/"))).await;
            assert!(response.status() == StatusCode::NO_CONTENT && response.body().is_empty());
            drop(held);
            client.kill();
            drop(client);
            server.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nothing_looks_like_is_the_users_choice() {
    let admission = with(ClassLimits::new().max_per_minute(Rate::from(1).when_full(WhenFull::RespondEmpty)));
    let rejections = Rejections::new().nothing(StatusCode::OK);
    let layer = AdmissionLayer::new(&admission).classify(classify).rejections(rejections);
    let server = Server::axum(Router::new().route("/", get(async || "work")).layer(layer)).await;
    let mut client = Client::connect(server.address, H1).await;
    let mut bodies = Vec::new();
    for _ in 0..2 {
        let response = bounded("an answer", client.answer(client::get("/"))).await;
        assert_eq!(response.status(), StatusCode::OK);
        bodies.push(response.into_body());
    }
    assert_eq!(bodies, ["work", ""]);
    drop(client);
    server.stop().await;
}
