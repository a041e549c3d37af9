//! Requests whose lease is lost while they run.

use tokio::time::Instant;
use tower_admission::{Admission, Cap, ClassLimits, Rules, Ticket, WhenFull, store::Claim};

use super::{Instance, OK, Work, leases, settings, spawn_work, web};
use crate::redis::support::{acquire, bounded, claims, eventually, keys, ms, number, repeats, server::Server, shared};

fn rules() -> Rules {
    Rules::new().default_limits(ClassLimits::new().max_in_flight(Cap::from(2).when_full(WhenFull::Reject)))
}

/// The store forgets who runs, and others are granted everything at once. It is not a restart, after which nothing would be
/// granted for a while.
async fn take_everything(server: &Server) -> Instant {
    let both = claims([Claim::cap(keys().cap("acme", "label", "orders"), number(2))]);
    let forget = "for _, k in ipairs(redis.call('KEYS', '*:cap:*')) do redis.call('DEL', k) end";
    let store = server.store();
    let mut emptied = Instant::now();
    eventually("others are granted both", async || {
        emptied = Instant::now();
        server.ask(&["EVAL", forget, "0"]).await.unwrap();
        acquire(&store, &both, ms(60_000)).await.is_ok() && acquire(&store, &both, ms(60_000)).await.is_ok()
    })
    .await;
    emptied
}

/// The store is emptied under those who run: handlers are told within one renewal, and so are holders of permits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_are_told_that_others_may_run_in_their_place() {
    for local_shares in [false, true] {
        let leases = leases().expiry(ms(1_000)).local_shares(local_shares);
        for _ in 0..repeats() {
            let server = Server::start().await;
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
            let emptied = take_everything(&server).await;
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
    let admission: Admission = settings(rules()).shared(leases, keys()).build().unwrap();
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
