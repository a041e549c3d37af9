//! What a server has at rest, round for round, and whether that grows.

use std::{fmt, time::Duration};

/// How much more memory the server may have at the end than after the rounds that warm it up, by the slope.
const GROWTH: f64 = 4.0 * MIB;
const MIB: f64 = 1_048_576.0;

/// What a server without clients has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct AtRest {
    pub(crate) slots: u64,
    pub(crate) waiters: u64,
    /// Handlers that have begun and not ended, as they count themselves.
    pub(crate) handlers: u64,
    /// Requests that were admitted and did not end, by the counts of the handle.
    pub(crate) unended: u64,
    pub(crate) tasks: u64,
    pub(crate) descriptors: u64,
    pub(crate) keys: u64,
    pub(crate) labels: u64,
    pub(crate) admitted: u64,
    /// How many of them the shared store admitted.
    pub(crate) granted: u64,
    /// Bytes in memory of its own, without the program.
    pub(crate) memory: f64,
}

impl AtRest {
    /// Whether nothing runs or waits.
    pub(crate) const fn is_free(&self) -> bool {
        self.slots + self.waiters + self.handlers + self.unended == 0
    }

    /// What there is more of than at first.
    pub(crate) fn exceeds(&self, first: &Self) -> Vec<String> {
        let counts = [
            ("slots", self.slots, 0),
            ("waiters", self.waiters, 0),
            ("handlers", self.handlers, 0),
            ("unended requests", self.unended, 0),
            ("tasks", self.tasks, first.tasks),
            ("descriptors", self.descriptors, first.descriptors),
            ("keys", self.keys, first.keys),
        ];
        let more = counts.into_iter().filter(|&(_, now, at_most)| now > at_most);
        more.map(|(what, now, at_most)| format!("{what}: {now} at rest, {at_most} at first")).collect()
    }
}

/// The rounds so far.
#[derive(Debug, Default)]
pub(crate) struct Figures(Vec<Row>);

#[derive(Clone, Copy, Debug)]
struct Row {
    at: Duration,
    at_rest: AtRest,
    busy: f64,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AtRest { slots, waiters, handlers, unended, tasks, descriptors, keys, labels, admitted, granted, memory } =
            self.at_rest;
        let (seconds, busy, memory) = (self.at.as_secs(), self.busy / MIB, memory / MIB);
        let left = slots + waiters + handlers + unended;
        write!(
            f,
            "{seconds:>6} {admitted:>9} {granted:>9} {busy:>9.2} {memory:>9.2} {descriptors:>12} {tasks:>6} {left:>5} {labels:>7} {keys:>5}"
        )
    }
}

impl Figures {
    pub(crate) const HEAD: &str =
        "second  admitted  by store  busy MiB  rest MiB  descriptors  tasks  left  labels  keys";

    pub(crate) fn first(&self) -> Option<AtRest> {
        self.0.first().map(|row| row.at_rest)
    }

    pub(crate) fn add(&mut self, at: Duration, at_rest: AtRest, busy: f64) {
        self.0.push(Row { at, at_rest, busy });
    }

    pub(crate) fn last_row(&self) -> String {
        self.0.last().map_or_else(String::new, Row::to_string)
    }

    /// The last three quarters of the rounds: before that, tables and pools still reach their size.
    fn warm(&self) -> &[Row] {
        &self.0[self.0.len() / 4..]
    }

    /// Bytes per second, by least squares.
    fn slope(&self) -> f64 {
        let points: Vec<_> = self.warm().iter().map(|row| (row.at.as_secs_f64(), row.at_rest.memory)).collect();
        slope(&points)
    }

    /// Bytes over all rounds that count.
    fn growth(&self) -> f64 {
        let warm = self.warm();
        let time = warm.last().map_or(Duration::ZERO, |last| last.at - warm[0].at);
        self.slope() * time.as_secs_f64()
    }

    /// Whether some requests were admitted by the shared store.
    pub(crate) fn store_was_used(&self) -> bool {
        self.0.last().is_some_and(|last| last.at_rest.granted > 0)
    }

    /// What is left at rest, or grows.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let first = self.first().unwrap_or_default();
        for row in &self.0 {
            let exceeds = row.at_rest.exceeds(&first);
            problems.extend(exceeds.into_iter().map(|problem| format!("{problem}, after {} s", row.at.as_secs())));
        }
        if self.growth() > GROWTH {
            problems.push(format!("memory: {}", self.summary()));
        }
        problems
    }

    pub(crate) fn summary(&self) -> String {
        let warm = self.warm();
        let (rounds, mebibytes) = (warm.len(), self.growth() / MIB);
        let admitted = self.0.last().map_or(0, |last| last.at_rest.admitted);
        let since = warm.first().map_or(0, |first| first.at.as_secs());
        format!(
            "{admitted} requests admitted in {} rounds; from second {since} on, the slope over {rounds} rounds is \
             {:.1} KiB per hour: {mebibytes:.2} MiB in that time, {:.2} MiB allowed",
            self.0.len(),
            self.slope() * 3_600.0 / 1_024.0,
            GROWTH / MIB,
        )
    }
}

/// The slope of the line with the least squares of distances.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = f64::from(u32::try_from(points.len()).unwrap_or(u32::MAX));
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
    let (up, down) = points.iter().fold((0.0, 0.0), |(up, down), point| {
        let off = point.0 - x;
        (up + off * (point.1 - y), down + off * off)
    });
    if down > 0.0 { up / down } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(memory: impl Fn(u32) -> f64, slots: u64) -> Figures {
        let mut figures = Figures::default();
        for round in 0..60 {
            let at_rest = AtRest { memory: memory(round), slots, ..AtRest::default() };
            figures.add(Duration::from_secs(60 * u64::from(round)), at_rest, 0.0);
        }
        figures
    }

    #[test]
    fn the_slope_is_that_of_the_line() {
        assert_eq!(slope(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]), 2.0);
        assert_eq!(slope(&[(3.0, 1.0)]), 0.0);
        // Seven points of a line with an error that is the same on both sides.
        let noisy: Vec<_> = [1.0, -1.0, -1.0, 0.0, 1.0, 1.0, -1.0]
            .iter()
            .zip(0..)
            .map(|(e, x)| (f64::from(x), e + 4.0 * f64::from(x)))
            .collect();
        assert!((slope(&noisy) - 4.0).abs() < 0.2, "{}", slope(&noisy));
    }

    #[test]
    fn growth_and_remains_are_problems_and_warming_up_is_none() {
        assert_eq!(of(|_| 30.0 * MIB, 0).problems(), Vec::<String>::new());
        assert_eq!(of(|round| f64::from(round.min(10)) * MIB, 0).problems(), Vec::<String>::new());
        let noisy = of(|round| 30.0 * MIB + f64::from(round % 2) * MIB, 0);
        assert_eq!(noisy.problems(), Vec::<String>::new());
        // A tenth of a mebibyte per round, which are 4.4 MiB in the 44 minutes that count.
        assert_eq!(of(|round| f64::from(round) * 0.1 * MIB, 0).problems().len(), 1);
        assert_eq!(of(|_| 0.0, 1).problems().len(), 60);
    }
}
