//! A service whose requests end in all the ways there are, one way per path.

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    fmt,
    future::{Future, pending, ready},
    panic::resume_unwind,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use tokio::{io::AsyncReadExt, sync::oneshot, task::yield_now};
use tower::{Service, ServiceBuilder};
use tower_admission::AdmissionLayer;

use super::{
    probe::{Probe, Running},
    server::Server,
};

/// What a handler or a body fails with.
#[derive(Debug)]
pub(crate) struct Failure;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("on purpose")
    }
}

impl std::error::Error for Failure {}

impl From<Infallible> for Failure {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Panics without a message in the output of the tests.
fn fall_over() -> ! {
    resume_unwind(Box::new("on purpose"))
}

/// Counts as running from the call until the last frame of the body, or until whatever comes first.
#[derive(Clone, Debug)]
pub(crate) struct Ends {
    pub(crate) probe: Probe,
    meetings: Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>,
}

impl Ends {
    pub(crate) fn new(probe: &Probe) -> Self {
        Self { probe: probe.clone(), meetings: Arc::default() }
    }

    /// A path that hangs, and a receiver that says when the handler has been reached.
    pub(crate) fn meet(&self, name: impl fmt::Display) -> (String, oneshot::Receiver<()>) {
        let (reached, meeting) = oneshot::channel();
        let path = format!("/hang/{name}");
        self.meetings.lock().unwrap().insert(path.clone(), reached);
        (path, meeting)
    }

    /// A server of hyper with them behind this layer. The probe counts requests that arrive.
    pub(crate) async fn serve(self, layer: AdmissionLayer) -> Server {
        Server::hyper(ServiceBuilder::new().layer(self.probe.arrivals()).layer(layer).service(self)).await
    }

    fn answer(&self, request: &mut Request<()>, running: Running) -> Result<Response<Script>, Failure> {
        let upgrades = request.method() == Method::CONNECT || request.uri().path() == "/upgrade";
        let (status, body) = match request.uri().path() {
            _ if upgrades => {
                drop(running);
                let upgraded = hyper::upgrade::on(&mut *request);
                tokio::spawn(async {
                    // The client closes it, or there was none to begin with, as in tests without a connection.
                    if let Ok(upgraded) = upgraded.await {
                        let _ = hyper_util::rt::TokioIo::new(upgraded).read_to_end(&mut Vec::new()).await;
                    }
                });
                let status = if request.method() == Method::CONNECT { 200 } else { 101 };
                (status, Script { steps: [Step::Pending].into(), ..Script::default() })
            }
            "/error" => return Err(Failure),
            "/empty" => (200, Script::of(running, [])),
            "/no-content" => {
                drop(running);
                (204, Script { tells_end: true, ..Script::default() })
            }
            "/not-modified" => (304, Script::of(running, [Step::Data])),
            "/length" => (200, Script { announces_length: true, ..Script::of(running, [Step::Data, Step::Data]) }),
            "/end-stream" => (200, Script { tells_end: true, ..Script::of(running, [Step::Data, Step::Data]) }),
            "/trailers" => (200, Script::of(running, [Step::Data, Step::Trailers])),
            "/body-error" => (200, Script::of(running, [Step::Data, Step::Error])),
            "/body-panic" => (200, Script::of(running, [Step::Data, Step::Panic])),
            "/endless" => (200, Script::of(running, [Step::Data, Step::Pending])),
            _ => (200, Script::of(running, [Step::Data, Step::Data])),
        };
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        if status == 101 {
            response.headers_mut().insert("connection", "upgrade".parse().unwrap());
            response.headers_mut().insert("upgrade", "test".parse().unwrap());
        }
        Ok(response)
    }
}

impl<B> Service<Request<B>> for Ends {
    type Response = Response<Script>;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Script>, Failure>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut request = request.map(drop);
        let running = self.probe.enter();
        match request.uri().path() {
            "/call-panic" => fall_over(),
            "/poll-panic" => Box::pin(async move {
                let _running = running;
                fall_over()
            }),
            path if path.starts_with("/hang/") => {
                if let Some(meeting) = self.meetings.lock().unwrap().remove(path) {
                    // Nobody may be there any more.
                    let _ = meeting.send(());
                }
                Box::pin(async move {
                    let _running = running;
                    pending().await
                })
            }
            "/hang" => Box::pin(async move {
                let _running = running;
                pending().await
            }),
            "/held" => {
                let this = self.clone();
                Box::pin(async move {
                    this.probe.opened().await;
                    this.answer(&mut request, running)
                })
            }
            "/no-content" => Box::pin(ready(self.answer(&mut request, running))),
            _ => {
                let this = self.clone();
                Box::pin(async move {
                    // Others get a chance to run at the same time.
                    for _ in 0..3 {
                        yield_now().await;
                    }
                    this.answer(&mut request, running)
                })
            }
        }
    }
}

/// A body that follows a script.
#[derive(Debug, Default)]
pub(crate) struct Script {
    steps: VecDeque<Step>,
    /// Whether `is_end_stream` is true after the last frame. To say so is optional.
    tells_end: bool,
    announces_length: bool,
    /// Every other time it is asked for a frame, it is not ready.
    paused: bool,
    running: Option<Running>,
}

#[derive(Debug)]
enum Step {
    Data,
    Error,
    Panic,
    Pending,
    Trailers,
}

impl Script {
    /// One frame, and then nothing.
    pub(crate) fn endless() -> Self {
        Self { steps: [Step::Data, Step::Pending].into(), ..Self::default() }
    }

    fn of<const N: usize>(running: Running, steps: [Step; N]) -> Self {
        Self { steps: steps.into(), running: Some(running), ..Self::default() }
    }
}

impl Body for Script {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        self.paused ^= true;
        if self.paused {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let step = self.steps.pop_front();
        if matches!(step, None | Some(Step::Trailers | Step::Error)) || self.is_end_stream() {
            self.running = None;
        }
        Poll::Ready(match step {
            None => None,
            Some(Step::Data) => Some(Ok(Frame::data(Bytes::from_static(b"data")))),
            Some(Step::Trailers) => {
                let trailers = [("x-checksum".parse().unwrap(), "42".parse().unwrap())];
                Some(Ok(Frame::trailers(HeaderMap::from_iter(trailers))))
            }
            Some(Step::Error) => Some(Err(Failure)),
            Some(Step::Panic) => fall_over(),
            Some(Step::Pending) => {
                self.paused = false;
                self.steps.push_front(Step::Pending);
                return Poll::Pending;
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.tells_end && self.steps.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        if self.announces_length { SizeHint::with_exact(4 * self.steps.len() as u64) } else { SizeHint::default() }
    }
}
