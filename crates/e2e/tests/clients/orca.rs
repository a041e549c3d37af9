//! The policy `weighted_round_robin` of gRPC: it weighs servers by the load that they report.

use std::{ops::RangeInclusive, time::Duration};

use admission_testkit::{
    eventually_async,
    grpc::{Codec, Served, Unary},
};
use http::uri::PathAndQuery;
use tonic::{
    client::Grpc,
    transport::{
        Endpoint,
        server::{Server, TcpIncoming},
    },
};
use tower_admission::{Admission, AdmissionLayer, limit::Fixed};

use super::python::run;

const PACKAGES: [&str; 2] = ["xds-protos==1.85.0", "grpcio==1.85.3"];

/// Calls two servers, six calls at a time, until the second one answers the wanted part of the last 300 calls: for 1,000 calls, or a
/// minute, at most. Prints the part that it answered of the last 300.
const CALL: &str = r#"
import collections, json, sys, time, grpc
from concurrent.futures import ThreadPoolExecutor
wanted, *addresses = sys.argv[1:]
policy = dict(weighted_round_robin=dict(blackoutPeriod="0.1s", weightUpdatePeriod="0.1s"))
config = json.dumps(dict(loadBalancingConfig=[policy]))
options = [("grpc.service_config", config), ("grpc.default_authority", "localhost")]
channel = grpc.insecure_channel("ipv4:" + ",".join(addresses), options=options)
call = channel.unary_unary("/test.Unary/Call", request_serializer=bytes, response_deserializer=bytes)
end, answers, last = time.monotonic() + 60, 0, collections.deque(maxlen=300)
def part(): return last.count("b") / len(last)
def work():
    global answers
    while answers < 1000 and time.monotonic() < end and not (answers >= 300 and part() > float(wanted)):
        last.append(call(b"", timeout=30)[-1:].decode())
        answers += 1
with ThreadPoolExecutor(6) as threads:
    # Raises what a thread failed with.
    for ended in [threads.submit(work) for _ in range(6)]: ended.result()
print(json.dumps(part()))
"#;

/// Calls per second, of which each takes 20 ms, up to eight at a time.
const RATE: RangeInclusive<f64> = 5.0..=400.0;

/// Returns a field of a message that has only such fields.
fn double(message: &[u8], field: u8) -> Option<f64> {
    let value = message.chunks_exact(9).find_map(|it| it.strip_prefix(&[field << 3 | 1]))?;
    Some(f64::from_le_bytes(value.try_into().ok()?))
}

/// Prints the fields of a report, which the library keeps from the callers of its own calls.
const READ: &str = r#"
import base64, json, sys
from xds.data.orca.v3.orca_load_report_pb2 import OrcaLoadReport
report = OrcaLoadReport.FromString(base64.b64decode(sys.argv[1] + "=="))
print(json.dumps(dict((field.name, value) for field, value in report.ListFields())))
"#;

/// A server of this name, each of whose calls takes 20 ms.
async fn serve(name: &'static str, limit: usize, reports: bool) -> String {
    let admission = Admission::builder().limit(Fixed::new(limit)).queue(9).build().unwrap();
    let layer = AdmissionLayer::new(&admission);
    let layer = if reports { layer.load_reports() } else { layer };
    let unary = Unary(move |_| async move {
        // The work that is modelled.
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(name.to_owned())
    });
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap();
    let server = Server::builder().layer(layer).add_service(Served(unary));
    tokio::spawn(server.serve_with_incoming(incoming));
    address.to_string()
}

/// More than a policy gives the server with three quarters of the room that knows nothing of load.
const WANTED: f64 = 0.62;

/// The part of the calls that the server with three quarters of the room gets, and its address.
async fn part(reports: bool) -> (f64, String) {
    let (smallest, largest) = (serve("a", 2, reports).await, serve("b", 6, reports).await);
    let part = run(&PACKAGES, CALL, [WANTED.to_string(), smallest, largest.clone()]).await;
    (part.as_f64().unwrap(), largest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_sends_most_calls_where_most_room_is() {
    let ((part, address), (in_turns, _)) = tokio::join!(part(true), part(false));
    assert!((0.45..0.55).contains(&in_turns), "the control: {in_turns}");
    assert!(part > WANTED, "{part}");

    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    let mut client = Grpc::new(channel);
    let mut encoded = Vec::new();
    eventually_async("a report is about this call alone, and about a second of such calls", async || {
        client.ready().await.unwrap();
        let path = PathAndQuery::from_static("/test.Unary/Call");
        let answer = client.unary(tonic::Request::new(String::new()), path, Codec::default()).await.unwrap();
        let report = answer.metadata().get_bin("endpoint-load-metrics-bin").unwrap();
        encoded = report.as_encoded_bytes().to_vec();
        let report = report.to_bytes().unwrap();
        double(&report, 9) == Some(1.0 / 6.0) && double(&report, 6).is_some_and(|rate| RATE.contains(&rate))
    })
    .await;
    let report = run(&PACKAGES, READ, [String::from_utf8(encoded).unwrap()]).await;
    assert_eq!(report.as_object().map(serde_json::Map::len), Some(2), "{report}");
    assert_eq!(report["application_utilization"], 1.0 / 6.0, "{report}");
    let rate = report["rps_fractional"].as_f64().unwrap();
    assert!(RATE.contains(&rate), "{report}");
}
