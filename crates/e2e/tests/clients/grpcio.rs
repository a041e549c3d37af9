//! The client library of Python, which is that of C: it decodes the details, and retries when it is told to.

use std::sync::atomic::Ordering;

use admission_testkit::grpc::{Served, Unary};
use tower_admission::{Admission, ClassLimits, Rate, Reason, Rules, limit::Fixed};

use super::{python::run, serve};

const PACKAGES: [&str; 2] = ["grpcio==1.85.3", "grpcio-status==1.85.3"];

/// A call that takes the start that is free, and at once one that may be retried once: prints how the second was
/// refused, or nothing of that. The interpreter takes longer to start than the service takes to have a start again.
const CALL: &str = r#"
import json, sys, grpc
from grpc_status import rpc_status
from google.rpc import error_details_pb2
retry = dict(maxAttempts=2, initialBackoff="0.05s", maxBackoff="0.1s", backoffMultiplier=1, retryableStatusCodes=["RESOURCE_EXHAUSTED"])
config = json.dumps(dict(methodConfig=[dict(name=[{}], retryPolicy=retry)]))
channel = grpc.insecure_channel(sys.argv[1], options=[("grpc.service_config", config)])
call = channel.unary_unary("/test.Unary/Call", request_serializer=bytes, response_deserializer=bytes)
call(b"", timeout=float(sys.argv[2]))
try:
    call(b"", timeout=float(sys.argv[2]))
    print("{}")
except grpc.RpcError as error:
    # Raises where code or message are not those of the call.
    status = rpc_status.from_call(error)
    kinds = [error_details_pb2.RetryInfo(), error_details_pb2.ErrorInfo(), error_details_pb2.QuotaFailure()]
    unpacked = [detail.Unpack(kind) for detail, kind in zip(status.details, kinds, strict=True)]
    info, why, quota = kinds
    why = dict(reason=why.reason, domain=why.domain, metadata=dict(why.metadata))
    quota = [[violation.subject, violation.description] for violation in quota.violations]
    seconds = info.retry_delay.seconds + info.retry_delay.nanos / 1e9
    pushback = dict(error.trailing_metadata()).get("grpc-retry-pushback-ms")
    print(json.dumps(dict(code=error.code().name, unpacked=unpacked, seconds=seconds, pushback=pushback, why=why, quota=quota)))
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_decodes_when_to_retry_and_does_so_only_where_there_is_time() {
    // Starts per minute, seconds that the caller has, requests that come: those of the second call are one or two.
    for (rate, timeout, expected) in [(20, "30", 3), (1, "5", 2)] {
        let rules = Rules::new().default_limits(ClassLimits::new().max_per_minute(Rate::from(rate).smooth()));
        let admission = Admission::builder().limit(Fixed::new(9)).rules(rules).build().unwrap();
        let unary = Unary(|_| async { Ok(String::new()) });
        let (address, came) = serve(&admission, Served(unary), true).await;
        let told = run(&PACKAGES, CALL, [address.to_string(), timeout.to_owned()]).await;
        assert_eq!(came.load(Ordering::SeqCst), expected, "{told}");
        if expected == 3 {
            assert_eq!(told, serde_json::json!({}), "it was served when it came back");
            assert_eq!(admission.snapshot().rejected(), 1);
        } else {
            assert_eq!(
                (&told["code"], &told["unpacked"]),
                (&"RESOURCE_EXHAUSTED".into(), &serde_json::json!([true, true, true]))
            );
            let why = serde_json::json!({ "reason": "RATE", "domain": "tower-admission", "metadata": { "partition": "default" } });
            assert_eq!(told["why"], why);
            let quota = serde_json::json!([["partition:default", Reason::Rate.describe()]]);
            assert_eq!(told["quota"], quota);
            let seconds = told["seconds"].as_f64().unwrap();
            assert!((30.0..=60.0).contains(&seconds), "{told}");
            assert_eq!(told["pushback"], "-1", "a retry would come after the deadline");
        }
    }
}
