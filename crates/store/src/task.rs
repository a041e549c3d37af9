//! Locks that outlive a panic, and tasks behind what users hold.

use std::{
    future::Future,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::{runtime::Handle, task::JoinHandle};

/// Locks what no panic leaves half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A task that runs while this lives: started where it is first needed, and again where its runtime has ended.
#[derive(Debug, Default)]
pub(crate) struct Task(Mutex<Option<JoinHandle<()>>>);

impl Task {
    /// Starts the task on the current runtime unless it runs. Returns whether it runs now.
    pub(crate) fn start<F: Future<Output = ()> + Send + 'static>(&self, run: impl FnOnce() -> F) -> bool {
        let mut task = lock(&self.0);
        if task.as_ref().is_none_or(JoinHandle::is_finished)
            && let Ok(runtime) = Handle::try_current()
        {
            *task = Some(runtime.spawn(run()));
        }
        task.as_ref().is_some_and(|task| !task.is_finished())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(task) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}
