//! Calls of foreign code: wakers, recorders, subscribers, stores.
//!
//! A panic in them is not the business of the request that happens to call them. Many of these calls come from a `Drop`, where a second
//! panic would end the process. Clocks are shielded where they are [read](crate::clock::TimeSource), laws in the engine.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    task::Waker,
};

/// Calls foreign code; `None` if it panicked.
pub(in crate::runtime) fn shielded<R>(call: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}

/// Wakes a waker. Its panic must not keep the wakers after it from being woken.
pub(in crate::runtime) fn wake(waker: Waker) {
    let _ = shielded(|| waker.wake());
}

/// Drops a foreign value, if there is one.
#[inline]
pub(in crate::runtime) fn discard<T>(value: Option<T>) {
    if value.is_some() {
        let _ = shielded(|| drop(value));
    }
}
