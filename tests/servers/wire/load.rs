//! Load reports, as a load balancer reads them.

use std::{collections::BTreeMap, convert::Infallible, time::Duration};

use admission_testkit::grpc::{Codec, Many, Served, call_many};
use http::{Request, Response, uri::PathAndQuery};
use tonic::{Code, client::Grpc, metadata::MetadataMap, transport::Server as Tonic};
use tower::{ServiceBuilder, ServiceExt, service_fn};
use tower_admission::{
    Admission, AdmissionLayer, ClassLimits, Mode, Outcome, Rate, Rules, Ticket, WhenFull,
    classify::RequestHead,
    limit::Fixed,
    policy::{Policy, ReleaseAt},
    response::ResponseHead,
};

use crate::support::{
    Client, Greeter, Probe, Server, Version, eventually, eventually_async, grpc::ECHO, grpc::connect,
};

const REPORT: &str = "endpoint-load-metrics";

type Report = BTreeMap<String, f64>;

/// Reads a report as Envoy does: the form, names that are known and occur once, and finite numbers.
fn read(value: &str) -> Report {
    let pairs: Vec<(String, f64)> = if let Some(text) = value.strip_prefix("TEXT ") {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once(':').unwrap();
            (name.to_owned(), value.parse().unwrap())
        };
        text.split(',').map(pair).collect()
    } else {
        let json: serde_json::Map<_, _> = serde_json::from_str(value.strip_prefix("JSON ").unwrap()).unwrap();
        json.into_iter().map(|(name, value)| (name, value.as_f64().unwrap())).collect()
    };
    let (count, report) = (pairs.len(), Report::from_iter(pairs));
    assert_eq!(report.len(), count, "{value}: a name twice");
    for (name, number) in &report {
        assert!(["application_utilization", "rps_fractional", "eps"].contains(&name.as_str()), "{value}");
        assert!(number.is_finite() && (*number > 0.0 || name == "application_utilization"), "{value}");
    }
    report
}

/// Reads doubles of Protocol Buffers by the numbers of their fields.
fn read_binary(metadata: &MetadataMap) -> BTreeMap<u8, f64> {
    let bytes = metadata.get_bin("endpoint-load-metrics-bin").unwrap().to_bytes().unwrap();
    let (fields, rest) = bytes.as_chunks::<9>();
    assert!(rest.is_empty() && fields.iter().all(|field| field[0] & 7 == 1), "{bytes:?}");
    fields.iter().map(|[tag, value @ ..]| (tag >> 3, f64::from_le_bytes(*value))).collect()
}

/// Three may wait, and no more.
fn handle(limit: usize) -> Admission {
    Admission::builder().limit(Fixed::new(limit)).queue(3).max_waiting(0).build().unwrap()
}

