//! Requests whose lease is lost while they run.

use tokio::time::Instant;
use tower_admission::{Admission, Cap, Limits, Rules, Ticket, WhenFull};

use super::{Instance, OK, Work, leases, settings, spawn_work, web};
use crate::support::{bounded, eventually, ms, repeats, server::Server, shared};

fn rules() -> Rules {
    Rules::new().others(Limits::new().max_in_flight(Cap::of(2).when_full(WhenFull::Reject)))
}

/// The store is emptied under those who run: handlers are told within one renewal, and so are holders of permits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_are_told_that_others_may_run_in_their_place() {
    let server = Server::start().await;
    for local_shares in [false, true] {
        let leases = leases().expiry(ms(1_000)).local_shares(local_shares);
        for _ in 0..repeats() {
            let work = Work::new(2);
            let [one, two, three] = &Instance::three(&server, &rules(), leases.clone(), &work).await[..] else {
                panic!()
            };
            let web = web();
            let running = [one, two].map(|it| spawn_work(&web, it.address, "", "orders"));
            eventually("both run", async || work.ledger.entered() == 2).await;
            assert!(three.admission.admit(Ticket::new().namespace("acme").label("orders")).await.is_err(), "control");
            tokio::time::sleep(ms(1_500)).await;
            assert!(running.iter().all(|it| !it.is_finished()), "control: what is renewed is not lost");
            // The mark stays: it is not a restart.
            server
                .ask(&["EVAL", "for _, k in ipairs(redis.call('KEYS', '*:cap:*')) do redis.call('DEL', k) end", "0"])
                .await
                .unwrap();
            let emptied = Instant::now();
            for one in running {
                let response = bounded("it is told", one).await.unwrap();
                assert_eq!((response.status(), &**response.body()), (OK, &b"lost"[..]));
            }
            assert!(emptied.elapsed() < ms(1_500), "within one renewal, not {:?}", emptied.elapsed());
            assert!(one.admission.snapshot().store.unwrap().leases_lost >= 1);
        }
    }
}

#[tokio::test]
async fn holders_of_permits_are_told() {
    let server = Server::start().await;
    let leases = leases().expiry(ms(400)).build(shared(server.store()));
    let admission: Admission = settings(rules()).shared(leases, crate::support::keys()).build().unwrap();
    let permit = admission.admit(Ticket::new().label("orders")).await.unwrap();
    let lease = permit.lease().unwrap();
    server.stop();
    bounded("told before it is over", lease.wait()).await;
    assert!(lease.is_lost());
    server.go_on();
    drop(permit);
    let admission: Admission = settings(Rules::new()).build().unwrap();
    assert!(admission.admit(Ticket::new()).await.unwrap().lease().is_none(), "who holds nothing loses nothing");
}
