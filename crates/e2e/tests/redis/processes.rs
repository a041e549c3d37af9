//! Processes of their own: this test binary starts itself again as workers.

use std::{
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::io::AsyncReadExt;
use tower_admission::store::{AfterRestart, Claim, Leases, RedisStore};

use super::support::{
    bounded, cap, claims, eventually, keys,
    ledger::{Ledger, Remote},
    ms, number,
    server::{Server, signal},
    shared, soak,
};

/// What a worker is told by its environment.
const ROLE: &str = "TOWER_ADMISSION_WORKER";

/// What a worker should find its clock to be: seconds since 1970.
const CLOCK: &str = "TOWER_ADMISSION_WORKER_CLOCK";

#[expect(clippy::disallowed_methods, reason = "this is about the clock of the machine")]
fn clock() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().try_into().unwrap()
}

/// A process that this test started; killed when dropped.
struct Worker(Child);

impl Worker {
    fn start(role: &str, server: &Server, ledger: u16, number: u64) -> Self {
        Self::start_by(Command::new(std::env::current_exe().unwrap()), role, server, ledger, number)
    }

    /// One whose clock is off by so many seconds.
    fn start_off(seconds: i64, role: &str, server: &Server, ledger: u16, number: u64) -> Self {
        let mut command = Command::new("faketime");
        command.args(["-f", &format!("{seconds:+}s")]).arg(std::env::current_exe().unwrap());
        // How time passes stays as it is.
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env(CLOCK, (clock() + seconds).to_string());
        Self::start_by(command, role, server, ledger, number)
    }

