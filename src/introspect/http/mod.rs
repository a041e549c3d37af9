//! Paths, methods and answers.

#[cfg(feature = "capture")]
mod capture;
mod guard;
mod query;
mod reply;
mod upload;
mod workers;

use std::{
    convert::Infallible,
    task::{Context, Poll},
};

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;

pub(super) use self::query::{HistoryQuery, JournalQuery, LabelQuery, LabelSort, WaiterQuery};
pub use self::upload::IntrospectionFuture;
use self::{
    guard::{Guard, Token},
    reply::{Problem, Reply},
};
use super::{
    look,
    wire::{Identity, Readiness},
};
use crate::{admission::BodyData, runtime::Admission};

/// How long ago the handle was made, in seconds: what happened is dated by the same measure. Not in
/// the body, which would be another one each time then.
const NOW: HeaderName = HeaderName::from_static("admission-now");

const READ: &str = "GET, HEAD";

const UNKNOWN: &str = "unknown label: no request with it came lately, or its namespace is missing";

/// Shows the state of a handle over HTTP. Made by [`Admission::introspection`](crate::Admission::introspection).
///
/// | path | what |
/// |---|---|
/// | `/admission` | the handle, its partitions, a page of its labels |
/// | `/admission/labels` | labels, a hundred at a time: `offset`, `limit`, `prefix`, `contains`, `namespace`, `status`, `sort`, `order` |
/// | `/admission/labels/{label}` | one label, percent-encoded; `namespace` unless it has none; `label` instead of the path, as clients take `..` there for a step |
/// | `/admission/labels/{label}/waiters` | the waiters of the label: `offset`, `limit`, `namespace` |
/// | `/admission/partitions`, `/admission/partitions/{name}` | partitions |
/// | `/admission/journal` | the newest decisions and changes, or the entries after `since`: `since`, `limit`, `kind` |
/// | `/admission/history` | the last hour, second by second: `last`, `since`, `partition`, `labels`, `label`, `namespace` |
/// | `/admission/ready` | 200 while requests are admitted, else 503 |
/// | `/admission/ui` | the live page |
/// | `/admission/openapi.json` | the description of all answers, as OpenAPI 3.1 |
/// | `/admission/capture` | the capture of the last minutes, [if enabled](Self::serve_captures); `POST` and `DELETE` start and stop it |
/// | `POST /admission/workers` | heartbeats of workers, [if enabled](Self::accept_workers) |
///
/// [What the fields mean](crate::docs::introspection) has a page of its own.
///
/// A tower service and a hyper service: axum, tonic or hyper can serve it. Its answers hold the names of all partitions
/// and labels, so give it a listener that strangers don't reach, and [a token](Self::require_token) where they might.
#[derive(Clone, Debug)]
#[must_use]
pub struct Introspection {
    admission: Admission,
    identity: Identity,
    guard: Guard,
    workers: Option<Token>,
    #[cfg(feature = "capture")]
    captures: Option<Token>,
}

impl Admission {
    /// A service that shows the state of this handle, for a listener of its own.
    ///
    /// ```no_run
    /// # async fn serve(admission: tower_admission::Admission) -> std::io::Result<()> {
    /// let admin = axum::Router::new().fallback_service(admission.introspection());
    /// let listener = tokio::net::TcpListener::bind("127.0.0.1:9901").await?;
    /// axum::serve(listener, admin).await
    /// # }
    /// ```
    ///
    /// The first call begins [the history](crate::docs::introspection#the-last-hour): from then on the handle keeps what happened
    /// in the last hour, in a megabyte or two.
    #[cfg_attr(docsrs, doc(cfg(feature = "introspect")))]
    pub fn introspection(&self) -> Introspection {
        self.shared.begin_history();
        Introspection {
            admission: self.clone(),
            identity: Identity::now(),
            guard: Guard::default(),
            workers: None,
            #[cfg(feature = "capture")]
            captures: None,
        }
    }
}

impl Introspection {
    /// Asks each request for this token: the page, the readiness and the description included. A program sends it as a bearer
    /// token (`admission --token`), a browser asks its user for it as a password. With an empty token, as from a
    /// variable that is missing, no request is answered.
    ///
    /// Heartbeats and captures have tokens of their own, and ask for these instead. The token is sent in plain text: between
    /// machines, put TLS in front.
    ///
    /// ```
    /// # let admission = tower_admission::Admission::builder().limit(tower_admission::limit::Fixed::new(1)).build()?;
    /// let token = std::env::var("ADMISSION_TOKEN").unwrap_or_default();
    /// let admin = admission.introspection().require_token(token).allow_hosts(["127.0.0.1", "localhost"]).version("1.4.2 (3fa9c1)");
    /// # Ok::<_, tower_admission::BuildError>(())
    /// ```
    pub fn require_token(mut self, token: impl AsRef<str>) -> Self {
        self.guard.require_token(token.as_ref());
        self
    }

