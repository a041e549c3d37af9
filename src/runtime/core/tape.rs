//! The record under the lock: one row per turn that told the engine something.

use std::{
    sync::{
        Arc, OnceLock,
        mpsc::{SyncSender, TrySendError},
    },
    time::Duration,
};

use serde_json::Value;

use super::{
    checkpoint::Checkpoint,
    request::{Arrive, Gets},
    slots::Slots,
};
use crate::{
    Outcome, Reason, Timestamp,
    engine::{Ask, Engine, WorkerDescription, plan::Mode},
    ticket::Ticket,
};

/// One turn.
#[derive(Debug)]
pub(in crate::runtime) struct Row {
    /// Time of the engine after the turn.
    pub(in crate::runtime) at: Timestamp,
    pub(in crate::runtime) step: Step,
    /// Waiters whose wait the turn ended, by the number of the place, and why if there is no slot.
    pub(in crate::runtime) ended: Vec<(u32, Option<Reason>)>,
    /// Limit after the turn.
    pub(in crate::runtime) limit: usize,
}

/// An input of the engine, and its answer.
#[derive(Debug)]
pub(crate) enum Step {
    Arrive(Box<Arrive>),
    /// The answer to a waiter.
    Claim {
        place: u32,
        gets: Gets,
    },
    /// A waiter left.
    Leave {
        place: u32,
    },
    /// The answer has begun, before its deadline.
    Answer {
        slot: [u64; 4],
    },
    Observe {
        slot: [u64; 4],
        outcome: Outcome,
    },
    /// The request was given up, and its work may go on.
    Abandon {
        slot: [u64; 4],
        was_observed: bool,
        outcome: Outcome,
    },
    /// An overload showed after the outcome was observed.
    Overload {
        slot: [u64; 4],
    },
    /// The slot is given back. With an outcome if that was reported in the same turn.
    Finish {
        slot: [u64; 4],
        outcome: Option<Outcome>,
    },
    Tick,
    Mode(Mode),
    Drain {
        serves_waiting: bool,
    },
    Worker(Box<WorkerDescription>),
    Reload(Box<Reload>),
    /// Turns before were not recorded: what is there now.
    Checkpoint(Box<Checkpoint>),
}

/// New settings.
#[derive(Debug)]
pub(crate) struct Reload {
    /// Settings as text, or the setting that there is no text for.
    pub(crate) settings_text: Result<Value, String>,
    /// Partitions that came with the settings.
    pub(crate) added: Vec<Arc<str>>,
}

impl Step {
    pub(crate) fn arrive(waits: bool, ticket: &Ticket<'_>, ask: &Ask<'_>, gets: Gets) -> Self {
        let owned = |name: Option<&str>| name.map(str::to_owned);
        Self::Arrive(Box::new(Arrive {
            waits,
            partition: owned(ticket.partition_name()),
            number: ask.partition,
            class: owned(ticket.class_name()),
            namespace: ticket.namespace_name().to_owned(),
            label: owned(ticket.label_name()),
            run: owned(ticket.run_name()),
            criticality: ask.criticality,
            deadline: ask.deadline,
            gets,
        }))
    }
}

/// Why a capture ended before it was stopped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::runtime) enum Cut {
    /// Rows came faster than they could be written.
    Overflow,
    /// As many rows as were wanted are written.
    Full,
}

/// Why the capture ended, for both sides; nothing, unless it ended before it was stopped.
pub(in crate::runtime) type End = OnceLock<Cut>;

/// Longest time without rows while the channel is full: building a [`Checkpoint`] takes time under the lock.
const RETRY: Duration = Duration::from_millis(20);

/// The channel that takes rows, while a capture runs.
#[derive(Debug)]
pub(crate) struct Tape {
    rows: SyncSender<Row>,
    end: Arc<End>,
    left: u64,
    /// Whether a full channel leaves a gap rather than ending the capture.
    pub(in crate::runtime) leaves_gaps: bool,
    /// Turns that were not recorded since the channel was full, and when to try again.
    missed: u64,
    retry: Timestamp,
    /// The row of this step, until the step is over.
    row: Option<Step>,
    /// Waits that had ended before it and were not told.
    known: usize,
}

impl Tape {
    pub(in crate::runtime) const fn new(rows: SyncSender<Row>, end: Arc<End>, most: u64) -> Self {
        Self { rows, end, left: most, leaves_gaps: false, missed: 0, retry: Timestamp::ZERO, row: None, known: 0 }
    }

    /// Returns a record that has gaps where rows come faster than they are taken, with a checkpoint after each.
    pub(in crate::runtime) fn with_gaps(rows: SyncSender<Row>) -> Self {
        Self { leaves_gaps: true, ..Self::new(rows, Arc::default(), u64::MAX) }
    }

    /// Begins a row; `known` counts the waits that had ended before it and were not told.
    pub(crate) fn open(&mut self, known: usize) {
        self.known = known;
    }

    /// Notes an input of the engine: one in each row.
    pub(crate) fn note(&mut self, step: Step) {
        #[cfg(test)]
        assert!(self.row.is_none(), "a row with two inputs: {:?} and {step:?}", self.row);
        self.row = Some(step);
    }

    /// Completes the row. Returns whether to go on.
    pub(crate) fn close(&mut self, engine: &Engine, slots: &Slots) -> bool {
        let Some(step) = self.row.take() else { return true };
        if self.missed > 0 {
            return self.bridge(engine, slots);
        }
        let ended = engine.ended_since(self.known).map(|(key, reason)| (key.index, reason)).collect();
        let row = Row { at: engine.now(), step, ended, limit: engine.limit() };
        let cut = match self.rows.try_send(row) {
            Err(TrySendError::Full(_)) if self.leaves_gaps => {
                (self.missed, self.retry) = (1, engine.now().after(RETRY));
                return true;
            }
            Err(TrySendError::Full(_)) => Cut::Overflow,
            Err(TrySendError::Disconnected(_)) => return false,
            Ok(()) => {
                self.left -= 1;
                if self.left > 0 {
                    return true;
                }
                Cut::Full
            }
        };
        // It ends once.
        let _ = self.end.set(cut);
        false
    }

    /// Ends a gap with what is there now, if the channel has room. Returns whether to go on.
    #[cold]
    fn bridge(&mut self, engine: &Engine, slots: &Slots) -> bool {
        self.missed += 1;
        let now = engine.now();
        if now < self.retry {
            return true;
        }
        let step = Step::Checkpoint(Box::new(Checkpoint::of(engine, slots, self.missed)));
        match self.rows.try_send(Row { at: now, step, ended: Vec::new(), limit: engine.limit() }) {
            Ok(()) => self.missed = 0,
            Err(TrySendError::Full(_)) => self.retry = now.after(RETRY),
            Err(TrySendError::Disconnected(_)) => return false,
        }
        true
    }
}

/// Returns the time in whole nanoseconds; `None` for none.
pub(in crate::runtime) fn deadline(at: Timestamp) -> Option<u64> {
    (at != Timestamp::NEVER).then_some(at.as_nanos())
}

/// Longest sleep of the writer without rows: after it, the file gets what there is.
pub(in crate::runtime) const PAUSE: Duration = Duration::from_millis(500);
