//! Tests against other programs, in one of their own: a part of them is `cargo test -p admission-e2e --test e2e redis`.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test fails by panicking")]

mod clients;
mod compiler;
mod config;
mod drill;
mod flood;
mod introspect;
mod public_api;
mod redis;
#[cfg(target_os = "linux")]
mod soak;
