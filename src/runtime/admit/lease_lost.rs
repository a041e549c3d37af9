//! Telling holders that other requests may run in their place.

use crate::store::LossSignal;

/// Tells whether the store has taken back a request's lease of a rule that all instances share, while its work goes on:
/// this process was stopped for too long, or the store lost its data.
///
/// The layers put one into the extensions of each request with such a lease. Other requests may run in its place, so
/// work that must not run twice should stop.
///
/// ```
/// use axum::Extension;
/// use tower_admission::permit::LeaseLost;
///
/// async fn report(lease: Option<Extension<LeaseLost>>) -> &'static str {
///     let lost = async {
///         match &lease {
///             Some(lease) => lease.wait().await,
///             None => std::future::pending().await,
///         }
///     };
///     tokio::select! {
///         () = lost => "gave up",
///         () = std::future::ready(()) => "done",       // the work
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct LeaseLost(LossSignal);

impl LeaseLost {
    pub(super) const fn new(signal: LossSignal) -> Self {
        Self(signal)
    }

    /// Whether the lease is lost.
    pub fn is_lost(&self) -> bool {
        self.0.happened()
    }

    /// Waits until the lease is lost.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub async fn wait(&self) {
        self.0.wait().await;
    }
}
