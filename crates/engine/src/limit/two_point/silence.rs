//! What single requests say before a cohort does: whether the server fell silent, and whether it answers again after a fall.

use super::curve::Curve;
use crate::Timestamp;

/// A server is silent from so many requests on that left late, less two for each answer: even odds at a third of requests answered, which
/// is where half of the limit brings more than all of it. With 4 a process that stops is taken for silent; 8 bring less where a knee falls.
const SILENT: u32 = 6;
/// So many slow answers count against quick ones at most.
const MOST_SLOW: i8 = 4;

#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    /// Requests that left late and that answers did not make up for.
    pub(super) late: u32,
    /// The limit when the server answered most requests last.
    pub(super) limit: f64,
    /// The last fall, until answers have made up for it, or the limit was cut for another reason.
    pub(super) fall: Option<Fall>,
}

/// A limit that fell because hardly any request was answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fall {
    pub(super) from: f64,
    pub(super) at: Timestamp,
    /// Quick answers of requests that started since then, less slow ones, since a slot was opened last.
    pub(super) quick: i8,
}

impl Silence {
    pub(super) const NONE: Self = Self { late: 0, limit: 0.0, fall: None };

    /// Notes that the limit fell.
    pub(super) const fn note_fall(&mut self, now: Timestamp) {
        self.fall = Some(Fall { from: self.limit, at: now, quick: 0 });
    }

    /// Takes a request that left late without an answer. Returns whether the server is silent.
    pub(super) fn left_late(&mut self) -> bool {
        self.late = (self.late + 1).min(SILENT * 2);
        self.late >= SILENT
    }

    /// Takes an answer under this limit to a request that started at this time. Returns the limit from now on: it `may_open` a slot
    /// that a fall closed, if it is quick.
    pub(super) fn answered(&mut self, start: Timestamp, rtt: f64, limit: f64, curve: &Curve, may_open: bool) -> f64 {
        self.late = self.late.saturating_sub(2);
        if self.late < SILENT || curve.is_delayed {
            self.limit = limit;
        }
        let Some(fall) = self.fall.as_mut().filter(|fall| start >= fall.at && limit < fall.from) else {
            return limit;
        };
        let step = if curve.shown.is_quick(rtt) { 1 } else { -1 };
        // During a probe no slot is opened, however many answers come.
        fall.quick = fall.quick.saturating_add(step).max(-MOST_SLOW);
        if fall.quick <= 0 || !may_open {
            return limit;
        }
        fall.quick = 0;
        (limit + 1.0).min(fall.from)
    }
}
