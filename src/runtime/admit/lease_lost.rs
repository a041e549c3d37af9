//! Telling holders that others may run in their place.

use crate::store::LossSignal;

/// Tells whether the store has taken back what a request holds of a rule that all instances share, while its work goes on:
/// this process was stopped for too long, or the store lost its data.
///
/// The layers put one into the extensions of each request that holds something of such a rule. Others may run in its place,
/// so work that must not run twice should stop.
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

    /// Whether it has.
    pub fn is_lost(&self) -> bool {
        self.0.happened()
    }

    /// Waits until it has.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub async fn wait(&self) {
        self.0.wait().await;
    }
}
