//! What all tests share: bounded waits, and what must hold when nothing is left to do.

pub(crate) mod alone;
pub(crate) mod client;
pub(crate) mod ends;
pub(crate) mod frames;
pub(crate) mod grpc;
pub(crate) mod probe;
pub(crate) mod recorder;
pub(crate) mod server;

use std::time::Duration;

pub(crate) use admission_testkit::{bounded, eventually, eventually_async, poll_once};
use tower_admission::{Admission, AdmissionBuilder, limit::Fixed, snapshot::Snapshot};

pub(crate) use self::{
    client::{
        Client, Outgoing,
        Version::{self, H1, H2},
        get_once,
    },
    ends::{Ends, Failure, Script},
    grpc::Greeter,
    probe::{Counting, Probe},
    recorder::OnMetric,
    server::Server,
};

/// Two may run and all others wait.
pub(crate) fn two_run() -> AdmissionBuilder {
    Admission::builder().limit(Fixed::new(2)).queue(20_000).max_wait(Duration::from_secs(600))
}

/// Waits until nobody runs or waits any more; then each that arrived must have been admitted, rejected or have left.
pub(crate) async fn at_rest(admission: &Admission, probe: &Probe) {
    eventually("nobody runs or waits", || is_idle(&admission.snapshot())).await;
    // A request that was slow to say how it ended may have written over another: that is known after a second.
    let is_counted = async {
        while conserved(&admission.snapshot(), probe).is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(3), is_counted).await;
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
