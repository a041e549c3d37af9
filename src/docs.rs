//! Pages that belong to no single item.

#[doc = include_str!("docs/architecture.md")]
pub mod architecture {}

#[doc = include_str!("docs/guarantees.md")]
pub mod guarantees {}

#[doc = include_str!("docs/metrics.md")]
pub mod metrics {}

#[doc = include_str!("docs/migrating.md")]
pub mod migrating {}

#[doc = include_str!("docs/placement.md")]
pub mod placement {}

#[doc = include_str!("docs/tuning.md")]
///
#[doc = include_str!("docs/two-point.svg")]
pub mod tuning {}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
