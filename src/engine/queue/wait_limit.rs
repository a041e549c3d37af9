//! How long a wait may last, by the discipline.

use std::time::Duration;

use super::WaitQueue;
use crate::{
    engine::{ids::Key, plan::Discipline, tokens::Stage},
    time::Timestamp,
};

impl WaitQueue {
    /// Begins the wait of a request that stands in line or at the gate now.
    pub(super) fn begin_wait(&mut self, now: Timestamp, key: Key, stage: Stage, own: Option<Duration>) {
        let wait = if stage == Stage::Line { self.wait_limit(now) } else { self.gate.wait };
        let waiter = self.flows.get_mut(key);
        let ends = wait.map(|wait| now.after(wait)).into_iter().chain(own.map(|wait| waiter.since.after(wait)));
        waiter.deadline = ends.min().unwrap_or(Timestamp::NEVER).min(waiter.caller_deadline);
        self.deadlines.set(key.index, waiter.deadline);
    }

    /// Returns how long a waiter that joins the line now may wait there.
    fn wait_limit(&mut self, now: Timestamp) -> Option<Duration> {
        match self.discipline {
            Discipline::BurstCredit { longest, standing } => {
                let bound = self.allowance.wait(now, longest, standing);
                Some(self.line.wait.map_or(bound, |wait| wait.min(bound)))
            }
            Discipline::AdaptiveLifo { interval, short_wait } => {
                let bound = if self.is_backed_up(now) { short_wait } else { interval };
                Some(self.line.wait.map_or(bound, |wait| wait.min(bound)))
            }
            Discipline::Fair | Discipline::Fifo => self.line.wait,
        }
    }

    /// Whether a request has been in line for so long that the newest go first.
    pub(crate) fn is_backed_up(&self, now: Timestamp) -> bool {
        match self.discipline {
            Discipline::AdaptiveLifo { interval, .. } => self.in_line > 0 && now.since(self.last_empty) > interval,
            Discipline::BurstCredit { .. } | Discipline::Fair | Discipline::Fifo => false,
        }
    }
}
