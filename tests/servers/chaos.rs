//! Requests that end in every way at random, while the limit jumps up and down.

use std::time::Duration;

use futures_util::future::join_all;
use http_body_util::BodyExt;
use tokio::{
    sync::watch,
    time::{interval, timeout},
};
use tower_admission::{Admission, AdmissionBuilder, AdmissionLayer, limit::Fixed};

use crate::support::{Client, Ends, Probe, Server, Version, at_rest, bounded, eventually, get_once};

const LOW: usize = 10;
const HIGH: usize = 200;
const CLIENTS: usize = 300;

/// 6,000 requests, or what `CHAOS` says.
fn requests() -> usize {
    std::env::var("CHAOS").ok().and_then(|count| count.parse().ok()).unwrap_or(6_000)
}

fn settings(limit: usize) -> AdmissionBuilder {
    Admission::builder().limit(Fixed::new(limit)).queue(CLIENTS)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_limit_jumps_every_request_is_accounted_for_however_it_ends() {
    let (admission, probe) = (settings(LOW).build().unwrap(), Probe::open());
    let server = Ends::new(&probe).serve(AdmissionLayer::new(&admission)).await;
    let (done, mut is_done) = watch::channel(false);
    let jumping = tokio::spawn({
        let admission = admission.clone();
        async move {
            let (mut ticks, mut jumps) = (interval(Duration::from_millis(50)), 0_u32);
            while !*is_done.borrow() {
                tokio::select! {
                    _ = ticks.tick() => {
                        jumps += 1;
                        admission.reload(settings(if jumps % 2 == 0 { LOW } else { HIGH })).unwrap();
                    }
                    _ = is_done.changed() => {}
                }
            }
            jumps
        }
    });
    let address = server.address;
    let clients = join_all((0..CLIENTS).map(|number| {
        let version = if number % 2 == 0 { Version::H1 } else { Version::H2 };
        tokio::spawn(async move {
            let mut client = Client::connect(address, version).await;
            for _ in 0..requests().div_ceil(CLIENTS) {
                // Of a hundred requests 20 are given up, 2 panic and 5 hang until a timeout of the client.
                let (path, patience) = match fastrand::u8(..100) {
                    0..20 => ("/data", fastrand::u64(..10)),
                    20..22 => ("/poll-panic", 30_000),
                    22..27 => ("/hang", 20),
                    27..32 => ("/body-error", 30_000),
                    _ => ("/data", 30_000),
                };
                let asked = async { client.get(path).await?.into_body().collect().await };
                if !matches!(timeout(Duration::from_millis(patience), asked).await, Ok(Ok(_))) {
                    client.kill();
                    client = Client::connect(address, version).await;
                }
            }
        })
    }));
    for client in bounded("the clients", clients).await {
        client.unwrap();
    }
    done.send_replace(true);
    let jumps = bounded("the limit", jumping).await.unwrap();
    at_rest(&admission, &probe).await;
    assert!(probe.peak() <= HIGH && jumps > 2);
    assert_eq!(probe.running(), 0);
    println!(
        "{} arrived, {} started, at most {} at once, {jumps} jumps",
        probe.arrived(),
        probe.started(),
        probe.peak()
    );
    server.stop().await;
}

/// The control: the probe sees more at once where nothing limits them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_layer_more_run_than_the_limit() {
    let probe = Probe::closed();
    let server = Server::hyper(Ends::new(&probe)).await;
    let clients: Vec<_> = (0..HIGH + 1)
        .map(|_| {
            let address = server.address;
            tokio::spawn(get_once(address, Version::H1, "/held".to_owned()))
        })
        .collect();
    eventually("all run", || probe.running() > HIGH).await;
    probe.release();
    for client in clients {
        bounded("a client", client).await.unwrap();
    }
    assert!(probe.peak() > HIGH);
    server.stop().await;
}
