use std::sync::Arc;

use tokio::{runtime, time::timeout};
use tower_admission::{Admission, Reason, Ticket, limit::Fixed};

use super::{ms, panics::no_recorder};

fn full() -> Admission {
    Admission::builder().limit(Fixed::new(1)).queue(10).max_wait(ms(20)).build().unwrap()
}

/// Waits for a slot that never comes free; the outer bound is far beyond the wait.
async fn wait(admission: &Admission) -> Option<Reason> {
    let answer = timeout(ms(20_000), admission.admit(Ticket::new())).await.ok()?;
    answer.err().map(|rejection| rejection.reason())
}

#[tokio::test]
async fn a_recorder_that_panics_does_not_keep_waits_from_ending() {
    let recorder = no_recorder();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let admission = full();
    let _held = admission.try_admit(Ticket::new()).unwrap();
    for _ in 0..3 {
        assert_eq!(wait(&admission).await, Some(Reason::QueueTimeout));
    }
    assert!(admission.warnings().iter().any(|warning| warning.contains("recorder")), "{:?}", admission.warnings());
}

#[test]
fn a_runtime_without_timers_does_not_spoil_the_next_one() {
    let admission = Arc::new(full());
    let _held = admission.try_admit(Ticket::new()).unwrap();
    runtime::Builder::new_current_thread().build().unwrap().block_on(async {
        for _ in 0..3 {
            assert!(admission.try_admit(Ticket::new()).is_err());
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(admission.warnings().len(), 1, "{:?}", admission.warnings());
    for _ in 0..3 {
        let with_timers = runtime::Builder::new_current_thread().enable_time().build().unwrap();
        assert_eq!(with_timers.block_on(wait(&admission)), Some(Reason::QueueTimeout));
    }
}
