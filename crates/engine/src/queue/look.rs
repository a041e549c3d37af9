//! What is asked about runs, and about the waiters of a label.

use super::WaitQueue;
use crate::{
    ids::{FlowKey, LabelId, RunId},
    tokens::Waiter,
};

impl WaitQueue {
    /// Returns how many requests of a run wait.
    pub(crate) fn of_run(&self, run: RunId) -> usize {
        self.runs.waiting(run)
    }

    /// Returns the number of a run of which a request has a place.
    pub(crate) fn find_run(&self, namespace: &str, run: &str) -> RunId {
        self.runs.find(namespace, run)
    }

    /// Returns the name of the run that had this number last.
    pub(crate) fn run_name(&self, run: RunId) -> Option<&str> {
        self.runs.name(run)
    }

    /// Returns the waiters of a label, flow by flow, each with its place in its flow.
    pub(crate) fn all_of(&self, label: LabelId) -> impl Iterator<Item = (usize, &Waiter)> {
        self.flows.all_of(label)
    }

    /// Returns the oldest waiters of a label, one for each of its flows.
    pub(crate) fn oldest_of(&self, label: LabelId) -> impl Iterator<Item = &Waiter> {
        self.flows.oldest_of(label)
    }

    /// Returns how many requests wait in a flow.
    pub(crate) fn count_of(&self, key: FlowKey) -> usize {
        self.flows.count_of(key)
    }
}
