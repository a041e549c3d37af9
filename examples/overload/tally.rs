//! Counts of how requests ended, by phase and tenant.

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;

use crate::{
    load::Outcome,
    schedule::{Arrival, TENANTS},
};

/// How the requests of one protocol ended in one run.
pub(crate) struct Tally {
    /// By phase, then by tenant.
    cells: Vec<[Cell; TENANTS.len()]>,
    /// Answers in time, by the second in which their requests were due.
    answered: Vec<u32>,
}

/// How some of them ended.
#[derive(Clone)]
pub(crate) struct Cell {
    pub(crate) answered: u64,
    pub(crate) late: u64,
    pub(crate) rejected: BTreeMap<&'static str, u64>,
    pub(crate) failed: BTreeMap<String, u64>,
    /// Of those that were not rejected, in microseconds. Late ones count with the time at which their client left.
    accepted: Histogram<u64>,
}

/// Latencies are kept to three digits, up to here.
const LONGEST: u64 = 100_000_000;
/// Messages of strange errors are kept up to so many different ones.
const MOST_MESSAGES: usize = 20;

impl Tally {
    pub(crate) fn new(phases: usize) -> Self {
        Self { cells: (0..phases).map(|_| std::array::from_fn(|_| Cell::new())).collect(), answered: Vec::new() }
    }

    pub(crate) fn count(&mut self, arrival: Arrival, outcome: Outcome, latency: Duration) {
        let second = usize::try_from(arrival.at.as_secs()).unwrap_or_default();
        if self.answered.len() <= second {
            self.answered.resize(second + 1, 0);
        }
        self.answered[second] += u32::from(matches!(outcome, Outcome::Answered));
        self.cells[arrival.phase][arrival.tenant].count(outcome, latency);
    }

    /// How many requests were answered in time, of those that arrived in each second.
    pub(crate) fn answered_by_second(&self) -> &[u32] {
        &self.answered
    }

    pub(crate) fn phases(&self) -> usize {
        self.cells.len()
    }

    pub(crate) fn cell(&self, phase: usize, tenant: usize) -> &Cell {
        &self.cells[phase][tenant]
    }

    /// All tenants together.
    pub(crate) fn phase(&self, phase: usize) -> Cell {
        let mut sum = Cell::new();
        self.cells[phase].iter().for_each(|cell| sum.add(cell));
        sum
    }

    /// What went wrong in ways that it shouldn't, in all phases.
    pub(crate) fn failures(&self) -> BTreeMap<String, u64> {
        let mut sum = Cell::new();
        self.cells.iter().flatten().for_each(|cell| sum.add(cell));
        sum.failed
    }
}

impl Cell {
    fn new() -> Self {
        Self {
            answered: 0,
            late: 0,
            rejected: BTreeMap::new(),
            failed: BTreeMap::new(),
            accepted: Histogram::new_with_bounds(1, LONGEST, 3).unwrap_or_else(|_| unreachable!("valid bounds")),
        }
    }

    fn count(&mut self, outcome: Outcome, latency: Duration) {
        match outcome {
            Outcome::Answered => self.answered += 1,
            Outcome::Late => self.late += 1,
            Outcome::Rejected(code) => {
                *self.rejected.entry(code).or_default() += 1;
                return;
            }
            Outcome::Failed(message) => return self.fail(message, 1),
        }
        self.accepted.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(LONGEST));
    }

    fn fail(&mut self, message: String, count: u64) {
        let known = self.failed.len() < MOST_MESSAGES || self.failed.contains_key(&message);
        let message = if known { message } else { "in other ways".to_owned() };
        *self.failed.entry(message).or_default() += count;
    }

    fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.late += other.late;
        for (code, count) in &other.rejected {
            *self.rejected.entry(code).or_default() += count;
        }
        for (message, count) in &other.failed {
            self.fail(message.clone(), *count);
        }
        // Both have the same bounds.
        let _ = self.accepted.add(&other.accepted);
    }

    pub(crate) fn rejections(&self) -> u64 {
        self.rejected.values().sum()
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// How many requests there were.
    pub(crate) fn offered(&self) -> u64 {
        self.answered + self.late + self.rejections() + self.failures()
    }

    /// A latency of the accepted requests; `None` where there were none.
    pub(crate) fn latency(&self, quantile: f64) -> Option<Duration> {
        (!self.accepted.is_empty()).then(|| Duration::from_micros(self.accepted.value_at_quantile(quantile)))
    }
}
