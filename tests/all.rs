//! The tests of the library, in one program: a part of them is `cargo test --all-features --test all servers`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod handle;
mod servers;
mod support;
mod tidy;
#[cfg(feature = "tracing")]
mod tracing;
