//! Locking, with poison that means nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A panic in foreign code under the lock leaves the engine consistent: the engine catches those of laws, and clocks
/// are read before it changes anything. So poison means nothing here.
pub(in crate::runtime) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
