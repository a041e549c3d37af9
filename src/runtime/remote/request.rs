//! One question to the store, and its answer.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use crate::{
    engine::SharedRules,
    store::{self, LeaseDenied},
};

pub(super) type LeaseResult = Result<Box<store::LeaseGuard>, LeaseDenied>;

/// A question to the store.
pub(in crate::runtime) struct RemoteRequest {
    pub(in crate::runtime) rules: Arc<SharedRules>,
    /// In a mutex that is never locked: so this is `Sync` though the future need not be.
    answer: Mutex<Pin<Box<dyn Future<Output = LeaseResult> + Send>>>,
}

impl RemoteRequest {
    pub(super) fn new(rules: Arc<SharedRules>, answer: impl Future<Output = LeaseResult> + Send + 'static) -> Self {
        Self { rules, answer: Mutex::new(Box::pin(answer)) }
    }

    pub(in crate::runtime) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<LeaseResult> {
        self.answer.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).as_mut().poll(cx)
    }
}

impl std::fmt::Debug for RemoteRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteRequest").field("rules", &self.rules).finish_non_exhaustive()
    }
}