/// The answer of a layer to a request with these headers.
async fn answer(layer: AdmissionLayer, headers: &[(&str, &str)]) -> Response<()> {
    let work = service_fn(async |request: Request<String>| {
        let mut response = Response::new(String::new());
        if let Some(own) = request.headers().get("x-own") {
            response.headers_mut().insert(REPORT, own.clone());
        }
        Ok::<_, Infallible>(response)
    });
    let mut request = Request::new(String::new());
    for (name, value) in headers {
        request.headers_mut().append(http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
    }
    ServiceBuilder::new().layer(layer).service(work).oneshot(request).await.unwrap().map(drop)
}

fn reported(response: &Response<()>) -> Option<&str> {
    Some(response.headers().get(REPORT)?.to_str().unwrap())
}

fn used(response: &Response<()>) -> f64 {
    read(reported(response).unwrap())["application_utilization"]
}

#[tokio::test]
async fn a_report_says_how_much_of_the_limit_is_used() {
    let admission = handle(4);
    let _held = admission.try_admit(Ticket::new()).unwrap();
    let layer = || AdmissionLayer::new(&admission).load_reports();
    let starts = |response: &Response<()>, form: &str| reported(response).unwrap().starts_with(form);
    let text = answer(layer(), &[]).await;
    assert!(starts(&text, "TEXT application_utilization:0.5"), "{text:?}: one that is held, and this one");
    for format in ["JSON", "json"] {
        let json = answer(layer(), &[("endpoint-load-metrics-format", format)]).await;
        assert!(starts(&json, r#"JSON {"application_utilization":0.5"#), "{json:?}");
        assert_eq!(used(&json), 0.5);
    }
    let unknown = answer(layer(), &[("endpoint-load-metrics-format", "XML")]).await;
    assert!(starts(&unknown, "TEXT "), "{unknown:?}");
    let own = answer(layer(), &[("x-own", "TEXT cpu_utilization:0.1")]).await;
    assert_eq!(reported(&own), Some("TEXT cpu_utilization:0.1"), "what the service says is left as it is");
    let silent = answer(AdmissionLayer::new(&admission), &[]).await;
    assert_eq!(reported(&silent), None, "the control: unless it is asked for");
    assert_eq!(reported(&answer(layer().exempt(|_| true), &[]).await), None);
    let annotated = answer(layer().annotate(), &[]).await;
    assert_eq!(used(&annotated), 0.5, "with other options as well");
    let off = Admission::builder().limit(Fixed::new(4)).mode(Mode::Off).build().unwrap();
    let uncounted = answer(AdmissionLayer::new(&off).load_reports(), &[]).await;
    assert!(starts(&uncounted, "TEXT application_utilization:0"), "{uncounted:?}: an empty report would be an error");
    let judged = answer(layer().assess(|_: &ResponseHead<'_>| Outcome::Ignore), &[]).await;
    assert_eq!((used(&judged), admission.snapshot().partitions[0].ignored), (0.5, 1));
}

#[tokio::test(start_paused = true)]
async fn where_requests_wait_a_report_is_above_one_and_rejections_have_it_too() {
    let admission = handle(2);
    let held = [0, 1].map(|_| admission.try_admit(Ticket::new()).unwrap());
    let layer = AdmissionLayer::new(&admission).load_reports();
    let mut waiting = Vec::new();
    for number in 1..=3 {
        waiting.push(tokio::spawn(answer(layer.clone(), &[])));
        eventually("it waits", || admission.snapshot().waiting == number).await;
    }
    let refused = answer(layer.clone(), &[]).await;
    assert_eq!(refused.status(), 503);
    assert_eq!(used(&refused), 2.5);
    // What is reported is renewed.
    tokio::time::sleep(Duration::from_millis(150)).await;
    drop(held);
    for waiter in waiting {
        let served = waiter.await.unwrap();
        assert_eq!(served.status(), 200);
        assert!(used(&served) <= 2.5);
    }
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(used(&answer(layer, &[]).await), 0.5);
}

#[tokio::test(start_paused = true)]
async fn rates_are_of_late_and_bounds_of_callers_are_no_errors() {
    let limited = ClassLimits::new().max_per_minute(Rate::from(1).when_full(WhenFull::Reject));
    let rules = Rules::new().class("limited", limited);
    let admission = Admission::builder().limit(Fixed::new(1)).shed().rules(rules).build().unwrap();
    let classify = |request: &RequestHead<'_>, ticket: &mut Ticket<'_>| {
        if request.headers().contains_key("x-limited") {
            ticket.set_class("limited");
            ticket.set_label("a");
        }
    };
    let layer = AdmissionLayer::new(&admission).classify(classify).load_reports();
    let started = tokio::time::Instant::now();
    let mut first = None;
    // Of each round, two are served, and one is refused by its own rule. In one of four, the limit refuses one instead.
    for round in 0..130 {
        let served = answer(layer.clone(), &[]).await;
        first.get_or_insert_with(|| read(reported(&served).unwrap()));
        let status = answer(layer.clone(), &[("x-limited", "1")]).await.status();
        assert_eq!(status, if round == 0 { 200 } else { 429 });
        let held = (round % 4 == 0).then(|| admission.try_admit(Ticket::new()).unwrap());
        let expected = if held.is_some() { 503 } else { 200 };
        assert_eq!(answer(layer.clone(), &[]).await.status(), expected);
        drop(held);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let rounds = 130.0 / started.elapsed().as_secs_f64();
    assert_eq!(first.unwrap().len(), 1, "no rate of less than a second");
    tokio::time::sleep(Duration::from_millis(110)).await;
    let last = read(reported(&answer(layer, &[]).await).unwrap());
    let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.05;
    assert!(near(last["rps_fractional"], rounds * 2.0), "{last:?}, {rounds}");
    assert!(near(last["eps"], rounds * 0.25), "{last:?}, {rounds}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_goes_over_the_wire_in_each_version_and_in_trailers_of_grpc() {
    let admission = handle(4);
    let held: Vec<_> = (0..3).map(|_| admission.try_admit(Ticket::new()).unwrap()).collect();
    let layer = AdmissionLayer::new(&admission).load_reports();
    let work =
        service_fn(async |_: Request<hyper::body::Incoming>| Ok::<_, Infallible>(Response::new("done".to_owned())));
    let server = Server::hyper(ServiceBuilder::new().layer(layer.clone()).service(work)).await;
    for version in [Version::H1, Version::H2] {
        let mut client = Client::connect(server.address, version).await;
        let response = client.get("/").await.unwrap().map(drop);
        assert_eq!(used(&response), 1.0);
    }
    server.stop().await;

    let many = Many(|_: String| tokio_stream::iter([Ok("one".to_owned()), Ok("two".to_owned())]));
    let services = |layer: AdmissionLayer| {
        let greeter = Served(Greeter(Probe::open()));
        Tonic::builder().layer(layer).add_service(greeter).add_service(Served(many.clone()))
    };
    let server = Server::tonic(services(layer.clone())).await;
    let channel = connect(server.address).await;
    let unary = async |channel| {
        let mut client = Grpc::new(channel);
        client.ready().await.unwrap();
        let request = tonic::Request::new("hello".to_owned());
        client.unary(request, PathAndQuery::from_static(ECHO), Codec::default()).await
    };
    // A tonic client adds trailers to the metadata of its answer.
    assert_eq!(read_binary(unary(channel.clone()).await.unwrap().metadata())[&9], 1.0);
    let mut stream = call_many(channel.clone(), tonic::Request::new(String::new())).await.unwrap();
    while stream.message().await.unwrap().is_some() {}
    assert_eq!(read_binary(&stream.trailers().await.unwrap().unwrap())[&9], 1.0);
    // An answer of the service without messages has its trailers in its head.
    let mut client = Grpc::new(channel.clone());
    client.ready().await.unwrap();
    let nowhere = PathAndQuery::from_static("/test.Nothing/Here");
    let unknown = client.unary(tonic::Request::new(String::new()), nowhere, Codec::default()).await.unwrap_err();
    assert_eq!(unknown.code(), Code::Unimplemented);
    assert_eq!(read_binary(unknown.metadata())[&9], 1.0);
    // So has a rejection.
    let _full = admission.try_admit(Ticket::new()).unwrap();
    let waiting: Vec<_> = (0..3).map(|_| tokio::spawn(unary(channel.clone()))).collect();
    eventually("they wait", || admission.snapshot().waiting == 3).await;
    eventually_async("a rejection reports them", async || {
        let refused = unary(channel.clone()).await.unwrap_err();
        read_binary(refused.metadata())[&9] == 7.0 / 4.0
    })
    .await;
    drop((held, _full));
    for waiter in waiting {
        waiter.await.unwrap().unwrap();
    }

    // The controls: a layer that reports nothing, and a slot that is free at the head.
    let at_head = layer.policy(Policy::new().release_at(ReleaseAt::ResponseHead));
    for silent in [AdmissionLayer::new(&admission), at_head] {
        let other = Server::tonic(services(silent)).await;
        let mut stream = call_many(connect(other.address).await, tonic::Request::new(String::new())).await.unwrap();
        while stream.message().await.unwrap().is_some() {}
        let trailers = stream.trailers().await.unwrap().unwrap_or_default();
        assert!(trailers.get_bin("endpoint-load-metrics-bin").is_none());
        drop(stream);
        other.stop().await;
    }
    drop(channel);
    server.stop().await;
}
