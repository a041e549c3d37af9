//! The last hour of a handle: what happened in each second of the last five minutes, and in each ten seconds before.
//!
//! Requests count nothing for this. Once a second, the counts that the engine has anyway are read and compared with those of
//! the second before. All of it is bounded: frames by number, labels of a frame by the places that the engine has for them.

mod bursts;
mod changed;
mod frame;
#[cfg(test)]
mod incident_tests;
#[cfg(test)]
mod tests;

use std::{collections::VecDeque, sync::Arc, time::Duration};

pub(crate) use self::frame::{Frame, Row};
use crate::{Timestamp, engine::HistorySample};

/// Time that is kept.
const RETAINED: Duration = Duration::from_secs(3_600);
/// Frames of a second that are kept, at least.
const FINE: usize = 300;
/// Time that an older frame is about.
const COARSE: Duration = Duration::from_secs(10);
/// Most older frames: an hour has no more, but for gaps.
const MOST_COARSE: usize = 400;
/// Least time between two samples. A second is asked for; timers are a little early or late.
const STEP: Duration = Duration::from_millis(900);
/// A longer time without a sample is a gap.
pub(super) const GAP: Duration = Duration::from_secs(3);

/// The last hour.
#[derive(Debug)]
pub(crate) struct History {
    pub(super) began: Timestamp,
    /// Whether a driver takes samples: without one, a gap only says that there was no look.
    pub(super) is_driven: bool,
    pub(super) last: HistorySample,
    /// The sample with which the present ten seconds began.
    base: HistorySample,
    /// The newest frames, the oldest first, and how many of them make up each older frame that is finished.
    fine: VecDeque<Arc<Frame>>,
    groups: VecDeque<usize>,
    /// Frames since `base`.
    open: usize,
    /// All frames of ten seconds; the newest ones are about the same time as `fine`.
    coarse: VecDeque<Arc<Frame>>,
    /// What is said of partitions and classes that requests have and no setting knows, and since when.
    unknown: Vec<(String, Timestamp)>,
}

impl History {
    pub(super) fn new(first: HistorySample) -> Self {
        Self {
            began: first.at,
            is_driven: false,
            base: first.clone(),
            last: first,
            fine: VecDeque::new(),
            groups: VecDeque::new(),
            open: 0,
            coarse: VecDeque::new(),
            unknown: Vec::new(),
        }
    }

    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        now.since(self.last.at) >= STEP
    }

    /// Notes what happened since the last sample, and what is said of it.
    pub(super) fn note(&mut self, sample: HistorySample, headline: String) {
        if !self.is_due(sample.at) {
            return;
        }
        let is_gap = sample.at.since(self.last.at) > GAP;
        if is_gap {
            self.close();
        }
        let before = self.fine.back().map(Arc::clone).unwrap_or_default();
        let frame = Frame { is_gap, headline: headline.into(), ..Frame::between(&self.last, &sample, &before) };
        self.fine.push_back(Arc::new(frame));
        (self.open, self.last) = (self.open + 1, sample);
        if is_gap || self.last.at.since(self.base.at) + STEP / 2 > COARSE {
            self.close();
        }
        self.forget();
    }

    /// Finishes the present ten seconds.
    fn close(&mut self) {
        let first = self.fine.len() - self.open;
        let frames: Vec<_> = self.fine.range(first..).map(Arc::clone).collect();
        if let Some(mut merged) = Frame::merge(&frames) {
            merged.measure(&self.base, &self.last);
            self.coarse.push_back(Arc::new(merged));
            self.groups.push_back(self.open);
        }
        (self.open, self.base) = (0, self.last.clone());
    }

    fn forget(&mut self) {
        while let Some(&group) = self.groups.front()
            && self.fine.len() - group >= FINE
        {
            self.groups.pop_front();
            self.fine.drain(..group);
        }
        let start = self.last.at.before(RETAINED);
        while self.coarse.len() > MOST_COARSE.max(self.groups.len())
            || self.coarse.len() > self.groups.len() && self.coarse.front().is_some_and(|it| it.to <= start)
        {
            self.coarse.pop_front();
        }
    }

    /// Returns the frames that end later than this, the oldest first: no two are about the same time.
    pub(super) fn since(&self, since: Timestamp) -> Vec<Arc<Frame>> {
        let older = self.coarse.iter().take(self.coarse.len() - self.groups.len());
        older.chain(&self.fine).filter(|it| it.to > since).map(Arc::clone).collect()
    }
}

/// What is read of a history.
#[derive(Debug)]
pub(crate) struct HistoryView {
    /// Time from which on anything is known.
    pub(crate) began: Timestamp,
    /// Time of the reading.
    pub(crate) now: Timestamp,
    pub(crate) frames: Vec<Arc<Frame>>,
}

impl HistoryView {
    pub(crate) const RETAINED: Duration = RETAINED;
    pub(crate) const STEP: Duration = Duration::from_secs(1);
    pub(crate) const COARSE: Duration = COARSE;
}
