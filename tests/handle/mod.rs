//! The handle without tower: waiting, cancelling, time, modes, metrics.

mod abandoned;
mod changes;
mod closing;
#[cfg(feature = "contract")]
mod contract;
mod crowds;
mod driver;
mod estimates;
mod expired_slots;
mod far_store;
mod grown;
mod keys;
mod labels;
mod metrics;
mod modes;
mod names;
mod namespaces;
mod outage;
mod panics;
mod patience;
mod reserved;
mod room;
mod rules;
mod runtimes;
mod shadow;
mod timed_out;
mod told;
mod waiting;
mod warnings;
#[cfg(feature = "config")]
mod watch;

use admission_testkit::ms;
use futures_util::FutureExt;
use tower_admission::{Admission, Permit, Rejection, permit::Admit, snapshot::Snapshot};

/// Polls once without a real waker.
fn poll_once(admit: &mut Admit) -> Option<Result<Permit, Rejection>> {
    admit.now_or_never()
}

/// Asserts that nobody runs or waits and that everybody who arrived is accounted for.
fn assert_at_rest(admission: &Admission, arrived: u64) -> Snapshot {
    let snapshot = admission.snapshot();
    assert_eq!((snapshot.in_flight, snapshot.waiting, snapshot.at_gate), (0, 0, 0), "{snapshot:#?}");
    let left: u64 = snapshot.partitions.iter().map(|partition| partition.cancelled_waiting).sum();
    assert_eq!(snapshot.admitted() + snapshot.rejected() + left, arrived, "{snapshot:#?}");
    snapshot
}