    /// Answers only requests that ask one of these hosts: names or addresses, without ports. Others are answered with 421.
    ///
    /// Without this, a page of a stranger that an operator opens can have a name of its own point at the address of this listener
    /// (DNS rebinding), and read what is here. A token prevents that as well.
    pub fn allow_hosts<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        self.guard.allow_hosts(hosts);
        self
    }

    /// Says what runs here, such as a version and a commit: shown by `/admission`, the page and `admission status`.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.identity.version = version.into();
        self
    }

    /// Accepts heartbeats of workers that send this bearer token: `POST /admission/workers`, the same as
    /// [`Admission::report_worker`](crate::Admission::report_worker). Without this call, or with an empty token, there
    /// is no such route.
    ///
    /// The token is sent in plain text: between machines, put TLS in front.
    pub fn accept_workers(mut self, token: impl AsRef<str>) -> Self {
        self.workers = Token::new(token.as_ref());
        self
    }

    /// Lets clients that send this bearer token fetch the [rolling capture](crate::capture::RollingCapture)
    /// (`GET /admission/capture?last=300`, in seconds), start it (`POST`) and stop it (`DELETE`). Without this call, or with an
    /// empty token, there is no such route.
    ///
    /// A capture names each request of the last minutes by partition, label, class and run. The token is sent in plain
    /// text: between machines, put TLS in front.
    #[cfg(feature = "capture")]
    #[cfg_attr(docsrs, doc(cfg(feature = "capture")))]
    pub fn serve_captures(mut self, token: impl AsRef<str>) -> Self {
        self.captures = Token::new(token.as_ref());
        self
    }

    /// Answers, unless the body has to be read first.
    fn route<B>(&self, request: &Request<B>) -> Result<Option<Reply>, Problem> {
        self.guard.check_host(request)?;
        let (path, query) = (request.uri().path().trim_end_matches('/'), request.uri().query());
        let known = path.strip_prefix("/admission").filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let Some(rest) = known else {
            self.guard.check_token(request.headers())?;
            return Err(Problem::not_found("unknown path: all paths begin with /admission"));
        };
        let mut parts = rest.split('/').skip(1);
        let parts = (parts.next(), parts.next(), parts.next());
        if parts == (Some("workers"), None, None)
            && let Some(token) = &self.workers
        {
            return match *request.method() {
                Method::POST if token.is_in(request.headers()) => Ok(None),
                Method::POST => Err(Problem::unauthorized()),
                _ => Err(Problem::method("POST")),
            };
        }
        #[cfg(feature = "capture")]
        if parts == (Some("capture"), None, None)
            && let Some(token) = &self.captures
        {
            if !token.is_in(request.headers()) {
                return Err(Problem::unauthorized());
            }
            return capture::answer(&self.admission, request.method(), query).map(Some);
        }
        self.guard.check_token(request.headers())?;
        let read = match parts {
            (None, ..) => Read::All,
            (Some("labels"), None, _) => Read::Labels,
            (Some("labels"), Some(label), None) => Read::Label(query::segment(label)?),
            (Some("labels"), Some(label), Some("waiters")) => Read::Waiters(query::segment(label)?),
            (Some("partitions"), None, _) => Read::Partitions,
            (Some("partitions"), Some(name), None) => Read::Partition(query::segment(name)?),
            (Some("journal"), None, _) => Read::Journal,
            (Some("history"), None, _) => Read::History,
            (Some("ready"), None, _) => Read::Ready,
            (Some("ui"), None, _) => Read::Page,
            (Some("openapi.json"), None, _) => Read::OpenApi,
            _ => return Err(Problem::not_found("unknown path: /admission/openapi.json lists all paths")),
        };
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return Err(Problem::method(READ));
        }
        self.read(&read, query).map(Some)
    }

    fn read(&self, what: &Read, query: Option<&str>) -> Result<Reply, Problem> {
        let admission = &self.admission;
        Ok(match what {
            Read::All => {
                let (mut overview, now) = look::overview(admission, &LabelQuery::parse(query)?);
                overview.identity = Some(self.identity.clone());
                Reply::json(StatusCode::OK, &overview).dated(now)
            }
            Read::Labels => Reply::json(StatusCode::OK, &look::label_page(admission, &LabelQuery::parse(query)?)),
            Read::Label(label) => {
                let (namespace, name) = query::label(query)?;
                let found = look::find_label(admission, &namespace, name.as_ref().unwrap_or(label));
                Reply::json(StatusCode::OK, &found.ok_or_else(|| Problem::not_found(UNKNOWN))?)
            }
            Read::Waiters(label) => {
                let query = WaiterQuery::parse(query)?;
                let found = look::waiter_page(admission, query.label.as_ref().unwrap_or(label), &query);
                Reply::json(StatusCode::OK, &found.ok_or_else(|| Problem::not_found(UNKNOWN))?)
            }
            Read::Partitions => Reply::json(StatusCode::OK, &look::partitions(admission)),
            Read::Partition(name) => {
                let found = look::partitions(admission).partitions.into_iter().find(|it| it.snapshot.name == *name);
                let unknown = "unknown partition: /admission/partitions lists all partitions";
                Reply::json(StatusCode::OK, &found.ok_or_else(|| Problem::not_found(unknown))?)
            }
            Read::Journal => {
                let (page, now) = look::journal(admission, &JournalQuery::parse(query)?);
                Reply::json(StatusCode::OK, &page).dated(now)
            }
            Read::History => {
                let (page, now) = look::history(admission, &HistoryQuery::parse(query)?);
                Reply::json(StatusCode::OK, &page).dated(now)
            }
            Read::Ready => {
                let ready = admission.is_ready();
                let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
                Reply::json(status, &Readiness::new(ready))
            }
            Read::Page => Reply::document("text/html; charset=utf-8", PAGE).with_policy(POLICY),
            Read::OpenApi => Reply::document("application/json", include_str!("openapi.json")),
        })
    }

    fn respond<B: Body>(&self, request: Request<B>) -> IntrospectionFuture<B> {
        let is_head = request.method() == Method::HEAD;
        match self.route(&request) {
            Ok(Some(answer)) => IntrospectionFuture::ready(answer.respond(request.headers(), is_head)),
            Ok(None) => IntrospectionFuture::reading(self.admission.clone(), request.into_body()),
            Err(problem) => IntrospectionFuture::ready(Reply::from(problem).respond(&HeaderMap::new(), is_head)),
        }
    }
}

