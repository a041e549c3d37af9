//! gRPC-Web, over HTTP/1 as browsers speak it, and with the client of tonic.

use admission_testkit::grpc::Served;
use bytes::Bytes;
use http::{Request, uri::PathAndQuery};
use http_body_util::{Full, combinators::UnsyncBoxBody};
use hyper_util::{client::legacy::Client as HyperClient, rt::TokioExecutor};
use tonic::{Code, Status, client::Grpc as GrpcClient};
use tonic_web::{GrpcWebClientLayer, GrpcWebLayer};
use tower::ServiceBuilder;
use tower_admission::{Admission, AdmissionLayer, Ticket, limit::Fixed};

use super::{Codec, Kinds};
use crate::support::{Client, Probe, Server, Version, at_rest, bounded};

/// On which side of the translation the layer is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Side {
    Outside,
    Inside,
}

const SIDES: [Side; 2] = [Side::Outside, Side::Inside];

async fn serve(side: Side, admission: &Admission, probe: &Probe) -> Server {
    let (kinds, layer) = (Served(Kinds::new(probe)), AdmissionLayer::new(admission));
    match side {
        Side::Outside => {
            let layers = ServiceBuilder::new().layer(probe.arrivals()).layer(layer).layer(GrpcWebLayer::new());
            Server::hyper(layers.service(kinds)).await
        }
        Side::Inside => {
            let layers = ServiceBuilder::new().layer(probe.arrivals()).layer(GrpcWebLayer::new()).layer(layer);
            Server::hyper(layers.service(kinds)).await
        }
    }
}

/// A frame of gRPC with one string in it.
fn message(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap();
    [&[0, 0, 0, 0, length + 2, 10, length], text.as_bytes()].concat()
}

const TYPES: [&str; 4] = [
    "application/grpc-web",
    "application/grpc-web+proto",
    "application/grpc-web-text",
    "application/grpc-web-text+proto",
];

/// Calls as a browser does, by HTTP/1; answers the head and the body.
async fn call(client: &mut Client, content_type: &str, method: &str, text: &str) -> (http::response::Parts, Bytes) {
    let body = if content_type.contains("text") { base64(&message(text)) } else { message(text) };
    let request = Request::post(format!("/test.Kinds/{method}"))
        .header("content-type", content_type)
        .header("accept", content_type)
        .header("x-grpc-web", "1")
        .body(UnsyncBoxBody::new(Full::from(body)))
        .unwrap();
    bounded("the answer", client.answer(request)).await.into_parts()
}

fn base64(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = Vec::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for digit in 0..4 {
            let value = usize::try_from(bits >> (18 - 6 * digit) & 63).unwrap();
            text.push(if digit <= three.len() { DIGITS[value] } else { b'=' });
        }
    }
    text
}

fn the_only<'h>(head: &'h http::response::Parts, name: &str) -> &'h str {
    let values: Vec<_> = head.headers.get_all(name).iter().collect();
    let [value] = values[..] else { panic!("{name}: {head:?}") };
    value.to_str().unwrap()
}

/// The status in the head and no body, which gRPC-Web calls Trailers-Only as gRPC does, and the type that was asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_is_refused_in_the_words_of_grpc_web() {
    for side in SIDES {
        let (admission, probe) = (Admission::builder().limit(Fixed::new(1)).shed().build().unwrap(), Probe::open());
        let server = serve(side, &admission, &probe).await;
        let mut client = Client::connect(server.address, Version::H1).await;
        for content_type in TYPES {
            probe.count_arrival();
            let held = admission.try_admit(Ticket::new()).unwrap();
            for method in ["Unary", "Download"] {
                let (head, body) = call(&mut client, content_type, method, "hello").await;
                assert_eq!(head.status, 200, "{side:?} {content_type}");
                assert_eq!(the_only(&head, "grpc-status"), "8", "{side:?} {content_type}");
                assert!(the_only(&head, "grpc-message").starts_with("limit: "), "{side:?} {content_type}");
                assert!(the_only(&head, "grpc-retry-pushback-ms").parse::<u32>().is_ok());
                let answered = the_only(&head, "content-type");
                assert!(answered.starts_with("application/grpc-web"), "{side:?} {content_type}: {answered}");
                assert_eq!(
                    answered.contains("text"),
                    content_type.contains("text"),
                    "{side:?} {content_type}: {answered}"
                );
                assert_eq!(body, "", "{side:?} {content_type}");
            }
            drop(held);
            // The control: one that is not refused has its message and its trailers in the body, on the same connection.
            for method in ["Unary", "Download"] {
                let (head, body) = call(&mut client, content_type, method, "hello").await;
                assert!(
                    head.status == 200 && !head.headers.contains_key("grpc-status"),
                    "{side:?} {content_type}: {head:?}"
                );
                assert!(!body.is_empty(), "{side:?} {content_type}");
                at_rest(&admission, &probe).await;
            }
        }
        drop(client);
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_of_tonic_web_understands_refusals() {
    for side in SIDES {
        let (admission, probe) = (Admission::builder().limit(Fixed::new(1)).shed().build().unwrap(), Probe::open());
        let server = serve(side, &admission, &probe).await;
        let web = ServiceBuilder::new()
            .layer(GrpcWebClientLayer::new())
            .service(HyperClient::builder(TokioExecutor::new()).build_http());
        let origin = format!("http://{}", server.address).parse().unwrap();
        let mut client = GrpcClient::with_origin(web, origin);
        let mut ask = async |text: &str| -> Result<tonic::Response<String>, Status> {
            client.ready().await.unwrap();
            let path = PathAndQuery::from_static("/test.Kinds/Unary");
            client.unary(tonic::Request::new(text.to_owned()), path, Codec::default()).await
        };
        assert_eq!(bounded("the answer", ask("hello")).await.unwrap().into_inner(), "hello");
        at_rest(&admission, &probe).await;
        probe.count_arrival();
        let held = admission.try_admit(Ticket::new()).unwrap();
        let refused = bounded("the refusal", ask("hello")).await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted, "{side:?}: {refused}");
        assert!(refused.message().starts_with("limit: "), "{side:?}: {refused}");
        drop(held);
        assert!(ask("again").await.is_ok());
        at_rest(&admission, &probe).await;
        drop(client);
        server.stop().await;
    }
}

/// An overload that a call reports after its first message is in its trailers. Translated, these are bytes of the body: a
/// layer outside of the translation can't tell them from others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overload_in_the_trailers_is_seen_by_a_layer_inside_of_the_translation() {
    for (side, overloads) in [(Side::Inside, 3), (Side::Outside, 0)] {
        let (admission, probe) = (Admission::builder().limit(Fixed::new(1)).shed().build().unwrap(), Probe::open());
        let server = serve(side, &admission, &probe).await;
        let mut client = Client::connect(server.address, Version::H1).await;
        for _ in 0..3 {
            let (_, body) = call(&mut client, TYPES[0], "Download", "full").await;
            assert!(body.windows(13).any(|bytes| bytes == b"grpc-status:8"), "{side:?}: {body:?}");
            at_rest(&admission, &probe).await;
        }
        let now = admission.snapshot();
        assert_eq!(now.partitions.iter().map(|it| it.late_overloads).sum::<u64>(), overloads, "{side:?}");
        drop(client);
        server.stop().await;
    }
}
