//! The answers to rejected requests.
//!
//! HTTP gets 429 where the caller ran into a bound of its own and 503 where the server ran into one, with `Retry-After`
//! (RFC 9110, section 10.2.3) and problem details (RFC 9457). gRPC, recognised by its content type, gets what the
//! protocol calls Trailers-Only: one HEADERS frame with status, message, `grpc-retry-pushback-ms` (gRFC A6) and, in
//! `grpc-status-details-bin`, `google.rpc.RetryInfo`, `ErrorInfo` and `QuotaFailure`. A bare 429 would reach a gRPC client as `UNAVAILABLE` and be retried at once.

mod answer_body;
pub(super) mod load_reports;

use std::{fmt::Write, sync::LazyLock, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER},
};

pub use self::answer_body::AnswerBody;
use super::body::BodyData;
use crate::{Reason, engine::nanos, rejection::Rejection};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
const RETRY_AFTER_MILLIS: HeaderName = HeaderName::from_static("retry-after-ms");
const ENVOY_OVERLOADED: HeaderName = HeaderName::from_static("x-envoy-overloaded");
const DEADLINE_EXCEEDED: HeaderValue = HeaderValue::from_static("4");
const RESOURCE_EXHAUSTED: HeaderValue = HeaderValue::from_static("8");
const UNAVAILABLE: HeaderValue = HeaderValue::from_static("14");
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
/// A moment later the same request may be served, and some statuses may be stored unless told otherwise.
pub(super) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// The built-in answers to rejected requests, and their settings.
///
/// In gRPC, refusals by a limit, a cap or a rate carry `google.rpc.RetryInfo`: exporters of OpenTelemetry (OTLP) retry
/// `RESOURCE_EXHAUSTED` only with it. No setting is needed, and [`bare`](Self::bare) does not remove it.
///
/// For answers of your own see [`AdmissionLayer::respond`](crate::AdmissionLayer::respond).
#[derive(Clone, Debug)]
#[must_use]
pub struct Rejections {
    statuses: [StatusCode; Reason::ALL.len()],
    /// One body per reason; empty without headers.
    bodies: [Bytes; Reason::ALL.len()],
    nothing: StatusCode,
    unavailable: bool,
    headers: bool,
    rate_limit: bool,
    millis: bool,
    envoy: bool,
}

impl Rejections {
    /// The defaults: 429 where the caller ran into a bound of its own, else 503; `RESOURCE_EXHAUSTED` in gRPC, and
    /// `DEADLINE_EXCEEDED` where the deadline of the call is over.
    pub fn new() -> Self {
        let statuses = Reason::ALL.map(|reason| {
            if reason.is_caller_limit() { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::SERVICE_UNAVAILABLE }
        });
        let bodies = std::array::from_fn(|index| problem_details(Reason::ALL[index], statuses[index], ""));
        let nothing = StatusCode::NO_CONTENT;
        let (unavailable, headers, rate_limit) = (false, true, false);
        Self { statuses, bodies, nothing, unavailable, headers, rate_limit, millis: false, envoy: false }
    }

    /// Sets the HTTP status for `reason`.
    ///
    /// A request that is rejected [after its maximum wait](Rejection::timed_out) gets the status of
    /// [`Reason::QueueTimeout`], also where a rule was full.
    pub fn status(mut self, reason: Reason, status: StatusCode) -> Self {
        self.statuses[reason.index()] = status;
        self.bodies[reason.index()] = problem_details(reason, status, "");
        self
    }

