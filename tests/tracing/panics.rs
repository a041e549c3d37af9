//! A subscriber that panics takes neither a request nor a slot with it.

use std::{
    convert::Infallible,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use tower::{Layer as _, ServiceExt, service_fn};
use tower_admission::{Admission, AdmissionLayer, DrainMode, Mode, Reason, Ticket, limit::Fixed};
use tracing::{Event, Id, Subscriber, field::Empty, info_span, span::Record};
use tracing_subscriber::{Layer, layer::Context, prelude::*};

/// Panics whenever it is told something of admission, and counts that.
#[derive(Clone, Default)]
struct Panicking(Arc<AtomicUsize>);

impl Panicking {
    fn told(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl<S: Subscriber> Layer<S> for Panicking {
    fn on_record(&self, _: &Id, _: &Record<'_>, _: Context<'_, S>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        panic!("the subscriber is broken");
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target().starts_with("tower_admission") {
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("the subscriber is broken");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_panics_takes_no_slot_with_it() {
    let subscriber = Panicking::default();
    let _guard = tracing_subscriber::registry().with(subscriber.clone()).set_default();
    let builder = Admission::builder().limit(Fixed::new(1)).queue(1).admission_timeout(Duration::ZERO);
    let admission = builder.max_wait(Duration::from_secs(1)).build().unwrap();
    let span = info_span!("request", admission.outcome = Empty, admission.reason = Empty, admission.partition = Empty);
    let _entered = span.enter();

    let permit = admission.try_admit(Ticket::new()).unwrap();
    assert_eq!((subscriber.told(), admission.snapshot().in_flight), (1, 1), "admitted without a wait");
    let rejected = {
        // It waits, and another one finds the gate full.
        let mut waits = Box::pin(admission.admit(Ticket::new()));
        assert!(std::future::poll_fn(|cx| Poll::Ready(waits.as_mut().poll(cx))).await.is_pending());
        let rejected = admission.try_admit(Ticket::new()).unwrap_err();
        assert_eq!(subscriber.told(), 1, "rejected");
        drop(permit);
        drop(waits.await.unwrap());
        assert_eq!((subscriber.told(), admission.snapshot().in_flight), (1, 0), "admitted after a wait");
        rejected
    };
    assert_ne!(rejected.reason(), Reason::Draining);
    drop(admission.admit(Ticket::new()).await.unwrap());
    assert_eq!((subscriber.told(), admission.snapshot().in_flight), (1, 0), "admitted by a future");

    // The layers, at once and after a wait that times out.
    let answer = service_fn(async |_: http::Request<String>| Ok::<_, Infallible>(http::Response::new(String::new())));
    let service = AdmissionLayer::new(&admission).layer(answer);
    let request = || http::Request::new(String::new());
    assert_eq!(service.clone().oneshot(request()).await.unwrap().status(), 200);
    assert_eq!((subscriber.told(), admission.snapshot().in_flight), (1, 0), "admitted by a layer");
    let permit = admission.try_admit(Ticket::new()).unwrap();
    assert_eq!(service.oneshot(request()).await.unwrap().status(), 503);
    assert!(subscriber.told() >= 2, "a wait that timed out, and what the driver tells of it");
    drop(permit);

    // What changes.
    admission.set_mode(Mode::Observe);
    admission.reload(Admission::builder().limit(Fixed::new(2))).unwrap();
    admission.publish_metrics();
    admission.drain(DrainMode::RejectWaiting);
    assert!(subscriber.told() >= 3);
    let snapshot = admission.snapshot();
    assert_eq!((snapshot.in_flight, snapshot.waiting, snapshot.at_gate), (0, 0, 0), "{snapshot:?}");
    assert!(snapshot.warnings.iter().any(|it| it.contains("subscriber panicked")), "{:?}", snapshot.warnings);
}
