//! Connections that break with many requests on them.

use http_body_util::BodyExt;

use super::{
    ATTEMPTS, LIMIT, all_is_given_back,
    connections::Stack::{self, Axum, Hyper, Tonic},
    eight_run,
};
use crate::support::{Client, Ends, Probe, Version, bounded, eventually};

const STREAMS: usize = 100;

/// Ten connections with a hundred streams each, eight of them running: closed or reset, with nothing sent yet or in
/// the middle of a body.
async fn ten_connections_are_killed(stack: Stack) {
    let (admission, probe) = (eight_run(), Probe::open());
    let server = stack.serve(&Ends::new(&probe), &admission).await;
    for round in 0..ATTEMPTS / STREAMS {
        let client = match round % 2 {
            0 => Client::connect(server.address, Version::H2).await,
            _ => Client::connect_to_reset(server.address, Version::H2).await,
        };
        let path = if round % 4 < 2 { "/hang" } else { "/endless" };
        let streams: Vec<_> = (0..STREAMS)
            .map(|_| {
                let mut stream = client.share();
                tokio::spawn(async move {
                    let Ok(mut answer) = stream.get(path).await else { return };
                    while let Some(Ok(_)) = answer.frame().await {}
                })
            })
            .collect();
        eventually("eight run and all others wait", || {
            let snapshot = admission.snapshot();
            (snapshot.in_flight, snapshot.waiting, probe.running()) == (LIMIT, STREAMS - LIMIT, LIMIT)
        })
        .await;
        client.kill();
        for stream in streams {
            bounded("a stream", stream).await.unwrap();
        }
        eventually("all is given back", || {
            let snapshot = admission.snapshot();
            snapshot.in_flight + snapshot.waiting + probe.running() == 0
        })
        .await;
    }
    all_is_given_back(&format!("{stack:?}, killed"), &admission, &probe).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_connection_gives_back_the_slots_and_places_of_all_its_streams_on_hyper() {
    ten_connections_are_killed(Hyper).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_connection_gives_back_the_slots_and_places_of_all_its_streams_on_axum() {
    ten_connections_are_killed(Axum).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_connection_gives_back_the_slots_and_places_of_all_its_streams_on_tonic() {
    ten_connections_are_killed(Tonic).await;
}
