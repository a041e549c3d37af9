//! Clients that ask, and then don't read: what they hold, and what bounds that.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use h2::{RecvStream, client};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::{io::AsyncWriteExt, net::TcpStream, task::JoinHandle};
use tower::{ServiceBuilder, service_fn};
use tower_admission::{
    Admission, AdmissionBuilder, AdmissionLayer,
    classify::by_header,
    limit::Fixed,
    percent,
    policy::{Policy, ReleaseAt},
};
use tower_http::timeout::ResponseBodyTimeoutLayer;

use crate::support::{Client, Probe, Server, Version, at_rest, bounded, client::get, eventually};

const LIMIT: usize = 8;
const READERS: usize = 12;

/// What is done about slow readers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Remedy {
    Nothing,
    /// A timeout around the body.
    BodyTimeout,
    /// Slots that expire.
    TimeToLive,
    /// Slots that don't wait for the body.
    ReleaseAtHead,
    /// A share that can't be exceeded.
    HardCap,
}

impl Remedy {
    fn settings(self) -> AdmissionBuilder {
        let settings = Admission::builder().limit(Fixed::new(LIMIT)).shed();
        let slow = if self == Self::HardCap { percent(50).hard_cap() } else { percent(50) };
        let settings = settings.partition("slow", slow).partition("calm", percent(50));
        match self {
            Self::TimeToLive => settings.permit_time_to_live(Duration::from_millis(300)),
            _ => settings,
        }
    }

    fn policy(self) -> Policy {
        match self {
            Self::ReleaseAtHead => Policy::new().release_at(ReleaseAt::ResponseHead),
            _ => Policy::new(),
        }
    }
}

/// Clients that have got their answer's head and read no more.
#[derive(Default)]
struct Readers {
    sockets: Vec<TcpStream>,
    streams: Vec<RecvStream>,
    connections: Vec<JoinHandle<()>>,
}

impl Readers {
    async fn come(server: &Server, version: Version) -> Self {
        let mut this = Self::default();
        for _ in 0..READERS {
            let mut socket = TcpStream::connect(server.address).await.unwrap();
            if version == Version::H1 {
                socket.write_all(b"GET /large HTTP/1.1\r\nhost: x\r\nx-partition: slow\r\n\r\n").await.unwrap();
                let head = super::read_until(&mut socket, "\r\n\r\n").await;
                assert!(head.starts_with("http/1.1 "), "{head}");
                this.sockets.push(socket);
            } else {
                let (sender, connection) = client::handshake(socket).await.unwrap();
                this.connections.push(tokio::spawn(async { drop(connection.await) }));
                let request = Request::get("http://x/large").header("x-partition", "slow").body(()).unwrap();
                let (answer, _) = sender.ready().await.unwrap().send_request(request, true).unwrap();
                // The window of the stream is never enlarged, as nothing is read.
                this.streams.push(bounded("the head", answer).await.unwrap().into_body());
            }
        }
        this
    }

    fn leave(self) {
        self.connections.iter().for_each(JoinHandle::abort);
    }
}

/// Answers with a body without end, or with a small one.
async fn serve(remedy: Remedy) -> (Server, Admission, Probe) {
    let (admission, probe) = (remedy.settings().build().unwrap(), Probe::open());
    let handler = service_fn(|request: Request<_>| async move {
        let drop_me: Request<hyper::body::Incoming> = request;
        let pieces = if drop_me.uri().path() == "/large" { usize::MAX } else { 1 };
        let piece = || Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(&[b'x'; 1 << 14])));
        Ok::<_, std::convert::Infallible>(Response::new(StreamBody::new(stream::iter(
            (0..pieces).map(move |_| piece()),
        ))))
    });
    let layer = AdmissionLayer::new(&admission).classify(by_header("x-partition")).policy(remedy.policy());
    let layers = ServiceBuilder::new().layer(probe.arrivals()).layer(layer);
    let timeout = ResponseBodyTimeoutLayer::new(Duration::from_millis(100));
    let server = match remedy {
        Remedy::BodyTimeout => Server::hyper(layers.layer(timeout).service(handler)).await,
        _ => Server::hyper(layers.service(handler)).await,
    };
    (server, admission, probe)
}

async fn calm(client: &mut Client, path: &str) -> u16 {
    let mut request = get(path);
    request.headers_mut().insert("x-partition", "calm".parse().unwrap());
    bounded("the calm client", client.answer(request)).await.status().as_u16()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_stall_hold_their_slots_until_something_ends_that() {
    for version in [Version::H1, Version::H2] {
        for (remedy, holds) in [
            (Remedy::Nothing, true),
            (Remedy::BodyTimeout, true),
            (Remedy::TimeToLive, false),
            (Remedy::ReleaseAtHead, false),
        ] {
            let (server, admission, probe) = serve(remedy).await;
            let readers = Readers::come(&server, version).await;
            let slow = |admission: &Admission| admission.snapshot().partition("slow").unwrap().in_flight;
            if holds {
                // By then a timeout that worked would be over three times. It does not, since a reader that stalls asks for no frame.
                tokio::time::sleep(Duration::from_millis(300)).await;
                assert!(slow(&admission) > 0, "{version:?} {remedy:?}");
            } else {
                eventually("the slots are back", || slow(&admission) == 0).await;
            }
            println!("{version:?} {remedy:?}: {} slots held", slow(&admission));
            readers.leave();
            at_rest(&admission, &probe).await;
            server.stop().await;
        }
    }
}

/// A share that can't be exceeded leaves the others theirs. The control: without it slow readers have all slots: those
/// that were free when they came don't come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_stall_take_no_more_than_a_hard_cap() {
    for version in [Version::H1, Version::H2] {
        for (remedy, held, all) in [(Remedy::HardCap, LIMIT / 2, true), (Remedy::Nothing, LIMIT, false)] {
            let (server, admission, probe) = serve(remedy).await;
            let readers = Readers::come(&server, version).await;
            assert_eq!(admission.snapshot().in_flight, held, "{version:?} {remedy:?}");
            let mut client = Client::connect(server.address, Version::H1).await;
            for _ in 0..50 {
                assert_eq!(calm(&mut client, "/small").await == 200, all, "{version:?} {remedy:?}");
            }
            drop(client);
            readers.leave();
            at_rest(&admission, &probe).await;
            server.stop().await;
        }
    }
}
