//! The file server of s3s-fs, with bodies of 1 to 8 MiB: half of the calls put an object, half of them get one.
//!
//! Beside every tenth call comes a caller that counts in no column but that of wasted work: a slow reader of 8 MiB, or a
//! caller that hangs up in the middle of a body. Work is counted in KiB. The server has one core for all but its files.

mod caller;
mod counted;
mod glue;
mod server;

use std::{
    fs, io,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use load::{Outcome, Plan, Role, Row, Server, drive, header, most_closed, row};
use tokio::{
    runtime::Builder,
    time::{sleep, timeout},
};

use crate::caller::{MIB, Manner, get, put};

const VARIANTS: [&str; 5] = ["bare", "tower", "patience", "bodies", "best"];
/// How many bodies at once keep the server busy, half of which are those of slow readers.
const AT_ONCE: usize = 16;
/// The limit of tower's layer, set by hand and not searched for.
const TOWER: usize = 8;
/// Ten times what a call takes where eight run at once.
const DEADLINE: Duration = Duration::from_secs(1);
/// A slow reader gives up after this: it needs 2 s where the server is fast.
const LONGEST: Duration = Duration::from_secs(5);
/// Sizes of objects in MiB, and how many of 15 objects have them.
const SIZES: [(u64, u64); 4] = [(1, 8), (2, 4), (4, 2), (8, 1)];

/// The folder of a run, which is removed with this.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("theirs-s3-{}-{name}", std::process::id()));
        fs::create_dir_all(path.join("bucket"))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left lies among temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What the callers of a run share.
#[derive(Debug)]
struct Callers {
    address: SocketAddr,
    /// What slow readers got, in KiB.
    slow: AtomicU64,
}

impl Callers {
    /// Puts the objects that will be asked for.
    async fn new(address: SocketAddr) -> Arc<Self> {
        for (mib, _) in SIZES {
            let outcome = put(address, &format!("object-{mib}"), mib * MIB, Manner::Ordinary).await;
            assert!(matches!(outcome, Ok(Outcome::InTime(_))), "{outcome:?}");
        }
        Arc::new(Self { address, slow: AtomicU64::new(SIZES.iter().map(|(mib, _)| mib * 1_024).sum()) })
    }

    /// The call with this number. The numbers alone decide what it is.
    async fn call(self: Arc<Self>, number: u64) -> Outcome {
        if number.is_multiple_of(10) {
            tokio::spawn(Arc::clone(&self).disturb(number / 10));
        }
        let mut chance = fastrand::Rng::with_seed(number);
        let (mut drawn, puts) = (chance.u64(..15), chance.bool());
        let size = SIZES.iter().find(|(_, share)| {
            let found = drawn < *share;
            drawn = drawn.saturating_sub(*share);
            found
        });
        let mib = size.map_or(1, |(mib, _)| *mib);
        let outcome = if puts {
            put(self.address, &format!("put-{}", number % 16), mib * MIB, Manner::Ordinary).await
        } else {
            get(self.address, &format!("object-{mib}"), Manner::Ordinary).await
        };
        outcome.unwrap_or(Outcome::Failed)
    }

    /// A slow reader, or a caller that hangs up.
    async fn disturb(self: Arc<Self>, number: u64) {
        let disturb = async {
            match number % 4 {
                0 | 2 => get(self.address, "object-8", Manner::Slow).await,
                1 => get(self.address, "object-8", Manner::Rude).await,
                _ => put(self.address, "rude", 8 * MIB, Manner::Rude).await,
            }
        };
        let outcome = timeout(LONGEST, disturb).await;
        if let (true, Ok(Ok(Outcome::InTime(work)))) = (number.is_multiple_of(2), outcome) {
            self.slow.fetch_add(work, Relaxed);
        }
    }
}

/// KiB per second that the server moves for so few callers that it is no slower for them.
async fn capacity(length: Duration) -> f64 {
    let folder = Folder::new("capacity").expect("a folder");
    let server = Server::start(&format!("bare {}", folder.0.display())).await;
    let callers = Callers::new(server.address).await;
    let per_second = most_closed(4, 5, length, move |number| Arc::clone(&callers).call(number)).await;
    server.stop().await;
    per_second
}

#[expect(clippy::cast_precision_loss, reason = "a dozen")]
async fn table(quick: bool, only: &str) {
    let capacity = capacity(Duration::from_millis(if quick { 500 } else { 2_000 })).await;
    let [work, count] = SIZES.iter().fold([0, 0], |[work, count], (mib, share)| [work + mib * share, count + share]);
    let plan = Plan { work: 1_024.0 * work as f64 / count as f64, ..Plan::new(capacity, DEADLINE, quick) };
    println!("Capacity: {:.0} MiB/s, {:.0} calls/s.\n", capacity / 1_024.0, capacity / plan.work);
    println!("{}", header().replace("memory |", "memory | highest limit | slots held at the end |") + "---:|---:|");
    for (load, variant) in load::runs(&VARIANTS, only) {
        let folder = Folder::new(variant).expect("a folder");
        let server = Server::start(&format!("{variant} {}", folder.0.display())).await;
        let callers = Callers::new(server.address).await;
        let mut tally = drive(&plan, load, |number| Arc::clone(&callers).call(number)).await;
        // Slow readers go on for a while.
        while Arc::strong_count(&callers) > 1 {
            sleep(Duration::from_millis(10)).await;
        }
        tally.all_work += callers.slow.load(Relaxed);
        let counters = server.stop().await;
        let [limit, held] = [counters.limit, counters.held].map(|it| it.map_or("–".to_owned(), |it| it.to_string()));
        println!("{} {limit} | {held} |", row(&Row { load, variant, plan: &plan, tally: &tally, counters }));
    }
}

fn main() {
    match Role::of_this_process() {
        Role::Serve(words) => {
            let (variant, folder) = words.split_once(' ').expect("a variant and a folder");
            let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
            runtime.expect("a runtime").block_on(server::be_server(variant, folder));
        }
        Role::Table { quick, only } => {
            let runtime = Builder::new_multi_thread().enable_all().build();
            runtime.expect("a runtime").block_on(table(quick, &only));
        }
    }
}
