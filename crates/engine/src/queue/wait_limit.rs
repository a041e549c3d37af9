//! How long a wait may last, by the discipline.

use std::time::Duration;

use super::WaitQueue;
use crate::{
    Timestamp,
    ids::{Key, PartitionId},
    plan::{Discipline, Places},
    tokens::{Stage, Waiter},
};

impl WaitQueue {
    /// Notes whether the line is empty.
    #[inline]
    pub(super) fn note_empty(&mut self, now: Timestamp) {
        if self.lengths().in_line == 0 {
            self.last_empty = now;
        }
    }

    /// Takes note of the time, and chooses by the discipline whether the newest or the oldest waiter goes first from now on. Returns
    /// whether any request waits.
    #[inline]
    pub(crate) fn pass(&mut self, now: Timestamp) -> bool {
        self.note_empty(now);
        if self.lengths().all() == 0 {
            return false;
        }
        self.flows.newest_first = self.is_backed_up(now);
        true
    }

    /// Begins the wait of a request that stands in line or at the gate now. The bounds of the line and of its label hold for
    /// both together. A wait in the room for guarantees has a bound of its own, and that of the line where there is one.
    pub(super) fn begin_wait(
        &mut self,
        now: Timestamp,
        key: Key,
        stage: Stage,
        own: Option<Duration>,
        in_room: Option<Duration>,
    ) {
        let partition = self.flows.waiters.get(key).partition;
        let wait = match in_room {
            Some(_) => in_room,
            None if stage == Stage::Line => self.wait_limit(now, partition),
            None => self.plan.gate.wait,
        };
        let has_line = !matches!(self.plan.line.places, Places::Exactly(0));
        let together = own.into_iter().chain(self.plan.line.wait.filter(|_| has_line || in_room.is_none()));
        let waiter = self.flows.waiters.get_mut(key);
        let ends = wait.map(|wait| now.after(wait)).into_iter().chain(together.map(|wait| waiter.since.after(wait)));
        waiter.deadline = ends.min().unwrap_or(Timestamp::NEVER).min(waiter.caller_deadline);
        self.deadlines.set(key.index, waiter.deadline);
    }

    /// Notes whether the turn of a waiter passes over an older one, and for how long it has waited, which the discipline may go by.
    pub(crate) fn note_turn(&mut self, now: Timestamp, key: Key, passes_over: bool) {
        self.passed_over = passes_over;
        if let Discipline::BurstCredit { longest, standing, credit } = self.plan.discipline {
            let &Waiter { since, partition, .. } = self.flows.waiters.get(key);
            // Where no request may wait for longer, half of that is a sign that the overload goes on.
            let had_to_wait = now.since(since) > standing.max(self.two_turns) / 2;
            self.allowances[partition.index()].served(now, had_to_wait, credit.max(longest));
        }
    }

    /// Returns how long a waiter of a partition that joins the line now may wait there, as the discipline says.
    fn wait_limit(&mut self, now: Timestamp, partition: PartitionId) -> Option<Duration> {
        match self.plan.discipline {
            Discipline::BurstCredit { longest, standing, credit } => {
                let left = self.allowances[partition.index()].left(now, credit.max(longest));
                Some(left.min(longest).max(standing).max(self.two_turns))
            }
            Discipline::AdaptiveLifo { interval, short_wait } => {
                Some(if self.is_backed_up(now) { short_wait } else { interval })
            }
            Discipline::Fair | Discipline::Fifo => None,
        }
    }

    /// Whether a request has been in line for so long that the newest go first.
    pub(super) fn is_backed_up(&self, now: Timestamp) -> bool {
        match self.plan.discipline {
            Discipline::AdaptiveLifo { interval, .. } => {
                self.lengths().in_line > 0 && now.since(self.last_empty) > interval
            }
            Discipline::BurstCredit { .. } | Discipline::Fair | Discipline::Fifo => false,
        }
    }
}
