//! The command `admission`: real processes, and a real server for those that ask one.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod history;
mod incident;
mod journal;
mod labels;
mod offline;
mod page;
mod status;
mod store;
mod support;
#[cfg(target_os = "linux")]
mod terminal;
mod trouble;
mod watch;
mod what_if;
