//! What operators see: the JSON, the live page in a real browser, and the metrics with their dashboard and alerts.

mod alerts;
pub(crate) mod browser;
mod contract;
mod crowd;
mod dashboards;
mod described;
mod foremost;
mod frozen;
mod guarded;
mod health;
mod http;
mod journal;
mod label_metrics;
mod moment;
pub(crate) mod npm;
mod openapi;
mod otel;
mod page;
mod past;
pub(crate) mod process;
mod stage;
mod statuses;
mod stored;
mod strange;
pub(crate) mod support;
mod truth;
mod waiters;
