//! Calls of all four kinds, which are given up in each of their phases.

use admission_testkit::grpc::Served;
use futures_util::{StreamExt, future::join_all, stream};
use http::uri::PathAndQuery;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Status, client::Grpc as GrpcClient, transport::Channel};
use tower_admission::{Admission, AdmissionLayer, Ticket, limit::Fixed};

use super::{Codec, Kinds};
use crate::support::{Probe, Server, at_rest, bounded, eventually, grpc::connect};

const LIMIT: usize = 3;
const WORKERS: usize = 8;
const ROUNDS: usize = 12;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Unary,
    Upload,
    Download,
    Chat,
}

const KINDS: [Kind; 4] = [Kind::Unary, Kind::Upload, Kind::Download, Kind::Chat];

/// Where a call ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    /// Given up as soon as its handler was called.
    Called,
    /// Given up after a message went out, or came.
    Midway,
    /// Comes to its end.
    End,
}

struct Caller {
    client: GrpcClient<Channel>,
    kinds: Kinds,
}

impl Caller {
    /// The phases of calls that wait are those of one kind: see [`calls_that_are_given_up_while_they_wait_leave_their_places`].
    async fn call(&mut self, kind: Kind, phase: Phase, name: &str) -> Result<(), Status> {
        let reached = self.kinds.meet(name);
        self.client.ready().await.unwrap();
        let path = PathAndQuery::try_from(format!("/test.Kinds/{kind:?}")).unwrap();
        let (send, receive) = mpsc::unbounded_channel::<String>();
        let messages = UnboundedReceiverStream::new(receive);
        let word = if phase == Phase::End { "hello" } else { "hang" };
        if phase != Phase::Called {
            send.send(word.to_owned()).unwrap();
        }
        // Otherwise more may come, until the caller gives up.
        let send = (phase != Phase::End).then_some(send);
        match kind {
            Kind::Unary => {
                let answer = self.client.unary(named(word.to_owned(), name), path, Codec::default());
                if phase == Phase::End {
                    assert_eq!(answer.await?.into_inner(), "hello");
                } else {
                    given_up(answer, reached).await?;
                }
            }
            Kind::Upload => {
                let answer = self.client.client_streaming(named(messages, name), path, Codec::default());
                if phase == Phase::End {
                    assert_eq!(answer.await?.into_inner(), "1");
                } else {
                    given_up(answer, reached).await?;
                }
            }
            Kind::Download => {
                let answer = self.client.server_streaming(named(word.to_owned(), name), path, Codec::default());
                let mut answers = answer.await?.into_inner();
                match phase {
                    Phase::Called => {}
                    Phase::Midway => assert_eq!(answers.message().await?.unwrap(), "message"),
                    Phase::End => assert_eq!(answers.collect::<Vec<_>>().await.len(), 3),
                }
            }
            Kind::Chat => {
                let answer = self.client.streaming(named(messages, name), path, Codec::default());
                let mut answers = answer.await?.into_inner();
                if phase != Phase::Called {
                    assert_eq!(answers.message().await?.unwrap(), word);
                }
                if phase == Phase::End {
                    assert_eq!(answers.message().await?, None);
                }
            }
        }
        drop(send);
        Ok(())
    }
}

fn named<T>(message: T, name: &str) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("x-name", name.parse().unwrap());
    request
}

/// Drops the call when its handler was reached.
async fn given_up<T: std::fmt::Debug>(
    call: impl Future<Output = Result<T, Status>>,
    reached: tokio::sync::oneshot::Receiver<()>,
) -> Result<(), Status> {
    tokio::select! {
        answer = call => Err(answer.expect_err("it was answered")),
        reached = reached => {
            reached.unwrap();
            Ok(())
        }
    }
}

