//! A server in a process of its own, and what it counts.

use std::{
    io::{Read, Write, stdin, stdout},
    net::SocketAddr,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    sync::oneshot,
};

/// What the handlers of a server count. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Meter(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    running: AtomicU64,
    most: AtomicU64,
    calls: AtomicU64,
    work: AtomicU64,
}

/// A handler runs as long as this lives.
#[derive(Debug)]
pub struct Running(Arc<Counts>);

/// The counts at the end of a run.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Most handlers that ran at once.
    pub most: u64,
    /// Handlers that were begun.
    pub calls: u64,
    /// Units of work that were done, for callers that waited and for others.
    pub work: u64,
    /// The most memory that the server had, in MB.
    #[serde(default)]
    pub memory: u64,
    /// Slots that were still taken after the end of the load, where the server looked.
    #[serde(default)]
    pub held: Option<u64>,
    /// The highest limit that a request met, where the server looked.
    #[serde(default)]
    pub limit: Option<u64>,
}

impl Meter {
    /// To be called at the begin of a handler, and to be kept until its end.
    #[must_use]
    pub fn enter(&self) -> Running {
        self.0.calls.fetch_add(1, Relaxed);
        self.0.most.fetch_max(self.0.running.fetch_add(1, Relaxed) + 1, Relaxed);
        Running(Arc::clone(&self.0))
    }

    /// How many handlers run.
    #[must_use]
    pub fn running(&self) -> u64 {
        self.0.running.load(Relaxed)
    }

    /// What was counted so far, and the most memory that this process had.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let [most, calls, work] = [&self.0.most, &self.0.calls, &self.0.work].map(|count| count.load(Relaxed));
        Counters { most, calls, work, memory: memory(), held: None, limit: None }
    }

    /// So much work was done, whether or not its caller still waits.
    pub fn worked(&self, units: u64) {
        self.0.work.fetch_add(units, Relaxed);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Relaxed);
    }
}

/// Tells the parent process the address, waits until it closes standard input, and tells it what was counted.
pub async fn serve(address: SocketAddr, meter: &Meter) {
    serve_then(address, async || meter.counters()).await;
}

/// The same for a server that looks for more than handlers count, once the load has ended.
pub async fn serve_then(address: SocketAddr, look: impl AsyncFnOnce() -> Counters) {
    println!("{address}");
    stdout().flush().expect("the parent reads");
    let (closed, parent_is_gone) = oneshot::channel::<()>();
    thread::spawn(move || {
        // Nothing is ever written to it.
        let _ = stdin().read(&mut [0]);
        drop(closed);
    });
    let _ = parent_is_gone.await;
    println!("{}", serde_json::to_string(&look().await).expect("numbers"));
}

/// A server process, which ends with this.
#[derive(Debug)]
pub struct Server {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Server {
    /// Starts this program again as a server of this kind.
    pub async fn start(kind: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command.args(["--serve", kind]).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("this program runs");
        let mut lines = BufReader::new(child.stdout.take().expect("its output is piped")).lines();
        let line = lines.next_line().await.expect("it can be read").expect("the server says its address");
        Self { child, lines, address: line.parse().expect("an address") }
    }

    /// Ends it, and gives what it counted.
    pub async fn stop(mut self) -> Counters {
        drop(self.child.stdin.take());
        let line = self.lines.next_line().await.expect("it can be read").expect("the server says its counts");
        self.child.wait().await.expect("it ends");
        serde_json::from_str(&line).expect("counts")
    }
}

/// The most memory that this process had so far, in MB, where the system tells it.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default() / 1024
}
