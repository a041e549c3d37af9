//! How long somebody may wait in line, by the discipline.

use std::time::Duration;

use crate::engine::{Engine, plan::Discipline};
use crate::time::Timestamp;

impl Engine {
    /// How long one who joins the line now may wait there.
    pub(crate) fn wait_in_line(&mut self, now: Timestamp) -> Option<Duration> {
        match self.queue.discipline {
            Discipline::BurstCredit { longest, standing } => {
                let bound = self.queue.credit.wait(now, longest, standing);
                Some(self.queue.line.wait.map_or(bound, |wait| wait.min(bound)))
            }
            Discipline::AdaptiveLifo { interval, short_wait } => {
                let bound = if self.is_backed_up(now) { short_wait } else { interval };
                Some(self.queue.line.wait.map_or(bound, |wait| wait.min(bound)))
            }
            Discipline::Fair | Discipline::Fifo => self.queue.line.wait,
        }
    }

    /// Whether the line has had somebody in it for so long that the newest go first.
    pub(crate) fn is_backed_up(&self, now: Timestamp) -> bool {
        match self.queue.discipline {
            Discipline::AdaptiveLifo { interval, .. } => {
                self.queue.in_line > 0 && now.since(self.queue.last_empty) > interval
            }
            Discipline::BurstCredit { .. } | Discipline::Fair | Discipline::Fifo => false,
        }
    }
}
