//! What a server's own spans and its log learn of admission.

mod outage;
mod panics;
mod would;

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, routing::get};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tokio::sync::Semaphore;
use tower_admission::{Admission, AdmissionLayer, DrainMode, Mode, limit::Fixed, percent};
use tower_http::trace::TraceLayer;
use tracing::{
    Event, Id, Level, Subscriber,
    field::{Empty as Unset, Field, Visit},
    span::{Attributes, Record},
};
use tracing_subscriber::{Layer, layer::Context, prelude::*};

use crate::support::{Server, eventually};

type Fields = BTreeMap<String, String>;

#[derive(Default)]
struct Reader(Fields);

impl Visit for Reader {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

/// Keeps what it is told.
#[derive(Clone, Default)]
struct Kept {
    /// The target of each span, and what was recorded on it.
    spans: Arc<Mutex<BTreeMap<u64, (String, Fields)>>>,
    events: Arc<Mutex<Vec<(Level, Fields)>>>,
}

impl<S: Subscriber> Layer<S> for Kept {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        let mut reader = Reader::default();
        attributes.record(&mut reader);
        self.spans.lock().unwrap().insert(id.into_u64(), (attributes.metadata().target().to_owned(), reader.0));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut reader = Reader::default();
        values.record(&mut reader);
        self.spans.lock().unwrap().get_mut(&id.into_u64()).unwrap().1.extend(reader.0);
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target().starts_with("tower_admission") {
            let mut reader = Reader::default();
            event.record(&mut reader);
            self.events.lock().unwrap().push((*event.metadata().level(), reader.0));
        }
    }
}

impl Kept {
    /// What was recorded of the request with this path.
    fn span(&self, path: &str) -> Fields {
        let spans = self.spans.lock().unwrap();
        spans.values().find(|(_, fields)| fields["path"] == path).unwrap().1.clone()
    }

    fn event(&self, message: &str) -> (Level, Fields) {
        let events = self.events.lock().unwrap();
        let found = events.iter().find(|(_, fields)| fields["message"] == message);
        found.unwrap_or_else(|| panic!("{message:?} in {events:#?}")).clone()
    }
}

#[tokio::test]
async fn the_span_of_a_request_says_what_became_of_it_and_events_what_changed() {
    let kept = Kept::default();
    let _listens = tracing_subscriber::registry().with(kept.clone()).set_default();
    let admission = Admission::builder().name("api").limit(Fixed::new(1)).queue(1).max_waiting(0);
    let admission = admission.partition("web", percent(50)).build().unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let hold = Arc::clone(&gate);
    let app = Router::new()
        .route("/{path}", get(async move || drop(hold.acquire().await.unwrap())))
        .layer(AdmissionLayer::new(&admission).classify(tower_admission::classify::by_header("x-tenant")))
        .layer(TraceLayer::new_for_http().make_span_with(|request: &http::Request<axum::body::Body>| {
            tracing::info_span!(
                "request",
                path = request.uri().path(),
                admission.outcome = Unset,
                admission.reason = Unset,
                admission.partition = Unset,
                admission.waited_ms = Unset,
            )
        }));
    let server = Server::axum(app).await;
    let address = server.address;
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let send = |path: &str| {
        let request = http::Request::get(format!("http://{address}{path}")).header("x-tenant", "web");
        let answer = client.request(request.body(Empty::new()).unwrap());
        tokio::spawn(async { answer.await.unwrap().status().as_u16() })
    };
    let first = send("/first");
    eventually("one runs", || admission.snapshot().in_flight == 1).await;
    let second = send("/second");
    eventually("one waits", || admission.snapshot().waiting == 1).await;
    assert_eq!(send("/third").await.unwrap(), 503);
    tokio::time::sleep(Duration::from_millis(30)).await;
    gate.add_permits(2);
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (200, 200));

    let first = kept.span("/first");
    assert_eq!((&*first["admission.outcome"], &*first["admission.partition"]), ("admitted", "web"));
    assert_eq!((&*first["admission.waited_ms"], first.get("admission.reason")), ("0", None));
    let second = kept.span("/second");
    assert_eq!(&*second["admission.outcome"], "admitted");
    assert!(second["admission.waited_ms"].parse::<u64>().unwrap() >= 29, "{second:?}");
    let third = kept.span("/third");
    assert_eq!((&*third["admission.outcome"], &*third["admission.reason"]), ("rejected", "gate_full"));

    admission.set_mode(Mode::Observe);
    admission.reload(Admission::builder().limit(Fixed::new(4)).partition("web", percent(50))).unwrap();
    admission.drain(DrainMode::RejectWaiting);
    let (level, event) = kept.event("admission mode changed");
    assert_eq!((level, &*event["from"], &*event["to"], &*event["limiter"]), (Level::INFO, "enforce", "observe", "api"));
    let (level, event) = kept.event("admission limit changed");
    assert_eq!((level, &*event["from"], &*event["to"]), (Level::DEBUG, "1", "4"));
    assert_eq!(kept.event("admission settings were reloaded").0, Level::INFO);
    assert_eq!(kept.event("admission is draining: no request is admitted any more").0, Level::INFO);
    let (level, event) = kept.event("requests were rejected");
    assert_eq!((level, &*event["reason"], &*event["rejected"]), (Level::DEBUG, "gate_full", "1"));

    drop(client);
    server.stop().await;
    let spans = kept.spans.lock().unwrap();
    let ours: Vec<_> = spans.values().filter(|(target, _)| target.starts_with("tower_admission")).collect();
    assert!(ours.is_empty(), "no request gets a span of ours: {ours:?}");
    let told: Vec<_> = kept.events.lock().unwrap().iter().map(|(_, fields)| fields["message"].clone()).collect();
    assert_eq!(told.len(), 5, "each change is told once, and no request is told of by itself: {told:?}");
}
