//! Asks the introspection of a server.

use std::{
    future::Future,
    io::{ErrorKind, Write},
    time::Duration,
};

use http::{Method, Request, Response, StatusCode, Uri, header, request::Builder};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::{net::TcpStream, runtime};

use crate::{
    args::ServerArgs,
    failure::Failure,
    text::{is_read, safe},
};

/// How long ago the handle was made, in seconds, by which entries of its journal are dated.
const NOW: &str = "admission-now";

/// No answer of an introspection is as long as this.
const LONGEST: usize = 64 << 20;

const RUNBOOK: &str = "https://docs.rs/tower-admission/latest/tower_admission/docs/runbook/index.html";

/// Where a server is.
#[derive(Debug)]
pub(crate) struct Client {
    /// As it was given, for messages.
    pub(crate) url: String,
    host: String,
    port: u16,
    /// What comes before `/admission`.
    path: String,
    timeout: Duration,
    /// What the server asks for; empty if there is none.
    token: String,
}

/// Runs what asks servers.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::Server(format!("can't start the runtime of the client: {error}")))?.block_on(work)
}

/// A signal, wherever it comes from: on a terminal in raw mode, keys are none.
pub(crate) async fn told_to_stop() {
    #[cfg(unix)]
    if let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        return;
    }
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}

impl Client {
    pub(crate) fn new(server: &ServerArgs) -> Result<Self, Failure> {
        let url = safe(&server.url).into_owned();
        let wrong =
            |why: &str| Failure::Usage(format!("--url {url}: {why}, allowed is something like http://127.0.0.1:9901"));
        // `host:port` alone is an address as well.
        let whole = if url.contains("://") { url.clone() } else { format!("http://{url}") };
        let uri: Uri = whole.parse().map_err(|error| wrong(&format!("{error}")))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(wrong("TLS is not supported")),
            _ => return Err(wrong("not a URL")),
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| wrong("the host is missing"))?;
        if uri.query().is_some() {
            return Err(wrong("a query is not allowed"));
        }
        let path = uri.path().trim_end_matches('/');
        Ok(Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(80),
            path: path.strip_suffix("/admission").unwrap_or(path).to_owned(),
            url: url.trim_end_matches('/').to_owned(),
            timeout: server.timeout,
            token: server.token.clone(),
        })
    }

    /// What is at `/admission` and `path`, in JSON; `None` where nothing is known of it.
    pub(crate) async fn find(&self, path: &str) -> Result<Option<Value>, Failure> {
        Ok(self.find_dated(path).await?.map(|(json, _)| json))
    }

    /// The same, where there is always something.
    pub(crate) async fn get(&self, path: &str) -> Result<Value, Failure> {
        Ok(self.get_dated(path).await?.0)
    }

    /// The same, and the age of the handle in seconds, where that is told; else 0.
    pub(crate) async fn get_dated(&self, path: &str) -> Result<(Value, f64), Failure> {
        self.find_dated(path).await?.ok_or_else(|| {
            self.stranger("there is no introspection under this path: it is mounted at /admission below the URL")
        })
    }

    async fn find_dated(&self, path: &str) -> Result<Option<(Value, f64)>, Failure> {
        let answer = tokio::time::timeout(self.timeout, self.ask(path)).await;
        answer.unwrap_or_else(|_| Err(self.trouble(&self.silence())))
    }

    async fn ask(&self, path: &str) -> Result<Option<(Value, f64)>, Failure> {
        let request = self.request(&Method::GET, path);
        let request = request.header(header::ACCEPT, "application/json");
        let response = self.send(request).await?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, LONGEST).collect().await.map_err(|error| self.trouble(&error.to_string()))?;
        let kind = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let now = head.headers.get(NOW).and_then(|now| now.to_str().ok()?.parse().ok());
        let json: Option<Value> = serde_json::from_slice(&body.to_bytes()).ok();
        match (head.status, kind, json) {
            (StatusCode::OK, "application/json", Some(json)) => Ok(Some((json, now.unwrap_or_default()))),
            (StatusCode::NOT_FOUND, "application/problem+json", Some(_)) => Ok(None),
            (status, "application/problem+json", Some(problem)) => {
                let detail = safe(problem["detail"].as_str().unwrap_or_default());
                Err(match status {
                    StatusCode::UNAUTHORIZED => self.unauthorized(&detail),
                    status => self.trouble(&format!("{status}: {detail}")),
                })
            }
            (status, kind, _) => Err(self.another(status, kind)),
        }
    }

    fn request(&self, method: &Method, path: &str) -> Builder {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let request = Request::builder()
            .method(method)
            .uri(format!("{}/admission{path}", self.path))
            .header(header::HOST, format!("{host}:{}", self.port))
            .header(header::USER_AGENT, concat!("admission/", env!("CARGO_PKG_VERSION")));
        if self.token.is_empty() {
            request
        } else {
            request.header(header::AUTHORIZATION, format!("Bearer {}", self.token))
        }
    }

    async fn send(&self, request: Builder) -> Result<Response<Incoming>, Failure> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(|error| match error.kind() {
            ErrorKind::ConnectionRefused => self.trouble("connection refused: no server listens there"),
            _ => self.trouble(&error.to_string()),
        })?;
        let no_http = |error: hyper::Error| self.stranger(&format!("no answer in HTTP/1.1 ({error})"));
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(no_http)?;
        // It ends when the answer was read, and its end says nothing that the answer doesn't.
        tokio::spawn(connection);
        let request = request.body(Empty::<Bytes>::new()).map_err(|error| Failure::Usage(error.to_string()))?;
        sender.send_request(request).await.map_err(no_http)
    }

    /// Writes what is at `/admission` and `path` as it comes, however long it is. The timeout is that of each piece.
    pub(crate) async fn fetch(&self, method: &Method, path: &str, out: &mut dyn Write) -> Result<(), Failure> {
        let request = self.request(method, path);
        let late = |_| self.trouble(&self.silence());
        let response = tokio::time::timeout(self.timeout, self.send(request)).await.map_err(late)??;
        let (head, mut body) = response.into_parts();
        let kind = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind == "application/problem+json" {
            let body = Limited::new(body, LONGEST).collect();
            let body = tokio::time::timeout(self.timeout, body).await.map_err(late)?;
            let body = body.map_err(|error| self.trouble(&error.to_string()))?.to_bytes();
            let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
            let detail = safe(problem["detail"].as_str().unwrap_or_default()).into_owned();
            return Err(match head.status {
                StatusCode::NOT_FOUND if detail.contains("no rolling capture") => Failure::Missing(detail),
                StatusCode::NOT_FOUND => Failure::Missing(format!(
                    "{}: this server gives no captures: `Introspection::serve_captures` is not called, or not with a token",
                    self.url
                )),
                StatusCode::UNAUTHORIZED => self.unauthorized(&detail),
                status => self.trouble(&format!("{status}: {detail}")),
            });
        }
        if !matches!((head.status, kind), (StatusCode::NO_CONTENT, _) | (StatusCode::OK, "application/x-ndjson")) {
            return Err(self.another(head.status, kind));
        }
        while let Some(frame) = tokio::time::timeout(self.timeout, body.frame()).await.map_err(late)? {
            let frame = frame.map_err(|error| self.trouble(&error.to_string()))?;
            if let Ok(data) = frame.into_data()
                && !is_read(out.write_all(&data))?
            {
                return Ok(());
            }
        }
        is_read(out.flush()).map(|_| ())
    }

    /// Makes a type of an answer.
    pub(crate) fn read<T: DeserializeOwned>(&self, json: Value) -> Result<T, Failure> {
        serde_json::from_value(json).map_err(|error| {
            self.stranger(&format!("the answer is of another version, or of another program ({error})"))
        })
    }

    /// What a server that takes connections and answers nothing is told to be.
    fn silence(&self) -> String {
        format!(
            "no answer within {:?}: frozen, dead or out of reach, so that all callers may be without answers. \
             Now: take it out of the load balancer, and find out what blocks it ({RUNBOOK}#no-answer)",
            self.timeout
        )
    }

    fn unauthorized(&self, detail: &str) -> Failure {
        Failure::Server(format!("{}: {detail}\n--token or ADMISSION_TOKEN says what it is.", self.url))
    }

    fn trouble(&self, why: &str) -> Failure {
        Failure::Server(format!(
            "{}: {why}\nIs the server running, and is this where its introspection listens? \
             --url or ADMISSION_URL says where it is.",
            self.url
        ))
    }

    /// What answers with another kind of content is told to be.
    fn another(&self, status: StatusCode, kind: &str) -> Failure {
        let kind = if kind.is_empty() { String::new() } else { format!(" and {}", safe(kind)) };
        self.stranger(&format!("it answers {status}{kind}"))
    }

    fn stranger(&self, why: &str) -> Failure {
        Failure::Server(format!(
            "{}: this is no introspection of tower-admission: {why}\nA server has one where \
             `Admission::introspection` is mounted, on a listener of its own. --url or ADMISSION_URL says where it is.",
            self.url
        ))
    }
}

