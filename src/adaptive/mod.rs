//! [`AdaptiveConcurrencyLayer`]: a learned limit that sheds all further requests.
//!
//! A preset over [`AdmissionLayer`], not a second implementation.

use tower_layer::Layer;

use crate::{
    BuildError,
    admission::{AdmissionLayer, AdmissionService},
    engine::limit::Limit,
    runtime::{Admission, AdmissionBuilder},
};

/// Learns how many requests the service can run at once, and sheds all further requests.
///
/// No request waits, unless it is within the share of a partition whose slots others use. Where a queue is wanted, give the law to [`Admission::builder`] and use an [`AdmissionLayer`]. The
/// state is made here, once, and shared by everything the layer is applied to.
///
/// ```
/// # use std::time::Duration;
/// use tower_admission::{AdaptiveConcurrencyLayer, classify::by_header, limit::Aimd, percent};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // One limit for all.
/// let layer = AdaptiveConcurrencyLayer::new(Aimd::new(Duration::from_millis(250)))?;
///
/// // The limit divided among groups of callers.
/// let layer = AdaptiveConcurrencyLayer::with(Aimd::new(Duration::from_millis(250)), |admission| {
///     admission.name("search").partition("dashboards", percent(50)).partition("reports", percent(20))
/// })?
/// .map(|layer| layer.classify(by_header("x-workload")));
/// println!("{:?}", layer.handle().snapshot());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AdaptiveConcurrencyLayer {
    layer: AdmissionLayer,
    handle: Admission,
}

impl AdaptiveConcurrencyLayer {
    /// A layer that sheds beyond the limit that `law` learns.
    ///
    /// # Errors
    ///
    /// Names every setting of the law that can't be used.
    pub fn new(law: impl Into<Limit>) -> Result<Self, BuildError> {
        Self::with(law, |admission| admission)
    }

    /// A layer like [`new`](Self::new) with further settings: partitions, a name, a clock.
    ///
    /// # Errors
    ///
    /// Names every setting that can't be used.
    pub fn with(
        law: impl Into<Limit>,
        settings: impl FnOnce(AdmissionBuilder) -> AdmissionBuilder,
    ) -> Result<Self, BuildError> {
        let handle = settings(Admission::builder().limit(law).shed()).build()?;
        Ok(Self::from_handle(&handle))
    }

    /// A layer over an existing handle, whose settings decide which requests wait and which are shed.
    pub fn from_handle(handle: &Admission) -> Self {
        Self { layer: AdmissionLayer::new(handle), handle: handle.clone() }
    }

    /// Changes how requests and responses are read and answered: everything that [`AdmissionLayer`] offers.
    #[must_use]
    pub fn map(self, change: impl FnOnce(AdmissionLayer) -> AdmissionLayer) -> Self {
        Self { layer: change(self.layer), handle: self.handle }
    }

    /// The handle: snapshots, metrics, mode.
    pub const fn handle(&self) -> &Admission {
        &self.handle
    }
}

impl<S> Layer<S> for AdaptiveConcurrencyLayer {
    type Service = AdmissionService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        self.layer.layer(inner)
    }
}
