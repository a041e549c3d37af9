//! `ServiceBuilder::new().admission(&admission)`.

use tower::{ServiceBuilder, layer::util::Stack};

use super::AdmissionLayer;
use crate::runtime::Admission;

/// Adds the layer to a [`ServiceBuilder`].
///
/// ```
/// use tower::ServiceBuilder;
/// use tower_admission::{Admission, ServiceBuilderExt as _};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let admission = Admission::builder().build()?;
/// let service = ServiceBuilder::new().admission(&admission).service_fn(
///     async |_: http::Request<String>| Ok::<_, std::convert::Infallible>(http::Response::new(String::new())),
/// );
/// # let _: &dyn std::any::Any = &service;
/// # Ok(())
/// # }
/// ```
pub trait ServiceBuilderExt<L>: sealed::Sealed {
    /// Adds an [`AdmissionLayer`] over `admission` with its defaults. For other settings give an [`AdmissionLayer`] to
    /// [`layer`](ServiceBuilder::layer).
    fn admission(self, admission: &Admission) -> ServiceBuilder<Stack<AdmissionLayer, L>>;
}

impl<L> ServiceBuilderExt<L> for ServiceBuilder<L> {
    fn admission(self, admission: &Admission) -> ServiceBuilder<Stack<AdmissionLayer, L>> {
        self.layer(AdmissionLayer::new(admission))
    }
}

mod sealed {
    #[expect(unnameable_types, reason = "this is what seals the trait")]
    pub trait Sealed {}
    impl<L> Sealed for tower::ServiceBuilder<L> {}
}
