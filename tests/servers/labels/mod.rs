//! Labels on real servers: their bounds, who goes first among those who wait, and capacity that moves.

mod bounds;
mod caps;
mod tenure;
mod turns;
mod workers;

use std::sync::{Arc, Mutex};

use axum::{Router, routing::any};
use http::{HeaderMap, Request};
use tokio::task::JoinHandle;
use tower_admission::{
    Admission, AdmissionLayer, Permit, Ticket,
    classify::{KeyExtractor, by_header},
};

use crate::support::{Client, Outgoing, Probe, Server, Version, client::get};

/// The tenant is the label; a job is a run.
fn classify() -> (KeyExtractor, KeyExtractor, KeyExtractor) {
    let label = by_header("x-tenant").as_label();
    (label, by_header("x-job").as_run(), by_header("x-criticality").as_criticality())
}

/// The value of `x-name` of each request that started, in that order.
type Started = Arc<Mutex<Vec<String>>>;

/// An axum server. `/held` runs until the probe lets it; all else is answered at once.
async fn serve(admission: &Admission, probe: &Probe) -> (Server, Started) {
    let started = Started::default();
    let note = {
        let started = Arc::clone(&started);
        move |headers: &HeaderMap| {
            let name = headers.get("x-name").map_or("", |name| name.to_str().unwrap());
            started.lock().unwrap().push(name.to_owned());
        }
    };
    let held = {
        let (probe, note) = (probe.clone(), note.clone());
        async move |headers: HeaderMap| {
            note(&headers);
            probe.run().await;
        }
    };
    let app = Router::new()
        .route("/held", any(held))
        .fallback(async move |headers: HeaderMap| note(&headers))
        .layer(AdmissionLayer::new(admission).classify(classify()))
        .layer(probe.arrivals());
    (Server::axum(app).await, started)
}

fn request(path: &str, headers: &[(&'static str, &str)]) -> Request<Outgoing> {
    let mut request = get(path);
    for &(name, value) in headers {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    request
}

/// The answer to a request that has a connection of its own: its status, its `retry-after` and its body.
type Answer = (u16, Option<String>, String);

fn send(server: &Server, request: Request<Outgoing>) -> JoinHandle<Answer> {
    let address = server.address;
    tokio::spawn(async move {
        let answer = Client::connect(address, Version::H1).await.answer(request).await;
        let retry_after = answer.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
        (answer.status().as_u16(), retry_after, String::from_utf8(answer.into_body().into()).unwrap())
    })
}

/// Takes a slot beside the server.
fn hold(admission: &Admission, probe: &Probe) -> Permit {
    probe.count_arrival();
    admission.try_admit(Ticket::new()).unwrap()
}
