//! The glue: what takes the place of a queue written by hand.
//!
//! A search asks for a permit before its task is spawned. The permit moves into the task, so that a caller who leaves
//! does not free the slot while the search goes on. The end of the search is told, so that the limit can learn from it.

use std::time::Duration;

use tower_admission::{Admission, BuildError, Outcome, Permit, Ticket, limit::Fixed};

/// The same bounds as the queue has, and a wait that leaves callers the time of a search.
pub(crate) fn fixed(
    at_once: usize,
    places: usize,
    patience: Duration,
    search: Duration,
) -> Result<Admission, BuildError> {
    Admission::builder().limit(Fixed::new(at_once)).queue(places).max_wait(patience.saturating_sub(search * 2)).build()
}

/// How long callers wait, and nothing else.
pub(crate) fn patience(patience: Duration) -> Result<Admission, BuildError> {
    Admission::builder().patience(patience).build()
}

/// How long callers wait, and how many searches the cores can run.
pub(crate) fn best(at_once: usize, patience: Duration) -> Result<Admission, BuildError> {
    Admission::builder().patience(patience).limit(Fixed::new(at_once)).build()
}

/// Waits for a slot; `None` for a search that is refused.
pub(crate) async fn enter(admission: &Admission) -> Option<Permit> {
    admission.admit(Ticket::new()).await.ok()
}

/// Gives the slot back.
pub(crate) fn end(permit: Permit) {
    permit.finish(Outcome::Success);
}
