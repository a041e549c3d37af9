//! How long somebody may wait in line, by the discipline.

use std::time::Duration;

use super::{Engine, plan::Discipline};
use crate::time::Timestamp;

impl Engine {
    /// How long one who joins the line now may wait there.
    pub(super) fn wait_in_line(&mut self, now: Timestamp) -> Option<Duration> {
        match self.discipline {
            Discipline::BurstCredit { longest, standing } => {
                let bound = self.credit.wait(now, longest, standing);
                Some(self.line.wait.map_or(bound, |wait| wait.min(bound)))
            }
            Discipline::AdaptiveLifo { interval, short_wait } => {
                let bound = if self.is_backed_up(now) { short_wait } else { interval };
                Some(self.line.wait.map_or(bound, |wait| wait.min(bound)))
            }
            Discipline::Fair | Discipline::Fifo => self.line.wait,
        }
    }

    /// Whether the line has had somebody in it for so long that the newest go first.
    pub(super) fn is_backed_up(&self, now: Timestamp) -> bool {
        match self.discipline {
            Discipline::AdaptiveLifo { interval, .. } => self.in_line > 0 && now.since(self.last_empty) > interval,
            Discipline::BurstCredit { .. } | Discipline::Fair | Discipline::Fifo => false,
        }
    }
}