    fn start_by(mut command: Command, role: &str, server: &Server, ledger: u16, number: u64) -> Self {
        let child = command
            .args(["--exact", "redis::processes::worker", "--nocapture"])
            .env(ROLE, format!("{role} {} {ledger} {number}", server.url()))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// Tells it that it may end, and waits until it has.
    async fn ends_well(mut self) {
        drop(self.0.stdin.take());
        bounded("the worker", async {
            loop {
                if let Some(status) = self.0.try_wait().unwrap() {
                    assert!(status.success(), "{status}");
                    return;
                }
                tokio::time::sleep(ms(5)).await;
            }
        })
        .await;
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test of its own: what a worker does. Without being told, nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker() {
    let Ok(told) = std::env::var(ROLE) else { return };
    if let Ok(expected) = std::env::var(CLOCK) {
        let off = expected.parse::<i64>().unwrap() - clock();
        assert!(off.abs() < 20, "its clock is not the one that was asked for, by {off} s");
    }
    let told: Vec<_> = told.split(' ').collect();
    let [role, url, ledger, count] = told[..] else { panic!("{told:?}") };
    let (ledger, count): (u16, u64) = (ledger.parse().unwrap(), count.parse().unwrap());
    let store = || {
        let builder = RedisStore::builder(url, keys()).timeout(Duration::from_secs(5));
        shared(builder.after_restart(AfterRestart::Grant).build().unwrap())
    };
    match role {
        "leases" => crowd(Leases::builder().build(store()), ledger, count, 50).await,
        "shares" => crowd(Leases::builder().local_shares(true).build(store()), ledger, count, 50).await,
        // A cap of its own each: what it would be without sharing.
        "control" => {
            crowd(Leases::builder().build(shared(tower_admission::store::MemoryStore::new())), ledger, count, 50).await
        }
        "hold" => hold(Leases::builder().expiry(ms(1_000)).build(store()), ledger, count).await,
        // A rolling deploy: the bound that this process was told is a part of its role, and `count` a ledger of its own.
        told => {
            let (role, bound) = told.split_once('-').unwrap();
            asks(&Leases::builder().build(store()), role == "waits", bound.parse().unwrap(), [ledger, count as u16])
                .await;
        }
    }
}

async fn asks(leases: &Leases, waits: bool, bound: u32, ledgers: [u16; 2]) {
    let is_over = AtomicBool::new(false);
    // The lowest cap counts while some of it is held. On a busy machine there are moments at which no short request holds any.
    let _held = if bound == 4 { Some(leases.wait(&claims([cap("rolled", bound)])).await.unwrap()) } else { None };
    let tasks = (0..8).map(|_| async {
        let (mut all, mut own) = (Remote::connect(ledgers[0]).await, Remote::connect(ledgers[1]).await);
        let some = claims([cap("rolled", bound)]);
        while !is_over.load(Ordering::Relaxed) {
            let held = if waits { leases.wait(&some).await } else { leases.admit(&some).await };
            if let Ok(_held) = held {
                tokio::join!(all.run(ms(10)), own.run(ms(10)));
            } else {
                tokio::time::sleep(ms(3)).await;
            }
        }
    });
    let ends = async {
        // Those that were told less run until they are told to end, so that they are there all the time.
        if bound == 4 {
            tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await.unwrap();
        } else {
            tokio::time::sleep(ms(4_000)).await;
        }
        is_over.store(true, Ordering::Relaxed);
    };
    tokio::join!(futures_util::future::join_all(tasks), ends);
}

async fn crowd(leases: Leases, ledger: u16, count: u64, cap_of: u32) {
    let fifty = claims([cap("fifty", cap_of)]);
    let tasks: Vec<_> = (0..25)
        .map(|_| {
            let (leases, fifty) = (leases.clone(), fifty.clone());
            tokio::spawn(async move {
                let mut ledger = Remote::connect(ledger).await;
                for _ in 0..count / 25 {
                    if let Ok(held) = leases.wait(&fifty).await {
                        ledger.run(ms(10)).await;
                        drop(held);
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

/// Takes what there is, keeps it, and tells how much of it is lost: one byte each to the ledger's connection.
async fn hold(leases: Leases, port: u16, count: u64) {
    use tokio::io::AsyncWriteExt;
    let eight = claims([cap("eight", 8)]);
    let mut held = Vec::new();
    for _ in 0..count {
        held.push(leases.admit(&eight).await.unwrap());
    }
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(b"held").await.unwrap();
    for held in &held {
        held.lost().await;
    }
    stream.write_all(b"lost").await.unwrap();
    drop(held);
    std::future::pending().await
}

async fn four(role: &str, count: u64) -> Ledger {
    four_by(role, count, |server, port| Worker::start(role, server, port, count / 4)).await
}

async fn four_by(role: &str, count: u64, mut start: impl FnMut(&Server, u16) -> Worker) -> Ledger {
    let server = Server::start().await;
    let ledger = Ledger::gathering(50);
    let port = ledger.serve().await;
    let workers: Vec<_> = (0..4).map(|_| start(&server, port)).collect();
    for worker in workers {
        worker.ends_well().await;
    }
    println!("{role}: {} of {count} admitted, peak {}, over {}", ledger.entered(), ledger.peak(), ledger.over());
    ledger
}

fn count() -> u64 {
    if soak() { 200_000 } else { 8_000 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_processes_stay_within_a_cap_of_fifty() {
    let ledger = four("leases", count()).await;
    assert_eq!((ledger.peak(), ledger.over()), (50, 0));
    assert!(ledger.entered() >= count() * 99 / 100, "{}", ledger.entered());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_processes_with_local_shares_stay_within_a_cap_of_fifty() {
    let ledger = four("shares", count()).await;
    assert_eq!((ledger.peak(), ledger.over()), (50, 0));
    assert!(ledger.entered() >= count() * 9 / 10, "{}", ledger.entered());
}

/// Leases end by the time of the server: what the processes think that the time is doesn't matter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_processes_whose_clocks_are_a_minute_off_stay_within_it() {
    for role in ["leases", "shares"] {
        for _ in 0..if soak() { 20 } else { 1 } {
            let mut clocks = [-60, 60, -60, 60].into_iter();
            let ledger = four_by(role, count(), |server, port| {
                Worker::start_off(clocks.next().unwrap(), role, server, port, count() / 4)
            })
            .await;
            assert_eq!((ledger.peak(), ledger.over()), (50, 0));
            assert!(ledger.entered() >= count() * 9 / 10, "{}", ledger.entered());
        }
    }
}

/// Two processes were told a cap of 4, then two more a cap of 8: the lower one counts for all, and none of them starves. The
/// first two hold a lease each all the time, so no more than three are left for what is counted here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_deploy_starves_no_process_and_exceeds_what_none_was_told() {
    for role in ["asks", "waits"] {
        let (server, all, own) = (Server::start().await, Ledger::new(4), [4, 4, 8, 8].map(|_| Ledger::new(8)));
        let (port, mut workers) = (all.serve().await, Vec::new());
        for (bound, ledger) in [4, 4, 8, 8].into_iter().zip(&own) {
            let role = format!("{role}-{bound}");
            workers.push(Worker::start(&role, &server, port, ledger.serve().await.into()));
            eventually("it runs", async || ledger.entered() > 0).await;
        }
        for worker in workers.into_iter().rev() {
            worker.ends_well().await;
        }
        let served = own.map(|ledger| ledger.entered());
        println!("{role}: told 4, 4, 8, 8: served {served:?}, at once at most {}", all.peak());
        assert!(all.peak() <= 3, "{} at once", all.peak());
        assert!(served.iter().all(|&served| served >= 40), "{served:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_four_processes_that_share_nothing_exceed_it() {
    assert!(four("control", 8_000).await.over() > 0);
}

struct Holder {
    worker: Worker,
    stream: tokio::net::TcpStream,
}

impl Holder {
    async fn start(server: &Server) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let worker = Worker::start("hold", server, listener.local_addr().unwrap().port(), 8);
        let (stream, _) = bounded("the holder connects", listener.accept()).await.unwrap();
        let mut holder = Self { worker, stream };
        holder.says(b"held").await;
        holder
    }

    async fn says(&mut self, word: &[u8; 4]) {
        let mut said = [0; 4];
        bounded("the holder says something", self.stream.read_exact(&mut said)).await.unwrap();
        assert_eq!(&said, word);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_holder_held_comes_back_after_one_expiry() {
    let server = Server::start().await;
    let leases = Leases::builder().build(shared(server.store()));
    let eight = claims([Claim::cap(keys().cap("acme", "label", "eight"), number(8))]);
    for _ in 0..super::support::repeats() {
        let holder = Holder::start(&server).await;
        assert!(leases.admit(&eight).await.is_err());
        let killed = tokio::time::Instant::now();
        drop(holder.worker);
        let mut held = Vec::new();
        eventually("all eight are free", async || {
            held.extend(leases.admit(&eight).await.ok());
            held.len() == 8
        })
        .await;
        let after = killed.elapsed();
        assert!(after < ms(1_000) + Duration::from_secs(1), "expiry and a second, not {after:?}");
        drop(held);
        eventually("given back", async || {
            server.ask(&["ZCARD", eight.as_slice()[0].key().as_str()]).await == Ok(redis::Value::Int(0))
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_was_stopped_for_two_expiries_learns_of_its_loss_and_touches_nothing() {
    let server = Server::start().await;
    let leases = Leases::builder().build(shared(server.store()));
    let eight = claims([cap("eight", 8)]);
    for _ in 0..super::support::repeats() {
        let mut holder = Holder::start(&server).await;
        signal(&holder.worker.0, "-STOP");
        let mut held = Vec::new();
        eventually("all eight are free", async || {
            held.extend(leases.admit(&eight).await.ok());
            held.len() == 8
        })
        .await;
        tokio::time::sleep(ms(1_000)).await;
        signal(&holder.worker.0, "-CONT");
        let woken = tokio::time::Instant::now();
        holder.says(b"lost").await;
        assert!(woken.elapsed() < ms(800), "within one renewal, not {:?}", woken.elapsed());
        // It dropped what it thought it had, and then some.
        tokio::time::sleep(ms(100)).await;
        assert!(leases.admit(&eight).await.is_err(), "ours are untouched");
        assert!(held.iter().all(|held| !held.is_lost()));
        drop(held);
        drop(holder);
        eventually("given back", async || {
            server.ask(&["ZCARD", eight.as_slice()[0].key().as_str()]).await == Ok(redis::Value::Int(0))
        })
        .await;
    }
}