/// Percent-encodes a part of a path or of a query (RFC 3986, section 2.3).
pub(crate) fn encode(text: &str) -> String {
    let encoded = text.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    encoded.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(url: &str) -> Result<Client, Failure> {
        Client::new(&ServerArgs { url: url.to_owned(), timeout: Duration::from_secs(1), token: String::new() })
    }

    #[test]
    fn a_url_says_where_admission_is() {
        for (url, host, port, path) in [
            ("http://127.0.0.1:9901", "127.0.0.1", 9901, ""),
            ("localhost:9901/", "localhost", 9901, ""),
            ("http://admin.example/ops/admission/", "admin.example", 80, "/ops"),
            ("http://[::1]:9901/admission", "::1", 9901, ""),
        ] {
            let client = client(url).unwrap();
            assert_eq!((client.host.as_str(), client.port, client.path.as_str()), (host, port, path), "{url}");
        }
        for bad in ["https://a", "ftp://a", "http://", "", "http://a?b=c", "http://a b"] {
            assert!(matches!(client(bad), Err(Failure::Usage(_))), "{bad}");
        }
    }

    #[test]
    fn names_are_encoded_for_a_path() {
        assert_eq!(encode("a/b:c ü?%"), "a%2Fb%3Ac%20%C3%BC%3F%25");
    }
}
