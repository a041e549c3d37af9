//! What a server is likely to have without this crate: a fixed number of calls at once, and an error for all others.

use std::sync::Arc;

use jsonrpsee::{
    server::{
        MethodResponse,
        middleware::rpc::{Batch, BatchEntry, BatchEntryErr, Notification, Request, RpcServiceT},
    },
    types::{ErrorCode, ErrorObjectOwned},
};
use tokio::sync::Semaphore;

/// Calls that take one of so many permits, or are refused at once.
#[derive(Clone, Debug)]
pub(crate) struct ByHand<S> {
    pub(crate) inner: S,
    pub(crate) free: Arc<Semaphore>,
}

impl<S> RpcServiceT for ByHand<S>
where
    S: RpcServiceT<MethodResponse = MethodResponse> + Clone + Send + Sync + 'static,
{
    type MethodResponse = MethodResponse;
    type BatchResponse = S::BatchResponse;
    type NotificationResponse = S::NotificationResponse;

    fn call<'a>(&self, request: Request<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let Self { inner, free } = self.clone();
        async move {
            match free.try_acquire() {
                Ok(_permit) => inner.call(request).await,
                Err(_) => MethodResponse::error(request.id, busy()),
            }
        }
    }

    fn batch<'a>(&self, batch: Batch<'a>) -> impl Future<Output = Self::BatchResponse> + Send + 'a {
        let Self { inner, free } = self.clone();
        async move {
            let Ok(_permit) = free.try_acquire() else {
                let entries = batch.into_iter().map(|entry| match entry {
                    Ok(BatchEntry::Call(call)) => Err(BatchEntryErr::new(call.id, busy())),
                    other => other,
                });
                return inner.batch(Batch::from(entries.collect())).await;
            };
            inner.batch(batch).await
        }
    }

    fn notification<'a>(&self, it: Notification<'a>) -> impl Future<Output = Self::NotificationResponse> + Send + 'a {
        self.inner.notification(it)
    }
}

fn busy() -> ErrorObjectOwned {
    ErrorCode::ServerIsBusy.into()
}
