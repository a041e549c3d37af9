//! The counter of the processor as the time of a handle.

use std::{
    future::Future,
    num::NonZeroU32,
    task::{Context, Waker},
    time::Duration,
};

use super::Admission;
use crate::{Outcome, Reason, Ticket, limit::Fixed};

const FAR_TOO_LONG: Duration = Duration::from_secs(60);

#[test]
fn a_quiet_handle_lends_and_times_its_requests() {
    let builder = Admission::builder().limit(Fixed::new(8)).shed().time_one_in(NonZeroU32::MIN);
    let admission = builder.processor_clock().build().unwrap();
    let mut lent = 0;
    for _ in 0..200 {
        let permit = admission.try_admit(Ticket::new()).unwrap();
        lent += usize::from(permit.is_lent());
        permit.finish(Outcome::Success);
    }
    assert!(lent > 100, "{lent} of 200");
    assert!(admission.shared.time.origin().is_some(), "no lock is taken for the time");
    let mean = admission.snapshot().mean_hold_seconds;
    assert!(mean > 0.0 && mean < FAR_TOO_LONG.as_secs_f64(), "{mean} s");
}

#[tokio::test]
async fn waits_end_by_time_and_by_a_free_slot() {
    const WAIT: Duration = Duration::from_millis(30);
    let builder = Admission::builder().limit(Fixed::new(1)).queue(1).max_wait(WAIT);
    let admission = builder.processor_clock().build().unwrap();
    let permit = admission.try_admit(Ticket::new()).unwrap();
    let start = tokio::time::Instant::now();
    let answer = tokio::time::timeout(FAR_TOO_LONG, admission.admit(Ticket::new())).await.unwrap();
    let rejection = answer.unwrap_err();
    assert!(matches!(rejection.reason(), Reason::QueueTimeout), "{rejection:?}");
    // The clocks may deviate a little.
    assert!(start.elapsed() > WAIT - WAIT / 10, "{:?}", start.elapsed());
    admission.reload(Admission::builder().limit(Fixed::new(1)).queue(1).max_wait(FAR_TOO_LONG)).unwrap();
    let mut waiting = std::pin::pin!(admission.admit(Ticket::new()));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    permit.finish(Outcome::Success);
    tokio::time::timeout(FAR_TOO_LONG, waiting).await.unwrap().unwrap().finish(Outcome::Success);
}
