//! How a response becomes an outcome, and what else a layer does with it.

use std::sync::Arc;

use http::{Extensions, HeaderMap, Response, StatusCode};

use super::{head::GRPC_STATUS, nesting, respond::load_reports::LoadReports};
use crate::Outcome;

/// The head of a response: everything but its body.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'r> {
    status: StatusCode,
    headers: &'r HeaderMap,
    extensions: &'r Extensions,
}

impl<'r> ResponseHead<'r> {
    /// The head of `response`.
    pub fn of<B>(response: &'r Response<B>) -> Self {
        Self { status: response.status(), headers: response.headers(), extensions: response.extensions() }
    }

    /// The HTTP status; 200 for nearly all gRPC responses.
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The headers.
    pub const fn headers(&self) -> &'r HeaderMap {
        self.headers
    }

    /// The extensions.
    pub const fn extensions(&self) -> &'r Extensions {
        self.extensions
    }
}

/// Decides what a response means for the limit. Implemented for closures over the head.
///
/// ```
/// use tower_admission::{Admission, AdmissionLayer, Outcome, response::ResponseHead};
///
/// # let admission = Admission::builder().build().unwrap();
/// let layer = AdmissionLayer::new(&admission).assess(|response: &ResponseHead<'_>| {
///     if response.headers().contains_key("x-cache-hit") { Outcome::Ignore } else { Outcome::Success }
/// });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not judge HTTP responses",
    note = "a judge is `ByStatus`, or a closure `|response: &ResponseHead<'_>| Outcome::…`"
)]
pub trait Assess: Send + Sync + 'static {
    /// The outcome by the head.
    fn assess(&self, response: &ResponseHead<'_>) -> Outcome;

    /// The outcome by the trailers: only [`Outcome::Overload`] changes anything. Reads `grpc-status` unless overridden.
    fn assess_trailers(&self, trailers: &HeaderMap) -> Outcome {
        grpc_outcome(trailers).unwrap_or(Outcome::Success)
    }
}

#[diagnostic::do_not_recommend]
impl<F> Assess for F
where
    F: Fn(&ResponseHead<'_>) -> Outcome + Send + Sync + 'static,
{
    fn assess(&self, response: &ResponseHead<'_>) -> Outcome {
        self(response)
    }
}

/// What a layer does with responses.
#[derive(Clone, Default)]
pub(super) struct ForResponses {
    /// What they mean; `None` stands for the default.
    pub(super) assess: Option<Arc<dyn Assess>>,
    pub(super) reports: Option<Arc<LoadReports>>,
}

/// The outcome by status code.
///
/// 503, 504 and the codes that are added are overloads, and so are `DEADLINE_EXCEEDED`, `RESOURCE_EXHAUSTED` and
/// `UNAVAILABLE` of gRPC. Other codes from 500 on are ignored: a fast error is not a fast success. All other codes are
/// successes, 404 included: its time is representative.
#[derive(Clone, Debug, Default)]
pub struct ByStatus {
    /// Those that are added.
    overloads: Vec<StatusCode>,
}

impl ByStatus {
    /// The codes above.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts `status` as an overload as well.
    #[must_use]
    pub fn overload(mut self, status: StatusCode) -> Self {
        self.overloads.push(status);
        self
    }
}

impl Assess for ByStatus {
    fn assess(&self, response: &ResponseHead<'_>) -> Outcome {
        if self.overloads.contains(&response.status) {
            Outcome::Overload
        } else {
            by_default(response.status, response.headers, true)
        }
    }
}

/// What the layer takes for the outcome: rejections of our own say nothing about the service behind them.
#[inline]
pub(super) fn judge<B>(assess: Option<&dyn Assess>, response: &Response<B>, is_grpc: bool) -> Outcome {
    let outcome = match assess {
        None => by_default(response.status(), response.headers(), is_grpc),
        Some(assess) => assess.assess(&ResponseHead::of(response)),
    };
    if outcome != Outcome::Success && nesting::is_own_rejection(response.extensions()) {
        return Outcome::Ignore;
    }
    outcome
}

/// What [`ByStatus::new`] says; the headers of a response that is none to a call of gRPC are not looked at.
#[inline]
fn by_default(status: StatusCode, headers: &HeaderMap, is_grpc: bool) -> Outcome {
    match status {
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => Outcome::Overload,
        _ if status.is_server_error() => Outcome::Ignore,
        // To look up a name costs more than all else here.
        _ if is_grpc => grpc_outcome(headers).unwrap_or(Outcome::Success),
        _ => Outcome::Success,
    }
}

/// The outcome by trailers.
pub(super) fn judge_trailers(assess: Option<&dyn Assess>, trailers: &HeaderMap) -> Outcome {
    assess.unwrap_or(&ByStatus { overloads: Vec::new() }).assess_trailers(trailers)
}

/// The outcome that `grpc-status` stands for, where there is one.
#[inline]
fn grpc_outcome(headers: &HeaderMap) -> Option<Outcome> {
    Some(match headers.get(&GRPC_STATUS)?.as_bytes() {
        // DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNAVAILABLE
        b"4" | b"8" | b"14" => Outcome::Overload,
        // CANCELLED: the caller's doing, however long it took.
        b"1" => Outcome::Ignore,
        // UNKNOWN, INTERNAL, DATA_LOSS: what codes from 500 on are in HTTP.
        b"2" | b"13" | b"15" => Outcome::Ignore,
        _ => Outcome::Success,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(status: u16) -> Outcome {
        let response = Response::builder().status(status).body(()).unwrap();
        judge(Some(&ByStatus::new().overload(StatusCode::TOO_MANY_REQUESTS)), &response, false)
    }

    fn grpc(status: &'static str) -> Outcome {
        let response = Response::builder().header("grpc-status", status).body(()).unwrap();
        let outcome = judge(Some(&ByStatus::new()), &response, true);
        assert_eq!(judge(None, &response, true), outcome, "the default");
        assert_eq!(judge(None, &response, false), Outcome::Success, "the answer to a request that is no call of gRPC");
        outcome
    }

    #[test]
    fn status_codes_mean_what_the_docs_say() {
        for status in [200, 204, 301, 400, 404] {
            assert_eq!(http(status), Outcome::Success, "{status}");
        }
        for status in [429, 503, 504] {
            assert_eq!(http(status), Outcome::Overload, "{status}");
        }
        for status in [500, 501, 502] {
            assert_eq!(http(status), Outcome::Ignore, "{status}");
        }
        for status in ["4", "8", "14"] {
            assert_eq!(grpc(status), Outcome::Overload, "{status}");
        }
        for status in ["0", "3", "5", "16", "garbage"] {
            assert_eq!(grpc(status), Outcome::Success, "{status}");
        }
        for status in ["1", "2", "13", "15"] {
            assert_eq!(grpc(status), Outcome::Ignore, "{status}");
        }
    }
}
