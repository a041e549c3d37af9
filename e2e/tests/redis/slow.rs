//! A server that answers late: a request with local shares of several rules waits no longer than one with a lease.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{Instant, sleep},
};
use tower_admission::store::{AfterRestart, Claims, Leases, RateMode, RedisStore};

use crate::support::{cap, keys, ms, rate, server::Server, shared};

/// Passes everything on to a server, and its answers so much later.
async fn delayed(server: &Server, by: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, to) = (listener.local_addr().unwrap().port(), server.port());
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
            server.set_nodelay(true).unwrap();
            client.set_nodelay(true).unwrap();
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = server.into_split();
            tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
            let (late, mut answers) = tokio::sync::mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
            tokio::spawn(async move {
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
                    let _ = late.send((Instant::now() + by, buffer[..read].to_vec()));
                }
            });
            tokio::spawn(async move {
                while let Some((at, bytes)) = answers.recv().await {
                    tokio::time::sleep_until(at).await;
                    if to_client.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    format!("redis://127.0.0.1:{port}/")
}

fn four(number: usize) -> Claims {
    let named = |name: &str| format!("{name}-{number}");
    Claims::new(vec![
        cap(&named("label"), 100),
        cap(&named("namespace"), 100),
        rate(&named("label"), 10_000, RateMode::Bucket),
        rate(&named("group"), 10_000, RateMode::Bucket),
    ])
    .unwrap()
}

/// How long each of five requests for what nobody asked for before took, the shortest and the longest, and how many
/// were admitted.
async fn asked(by: Duration, limit: Duration) -> (Duration, Duration, usize) {
    let server = Server::start().await;
    let store = RedisStore::builder(&delayed(&server, by).await, keys()).timeout(limit);
    let store = store.after_restart(AfterRestart::Grant).build().unwrap();
    let leases = Leases::builder().local_shares(true).build(shared(store));
    // The connection, which takes several answers.
    while leases.admit(&four(1_000)).await.is_err() {
        sleep(ms(20)).await;
    }
    let (mut times, mut admitted) = (Vec::new(), 0);
    for number in 0..5 {
        let began = Instant::now();
        admitted += usize::from(leases.admit(&four(number)).await.is_ok());
        times.push(began.elapsed());
    }
    let (least, most) = (*times.iter().min().unwrap(), *times.iter().max().unwrap());
    println!("answers {by:?} late, limit {limit:?}: {least:?} to {most:?}, {admitted} of 5 admitted");
    (least, most, admitted)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_rules_are_asked_for_at_once() {
    let (least, _, admitted) = asked(ms(100), ms(5_000)).await;
    assert_eq!(admitted, 5);
    assert!(least >= ms(100), "control: it has to ask");
    assert!(least < ms(200), "{least:?}: one round trip, not four");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_limit_holds_for_all_questions_of_a_request_together() {
    let server = Server::start().await;
    let store = RedisStore::builder(&delayed(&server, ms(60)).await, keys()).timeout(ms(100));
    let store = store.after_restart(AfterRestart::Grant).build().unwrap();
    let leases = Leases::builder().local_shares(true).build(shared(store));
    while leases.admit(&four(1_000)).await.is_err() {
        sleep(ms(20)).await;
    }
    // Those who come behind others have to wait for their answers as well.
    let mut least = Duration::MAX;
    for number in 0..5 {
        let one = |_| {
            let (leases, claims) = (leases.clone(), four(number));
            tokio::spawn(async move {
                let began = Instant::now();
                drop(leases.admit(&claims).await);
                began.elapsed()
            })
        };
        let mut longest = Duration::ZERO;
        for task in (0..200).map(one).collect::<Vec<_>>() {
            longest = longest.max(task.await.unwrap());
        }
        least = least.min(longest);
    }
    assert!(least < ms(150), "{least:?} for a time limit of 100 ms");
}
