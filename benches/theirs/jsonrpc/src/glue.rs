//! What it takes to put admission control before a server of jsonrpsee.
//!
//! Over HTTP a layer does it: `set_http_middleware(ServiceBuilder::new().layer(AdmissionLayer::new(&admission)))`. Over
//! WebSocket that layer sees only the upgrade, so a middleware of calls takes a permit for each message instead.

use jsonrpsee::{
    server::{
        MethodResponse,
        middleware::rpc::{Batch, BatchEntry, BatchEntryErr, Notification, Request, RpcServiceT},
    },
    types::{ErrorObjectOwned, error::SERVER_IS_BUSY_CODE},
};
use tower_admission::{Admission, Outcome, Rejection, Ticket};

/// Calls that wait for a slot, or are refused, before the service that it is wrapped around.
#[derive(Clone, Debug)]
pub(crate) struct Admitted<S> {
    pub(crate) inner: S,
    pub(crate) admission: Admission,
}

impl<S> RpcServiceT for Admitted<S>
where
    S: RpcServiceT<MethodResponse = MethodResponse> + Clone + Send + Sync + 'static,
{
    type MethodResponse = MethodResponse;
    type BatchResponse = S::BatchResponse;
    type NotificationResponse = S::NotificationResponse;

    fn call<'a>(&self, request: Request<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let Self { inner, admission } = self.clone();
        async move {
            match admission.admit(Ticket::new()).await {
                Ok(permit) => {
                    let response = inner.call(request).await;
                    permit.finish(if response.is_success() { Outcome::Success } else { Outcome::Ignore });
                    response
                }
                Err(rejection) => MethodResponse::error(request.id, refusal(&rejection)),
            }
        }
    }

    /// The server does the calls of a batch one after the other, so a batch needs one slot.
    fn batch<'a>(&self, batch: Batch<'a>) -> impl Future<Output = Self::BatchResponse> + Send + 'a {
        let Self { inner, admission } = self.clone();
        async move {
            match admission.admit(Ticket::new()).await {
                Ok(permit) => {
                    let response = inner.batch(batch).await;
                    permit.finish(Outcome::Success);
                    response
                }
                // Each call gets an answer of its own.
                Err(rejection) => {
                    let entries = batch.into_iter().map(|entry| match entry {
                        Ok(BatchEntry::Call(call)) => Err(BatchEntryErr::new(call.id, refusal(&rejection))),
                        other => other,
                    });
                    inner.batch(Batch::from(entries.collect())).await
                }
            }
        }
    }

    fn notification<'a>(&self, it: Notification<'a>) -> impl Future<Output = Self::NotificationResponse> + Send + 'a {
        self.inner.notification(it)
    }
}

/// "Server is busy", with the milliseconds after which a slot is likely to be free.
fn refusal(rejection: &Rejection) -> ErrorObjectOwned {
    let retry_after = u64::try_from(rejection.retry_after().as_millis()).unwrap_or(u64::MAX);
    ErrorObjectOwned::owned(SERVER_IS_BUSY_CODE, rejection.to_string(), Some([("retry_after_ms", retry_after)]))
}
