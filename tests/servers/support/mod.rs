//! What all tests share: bounded waits, and what must hold when nothing is left to do.

pub(crate) mod client;
pub(crate) mod ends;
pub(crate) mod grpc;
pub(crate) mod probe;
pub(crate) mod server;

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout};
use tower_admission::{Admission, AdmissionBuilder, limit::Fixed, snapshot::Snapshot};

use self::probe::Probe;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Two may run and all others wait.
pub(crate) fn two_run() -> AdmissionBuilder {
    Admission::builder().limit(Fixed::new(2)).queue(20_000)
}

/// Waits until `condition` holds, and fails if it doesn't come to that.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "it did not come to pass that {what}");
        sleep(Duration::from_millis(1)).await;
    }
}

/// Waits for `future`, and fails if it doesn't end.
pub(crate) async fn bounded<F: Future>(what: &str, future: F) -> F::Output {
    let Ok(output) = timeout(PATIENCE, future).await else { panic!("it did not end: {what}") };
    output
}

/// Polls `future` once, on behalf of the task that calls.
pub(crate) async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx))).await
}

/// Waits until nobody runs or waits any more; then each that arrived must have been admitted, rejected or have left.
pub(crate) async fn at_rest(admission: &Admission, probe: &Probe) {
    eventually("nobody runs or waits", || is_idle(&admission.snapshot())).await;
    if let Err(difference) = conserved(&admission.snapshot(), probe) {
        panic!("{difference}");
    }
}

/// What [`at_rest`] waits for.
pub(crate) fn is_idle(snapshot: &Snapshot) -> bool {
    snapshot.in_flight + snapshot.waiting + snapshot.at_gate == 0
}

/// What [`at_rest`] checks then.
pub(crate) fn conserved(snapshot: &Snapshot, probe: &Probe) -> Result<(), String> {
    let cancelled: u64 = snapshot.partitions.iter().map(|partition| partition.cancelled_waiting).sum();
    let accounted = snapshot.admitted() + snapshot.rejected() + cancelled;
    if accounted != probe.arrived() {
        return Err(format!("{} arrived and {accounted} are accounted for: {snapshot:#?}", probe.arrived()));
    }
    let ended: u64 = snapshot.partitions.iter().map(|it| it.successes + it.overloads + it.cancelled + it.ignored).sum();
    if ended != snapshot.admitted() {
        return Err(format!("{} were admitted and {ended} ended: {snapshot:#?}", snapshot.admitted()));
    }
    Ok(())
}