impl Reply {
    /// Adds how long ago the handle was made, in seconds.
    fn dated(mut self, now: f64) -> Self {
        self.headers.extend(HeaderValue::try_from(format!("{now:.3}")).map(|now| (NOW, now)));
        self
    }
}

/// What is to be shown.
#[derive(Debug)]
enum Read {
    All,
    Labels,
    Label(String),
    Waiters(String),
    Partitions,
    Partition(String),
    Journal,
    History,
    Ready,
    Page,
    OpenApi,
}

/// The page, which asks for nothing but what is under `/admission`.
const PAGE: &str = concat!(
    include_str!("page/head.html"),
    "<style>\n",
    include_str!("page/style.css"),
    "</style>\n",
    include_str!("page/body.html"),
    "<script>\n",
    include_str!("page/text.js"),
    include_str!("page/charts.js"),
    include_str!("page/past.js"),
    include_str!("page/page.js"),
    "</script>\n</body>\n</html>\n",
);

/// The page's own script and style, by their SHA-256: nothing else runs, wherever a name of a label may try to get in.
///
/// A change of the page's script or style needs new hashes: a browser refuses them otherwise, and its console names
/// them.
const POLICY: &str = "default-src 'none'; connect-src 'self'; img-src data:; \
    script-src 'sha256-0CUUSZP8AaZnzJiw0GKjxPbF4agAavTsFxrfK3WrN4I='; style-src 'sha256-vvY5uHHK2+xNPWIEUnJCruqwCre/di422pJuxY4jHe8='; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

impl<B: Body> tower_service::Service<Request<B>> for Introspection {
    type Response = Response<BodyData>;
    type Error = Infallible;
    type Future = IntrospectionFuture<B>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.respond(request)
    }
}

impl<B: Body> hyper::service::Service<Request<B>> for Introspection {
    type Response = Response<BodyData>;
    type Error = Infallible;
    type Future = IntrospectionFuture<B>;

    fn call(&self, request: Request<B>) -> Self::Future {
        self.respond(request)
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine, engine::general_purpose::STANDARD};
    use sha2::{Digest, Sha256};

    use super::{PAGE, POLICY};

    #[test]
    fn the_policy_names_the_script_and_the_style_of_the_page() {
        for tag in ["script", "style"] {
            let (_, rest) = PAGE.split_once(&format!("<{tag}>")).unwrap();
            let (text, _) = rest.split_once(&format!("</{tag}>")).unwrap();
            let hash = STANDARD.encode(Sha256::digest(text));
            assert!(POLICY.contains(&format!("{tag}-src 'sha256-{hash}'")), "the hash of the {tag} is {hash}");
        }
    }
}
