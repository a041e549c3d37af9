//! Counts how many requests run at the same time, whoever runs them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// Told `+` when a request begins and `-` when it ends; confirms both. Ends when dropped.
pub(crate) struct Witness {
    port: u16,
    counts: Arc<Counts>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Counts {
    running: AtomicU64,
    peak: AtomicU64,
}

impl Witness {
    pub(crate) async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let counts = Arc::<Counts>::default();
        let shared = Arc::clone(&counts);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(listen(stream, Arc::clone(&shared)));
            }
        });
        Ok(Self { port, counts, task })
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// The most that ran at the same time.
    pub(crate) fn peak(&self) -> u64 {
        self.counts.peak.load(Ordering::SeqCst)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(mut stream: TcpStream, counts: Arc<Counts>) {
    while let Ok(told) = stream.read_u8().await {
        if told == b'+' {
            let running = counts.running.fetch_add(1, Ordering::SeqCst) + 1;
            counts.peak.fetch_max(running, Ordering::SeqCst);
        } else {
            counts.running.fetch_sub(1, Ordering::SeqCst);
        }
        if stream.write_u8(told).await.is_err() {
            return;
        }
    }
}
