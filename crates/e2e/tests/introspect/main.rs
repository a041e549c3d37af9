//! What operators see: the JSON, the live page in a real browser, and the metrics with their dashboard and alerts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alerts;
mod browser;
mod contract;
mod crowd;
mod dashboards;
mod frozen;
mod guarded;
mod http;
mod journal;
mod label_metrics;
mod npm;
mod openapi;
mod otel;
mod page;
mod past;
#[allow(dead_code, reason = "the suite `drill` uses the rest")]
mod process;
mod stage;
mod statuses;
mod stored;
mod strange;
#[allow(dead_code, reason = "the suite `drill` uses the rest")]
mod support;
mod truth;
mod verdict;
mod waiters;