    /// Sets the HTTP status for all reasons that mean overload of the server: 503 unless set.
    ///
    /// Some clients and proxies know 529 as "site is overloaded". A server that drains, or whose store of shared rules is gone,
    /// goes on to answer 503.
    ///
    /// ```
    /// use http::StatusCode;
    /// use tower_admission::response::Rejections;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let rejections = Rejections::new().overload_status(StatusCode::from_u16(529)?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn overload_status(self, status: StatusCode) -> Self {
        Reason::ALL.into_iter().filter(|reason| is_overload(*reason)).fold(self, |it, reason| it.status(reason, status))
    }

    /// Adds `x-envoy-overloaded: true` to rejections by an overloaded server, over HTTP and gRPC: an Envoy proxy then does not
    /// retry the request elsewhere.
    pub const fn envoy_overloaded(mut self) -> Self {
        self.envoy = true;
        self
    }

    /// Sets the HTTP status of the empty answer that a full rule with
    /// [`WhenFull::RespondEmpty`](crate::WhenFull::RespondEmpty) gives: 204 unless set. gRPC has no such answer; calls
    /// are rejected.
    pub const fn nothing(mut self, status: StatusCode) -> Self {
        self.nothing = status;
        self
    }

    /// Answers gRPC calls with `UNAVAILABLE` where the server, not the caller, ran into a bound.
    ///
    /// More clients retry that status, and more alerts count it as a server error.
    pub const fn grpc_unavailable(mut self) -> Self {
        self.unavailable = true;
        self
    }

    /// Answers HTTP with the status and `Cache-Control: no-store` alone, without a body: the cheapest rejection.
    ///
    /// Such clients then don't learn when to come back. Statuses of gRPC stay as they are.
    pub const fn bare(mut self) -> Self {
        self.headers = false;
        self
    }

    /// Adds the `RateLimit-Policy` and `RateLimit` fields of draft-ietf-httpapi-ratelimit-headers-11 to HTTP rejections:
    /// the bound that was in the way, that nothing is left of it, and after how many seconds to come back.
    ///
    /// The policies are `limit`, and the codes of the [reasons](Reason) that are bounds of the caller; problem
    /// details name them as `violated-policies`. These fields tell callers your capacity.
    pub const fn rate_limit_fields(mut self) -> Self {
        self.rate_limit = true;
        self
    }

    /// Adds `retry-after-ms` to HTTP rejections, in steps of a tenth of a second: clients of language models read it before `Retry-After`.
    pub const fn retry_after_millis(mut self) -> Self {
        self.millis = true;
        self
    }

    /// Returns the answer. Its headers take the place of those of the request, and so need no memory of their own.
    pub(super) fn respond(&self, rejection: &Rejection, is_grpc: bool, mut headers: HeaderMap) -> Response<BodyData> {
        let mut response = Response::new(BodyData::empty());
        if is_grpc {
            self.grpc(rejection, &mut headers);
        } else {
            headers.clear();
            self.http(rejection, &mut response, &mut headers);
        }
        if self.envoy && is_overload(rejection.reason()) {
            headers.insert(ENVOY_OVERLOADED, HeaderValue::from_static("true"));
        }
        headers.insert(CACHE_CONTROL, NO_STORE);
        *response.headers_mut() = headers;
        response
    }

    fn http(&self, rejection: &Rejection, response: &mut Response<BodyData>, headers: &mut HeaderMap) {
        if rejection.responds_empty() {
            *response.status_mut() = self.nothing;
            return;
        }
        let supplement = rejection.supplement();
        let timed_out = rejection.timed_out() && !supplement.is_empty();
        let index = if timed_out { Reason::QueueTimeout } else { rejection.reason() }.index();
        *response.status_mut() = self.statuses[index];
        if self.headers {
            let delay = told(rejection);
            headers.insert(RETRY_AFTER, retry_after(delay));
            if self.millis {
                headers.insert(RETRY_AFTER_MILLIS, retry_after_millis(delay));
            }
            if self.rate_limit {
                rate_limit_fields(rejection, delay, headers);
            }
            headers.insert(CONTENT_TYPE, PROBLEM_JSON);
            let body = if supplement.is_empty() {
                self.bodies[index].clone()
            } else {
                problem_details(rejection.reason(), self.statuses[index], supplement)
            };
            *response.body_mut() = BodyData::new(body);
        }
    }

    fn grpc(&self, rejection: &Rejection, headers: &mut HeaderMap) {
        let unavailable =
            rejection.reason().is_unavailable() || self.unavailable && !rejection.reason().is_caller_limit();
        let status = match unavailable {
            _ if rejection.is_over => DEADLINE_EXCEEDED,
            true => UNAVAILABLE,
            false => RESOURCE_EXHAUSTED,
        };
        let content_type = headers.remove(CONTENT_TYPE);
        headers.clear();
        if let Some(content_type) = content_type {
            headers.insert(CONTENT_TYPE, content_type);
        }
        let (message, delay) = (grpc_text(rejection), whole_millis(told(rejection)));
        // A deadline that is over is the end of the call, and no sign of load.
        if !rejection.is_over {
            headers.insert(GRPC_DETAILS, details(rejection, &status, &message, delay));
        }
        headers.insert(GRPC_STATUS, status);
        headers.insert(GRPC_MESSAGE, grpc_message(message, rejection.reason()));
        // What is negative means that it is in vain to retry the call before its deadline.
        let pushback = match rejection.time_left {
            Some(left) if rejection.retry_after() > left || rejection.reason() == Reason::Deadline => -1,
            left => i32::try_from(left.map_or(delay, |left| delay.min(left)).as_millis()).unwrap_or(i32::MAX).max(1),
        };
        headers.insert(GRPC_PUSHBACK, pushback.into());
    }
}

