//! What goes on beside requests: timers, metrics and traces.

mod driver;
mod metrics;
mod publish;
mod trace;

pub(in crate::runtime) use self::metrics::Recorder;
pub(in crate::runtime) use self::trace::{LastReported, Since, admitted, rejected, store_changed};
