//! A noisy caller sends work of 600 ms every two milliseconds and leaves after ten, for four seconds. A calm caller sends work of
//! 20 ms every 25 ms and waits for a second. The backend has 40 workers and goes on with what it has begun.

use std::time::Duration;

use tokio::{
    task::JoinSet,
    time::{Instant, interval, sleep, sleep_until, timeout},
};

use super::{
    TURN,
    clients::{Caller, Over, PATIENCE, TENANTS},
    server::{Server, Set, WORKERS},
};

const CALM: &str = "red";
const EVERY: Duration = Duration::from_millis(25);
const FOR: Duration = Duration::from_secs(4);

/// Sends a request of the noisy caller every two milliseconds, until this is dropped.
async fn noisy(client: Caller) {
    let (mut calls, mut ticks) = (JoinSet::new(), interval(Duration::from_millis(2)));
    loop {
        ticks.tick().await;
        while calls.try_join_next().is_some() {}
        let client = client.clone();
        calls.spawn(async move { timeout(Duration::from_millis(10), client.is_served(TENANTS[0], "slow")).await });
    }
}

/// What a run found.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Most pieces of work at the backend at once, and the highest limit.
    inside: usize,
    limit: usize,
    /// Requests of the calm caller that were served, refused, and not answered in time.
    calm: [usize; 3],
    /// Time from its end until the calm caller is served again; `None` where that takes more than three seconds.
    again: Option<Duration>,
}

impl Found {
    /// Whether no more work was under way than workers and slots, and the calm caller was as good as alone.
    fn holds(&self) -> bool {
        let [served, refused, unanswered] = self.calm;
        let all = served + refused + unanswered;
        assert!(all > 100, "{self:?}");
        self.inside <= WORKERS + self.limit
            && served * 100 >= all * 95
            && self.again.is_some_and(|again| again <= Duration::from_secs(1))
    }
}

async fn run(set: Set, over: Over) -> Found {
    let _turn = TURN.lock().await;
    let mut server = Server::start(set).await;
    let address = if over == Over::Grpc { server.grpc } else { server.web };
    let client = Caller::of(address, over).await;
    // The server has answered the calm caller for a while.
    for _ in 0..40 {
        assert!(client.is_served(CALM, "quick").await);
    }
    server.tell().await;
    let mut loud = JoinSet::new();
    loud.spawn(noisy(Caller::of(address, over).await));
    let (end, mut calls, mut ticks) = (Instant::now() + FOR, JoinSet::new(), interval(EVERY));
    while Instant::now() < end {
        ticks.tick().await;
        let client = client.clone();
        calls.spawn(async move { timeout(PATIENCE, client.is_served(CALM, "quick")).await });
    }
    drop(loud);
    let again = async {
        let (begin, mut calls) = (Instant::now(), JoinSet::new());
        for number in 0..120 {
            sleep_until(begin + EVERY * number).await;
            let client = client.clone();
            calls.spawn(async move { timeout(PATIENCE, client.is_served(CALM, "quick")).await == Ok(true) });
            while let Some(served) = calls.try_join_next() {
                if served.unwrap() {
                    return Some(begin.elapsed());
                }
            }
        }
        None
    };
    let again = again.await;
    let mut calm = [0; 3];
    for served in calls.join_all().await {
        calm[served.map_or(2, |is_served| usize::from(!is_served))] += 1;
    }
    let told = server.tell().await;
    let found = Found { inside: told.inside, limit: told.limit, calm, again };
    println!("{over:?}, {set:?}: {found:?}");
    // What is left of the work, so that the next run begins with the processors to itself.
    sleep(Duration::from_millis(100)).await;
    server.ends().await;
    found
}

/// The servers to which the callers come.
const SETS: [Set; 5] = [
    Set { partitions: "none", limit: "learned", abandoned: "unset" },
    Set { partitions: "red", limit: "learned", abandoned: "unset" },
    Set { partitions: "red", limit: "learned", abandoned: "goes-on" },
    Set { partitions: "red", limit: "fixed", abandoned: "goes-on" },
    Set { partitions: "none", limit: "learned", abandoned: "detached" },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: `.ci/test` runs it with nothing beside it"]
async fn a_calm_caller_is_served_beside_callers_that_leave_slow_work() {
    let mut failed = Vec::new();
    for over in [Over::Http, Over::Grpc] {
        for set in SETS {
            let found = run(set, over).await;
            if !found.holds() {
                failed.push((over, set, found));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// The control: abandoned work is taken for ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: `.ci/test` runs it with nothing beside it"]
async fn without_that_the_calm_caller_is_lost() {
    for over in [Over::Http, Over::Grpc] {
        let set = Set { partitions: "red", limit: "learned", abandoned: "stops" };
        let found = run(set, over).await;
        assert!(!found.holds() && found.inside > 2 * (WORKERS + found.limit), "{found:?}");
    }
}
