//! Something between client and server that delays and loses answers.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    time::{Instant, sleep_until},
};

/// Passes everything on to a server, but breaks some connections after the server has done what was asked and before
/// its answer arrives.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    port: u16,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    to: AtomicU32,
    /// Of a hundred answers so many are lost.
    losing: AtomicU32,
    /// The next answer of each connection is swallowed; the connection stays, but nothing passes any more.
    mute: AtomicBool,
    /// How much later each answer arrives, in microseconds: a round trip. Those behind it don't wait for longer.
    delay: AtomicU64,
    answers: AtomicU64,
    lost: AtomicU64,
    sent: Mutex<Vec<u8>>,
    answered: Mutex<Vec<u8>>,
}

/// How much of what passes is kept, each way.
const KEPT: usize = 1_000_000;

fn keep(kept: &Mutex<Vec<u8>>, bytes: &[u8]) {
    let mut kept = kept.lock().unwrap();
    let room = KEPT.saturating_sub(kept.len());
    kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

impl Proxy {
    pub(crate) async fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State { to: AtomicU32::new(u32::from(to)), ..State::default() });
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            loop {
                let Ok((client, _)) = listener.accept().await else { return };
                let to = u16::try_from(shared.to.load(Ordering::SeqCst)).unwrap();
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)).await else { continue };
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                let frozen = Arc::new(AtomicBool::new(false));
                tokio::spawn(pass(from_client, to_server, Arc::clone(&shared), Arc::clone(&frozen)));
                tokio::spawn(answer(from_server, to_client, Arc::clone(&shared), frozen));
            }
        });
        Self { port, state }
    }

    /// Something that passes everything on, with answers that are so much later.
    pub(crate) async fn behind(to: u16, round_trip: Duration) -> Self {
        let proxy = Self::start(to).await;
        proxy.delay(round_trip);
        proxy
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Loses so many of a hundred answers from now on.
    pub(crate) fn lose(&self, percent: u32) {
        self.state.losing.store(percent, Ordering::SeqCst);
    }

    /// Swallows the answers of all connections, which are broken when this ends.
    pub(crate) fn mute(&self, mute: bool) {
        self.state.mute.store(mute, Ordering::SeqCst);
    }

    /// Delays all answers by a round trip from now on.
    pub(crate) fn delay(&self, delay: Duration) {
        self.state.delay.store(delay.as_micros().try_into().unwrap(), Ordering::SeqCst);
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Where new connections go.
    pub(crate) fn lead_to(&self, port: u16) {
        self.state.to.store(u32::from(port), Ordering::SeqCst);
    }

    /// What clients sent.
    pub(crate) fn sent(&self) -> Vec<u8> {
        self.state.sent.lock().unwrap().clone()
    }

    /// What the server answered.
    pub(crate) fn answered(&self) -> Vec<u8> {
        self.state.answered.lock().unwrap().clone()
    }

    pub(crate) fn lost(&self) -> u64 {
        self.state.lost.load(Ordering::SeqCst)
    }
}

impl State {
    async fn thaw(&self) {
        while self.mute.load(Ordering::SeqCst) {
            tokio::time::sleep(super::ms(1)).await;
        }
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, state: Arc<State>, frozen: Arc<AtomicBool>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read) = from.read(&mut buffer).await {
        if frozen.load(Ordering::SeqCst) {
            state.thaw().await;
            return;
        }
        keep(&state.sent, &buffer[..read]);
        if read == 0 || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

async fn answer(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, state: Arc<State>, frozen: Arc<AtomicBool>) {
    let (later, mut due) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    tokio::spawn(async move {
        while let Some((at, bytes)) = due.recv().await {
            sleep_until(at).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    });
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read) = from.read(&mut buffer).await {
        if read == 0 {
            return;
        }
        keep(&state.answered, &buffer[..read]);
        let number = state.answers.fetch_add(1, Ordering::SeqCst);
        let losing = u64::from(state.losing.load(Ordering::SeqCst));
        // Spread over the hundred: with 10, the 10th, 20th, 30th ...
        if losing > 0 && (number * losing) % 100 < losing {
            state.lost.fetch_add(1, Ordering::SeqCst);
            return;
        }
        if state.mute.load(Ordering::SeqCst) {
            frozen.store(true, Ordering::SeqCst);
            state.lost.fetch_add(1, Ordering::SeqCst);
            state.thaw().await;
            return;
        }
        let delay = Duration::from_micros(state.delay.load(Ordering::SeqCst));
        if later.send((Instant::now() + delay, buffer[..read].to_vec())).is_err() {
            return;
        }
    }
}
