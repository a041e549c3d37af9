//! Clients that leave while their request waits: before its turn, and at the moment of it.

use std::{sync::Arc, time::Duration};

use tokio::{io::AsyncWriteExt, net::TcpStream, sync::Barrier, task::JoinHandle};
use tower_admission::{Admission, Permit, Ticket, limit::Fixed};

use super::{
    ATTEMPTS, LIMIT,
    connections::Stack::{Axum, Hyper, Tonic},
    eight_run,
};
use crate::support::{Client, Ends, H1, H2, Probe, at_rest, eventually};

const WAITERS: usize = 100;

/// Takes all slots.
fn hold(admission: &Admission, probe: &Probe) -> Vec<Permit> {
    (0..LIMIT).for_each(|_| probe.count_arrival());
    (0..LIMIT).map(|_| admission.try_admit(Ticket::new()).unwrap()).collect()
}

fn send(mut client: Client, path: &'static str) -> JoinHandle<()> {
    tokio::spawn(async move {
        // Whether it is answered before it leaves makes no difference.
        drop(client.get(path).await);
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_leave_while_they_wait_give_back_their_places() {
    for (stack, version) in [(Hyper, H2), (Axum, H2), (Tonic, H2), (Hyper, H1), (Axum, H1)] {
        let (admission, probe) = (eight_run(), Probe::open());
        let server = stack.serve(&Ends::new(&probe), &admission).await;
        let held = hold(&admission, &probe);
        for _ in 0..ATTEMPTS / WAITERS {
            // One connection for all streams, which are reset one by one; in HTTP/1 each request has its own, which is closed.
            let shared = Client::connect(server.address, H2).await;
            let mut waiters = Vec::new();
            for _ in 0..WAITERS {
                let client = if version == H1 { Client::connect(server.address, H1).await } else { shared.share() };
                waiters.push(send(client, "/data"));
            }
            eventually("all wait", || admission.snapshot().waiting == WAITERS).await;
            for waiter in waiters {
                waiter.abort();
                assert!(waiter.await.unwrap_err().is_cancelled());
            }
            eventually("nobody waits", || admission.snapshot().waiting == 0).await;
            assert!(!shared.is_closed());
        }
        assert_eq!(admission.snapshot().partitions[0].cancelled_waiting, ATTEMPTS as u64);
        drop(held);
        at_rest(&admission, &probe).await;
        assert_eq!((probe.started(), probe.arrived()), (0, (ATTEMPTS + LIMIT) as u64));
        server.stop().await;
    }
}

/// The client leaves at the same time as a slot comes free: before the grant, between the grant and its being
/// fetched, or when the handler runs already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_when_its_turn_comes_gives_back_what_it_got() {
    for (stack, version) in [(Hyper, H1), (Hyper, H2), (Axum, H1), (Tonic, H2)] {
        let (admission, probe) = (eight_run(), Probe::open());
        let server = stack.serve(&Ends::new(&probe), &admission).await;
        // One connection for all streams; in HTTP/1 each has its own.
        let shared = Client::connect(server.address, H2).await;
        for _ in 0..ATTEMPTS {
            let held = hold(&admission, &probe);
            let client = if version == H1 { Client::connect(server.address, H1).await } else { shared.share() };
            let waiter = send(client, "/hang");
            eventually("it waits", || admission.snapshot().waiting == 1).await;
            let meet = Arc::new(Barrier::new(2));
            let release = tokio::spawn({
                let meet = Arc::clone(&meet);
                async move {
                    meet.wait().await;
                    drop(held);
                }
            });
            meet.wait().await;
            waiter.abort();
            release.await.unwrap();
            eventually("all is given back", || admission.snapshot().in_flight + admission.snapshot().waiting == 0)
                .await;
        }
        at_rest(&admission, &probe).await;
        assert_eq!(probe.arrived(), (ATTEMPTS * (LIMIT + 1)) as u64);
        let cancelled = admission.snapshot().partitions[0].cancelled_waiting;
        println!("{stack:?} {version:?}: {cancelled} left in line, {} ran", probe.started());
        drop(shared);
        server.stop().await;
    }
}

/// HTTP/1 can't tell that a client has gone while there is something of it that nobody has read: the rest of a body,
/// or a byte that belongs to no request. Only the longest wait ends such a wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_vanish_unseen_hold_their_places_no_longer_than_the_longest_wait() {
    let unread_body = "POST /data HTTP/1.1\r\nhost: test\r\ncontent-length: 10\r\n\r\n";
    let stray_byte = "GET /data HTTP/1.1\r\nhost: test\r\n\r\nG";
    for (stack, request) in [(Hyper, unread_body), (Hyper, stray_byte), (Axum, unread_body), (Axum, stray_byte)] {
        let wait = Duration::from_millis(500);
        let admission = Admission::builder().limit(Fixed::new(LIMIT)).queue(ATTEMPTS).max_wait(wait).build().unwrap();
        let probe = Probe::open();
        let server = stack.serve(&Ends::new(&probe), &admission).await;
        let held = hold(&admission, &probe);
        for _ in 0..ATTEMPTS {
            let mut socket = TcpStream::connect(server.address).await.unwrap();
            socket.write_all(request.as_bytes()).await.unwrap();
        }
        eventually("all have come", || probe.arrived() == (ATTEMPTS + LIMIT) as u64).await;
        eventually("nobody waits", || admission.snapshot().waiting == 0).await;
        assert_eq!(admission.snapshot().in_flight, LIMIT);
        drop(held);
        at_rest(&admission, &probe).await;
        assert_eq!(probe.started(), 0);
        println!("{stack:?}, vanished: {:?}", admission.snapshot().partitions[0].rejected);
        server.stop().await;
    }
}
