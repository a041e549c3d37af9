//! What is asked about jobs, and about the waiters of a label.

use super::WaitQueue;
use crate::engine::{
    ids::{FlowKey, JobId, LabelId},
    tokens::Waiter,
};

impl WaitQueue {
    /// Returns how many requests wait for a job.
    pub(crate) fn of_job(&self, namespace: &str, run: &str) -> usize {
        self.jobs.waiting(namespace, run)
    }

    /// Returns the number of a job for which a request waits.
    pub(crate) fn find_job(&self, namespace: &str, run: &str) -> JobId {
        self.jobs.find(namespace, run)
    }

    /// Returns the name of the job that had this number last.
    pub(crate) fn job_name(&self, job: JobId) -> Option<&str> {
        self.jobs.name(job)
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
