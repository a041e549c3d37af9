//! The atomics of the quiet path, in one place: its models put others here.

pub(super) use std::sync::atomic::{AtomicU64, Ordering};
