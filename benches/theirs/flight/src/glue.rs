//! What it takes to put admission control before a server of tonic, such as one of Arrow Flight: the layer of
//! [`front`], as in `Server::builder().layer(front(…)?)`.
//!
//! A call that is refused gets the status `RESOURCE_EXHAUSTED`, with the time to come back. A stream holds its slot
//! until its last batch was sent, or until its reader leaves.

use std::time::Duration;

use tower_admission::{
    Admission, AdmissionLayer, BuildError,
    limit::Fixed,
    policy::{Policy, SampleAt},
};

/// The set-up of the README: callers wait so long, and all else follows.
pub(crate) fn front(patience: Duration) -> Result<AdmissionLayer, BuildError> {
    Ok(AdmissionLayer::new(&Admission::builder().patience(patience).build()?))
}

/// The same, and the limit is learned from whole streams rather than from their heads.
pub(crate) fn bodies(patience: Duration) -> Result<AdmissionLayer, BuildError> {
    Ok(front(patience)?.policy(Policy::new().sample_at(SampleAt::BodyEnd)))
}

/// A limit set by hand, that keeps the slots busy, and a short wait, which leaves a stream its time.
pub(crate) fn best(patience: Duration, limit: usize, wait: Duration) -> Result<AdmissionLayer, BuildError> {
    let builder = Admission::builder().patience(patience).limit(Fixed::new(limit)).max_wait(wait);
    Ok(AdmissionLayer::new(&builder.build()?))
}
