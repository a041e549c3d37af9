//! Waiters that are tasks of a runtime, as those of a server are.

use tokio::{
    runtime::{Builder, Runtime},
    task::{JoinHandle, yield_now},
};

use crate::contestants::Line;

/// A runtime with one thread.
#[must_use]
pub fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime")
}

/// A line with somebody who has the slot, and with tasks that wait for it.
pub struct Tasks<'l, L: Line> {
    line: &'l L,
    held: Option<L::Permit>,
    tasks: Vec<JoinHandle<()>>,
}

impl<'l, L: Line> Tasks<'l, L> {
    pub async fn new(line: &'l L, count: usize) -> Self {
        let held = line.wait(0).await.expect("the slot is free");
        Self { line, held: Some(held), tasks: Vec::with_capacity(count) }
    }

    /// So many tasks join the line.
    pub async fn join(&mut self, count: usize) {
        for number in 0..count {
            let wait = self.line.wait(number);
            self.tasks.push(tokio::spawn(async move { drop(wait.await) }));
        }
        // Each of them is polled once before this is polled again.
        yield_now().await;
        yield_now().await;
    }

    /// The slot goes from one to the next until all had it.
    pub async fn serve(&mut self) {
        self.held = None;
        for task in self.tasks.drain(..) {
            task.await.expect("it was served");
        }
        self.held = Some(self.line.wait(0).await.expect("the slot is free again"));
    }

    /// All are aborted at once.
    pub async fn leave(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        for task in self.tasks.drain(..) {
            task.await.expect_err("it was aborted");
        }
    }
}
