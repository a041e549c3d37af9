//! gRPC: Trailers-Only, counted frame by frame.

use std::net::SocketAddr;

use h2::client;
use http::{HeaderMap, Request, Response};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tonic::Code;
use tower_admission::{Admission, AdmissionLayer, Reason, response::Rejections};

use super::{Full, full};
use crate::support::frames::{ACK, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, SETTINGS, fields, frame};
use crate::support::{Ends, Probe, Server, bounded, grpc};

const PATH: &str = "/test.Greeter/Say";

async fn tonic_server(layer: AdmissionLayer) -> Server {
    grpc::serve(layer, &Probe::open()).await
}

async fn hyper_server(layer: AdmissionLayer) -> Server {
    Ends::new(&Probe::open()).serve(layer).await
}

/// A frame: its type, its flags, its stream.
type Frame = (u8, u8, u32);

/// Sends one request with nothing but a socket; answers all frames of its stream, until the server has answered a
/// ping that was sent after the end of the stream.
async fn frames_of_one_call(address: SocketAddr) -> Vec<Frame> {
    let fields = fields(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":path", PATH),
        (":authority", "test"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ]);
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(PREFACE).await.unwrap();
    socket.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    socket.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &fields)).await.unwrap();

    let mut frames = Vec::new();
    loop {
        let mut head = [0; 9];
        socket.read_exact(&mut head).await.unwrap();
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let (kind, flags) = (head[3], head[4]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        socket.read_exact(&mut vec![0; length]).await.unwrap();
        match (kind, stream) {
            (SETTINGS, _) if flags & ACK == 0 => socket.write_all(&frame(SETTINGS, ACK, 0, &[])).await.unwrap(),
            (PING, _) if flags & ACK == ACK => return frames,
            (_, 1) => {
                frames.push((kind, flags, stream));
                if flags & END_STREAM == END_STREAM && matches!(kind, DATA | HEADERS) {
                    socket.write_all(&frame(PING, 0, 0, &[7; 8])).await.unwrap();
                }
            }
            _ => {}
        }
    }
}

/// Sends one request by the h2 crate; the answer must end with its head.
async fn head_of_one_call(address: SocketAddr, content_type: &str, timeout: Option<&str>) -> Response<()> {
    let (sender, connection) = client::handshake(TcpStream::connect(address).await.unwrap()).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut request = Request::builder().method("POST").uri(format!("http://test{PATH}")).body(()).unwrap();
    request.headers_mut().insert("content-type", content_type.parse().unwrap());
    if let Some(timeout) = timeout {
        request.headers_mut().insert("grpc-timeout", timeout.parse().unwrap());
    }
    let (answer, _) = sender.ready().await.unwrap().send_request(request, true).unwrap();
    let (head, mut body) = answer.await.unwrap().into_parts();
    assert!(body.is_end_stream());
    assert!(body.data().await.is_none());
    assert_eq!(body.trailers().await.unwrap(), None);
    connection.abort();
    Response::from_parts(head, ())
}

fn the_only<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    let values: Vec<_> = headers.get_all(name).iter().collect();
    let [value] = values[..] else { panic!("{name}: {values:?}") };
    value.to_str().unwrap()
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first == b'%' {
            let digits = std::str::from_utf8(&tail[..2]).unwrap();
            bytes.push(u8::from_str_radix(digits, 16).unwrap());
            rest = &tail[2..];
        } else {
            assert!((b' '..=b'~').contains(first));
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grpc_rejection_is_one_headers_frame_that_ends_the_stream() {
    for on_tonic in [false, true] {
        let layer = AdmissionLayer::new(&full());
        let server = if on_tonic { tonic_server(layer).await } else { hyper_server(layer).await };
        let frames = bounded("the call", frames_of_one_call(server.address)).await;
        assert_eq!(frames, [(HEADERS, END_STREAM | END_HEADERS, 1)]);
        server.stop().await;
    }
}

/// The control: an answer that is no rejection takes more frames than one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_the_service_is_more_than_one_frame() {
    let server = hyper_server(AdmissionLayer::new(&Admission::builder().build().unwrap())).await;
    let frames = bounded("the call", frames_of_one_call(server.address)).await;
    assert!(frames.len() > 1, "{frames:?}");
    assert_eq!(frames[0], (HEADERS, END_HEADERS, 1));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc_is_told_why_and_when_to_come_back_for_each_reason() {
    for content_type in ["application/grpc", "application/grpc+proto", "application/grpc-web"] {
        let unavailable = [Reason::Draining, Reason::PendingUnavailable, Reason::StoreUnavailable];
        for reason in Reason::ALL {
            let full = Full::because_of(reason).await;
            let layer = AdmissionLayer::new(&full.admission).classify(Full::classify);
            let server = hyper_server(layer).await;
            let timeout = full.deadline.map(|_| "10m");
            let head = bounded("the call", head_of_one_call(server.address, content_type, timeout)).await;
            let headers = head.headers();
            assert_eq!(head.status(), 200, "{reason}");
            assert_eq!(the_only(headers, "content-type"), content_type);
            let status = match reason {
                // It was over when the wait ended.
                Reason::Deadline => "4",
                _ if unavailable.contains(&reason) => "14",
                _ => "8",
            };
            assert_eq!(the_only(headers, "grpc-status"), status, "{reason}");
            assert_eq!(the_only(headers, "cache-control"), "no-store", "{reason}");
            let message = percent_decoded(the_only(headers, "grpc-message"));
            assert!(message.starts_with(&format!("{reason}: ")), "{message}");
            assert!(message.contains(Full::PARTITION), "{message}");
            let pushback: i32 = the_only(headers, "grpc-retry-pushback-ms").parse().unwrap();
            assert_eq!(pushback >= 0, reason != Reason::Deadline, "{reason}: {pushback}");
            // The clients that decode it are in the package `e2e`.
            assert_eq!(headers.contains_key("grpc-status-details-bin"), reason != Reason::Deadline, "{reason}");
            assert!(!headers.contains_key("retry-after"));
            server.stop().await;
            full.counted(reason).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tonic_client_sees_resource_exhausted_or_unavailable_as_configured() {
    for (rejections, code) in
        [(Rejections::new(), Code::ResourceExhausted), (Rejections::new().grpc_unavailable(), Code::Unavailable)]
    {
        let server = tonic_server(AdmissionLayer::new(&full()).rejections(rejections)).await;
        let status = grpc::say(grpc::connect(server.address).await, None).await.unwrap_err();
        assert_eq!(status.code(), code);
        assert!(status.message().starts_with("limit: "), "{status}");
        let pushback = status.metadata().get("grpc-retry-pushback-ms").unwrap();
        assert!(pushback.to_str().unwrap().parse::<u32>().is_ok());
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bound_of_the_caller_is_resource_exhausted_even_where_others_are_unavailable() {
    let full = Full::because_of(Reason::PartitionCap).await;
    let layer =
        AdmissionLayer::new(&full.admission).classify(Full::classify).rejections(Rejections::new().grpc_unavailable());
    let server = tonic_server(layer).await;
    let status = grpc::say(grpc::connect(server.address).await, None).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    server.stop().await;
    full.counted(Reason::PartitionCap).await;
}
