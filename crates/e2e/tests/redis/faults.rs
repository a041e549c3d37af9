//! What becomes of a cap while its server fails, counted: attempts, admissions, and how many of them were too many.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep};
use tower_admission::store::{AfterRestart, Health, LeaseDenied, Leases, RedisStore, Store, StoreError};

use super::support::{
    acquire, cap, claims, eventually, keys, ledger::Ledger, ms, proxy::Proxy, repeats, request, server::Server, shared,
    soak,
};

const CAP: u32 = 8;
const EXPIRY: Duration = ms(900);

/// Four processes with six callers each, who come again and again until they are told to stop.
struct Crowd {
    ledger: Ledger,
    stop: Arc<AtomicBool>,
    failed: Arc<AtomicU64>,
    longest: Arc<AtomicU64>,
    /// Decisions that took longer than [`LATE`].
    late: Arc<AtomicU64>,
    processes: Vec<Leases>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Crowd {
    fn start(url: &str, after_restart: AfterRestart, local_shares: bool, timeout: Duration, work: Duration) -> Self {
        let mut crowd = Self {
            ledger: Ledger::new(i64::from(CAP)),
            stop: Arc::default(),
            failed: Arc::default(),
            longest: Arc::default(),
            late: Arc::default(),
            processes: Vec::new(),
            tasks: Vec::new(),
        };
        for _ in 0..4 {
            let store = RedisStore::builder(url, keys()).after_restart(after_restart).timeout(timeout);
            let store = shared(store.build().unwrap());
            let leases = Leases::builder().expiry(EXPIRY).local_shares(local_shares).build(store);
            crowd.processes.push(leases.clone());
            for _ in 0..6 {
                let (leases, ledger, stop) = (leases.clone(), crowd.ledger.clone(), Arc::clone(&crowd.stop));
                let (failed, longest) = (Arc::clone(&crowd.failed), Arc::clone(&crowd.longest));
                let late = Arc::clone(&crowd.late);
                crowd.tasks.push(tokio::spawn(async move {
                    let eight = claims([cap("eight", CAP)]);
                    while !stop.load(Ordering::Relaxed) {
                        ledger.attempt();
                        let asked = Instant::now();
                        let answer = leases.admit(&eight).await;
                        let took = asked.elapsed();
                        longest.fetch_max(u64::try_from(took.as_micros()).unwrap(), Ordering::Relaxed);
                        late.fetch_add(u64::from(took > LATE), Ordering::Relaxed);
                        match answer {
                            Ok(held) => {
                                let entry = ledger.enter();
                                // Work that is told that it lost its place stops.
                                let _ = tokio::time::timeout(work, held.lost()).await;
                                drop(entry);
                                drop(held);
                            }
                            Err(LeaseDenied::Full { .. }) => sleep(ms(2)).await,
                            Err(_) => {
                                failed.fetch_add(1, Ordering::Relaxed);
                                sleep(ms(2)).await;
                            }
                        }
                    }
                }));
            }
        }
        crowd
    }

    fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Waits until work is admitted again.
    async fn goes_on(&self) {
        let before = self.ledger.entered();
        eventually("work is admitted", async || self.ledger.entered() > before + 20).await;
    }

    async fn ends(self, what: &str) -> Ledger {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
        let lost: u64 = self.processes.iter().map(Leases::lost).sum();
        println!(
            "{what}: {} attempts, {} admitted, {} without an answer, {lost} lost, peak {}, over {}",
            self.ledger.attempts(),
            self.ledger.entered(),
            self.failed.load(Ordering::Relaxed),
            self.ledger.peak(),
            self.ledger.over()
        );
        self.ledger
    }
}

const QUIET: AfterRestart = AfterRestart::Quiet(EXPIRY);
const TIMEOUT: Duration = ms(50);
/// The time limit, and what a busy machine adds to it.
const LATE: Duration = ms(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_server_delays_nobody_and_lets_nobody_in_twice() {
    for local_shares in [false, true] {
        let server = Server::start().await;
        let crowd = Crowd::start(&server.url(), QUIET, local_shares, TIMEOUT, ms(30));
        crowd.goes_on().await;
        for _ in 0..repeats() {
            server.stop();
            // Longer than an expiry, so that everything is taken back when it goes on.
            sleep(if soak() { Duration::from_secs(10) } else { ms(1_500) }).await;
            // Beside all other tests a process may be late with the requests that open its breaker.
            let down = || crowd.processes.iter().all(|process| matches!(process.health(), Health::Down { .. }));
            eventually("all breakers are open", async || down()).await;
            server.go_on();
            let stopped = Instant::now();
            crowd.goes_on().await;
            // What is promised, run alone; beside all other tests the processes themselves are late.
            let allowed = Duration::from_secs(if soak() { 2 } else { 5 });
            assert!(stopped.elapsed() < allowed, "back after {:?}", stopped.elapsed());
        }
        let longest = Duration::from_micros(crowd.longest.load(Ordering::Relaxed));
        println!("longest decision: {longest:?}");
        // Alone, no decision is late. Beside all other tests a decision in a thousand may be, and none takes as long as the
        // server was away: none waited for it.
        let (late, attempts) = (crowd.late.load(Ordering::Relaxed), crowd.ledger.attempts());
        println!("longer than {LATE:?}: {late} of {attempts}");
        assert!(longest < if soak() { LATE } else { ms(1_100) }, "{longest:?}");
        assert!(late * 1_000 <= attempts, "{late} of {attempts}");
        assert!(crowd.failed() > 0, "control: it was noticed");
        assert_eq!(crowd.ends("stopped").await.over(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_back_empty_lets_nobody_in_twice() {
    for local_shares in [false, true] {
        let mut server = Server::start().await;
        let crowd = Crowd::start(&server.url(), QUIET, local_shares, TIMEOUT, ms(2_500));
        crowd.goes_on().await;
        for _ in 0..repeats() {
            server.restart_empty().await;
            crowd.goes_on().await;
        }
        assert_eq!(crowd.ends("restarted empty").await.over(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_back_with_older_data_lets_nobody_in_twice() {
    for local_shares in [false, true] {
        let mut server = Server::start().await;
        let crowd = Crowd::start(&server.url(), QUIET, local_shares, TIMEOUT, ms(2_500));
        crowd.goes_on().await;
        for _ in 0..repeats() {
            server.ask(&["SAVE"]).await.unwrap();
            // So that nothing of what is in it is held any more.
            sleep(EXPIRY + ms(300)).await;
            server.restart().await;
            crowd.goes_on().await;
        }
        assert_eq!(crowd.ends("restarted with older data").await.over(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_a_server_that_grants_at_once_lets_some_in_twice() {
    let mut server = Server::start().await;
    let crowd = Crowd::start(&server.url(), AfterRestart::Grant, false, TIMEOUT, ms(2_500));
    crowd.goes_on().await;
    server.restart_empty().await;
    crowd.goes_on().await;
    assert!(crowd.ends("restarted empty, control").await.over() > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgotten_scripts_are_noticed_by_nobody() {
    let server = Server::start().await;
    for local_shares in [false, true] {
        let crowd = Crowd::start(&server.url(), AfterRestart::Grant, local_shares, Duration::from_secs(5), ms(1));
        crowd.goes_on().await;
        for _ in 0..repeats() * 5 {
            server.ask(&["SCRIPT", "FLUSH"]).await.unwrap();
            sleep(ms(100)).await;
        }
        assert_eq!(crowd.failed(), 0);
        assert_eq!(crowd.ends("scripts flushed").await.over(), 0);
    }
    let stats: String = server.read(&["INFO", "errorstats"]).await;
    assert!(stats.contains("NOSCRIPT"), "control: there was something to notice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_to_another_server_takes_no_restart() {
    let one = Server::start().await;
    let other = Server::with_args(&["--replicaof", "127.0.0.1", &one.port().to_string()]).await;
    let proxy = Proxy::start(one.port()).await;
    let crowd = Crowd::start(&proxy.url(), QUIET, false, TIMEOUT, ms(10));
    crowd.goes_on().await;
    let mut servers = [&one, &other];
    for _ in 0..repeats() {
        let [from, to] = servers;
        eventually("the replica is in step", async || {
            to.read::<String>(&["INFO", "replication"]).await.contains("master_link_status:up")
        })
        .await;
        // New connections lead to the other one; those that are there find that theirs became a replica.
        proxy.lead_to(to.port());
        from.ask(&["FAILOVER"]).await.unwrap();
        eventually("the other one takes writes", async || to.ask(&["SET", "x", "1"]).await.is_ok()).await;
        let over = Instant::now();
        crowd.goes_on().await;
        assert!(over.elapsed() < Duration::from_secs(2), "back after {:?}", over.elapsed());
        servers.reverse();
    }
    assert_eq!(crowd.ends("failover").await.over(), 0);
    let mut refused = String::new();
    for server in servers {
        refused += &server.read::<String>(&["INFO", "errorstats"]).await;
    }
    assert!(refused.contains("READONLY"), "control: a replica was asked: {refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_lost_after_commit_leak_nothing_beyond_one_expiry() {
    for local_shares in [false, true] {
        let server = Server::start().await;
        let proxy = Proxy::start(server.port()).await;
        let crowd = Crowd::start(&proxy.url(), AfterRestart::Grant, local_shares, TIMEOUT, ms(3));
        for _ in 0..repeats() {
            crowd.goes_on().await;
            proxy.lose(10);
            sleep(if soak() { ms(5_000) } else { ms(1_500) }).await;
            proxy.lose(0);
        }
        crowd.goes_on().await;
        println!("{} answers lost", proxy.lost());
        assert!(proxy.lost() > 10, "control: some were lost");
        assert_eq!(crowd.ends("answers lost").await.over(), 0);
        let (store, eight) = (server.store(), claims([cap("eight", CAP)]));
        let mut leases = Vec::new();
        let began = Instant::now();
        eventually("all of it can be had", async || {
            leases.extend(acquire(&store, &eight, Duration::from_secs(60)).await.ok());
            leases.len() == CAP as usize
        })
        .await;
        assert!(began.elapsed() < EXPIRY + ms(200), "one expiry at most, not {:?}", began.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_granted_in_an_answer_that_was_lost_is_given_back() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.port()).await;
    let builder = RedisStore::builder(&proxy.url(), keys()).after_restart(AfterRestart::Grant);
    let store = builder.timeout(ms(200)).build().unwrap();
    let (one, an_hour) = (claims([cap("one", 1)]), Duration::from_secs(3_600));
    let held = async || server.holders(&one.as_slice()[0]).await == 1;
    let lease = acquire(&store, &one, an_hour).await.unwrap();
    store.release(&[lease]).await.unwrap();

    proxy.mute(true);
    let lost = store.acquire(&request(&one, an_hour)).await;
    assert!(matches!(lost, Err(StoreError::TimedOut { .. })), "{lost:?}");
    assert!(held().await, "control: it was granted, and nobody knows");
    proxy.mute(false);
    eventually("it is given back", async || !held().await).await;

    // The same if the caller gives up before the answer comes.
    proxy.mute(true);
    let request = request(&one, an_hour);
    let given_up = tokio::time::timeout(ms(20), store.acquire(&request)).await;
    assert!(given_up.is_err());
    eventually("granted, and nobody knows", held).await;
    proxy.mute(false);
    eventually("it is given back", async || !held().await).await;
}
