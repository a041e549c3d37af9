//! What a request carries through the service, and what its handler is told.

use std::sync::Arc;

use http::{Extensions, Response, StatusCode};
use http_body::Body;

use super::{
    HttpProtocol, Policy, ReleaseAt, SampleAt,
    assess::judge,
    body::Guard,
    head::{GRPC_STATUS, is_grpc},
};
use crate::{
    outcome::Outcome,
    runtime::{AsShared, SlotGuard},
};

/// What a request carries through the service.
pub(super) struct RequestContext {
    /// `None` while the request waits, and for exempt requests.
    pub(super) permit: Option<SlotGuard<Arc<HttpProtocol>>>,
    pub(super) policy: Policy,
    pub(super) is_connect: bool,
}

impl RequestContext {
    /// Learns what the head of the response says. Returns what is left to do when the body ends: nothing, if the body
    /// has ended already or is never read.
    pub(super) fn watch<B: Body>(mut self, response: &Response<B>) -> Option<Guard> {
        if let Some(own) = response.extensions().get::<Policy>() {
            self.policy = own.or(self.policy);
        }
        let policy = self.policy;
        // Still here while the response is judged: that is foreign code.
        let outcome = policy.learned(judge(&*self.permit.as_ref()?.handle().assess, response));
        let mut permit = self.permit.take()?;
        let upgraded =
            response.status() == StatusCode::SWITCHING_PROTOCOLS || (self.is_connect && response.status().is_success());
        if upgraded || policy.release_at == Some(ReleaseAt::ResponseHead) || response.body().is_end_stream() {
            permit.finish(outcome);
            return None;
        }
        if policy.sample_at != Some(SampleAt::BodyEnd) {
            permit.observe(outcome);
        }
        // Trailers count where the head has not said it all; gRPC says it in the head only if there is no message.
        let has_trailers = policy.sample_at != Some(SampleAt::Never)
            && outcome != Outcome::Overload
            && is_grpc(response.headers())
            && !response.headers().contains_key(&GRPC_STATUS);
        Some(Guard::new(permit, outcome, has_trailers))
    }
}

/// A request that ends without a head: its client left, or the service failed.
impl Drop for RequestContext {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            permit.abandon(|outcome| self.policy.learned(outcome));
        }
    }
}

/// Puts into a request's extensions what its handler may want to know of its permit.
pub(super) fn tell_holder<H: AsShared>(permit: &SlotGuard<H>, extensions: &mut Extensions) {
    if let Some(overdue) = permit.watch_time() {
        extensions.insert(overdue);
    }
    if let Some(lease) = permit.watch_lease() {
        extensions.insert(lease);
    }
}
