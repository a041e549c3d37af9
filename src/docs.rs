//! Pages that belong to no single item.

#[doc = include_str!("docs/architecture.md")]
pub mod architecture {}

#[doc = include_str!("docs/cli.md")]
pub mod cli {}

#[cfg(feature = "config")]
#[doc = include_str!("docs/configuration.md")]
pub mod configuration {}

#[doc = include_str!("docs/guarantees.md")]
pub mod guarantees {}

#[doc = include_str!("docs/introspection.md")]
pub mod introspection {}

#[doc = include_str!("docs/metrics.md")]
pub mod metrics {}

#[doc = include_str!("docs/migrating.md")]
pub mod migrating {}

#[doc = include_str!("docs/placement.md")]
pub mod placement {}

#[doc = include_str!("docs/shared-limits.md")]
pub mod shared_limits {}

#[doc = include_str!("docs/tuning.md")]
///
/// ## Too much for a crowded server
///
/// From 30 s on it gets 1.5 times what it can do, which it does best with 32 requests at once. *AIMD* lets in more and
/// more, for answers still come within its threshold, and the crowd slows all of them down. *Vegas* ends a little below
/// the best limit. *Gradient2* holds near it, for a minute. *Gradient* had no limit to speak of before, so the crowd is in
/// when the overload begins; the notch is a probe. *TwoPoint* stays near the best limit.
///
#[doc = include_str!("docs/overload-shared.svg")]
///
/// ## Slower answers, same capacity
///
/// From 30 to 90 s answers take 300 ms longer, because of something behind the server. Nothing is overloaded; what is
/// needed is a limit four times as high. *AIMD* gets there by one per second, as long as its threshold is above the new
/// latency. *Vegas* and *Gradient2* take the delay for a queue and turn away whom they could have served, down to a
/// quarter. *Gradient* does so until it measures its minimum anew. *TwoPoint* asks whether fewer requests would be faster,
/// sees that they wouldn't be, and grows.
///
#[doc = include_str!("docs/delay-pool.svg")]
///
/// ## Half an hour of overload
///
/// Twice what a crowded server can do. *Gradient2* compares with its own long-term average, which by and by becomes that
/// of the overload: the limit climbs, and at the end next to nobody is answered in time. *AIMD* rides at its threshold.
/// *Gradient* pays for its probes. *Vegas* and *TwoPoint* hold.
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
