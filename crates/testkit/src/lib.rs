//! What the tests of several packages share.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test fails by panicking")]
#![allow(clippy::exhaustive_structs, reason = "for the tests of this repository alone")]

mod clock;
pub mod grpc;
mod moody;
pub mod process;

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout};

use tower_admission::store::Store;

pub use crate::{
    clock::ByHand,
    moody::{Mood, Moody, ticket},
};

/// How long a test waits for what has to come to pass before it fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A number of milliseconds.
#[must_use]
pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Waits until `condition` holds, and fails if it never does.
pub async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    // Not by way of the one below: the compiler can't tell then that this may move between threads.
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "it did not come to pass that {what}");
        sleep(ms(1)).await;
    }
}

/// The same for a condition that takes a request to find out.
pub async fn eventually_async(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < deadline, "it did not come to pass that {what}");
        sleep(ms(1)).await;
    }
}

/// Waits for `future`, and fails if it doesn't end.
pub async fn bounded<F: Future>(what: &str, future: F) -> F::Output {
    let Ok(output) = timeout(PATIENCE, future).await else { panic!("it did not end: {what}") };
    output
}

/// A store for many.
pub fn shared(store: impl Store) -> Arc<dyn Store> {
    Arc::new(store)
}

/// Polls `future` once, on behalf of the task that calls.
pub async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx))).await
}
