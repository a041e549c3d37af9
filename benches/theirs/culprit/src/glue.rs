//! The glue: what ends a request that holds what all others need, where it is not known beforehand which request that is.
//!
//! A limit can't do that: it refuses requests that come, and keeps the culprit, which is in. To end a request is to drop the future
//! of its handler, and with it the guards that it holds, such as connections of a pool. Work that goes on without its future, such as
//! a statement of Postgres, has to be cancelled as well, by a guard of its own.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    extract::{Request, State},
    http::StatusCode,
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};
use tower_admission::{Admission, AdmissionLayer};
use tower_http::timeout::TimeoutLayer;

/// Nothing may run for longer than this. The layer that is added first is inside: it bounds the work, and not the wait.
pub(crate) fn timeout(routes: Router, admission: &Admission, longest: Duration) -> Router {
    let timeout = TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, longest);
    routes.layer(timeout).layer(AdmissionLayer::new(admission))
}

/// The requests that run, the oldest first, and when the last answer was. A request whose sender is dropped is ended.
#[derive(Debug)]
struct Running(VecDeque<(Instant, oneshot::Sender<()>)>, Instant);

/// While requests wait for a slot, and no request was answered for so long, the oldest that runs is ended, then the next.
pub(crate) fn oldest(routes: Router, admission: &Admission, stalled: Duration) -> Router {
    let running = Arc::new(Mutex::new(Running(VecDeque::new(), Instant::now())));
    let (all, waited_for) = (Arc::clone(&running), admission.clone());
    tokio::spawn(async move {
        loop {
            sleep(stalled / 10).await;
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.0.retain(|(_, end)| !end.is_closed());
            let since = all.0.front().map(|(began, _)| all.1.max(*began));
            if since.is_some_and(|since| since.elapsed() > stalled) && waited_for.snapshot().waiting > 0 {
                all.0.pop_front();
            }
        }
    });
    routes.layer(from_fn_with_state(running, until_ended)).layer(AdmissionLayer::new(admission))
}

async fn until_ended(State(running): State<Arc<Mutex<Running>>>, request: Request, next: Next) -> Response {
    let (end, ended) = oneshot::channel();
    running.lock().unwrap_or_else(PoisonError::into_inner).0.push_back((Instant::now(), end));
    let answer = tokio::select! {
        answer = next.run(request) => answer,
        _ = ended => return StatusCode::GATEWAY_TIMEOUT.into_response(),
    };
    running.lock().unwrap_or_else(PoisonError::into_inner).1 = Instant::now();
    answer
}