impl Default for Rejections {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether the server has more to do than it can, so that all its callers should go slower.
const fn is_overload(reason: Reason) -> bool {
    !reason.is_caller_limit() && !reason.is_unavailable()
}

/// Adds up to a second, or up to half as much again where that is more: clients that were rejected together should not
/// return together.
fn jittered(retry_after: Duration) -> Duration {
    let after = nanos(retry_after);
    Duration::from_nanos(after.saturating_add(fastrand::u64(..=(after / 2).max(1_000_000_000))))
}

/// Returns after how long a request is told to come back.
fn told(rejection: &Rejection) -> Duration {
    if rejection.is_promised { rejection.retry_after() } else { jittered(rejection.retry_after()) }
}

/// The number of units of so many milliseconds, rounded up: no client hears that it should come back at once.
const fn rounded_up(delay: Duration, millis: u64) -> u64 {
    let units = nanos(delay).div_ceil(millis * 1_000_000);
    if units == 0 { 1 } else { units }
}

/// Clients of gRPC hear of whole milliseconds.
const fn whole_millis(after: Duration) -> Duration {
    Duration::from_millis(rounded_up(after, 1))
}

/// Numbers up to a minute, so that a rejection needs no memory of its own: seconds, and milliseconds in steps of a tenth.
static SECONDS: LazyLock<Vec<HeaderValue>> = LazyLock::new(|| multiples(1, 60));
static MILLIS: LazyLock<Vec<HeaderValue>> = LazyLock::new(|| multiples(STEP, 600));
const SECOND: u64 = 1_000;
const STEP: u64 = 100;

fn multiples(step: u64, most: u64) -> Vec<HeaderValue> {
    (1..=most).map(|count| HeaderValue::from_static((count * step).to_string().leak())).collect()
}

fn multiple(prepared: &[HeaderValue], count: u64, step: u64) -> HeaderValue {
    let known = usize::try_from(count).ok().and_then(|count| prepared.get(count.checked_sub(1)?));
    known.cloned().unwrap_or_else(|| count.saturating_mul(step).into())
}

fn retry_after(delay: Duration) -> HeaderValue {
    multiple(&SECONDS, rounded_up(delay, SECOND), 1)
}

fn retry_after_millis(delay: Duration) -> HeaderValue {
    multiple(&MILLIS, rounded_up(delay, STEP), STEP)
}

/// Nothing, where no quota was in the way.
fn rate_limit_fields(rejection: &Rejection, delay: Duration, headers: &mut HeaderMap) {
    let Some((name, window)) = rejection.reason().policy() else { return };
    let unit = window.map_or_else(|| r#"qu="concurrent-requests""#.to_owned(), |window| format!("w={window}"));
    let policy = format!(r#""{name}";q={};{unit}"#, rejection.bound());
    let left = format!(r#""{name}";r=0;t={}"#, rounded_up(delay, SECOND));
    if let (Ok(policy), Ok(left)) = (HeaderValue::try_from(policy), HeaderValue::try_from(left)) {
        headers.insert("ratelimit-policy", policy);
        headers.insert("ratelimit", left);
    }
}

/// The two problem types are registered by draft-ietf-httpapi-ratelimit-headers. `supplement` follows what the reason says.
fn problem_details(reason: Reason, status: StatusCode, supplement: &str) -> Bytes {
    let problem = if reason.is_caller_limit() { "quota-exceeded" } else { "temporary-reduced-capacity" };
    let title = status.canonical_reason().unwrap_or("Rejected");
    let violated = reason.policy().map(|(name, _)| format!(r#","violated-policies":["{name}"]"#)).unwrap_or_default();
    Bytes::from(format!(
        r#"{{"type":"https://iana.org/assignments/http-problem-types#{problem}","title":"{title}","status":{},"detail":"{}{supplement}","reason":"{reason}"{violated}}}"#,
        status.as_u16(),
        reason.describe(),
    ))
}

/// The reason first, for machines.
fn grpc_text(rejection: &Rejection) -> String {
    let reason = rejection.reason();
    let (told, supplement) = (reason.describe(), rejection.supplement());
    format!("{reason}: {told}{supplement} (partition {})", rejection.partition())
}

/// `google.rpc.Status`: the status and the message of the call, and as details after how long to retry (`RetryInfo`), the reason
/// (`ErrorInfo`) and, where the caller ran into a bound of its own, that one (`QuotaFailure`). Clients that take `RESOURCE_EXHAUSTED`
/// without the first for final, such as exporters of OpenTelemetry, drop what they sent.
fn details(rejection: &Rejection, status: &HeaderValue, message: &str, delay: Duration) -> HeaderValue {
    let (reason, partition) = (rejection.reason(), rejection.partition());
    let code = status.to_str().ok().and_then(|code| code.parse().ok()).unwrap_or(0);
    let mut all = number(1, code);
    text(&mut all, 2, message.as_bytes());
    // google.protobuf.Duration: seconds, nanoseconds.
    let after = [number(1, delay.as_secs()), number(2, u64::from(delay.subsec_millis()) * 1_000_000)].concat();
    any(&mut all, "RetryInfo", &[(1, &after)]);
    let mut entry = Vec::new();
    text(&mut entry, 1, b"partition");
    text(&mut entry, 2, partition.as_bytes());
    let code = reason.as_str().to_ascii_uppercase();
    any(&mut all, "ErrorInfo", &[(1, code.as_bytes()), (2, DOMAIN), (3, &entry)]);
    if reason.is_caller_limit() {
        let mut violation = Vec::new();
        text(&mut violation, 1, format!("partition:{partition}").as_bytes());
        text(&mut violation, 2, reason.describe().as_bytes());
        any(&mut all, "QuotaFailure", &[(1, &violation)]);
    }
    HeaderValue::try_from(STANDARD_NO_PAD.encode(all)).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// What gives the reasons of `ErrorInfo`.
const DOMAIN: &[u8] = b"tower-admission";

fn varint(into: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        into.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    into.push(value.to_le_bytes()[0]);
}

/// A field of a message of Protocol Buffers that is a number.
fn number(field: u8, value: u64) -> Vec<u8> {
    let mut bytes = vec![field << 3];
    varint(&mut bytes, value);
    bytes
}

/// A field that is a text or a message.
fn text(into: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    into.push(field << 3 | 2);
    varint(into, bytes.len() as u64);
    into.extend_from_slice(bytes);
}

/// A detail of a `google.rpc.Status`, as a `google.protobuf.Any`.
fn any(into: &mut Vec<u8>, name: &str, fields: &[(u8, &[u8])]) {
    let (mut message, mut any) = (Vec::new(), Vec::new());
    fields.iter().for_each(|(field, bytes)| text(&mut message, *field, bytes));
    text(&mut any, 1, format!("type.googleapis.com/google.rpc.{name}").as_bytes());
    text(&mut any, 2, &message);
    text(into, 3, &any);
}

/// Percent-encoded as the gRPC protocol wants it.
fn grpc_message(mut text: String, reason: Reason) -> HeaderValue {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'$' | b'&'..=b'~');
    if !text.as_bytes().iter().all(is_plain) {
        let encode = |mut encoded: String, byte: u8| {
            if is_plain(&byte) {
                encoded.push(char::from(byte));
            } else {
                let _ = write!(encoded, "%{byte:02X}");
            }
            encoded
        };
        text = text.bytes().fold(String::with_capacity(text.len()), encode);
    }
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(reason.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_rounded_up_and_never_zero() {
        let check = |millis| retry_after(Duration::from_millis(millis)).to_str().unwrap().parse::<u64>().unwrap();
        assert_eq!([0, 1, 999, 1_000, 1_001, 60_000, 60_001].map(check), [1, 1, 1, 1, 2, 60, 61]);
        assert_eq!(check(3_600_000), 3_600);
        let promised = |micros| Rejection {
            is_promised: true,
            ..Rejection::new(Reason::Rate, Duration::from_micros(micros), "batch".into(), 2)
        };
        let told = |micros| u64::try_from(whole_millis(told(&promised(micros))).as_micros()).unwrap();
        assert_eq!([0, 1, 999, 1_000, 1_001].map(told), [1_000, 1_000, 1_000, 1_000, 2_000]);
        let millis =
            |millis| retry_after_millis(Duration::from_millis(millis)).to_str().unwrap().parse::<u64>().unwrap();
        assert_eq!([0, 1, 100, 101, 1_450, 60_000, 60_001].map(millis), [100, 100, 100, 200, 1_500, 60_000, 60_100]);
    }

    #[test]
    fn jitter_only_adds_and_really_spreads() {
        for base in [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(100)] {
            let spread: Vec<_> = (0..1_000).map(|_| jittered(base)).collect();
            let (low, high) = (spread.iter().min().unwrap(), spread.iter().max().unwrap());
            let width = (base / 2).max(Duration::from_secs(1));
            assert!(*low >= base && *high <= base + width);
            assert!(*high - *low > width / 2, "1,000 draws cover more than half of the range");
        }
    }

    #[test]
    fn messages_are_percent_encoded_and_carry_the_reason() {
        let rejection = Rejection::new(Reason::PartitionCap, Duration::ZERO, "bätch 100%".into(), 2);
        let message = grpc_message(grpc_text(&rejection), rejection.reason());
        let message = message.to_str().unwrap();
        assert!(message.starts_with("partition_cap: "), "{message}");
        assert!(message.ends_with("(partition b%C3%A4tch 100%25)"), "{message}");
    }

    #[test]
    fn problem_details_name_the_policy_of_the_fields() {
        let all = Reason::ALL.into_iter().zip(Rejections::new().statuses);
        for ((reason, status), timed_out) in all.flat_map(|it| [(it, false), (it, true)]) {
            let rejection = Rejection::new(reason, Duration::ZERO, "bätch".into(), 20).after_a_wait(timed_out);
            let body = problem_details(reason, status, rejection.supplement());
            let value: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!((&value["status"], &value["reason"]), (&status.as_u16().into(), &reason.as_str().into()));
            let mut headers = HeaderMap::new();
            rate_limit_fields(&rejection, Duration::from_millis(1_500), &mut headers);
            let Some((name, window)) = reason.policy() else {
                assert!(headers.is_empty() && value.get("violated-policies").is_none(), "{reason}: {value}");
                continue;
            };
            assert_eq!(value["violated-policies"], serde_json::json!([name]));
            let unit = window.map_or_else(|| r#"qu="concurrent-requests""#.to_owned(), |window| format!("w={window}"));
            assert_eq!(headers["ratelimit-policy"], format!(r#""{name}";q=20;{unit}"#));
            assert_eq!(headers["ratelimit"], format!(r#""{name}";r=0;t=2"#));
        }
    }
}
