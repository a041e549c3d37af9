//! What goes on beside requests: timers, metrics and traces.

mod driver;
#[cfg(feature = "introspect")]
mod history;
mod metrics;
mod publish;
#[cfg(feature = "introspect")]
mod sampling;
mod trace;

#[cfg(feature = "introspect")]
pub(crate) use self::history::{Frame, History, HistoryView, Row};
pub(in crate::runtime) use self::metrics::Recorder;
pub(in crate::runtime) use self::trace::{LastReported, Since, admitted, rejected, store_changed};
