//! What goes on beside requests: timers, metrics and traces.

mod driver;
mod metrics;
mod trace;

pub(in crate::runtime) use self::{
    driver::{Drivers, Schedule},
    metrics::Recorder,
    trace::{Since, Told, admitted, rejected, store_changed},
};
