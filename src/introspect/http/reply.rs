//! What is answered: JSON with a tag, problem details, the page.

use std::{
    fmt,
    hash::{DefaultHasher, Hasher},
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode,
    header::{
        ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
        REFERRER_POLICY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
    },
};
use http_body::Body;
use serde::Serialize;

use crate::admission::BodyData;
#[cfg(feature = "capture")]
use crate::runtime::CapturedLines;

/// An answer before it is known whether its body is wanted.
#[derive(Debug)]
pub(super) struct Reply {
    status: StatusCode,
    pub(super) headers: HeaderMap,
    body: BodyData,
}

/// Why there is no answer, as problem details (RFC 9457).
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    detail: String,
    headers: Vec<(HeaderName, HeaderValue)>,
}

#[derive(Serialize)]
struct Details<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
}

impl Problem {
    pub(super) fn new(status: StatusCode, detail: impl fmt::Display) -> Self {
        Self { status, detail: detail.to_string(), headers: Vec::new() }
    }

    fn with(mut self, name: HeaderName, value: &'static str) -> Self {
        self.headers.push((name, HeaderValue::from_static(value)));
        self
    }

    pub(super) fn not_found(detail: impl fmt::Display) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// A parameter or a field that can't be used.
    pub(super) fn invalid(detail: impl fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(super) fn method(allowed: &'static str) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, format_args!("allowed here: {allowed}")).with(ALLOW, allowed)
    }

    pub(super) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "the bearer token is missing or wrong").with(WWW_AUTHENTICATE, "Bearer")
    }

    /// Like `unauthorized`, where a browser may ask its user for the token, as a password.
    pub(super) fn unauthorized_page() -> Self {
        let detail = "the token is missing or wrong: it is sent as a bearer token, or as the password of any user";
        // A header each: browsers take a list of challenges in one header for the parameters of its first.
        Self::new(StatusCode::UNAUTHORIZED, detail)
            .with(WWW_AUTHENTICATE, "Basic realm=\"admission\", charset=\"UTF-8\"")
            .with(WWW_AUTHENTICATE, "Bearer")
    }

    pub(super) fn misdirected() -> Self {
        Self::new(
            StatusCode::MISDIRECTED_REQUEST,
            "this host name is not served here: `Introspection::allow_hosts` lists those that are",
        )
    }
}

impl From<Problem> for Reply {
    fn from(problem: Problem) -> Self {
        let Problem { status, detail, headers } = problem;
        let title = status.canonical_reason().unwrap_or("Problem");
        let details = Details { r#type: "about:blank", title, status: status.as_u16(), detail: &detail };
        let body = serde_json::to_vec(&details).unwrap_or_default();
        let mut answer = Self::new(status, "application/problem+json", BodyData::new(body.into()));
        for (name, value) in headers {
            answer.headers.append(name, value);
        }
        answer
    }
}

impl Reply {
    fn new(status: StatusCode, content_type: &'static str, body: BodyData) -> Self {
        let headers = [
            (CONTENT_TYPE, content_type),
            (CACHE_CONTROL, "no-store"),
            // Names of labels come from strangers: they are text and nothing else.
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ];
        let headers = headers.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value))).collect();
        Self { status, headers, body }
    }

    pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => Self::tagged(status, "application/json", body.into()),
            Err(error) => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error).into(),
        }
    }

    /// A document that is part of the program.
    pub(super) fn document(content_type: &'static str, text: &'static str) -> Self {
        Self::tagged(StatusCode::OK, content_type, Bytes::from_static(text.as_bytes()))
    }

    /// The lines of a capture, however many: their length is not known before they are sent.
    #[cfg(feature = "capture")]
    pub(super) fn lines(lines: CapturedLines) -> Self {
        Self::new(StatusCode::OK, "application/x-ndjson", BodyData::lines(lines))
    }

    pub(super) fn no_content() -> Self {
        let mut answer = Self::new(StatusCode::NO_CONTENT, "text/plain", BodyData::empty());
        answer.headers.remove(CONTENT_TYPE);
        answer
    }

    /// Lets the browser run and load what the policy names, and nothing else.
    pub(super) fn with_policy(mut self, policy: &'static str) -> Self {
        self.headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
        self.headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        self
    }

    /// The tag says whether the client has this body already: a poller then saves the transfer. `no-store` keeps caches
    /// away, not the client's own memory.
    fn tagged(status: StatusCode, content_type: &'static str, body: Bytes) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(&body);
        let mut answer = Self::new(status, content_type, BodyData::new(body));
        if let Ok(tag) = HeaderValue::try_from(format!("\"{:016x}\"", hasher.finish())) {
            answer.headers.insert(ETAG, tag);
        }
        answer
    }

    /// The response to a request with these headers; without a body for HEAD, and where the client has it already.
    pub(super) fn respond(mut self, request: &HeaderMap, is_head: bool) -> Response<BodyData> {
        let known = self.headers.get(ETAG).is_some_and(|tag| self.status == StatusCode::OK && matches(request, tag));
        if known {
            self.status = StatusCode::NOT_MODIFIED;
            self.headers.remove(CONTENT_TYPE);
        } else if self.status != StatusCode::NO_CONTENT
            && let Some(length) = self.body.size_hint().exact()
        {
            self.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        let body = if known || is_head { BodyData::empty() } else { self.body };
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// Whether `If-None-Match` names this tag; weak ones are as good here (RFC 9110, section 13.1.2).
fn matches(request: &HeaderMap, tag: &HeaderValue) -> bool {
    let lists = request.get_all(IF_NONE_MATCH).iter().filter_map(|list| list.to_str().ok());
    let mut tags = lists.flat_map(|list| list.split(',')).map(|one| one.trim());
    tags.any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one).as_bytes() == tag.as_bytes())
}