async fn serve(admission: &Admission, kinds: &Kinds) -> Server {
    let server = tonic::transport::Server::builder();
    let mut server = server.layer(kinds.probe.arrivals()).layer(AdmissionLayer::new(admission));
    Server::tonic(server.add_service(Served(kinds.clone()))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_each_kind_give_their_slots_back_in_whichever_phase_they_end() {
    for kind in KINDS {
        for phase in [Phase::Called, Phase::Midway, Phase::End] {
            let (admission, probe) =
                (Admission::builder().limit(Fixed::new(LIMIT)).queue(100).build().unwrap(), Probe::open());
            let kinds = Kinds::new(&probe);
            let server = serve(&admission, &kinds).await;
            let workers = join_all((0..WORKERS).map(async |worker| {
                let mut caller =
                    Caller { client: GrpcClient::new(connect(server.address).await), kinds: kinds.clone() };
                for round in 0..ROUNDS {
                    caller.call(kind, phase, &format!("{worker}-{round}")).await.unwrap();
                }
            }));
            bounded(&format!("{kind:?} {phase:?}"), workers).await;
            at_rest(&admission, &probe).await;
            assert_eq!(admission.snapshot().admitted(), (WORKERS * ROUNDS) as u64);
            assert!(probe.peak() <= LIMIT, "{kind:?} {phase:?}: {} ran at once", probe.peak());
            assert_eq!(probe.running(), 0, "{kind:?} {phase:?}");
            println!("{kind:?} {phase:?}: {} calls, at most {} at once", WORKERS * ROUNDS, probe.peak());
            server.stop().await;
        }
    }
}

/// The control: without the layer more run at once than the limit, so the callers do press.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_limit_more_calls_run_at_once() {
    let probe = Probe::open();
    let kinds = Kinds::new(&probe);
    let mut server = tonic::transport::Server::builder();
    let server = Server::tonic(server.add_service(Served(kinds.clone()))).await;
    let workers = join_all((0..WORKERS).map(async |_| {
        let mut client = GrpcClient::new(connect(server.address).await);
        client.ready().await.unwrap();
        let path = PathAndQuery::from_static("/test.Kinds/Download");
        let request = tonic::Request::new("hang".to_owned());
        let answer: tonic::Response<tonic::Streaming<String>> =
            client.server_streaming(request, path, Codec::default()).await.unwrap();
        answer
    }));
    let answers = bounded("all calls", workers).await;
    assert_eq!(probe.running(), WORKERS);
    drop(answers);
    eventually("none runs", || probe.running() == 0).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_are_given_up_while_they_wait_leave_their_places() {
    let (admission, probe) = (Admission::builder().limit(Fixed::new(1)).queue(100).build().unwrap(), Probe::open());
    let kinds = Kinds::new(&probe);
    let server = serve(&admission, &kinds).await;
    probe.count_arrival();
    let held = admission.try_admit(Ticket::new()).unwrap();
    for kind in KINDS {
        for _ in 0..ROUNDS {
            let mut caller = Caller { client: GrpcClient::new(connect(server.address).await), kinds: kinds.clone() };
            let call = tokio::spawn(async move { caller.call(kind, Phase::Midway, "never").await });
            eventually("it waits", || admission.snapshot().waiting == 1).await;
            call.abort();
            eventually("its place is free", || admission.snapshot().waiting == 0).await;
        }
    }
    assert_eq!(probe.started(), 0);
    drop(held);
    at_rest(&admission, &probe).await;
    server.stop().await;
}

/// Also where the client has still messages to send.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_call_of_each_kind_gets_its_status_and_the_connection_serves_the_next() {
    let (admission, probe) = (Admission::builder().limit(Fixed::new(1)).shed().build().unwrap(), Probe::open());
    let kinds = Kinds::new(&probe);
    let server = serve(&admission, &kinds).await;
    let mut caller = Caller { client: GrpcClient::new(connect(server.address).await), kinds };
    for _ in 0..ROUNDS {
        probe.count_arrival();
        let held = admission.try_admit(Ticket::new()).unwrap();
        for kind in KINDS {
            for phase in [Phase::Called, Phase::Midway, Phase::End] {
                let refused = bounded("the refusal", caller.call(kind, phase, "refused")).await.unwrap_err();
                assert_eq!(refused.code(), Code::ResourceExhausted, "{kind:?} {phase:?}: {refused}");
                assert!(refused.message().starts_with("limit: "), "{kind:?} {phase:?}: {refused}");
                assert!(refused.metadata().contains_key("grpc-retry-pushback-ms"), "{kind:?} {phase:?}");
            }
        }
        drop(held);
        for kind in KINDS {
            caller.call(kind, Phase::End, "served").await.unwrap();
            at_rest(&admission, &probe).await;
        }
    }
    // A client that sends without end is refused all the same.
    let _held = admission.try_admit(Ticket::new()).unwrap();
    caller.client.ready().await.unwrap();
    let endless = stream::repeat("more".to_owned());
    let path = PathAndQuery::from_static("/test.Kinds/Upload");
    let call = caller.client.client_streaming(tonic::Request::new(endless), path, Codec::default());
    let refused: Result<tonic::Response<String>, Status> = bounded("the refusal", call).await;
    assert_eq!(refused.unwrap_err().code(), Code::ResourceExhausted);
    drop(caller);
    server.stop().await;
}
