//! The glue: a layer on the router, and nothing in the handlers.
//!
//! The layer is added after the routes, since axum does not apply it to routes that are added later. All connections
//! share the limit, which lives in the handle.

use std::time::Duration;

use axum::{Router, error_handling::HandleErrorLayer, http::StatusCode};
use tower::{ServiceBuilder, limit::GlobalConcurrencyLimitLayer, load_shed::LoadShedLayer};
use tower_admission::{Admission, AdmissionLayer, BuildError, limit::Fixed};

/// How long callers wait, and nothing else. The limit is learned.
pub fn patience(routes: Router, patience: Duration) -> Result<Router, BuildError> {
    let admission = Admission::builder().patience(patience).build()?;
    Ok(routes.layer(AdmissionLayer::new(&admission)))
}

/// How long callers wait, and a slot for each connection of the pool: with more, requests wait for a connection where
/// no queue is watched.
pub fn best(routes: Router, patience: Duration, connections: usize) -> Result<Router, BuildError> {
    let admission = Admission::builder().patience(patience).limit(Fixed::new(connections)).build()?;
    Ok(routes.layer(AdmissionLayer::new(&admission)))
}

/// The same without this crate: a fixed limit of tower, and a handler for its error.
pub fn tower(routes: Router, at_once: usize) -> Router {
    let refuse = HandleErrorLayer::new(async |_| StatusCode::SERVICE_UNAVAILABLE);
    let limit = GlobalConcurrencyLimitLayer::new(at_once);
    routes.layer(ServiceBuilder::new().layer(refuse).layer(LoadShedLayer::new()).layer(limit))
}
