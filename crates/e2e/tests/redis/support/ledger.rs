//! An independent witness of how many run at the same time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Counts who runs. Entered after the grant and left before the release: whatever it counts together did run together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    running: AtomicI64,
    peak: AtomicI64,
    attempts: AtomicU64,
    entered: AtomicU64,
    /// How often one entered where `bound` were running already.
    over: AtomicU64,
    bound: AtomicI64,
    /// Whether no entry of another process is confirmed before as many have run together as may.
    gathers: AtomicBool,
}

impl Ledger {
    pub(crate) fn new(bound: i64) -> Self {
        let ledger = Self::default();
        ledger.0.bound.store(bound, Ordering::SeqCst);
        ledger
    }

    /// A ledger whose bound is reached, however slow the machine is: those that came first wait until it is.
    pub(crate) fn gathering(bound: i64) -> Self {
        let ledger = Self::new(bound);
        ledger.0.gathers.store(true, Ordering::SeqCst);
        ledger
    }

    async fn gather(&self) {
        while self.0.gathers.load(Ordering::SeqCst) && self.peak() < self.0.bound.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(crate) fn attempt(&self) {
        self.0.attempts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn enter(&self) -> Entry {
        let running = self.0.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.peak.fetch_max(running, Ordering::SeqCst);
        self.0.entered.fetch_add(1, Ordering::SeqCst);
        if running > self.0.bound.load(Ordering::SeqCst) {
            self.0.over.fetch_add(1, Ordering::SeqCst);
        }
        Entry(Arc::clone(&self.0))
    }

    pub(crate) fn peak(&self) -> i64 {
        self.0.peak.load(Ordering::SeqCst)
    }

    pub(crate) fn attempts(&self) -> u64 {
        self.0.attempts.load(Ordering::SeqCst)
    }

    pub(crate) fn entered(&self) -> u64 {
        self.0.entered.load(Ordering::SeqCst)
    }

    pub(crate) fn over(&self) -> u64 {
        self.0.over.load(Ordering::SeqCst)
    }

    /// Takes entries from other processes: `+` enters, `-` leaves, each is confirmed; a connection that ends leaves.
    pub(crate) async fn serve(&self) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let ledger = self.clone();
        tokio::spawn(async move {
            loop {
                let Ok((mut stream, _)) = listener.accept().await else { return };
                stream.set_nodelay(true).unwrap();
                let ledger = ledger.clone();
                tokio::spawn(async move {
                    let mut entry = None;
                    let mut byte = [0];
                    while stream.read_exact(&mut byte).await.is_ok() {
                        entry = (byte[0] == b'+').then(|| ledger.enter());
                        ledger.gather().await;
                        if stream.write_all(&byte).await.is_err() {
                            break;
                        }
                    }
                    drop(entry);
                });
            }
        });
        port
    }
}

#[derive(Debug)]
pub(crate) struct Entry(Arc<Counts>);

impl Drop for Entry {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The ledger as another process sees it.
#[derive(Debug)]
pub(crate) struct Remote(TcpStream);

impl Remote {
    pub(crate) async fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    async fn say(&mut self, word: u8) {
        self.0.write_all(&[word]).await.unwrap();
        self.0.read_exact(&mut [0]).await.unwrap();
    }

    /// Runs for `work`, as the ledger sees it.
    pub(crate) async fn run(&mut self, work: Duration) {
        self.say(b'+').await;
        if work > Duration::ZERO {
            tokio::time::sleep(work).await;
        }
        self.say(b'-').await;
    }
}
