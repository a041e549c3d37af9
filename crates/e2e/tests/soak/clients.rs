//! What clients do: most behave, some hang up, some send slowly, some invent names.

use std::{
    convert::Infallible,
    error::Error,
    fmt,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream;
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, client::conn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    bounded,
    grpc::Caller,
    ms,
    server::{CLASS, LABEL},
};

type Failure = Box<dyn Error + Send + Sync>;
type Outgoing = UnsyncBoxBody<Bytes, Infallible>;

/// One thing that a client does.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Three requests over one connection, read to their ends.
    Web1,
    /// The same over HTTP/2, at once.
    Web2,
    /// Hangs up while its request runs or waits.
    HangUp,
    /// Hangs up with a byte of a next request sent, which the server does not notice.
    Stray,
    /// Resets streams of HTTP/2, right away and later.
    Reset,
    /// Sends a body in pieces, in time or too slowly.
    Upload,
    /// Leaves in the middle of a body that it sends.
    HalfUpload,
    /// Reads the first chunks of many.
    HalfRead,
    /// A handler that panics.
    Panic,
    /// A classifier that panics.
    Classifier,
    /// Three calls of gRPC.
    Call,
    /// A conversation, to its end or not.
    Chat,
    /// A class whose rules fail closed.
    Strict,
}

const ACTS: [Act; 13] = [
    Act::Web1,
    Act::Web2,
    Act::HangUp,
    Act::Stray,
    Act::Reset,
    Act::Upload,
    Act::HalfUpload,
    Act::HalfRead,
    Act::Panic,
    Act::Classifier,
    Act::Call,
    Act::Chat,
    Act::Strict,
];

/// How often each was done, and how often to its end, which some never are.
#[derive(Debug, Default)]
pub(crate) struct Tally([(AtomicU64, AtomicU64); ACTS.len()]);

