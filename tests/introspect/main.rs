//! What operators see: the JSON, the live page in a real browser, and the metrics with their dashboard and alerts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod browser;
mod contract;
mod dashboards;
mod http;
mod journal;
mod label_metrics;
#[path = "../handle/moody.rs"]
#[allow(dead_code, reason = "here it has a handle of another kind")]
mod moody;
mod npm;
mod openapi;
mod page;
mod statuses;
mod support;
mod waiters;
