//! A server with nothing set but the patience of its callers and the shares of four tenants, under the two callers that take most:
//! a tenant that sends without a pause and ignores what it is answered, and a tenant whose callers leave after 10 ms and come
//! again, while a backend goes on with their work.
//!
//! ```sh
//! FLOOD=20 cargo test --workspace --all-features --test e2e flood:: -- --ignored --nocapture --test-threads 1
//! ```
//!
//! `FLOOD` is how many seconds of each run are measured: without it a few, and a little less has to be reached.
#[path = "../../../../examples/overload/backend.rs"]
mod backend;
mod clients;
mod leavers;
mod server;

use std::time::Duration;

use tokio::{sync::Mutex, time::sleep};

use self::{
    clients::{Callers, Others, Over},
    server::{CAPACITY, Server, Set, WORKERS},
};

/// Tests that measure take turns: each of them takes all processors.
static TURN: Mutex<()> = Mutex::const_new(());

/// How long is measured.
fn measured() -> Duration {
    let seconds = std::env::var("FLOOD").map_or(4, |text| text.parse().expect("FLOOD is a number of seconds"));
    Duration::from_secs(seconds)
}

/// What has to be reached: this, or a little less where only a few seconds are measured, beside all that a CI machine does.
fn goal(goal: f64) -> f64 {
    if std::env::var_os("FLOOD").is_some() { goal } else { goal - 0.07 }
}

/// What a run found.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Pieces of work that the backend finished, as a part of what it can.
    utilisation: f64,
    /// The part of requests that were answered in time, of the tenant that fared worst of the three that don't change.
    worst_off: f64,
    /// Most pieces of work at the backend at once, done or in its queue.
    inside: usize,
    /// The highest limit.
    limit: usize,
    /// What the noisy tenant sent, per second.
    noisy: f64,
}

/// Three tenants call all the time, and after a second the noisy tenant as well. What counts begins half a second later.
async fn run(partitions: &'static str, abandoned: &'static str, over: Over, callers: Callers) -> Found {
    let _turn = TURN.lock().await;
    let mut server = Server::start(Set { partitions, limit: "learned", abandoned }).await;
    let address = if over == Over::Grpc { server.grpc } else { server.web };
    let others = Others::call(address, over);
    sleep(Duration::from_secs(1)).await;
    let noisy = callers.call(address, over).await;
    sleep(Duration::from_millis(500)).await;
    server.tell().await;
    others.count_from_now();
    let sent = noisy.sent();
    sleep(measured()).await;
    let told = server.tell().await;
    let sent = noisy.sent() - sent;
    drop(noisy);
    let (worst_off, unanswered) = others.worst_off().await;
    let seconds = told.seconds;
    let found = Found {
        utilisation: told.done as f64 / seconds / CAPACITY,
        worst_off,
        inside: told.inside,
        limit: told.limit,
        noisy: sent as f64 / seconds,
    };
    println!(
        "{over:?}, {callers:?}, partitions {partitions}, work {abandoned}: the backend is used to {:.1} %, the worst off of the others \
         is served to {:.1} %, {unanswered} had no answer in time, the noisy tenant sends {:.0}/s, at most {} at the backend under a limit of up to {}",
        100.0 * found.utilisation,
        100.0 * found.worst_off,
        found.noisy,
        found.inside,
        found.limit
    );
    server.ends().await;
    found
}

/// Each of 600 connections sends the next request as soon as it has an answer, thousands each second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: `.ci/test` runs it with nothing beside it"]
async fn a_tenant_that_floods_takes_no_more_than_its_share_and_leaves_nothing_unused() {
    for partitions in ["lent", "capped"] {
        let found = run(partitions, "stops", Over::Http, Callers::Flood).await;
        assert!(found.utilisation >= goal(0.95), "{found:?}");
        assert!(found.worst_off >= goal(0.97), "{found:?}");
        assert!(found.noisy >= 1_000.0, "no flood: {found:?}");
    }
}

/// The control: without partitions the flood takes the server from the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: `.ci/test` runs it with nothing beside it"]
async fn without_partitions_the_flood_takes_the_server() {
    let found = run("none", "stops", Over::Http, Callers::Flood).await;
    assert!(found.worst_off < 0.6, "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: `.ci/test` runs it with nothing beside it"]
async fn callers_that_leave_early_don_t_walk_through_the_limit() {
    for over in [Over::Http, Over::Grpc] {
        for abandoned in ["detached", "unset", "goes-on"] {
            let found = run("lent", abandoned, over, Callers::Leave).await;
            // Work that is never answered is taken to last for three quarters of the patience, and takes 100 ms. So the law sees
            // slots that are taken and answer nothing, and lowers the limit: to about the workers, of which a share on a server of
            // its own would serve 90 % of these arrivals, and at times to fewer.
            let least = if abandoned == "detached" { goal(0.97) } else { 0.65 };
            assert!(found.worst_off >= least && found.inside <= WORKERS + found.limit, "{found:?}");
        }
    }
}

/// The control: nothing is said of the work, which goes on all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: `.ci/test` runs it with nothing beside it"]
async fn a_server_that_takes_their_work_for_ended_is_lost() {
    for over in [Over::Http, Over::Grpc] {
        let found = run("lent", "stops", over, Callers::Leave).await;
        assert!(found.worst_off < 0.5 && found.inside > WORKERS + found.limit, "{found:?}");
    }
}
