//! Pages that belong to no single item. `links.txt` says what their links are here; in the repository the end of each page does.

#[doc = concat!(include_str!("docs/links.txt"), include_str!("docs/architecture.md"))]
pub mod architecture {}

#[doc = concat!(include_str!("docs/links.txt"), include_str!("docs/cli.md"))]
pub mod cli {}

#[cfg(feature = "config")]
#[doc = concat!(include_str!("docs/links.txt"), include_str!("docs/configuration.md"))]
pub mod configuration {}

#[doc = concat!(include_str!("docs/links.txt"), include_str!("docs/guarantees.md"))]
pub mod guarantees {}

#[doc = concat!(include_str!("docs/links.txt"), include_str!("docs/introspection.md"))]
pub mod introspection {}

#[doc = concat!(include_str!("docs/links.txt"), include_str!("docs/kubernetes.md"))]
pub mod kubernetes {}

#[doc = concat!(include_str!("docs/links.txt"), include_str!("docs/metrics.md"))]
pub mod metrics {}

#[doc = concat!(include_str!("docs/links.txt"), include_str!("docs/migrating.md"))]
pub mod migrating {}

#[doc = concat!(include_str!("docs/links.txt"), include_str!("docs/placement.md"))]
pub mod placement {}

#[doc = concat!(include_str!("docs/links.txt"), include_str!("docs/runbook.md"))]
pub mod runbook {}

#[doc = concat!(include_str!("docs/links.txt"), include_str!("docs/servers.md"))]
pub mod servers {}

#[doc = concat!(include_str!("docs/links.txt"), include_str!("docs/shared-limits.md"))]
pub mod shared_limits {}

#[doc = concat!(include_str!("docs/links.txt"), include_str!("docs/tenants.md"))]
pub mod tenants {}

#[doc = concat!(include_str!("docs/links.txt"), include_str!("docs/tuning.md"))]
///
/// ## Too much for a crowded server
///
/// From 30 s on the server gets 1.5 times its capacity, which is greatest with 32 requests at once. *AIMD* admits more
/// and more, because answers still come within its threshold, and the crowd slows all of them down. *Vegas* ends a
/// little below the best limit. *Gradient2* stays near it, for a minute. *Gradient* had a very high limit before, so
/// the crowd is in flight when the overload begins; the notch is a probe. *TwoPoint* stays near the best limit.
///
#[doc = include_str!("docs/overload-shared.svg")]
///
/// ## Slower answers, same capacity
///
/// From 30 to 90 s answers take 300 ms longer, because of a slow dependency of the server. Nothing is overloaded; the
/// right limit is four times as high. *AIMD* gets there by one per second, as long as its threshold is above the new
/// latency. *Vegas* and *Gradient2* take the delay for a queue and reject requests that they could have served, down to
/// a quarter. *Gradient* does so until it measures its minimum again. *TwoPoint* tries whether fewer requests would be
/// faster, finds that they are not, and grows.
///
#[doc = include_str!("docs/delay-pool.svg")]
///
/// ## Half an hour of overload
///
/// Twice what a crowded server can do. *Gradient2* compares with its own long-term average, which by and by becomes
/// that of the overload: the limit climbs, and at the end hardly any request is answered in time. *AIMD* rides at its
/// threshold. *Gradient* pays for its probes. *Vegas* and *TwoPoint* hold.
///
#[doc = include_str!("docs/long-overload.svg")]
///
/// ## TwoPoint in a step
///
/// To three times of what a crowded server can do, and back. The notches in the limit are probes:
///
#[doc = include_str!("docs/two-point.svg")]
pub mod tuning {}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
