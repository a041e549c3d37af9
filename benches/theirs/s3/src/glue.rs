//! The glue: a layer around their service, where the server hands it to hyper.
//!
//! A slot is held until the body of the answer has ended, or until the caller is gone. So a slow reader holds a slot,
//! and a caller that hangs up gives it back.

use std::{convert::Infallible, time::Duration};

use http::{Request, Response, StatusCode};
use http_body_util::{Either, Empty};
use tower::{BoxError, Service, ServiceBuilder, limit::GlobalConcurrencyLimitLayer, load_shed::LoadShedLayer};
use tower_admission::{
    Admission, AdmissionLayer, BuildError,
    limit::Fixed,
    policy::{Abandoned, Policy, SampleAt},
};

/// How long callers wait, and nothing else. The limit is learned.
pub(crate) fn patience(patience: Duration) -> Result<(Admission, AdmissionLayer), BuildError> {
    let admission = Admission::builder().patience(patience).build()?;
    let layer = AdmissionLayer::new(&admission);
    Ok((admission, layer))
}

/// The same for what is known of this server. It is busy with bodies, of which its heads say little. It stops where a
/// caller is gone.
pub(crate) fn bodies(patience: Duration) -> Result<(Admission, AdmissionLayer), BuildError> {
    let (admission, layer) = self::patience(patience)?;
    let policy = Policy::new().sample_at(SampleAt::BodyEnd).abandoned(Abandoned::Stops);
    let layer = layer.policy(policy).max_learned_upload(u64::MAX);
    Ok((admission, layer))
}

/// How long callers wait, and how many bodies at once keep the server busy, with some for slow readers.
pub(crate) fn best(patience: Duration, at_once: usize) -> Result<(Admission, AdmissionLayer), BuildError> {
    let admission = Admission::builder().patience(patience).limit(Fixed::new(at_once)).build()?;
    let layer = AdmissionLayer::new(&admission).policy(Policy::new().abandoned(Abandoned::Stops));
    Ok((admission, layer))
}

/// The same without this crate: a fixed limit of tower, which is free again at the head, and an answer for its error.
pub(crate) fn tower<S, R, B>(
    service: S,
    at_once: usize,
) -> impl Service<Request<R>, Response = Response<Either<B, Empty<B::Data>>>, Error = BoxError, Future: Send> + Clone
where
    S: Service<Request<R>, Response = Response<B>, Error = Infallible, Future: Send> + Clone,
    B: http_body::Body,
{
    ServiceBuilder::new()
        .map_result(|result: Result<Response<B>, BoxError>| {
            Ok(result.map(|response| response.map(Either::Left)).unwrap_or_else(|_| {
                let mut refusal = Response::new(Either::Right(Empty::new()));
                *refusal.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                refusal
            }))
        })
        .layer(LoadShedLayer::new())
        .layer(GlobalConcurrencyLimitLayer::new(at_once))
        .service(service)
}