impl Tally {
    pub(crate) fn each_happened(&self) -> bool {
        self.0.iter().all(|(done, _)| done.load(Ordering::Relaxed) > 0)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what clients did, and to its end:")?;
        for (act, (done, well)) in ACTS.iter().zip(&self.0) {
            write!(f, " {act:?} {}/{}", well.load(Ordering::Relaxed), done.load(Ordering::Relaxed))?;
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Clients {
    web: SocketAddr,
    grpc: SocketAddr,
    tally: Arc<Tally>,
    tasks: JoinSet<()>,
}

impl Clients {
    pub(crate) fn new(web: SocketAddr, grpc: SocketAddr) -> Self {
        Self { web, grpc, tally: Arc::default(), tasks: JoinSet::new() }
    }

    /// For `time`, between `from` and `to` acts per second.
    pub(crate) async fn load(&mut self, time: Duration, from: u32, to: u32) {
        let (begin, mut next) = (Instant::now(), Instant::now());
        while begin.elapsed() < time {
            let part = begin.elapsed().as_secs_f64() / time.as_secs_f64();
            let rate = f64::from(from) + part * (f64::from(to) - f64::from(from));
            next += Duration::from_secs_f64(1.0 / rate);
            sleep_until(next).await;
            while self.tasks.try_join_next().is_some() {}
            // A server that is stuck is not given ever more to do.
            if self.tasks.len() < 500 {
                let (web, grpc, tally) = (self.web, self.grpc, Arc::clone(&self.tally));
                self.tasks.spawn(async move {
                    let number = fastrand::usize(..ACTS.len());
                    tally.0[number].0.fetch_add(1, Ordering::Relaxed);
                    if matches!(timeout(Duration::from_secs(5), act(ACTS[number], web, grpc)).await, Ok(Ok(()))) {
                        tally.0[number].1.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        }
    }

    /// Lets all end what they do.
    pub(crate) async fn leave(&mut self) {
        bounded("the clients", async { while self.tasks.join_next().await.is_some() {} }).await;
    }

    pub(crate) fn tally(self) -> Tally {
        Arc::into_inner(self.tally).unwrap_or_default()
    }
}

/// Some labels come often, others once.
fn label() -> String {
    if fastrand::u8(..) < 200 {
        format!("known-{}", fastrand::u8(..12))
    } else {
        format!("made-up-{}", fastrand::u64(..))
    }
}

/// Ends the task of a connection.
struct Connection(AbortHandle);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn http1(to: SocketAddr) -> Result<(conn::http1::SendRequest<Outgoing>, Connection), Failure> {
    let (sender, connection) = conn::http1::handshake(TokioIo::new(TcpStream::connect(to).await?)).await?;
    Ok((sender, Connection(tokio::spawn(connection).abort_handle())))
}

async fn http2(to: SocketAddr) -> Result<(conn::http2::SendRequest<Outgoing>, Connection), Failure> {
    let stream = TokioIo::new(TcpStream::connect(to).await?);
    let (sender, connection) = conn::http2::handshake(TokioExecutor::new(), stream).await?;
    Ok((sender, Connection(tokio::spawn(connection).abort_handle())))
}

fn request(to: SocketAddr, path: &str, class: &str) -> Result<Request<Outgoing>, Failure> {
    let request = Request::get(format!("http://{to}{path}")).header("host", to.to_string()).header(LABEL, label());
    Ok(request.header(CLASS, class).body(UnsyncBoxBody::new(http_body_util::Empty::new()))?)
}

fn work(to: SocketAddr) -> Result<Request<Outgoing>, Failure> {
    request(to, &format!("/takes/{}", fastrand::u64(..60)), "plain")
}

async fn read(answer: http::Response<Incoming>) -> Result<(), Failure> {
    answer.into_body().collect().await?;
    Ok(())
}

async fn act(act: Act, web: SocketAddr, grpc: SocketAddr) -> Result<(), Failure> {
    let moment = ms(fastrand::u64(..40));
    match act {
        Act::Web1 => {
            let (mut sender, _connection) = http1(web).await?;
            for _ in 0..3 {
                sender.ready().await?;
                read(sender.send_request(work(web)?).await?).await?;
            }
        }
        Act::Web2 => {
            let (mut sender, _connection) = http2(web).await?;
            let [one, two, three] = [work(web)?, work(web)?, work(web)?].map(|request| sender.send_request(request));
            for answer in <[_; 3]>::from(tokio::join!(one, two, three)) {
                read(answer?).await?;
            }
        }
        Act::HangUp => {
            let (mut sender, _connection) = http1(web).await?;
            let _ = timeout(moment, sender.send_request(work(web)?)).await;
        }
        Act::Stray => {
            let mut socket = TcpStream::connect(web).await?;
            let head = format!("GET /takes/30 HTTP/1.1\r\nhost: x\r\nx-label: {}\r\n\r\nG", label());
            socket.write_all(head.as_bytes()).await?;
            sleep(moment).await;
        }
        Act::Reset => {
            let (mut sender, _connection) = http2(web).await?;
            for wait in [Duration::ZERO, moment, moment] {
                let _ = timeout(wait, sender.send_request(work(web)?)).await;
            }
        }
        Act::Upload => {
            let (mut sender, _connection) = http1(web).await?;
            let pause = moment * 2;
            let pieces = stream::unfold(10, move |left| async move {
                sleep(pause).await;
                (left > 0).then(|| (Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[0; 2_000]))), left - 1))
            });
            let body = UnsyncBoxBody::new(StreamBody::new(pieces));
            let request = Request::post("/upload").header("host", "x").header(LABEL, label()).body(body)?;
            read(sender.send_request(request).await?).await?;
        }
        Act::HalfUpload => {
            let mut socket = TcpStream::connect(web).await?;
            let head =
                format!("POST /upload HTTP/1.1\r\nhost: x\r\nx-label: {}\r\ncontent-length: 9999\r\n\r\nhalf", label());
            socket.write_all(head.as_bytes()).await?;
            sleep(moment * 12).await;
        }
        Act::HalfRead => {
            let mut socket = TcpStream::connect(web).await?;
            socket.write_all(b"GET /chunks HTTP/1.1\r\nhost: x\r\n\r\n").await?;
            socket.read_exact(&mut [0; 8_000]).await?;
            sleep(moment).await;
        }
        Act::Panic | Act::Classifier => {
            let (mut sender, _connection) = http1(web).await?;
            let (path, class) = if matches!(act, Act::Panic) { ("/panic", "plain") } else { ("/takes/1", "panic") };
            read(sender.send_request(request(web, path, class)?).await?).await?;
        }
        Act::Call => {
            let mut caller = Caller::connect(grpc, label()).await?;
            for _ in 0..3 {
                caller.say().await?;
            }
        }
        Act::Chat => Caller::connect(grpc, label()).await?.chat(8, fastrand::usize(1..=8)).await?,
        Act::Strict => {
            let (mut sender, _connection) = http1(web).await?;
            read(sender.send_request(request(web, "/takes/5", "strict")?).await?).await?;
        }
    }
    Ok(())
}
