//! What happened in one run: counts for each piece of time, and more for each window.

use super::{scenario::Scenario, windows::Window};

/// The length of a piece of time.
pub const STEP: u64 = 100_000_000;

/// One piece of time.
#[derive(Clone, Debug, Default)]
pub struct Bin {
    /// Requests that arrived, retries not included, and all attempts.
    pub offered: u32,
    pub attempts: u32,
    pub rejected: u32,
    /// Answered in time, now; and of those that arrived now, later.
    pub good: u32,
    pub served: u32,
    /// Work of the answers in time, in nanoseconds of a worker.
    pub work: f64,
    /// At the end of the piece; the limit is 0 where there is none.
    pub limit: usize,
    pub in_flight: usize,
    pub waiting: usize,
}

/// What is counted for each window.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Requests that arrived in it, and how many of them were answered in time, by whichever attempt.
    pub offered: u64,
    pub served: u64,
    /// Attempts that were made in it, and that were rejected in it.
    pub attempts: u64,
    pub rejected: u64,
    /// How long those waited that were admitted in it, in units of 10 µs.
    pub waits: Vec<u32>,
    /// Attempts that were admitted and ended in it, and how many of them had missed the deadline.
    pub admitted: u64,
    pub late: u64,
    /// Their latencies, in units of 10 µs.
    pub latencies: Vec<u32>,
    /// For each tenant, whether the window is about it or not: requests that arrived, and those answered in time.
    pub tenants: Vec<(u64, u64)>,
}

#[derive(Debug)]
pub struct Record {
    pub bins: Vec<Bin>,
    pub tallies: Vec<Tally>,
    windows: Vec<Window>,
    /// Of all that happened, in order.
    pub hash: u64,
    pub events: u64,
}

/// An answer as its client sees it.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    pub tenant: usize,
    /// When the request came first, and when the attempt that was answered did.
    pub first: u64,
    pub arrived: u64,
    pub in_time: bool,
    pub work: f64,
}

impl Record {
    pub fn new(scenario: &Scenario) -> Self {
        let end = scenario.windows.iter().map(|window| window.to).max().unwrap_or(0).max(scenario.duration);
        let tally = Tally {
            offered: 0,
            served: 0,
            attempts: 0,
            rejected: 0,
            waits: Vec::new(),
            admitted: 0,
            late: 0,
            latencies: Vec::new(),
            tenants: vec![(0, 0); scenario.tenants.len()],
        };
        Self {
            bins: vec![Bin::default(); index(end) + 1],
            tallies: vec![tally; scenario.windows.len()],
            windows: scenario.windows.clone(),
            hash: 0xcbf2_9ce4_8422_2325,
            events: 0,
        }
    }

    /// Mixes one event into the hash.
    pub const fn note(&mut self, now: u64, what: u64) {
        self.events += 1;
        self.hash = (self.hash ^ now ^ what.rotate_left(48)).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    }

    pub fn bin(&mut self, now: u64) -> &mut Bin {
        let last = self.bins.len() - 1;
        &mut self.bins[index(now).min(last)]
    }

    /// What is counted for the windows that `at` is in, and whether they are about `tenant`.
    fn windows(&mut self, at: u64, tenant: usize) -> impl Iterator<Item = (&mut Tally, bool)> {
        let windows = self.windows.iter().map(move |it| ((it.from..it.to).contains(&at), it.has(tenant)));
        self.tallies.iter_mut().zip(windows).filter_map(|(tally, (inside, has))| inside.then_some((tally, has)))
    }

    /// Changes what is counted for the windows that `at` is in and that are about `tenant`.
    fn tally(&mut self, at: u64, tenant: usize, mut change: impl FnMut(&mut Tally)) {
        self.windows(at, tenant).filter(|&(_, has)| has).for_each(|(tally, _)| change(tally));
    }

    /// A request, whichever attempt.
    pub fn attempted(&mut self, now: u64, tenant: usize) {
        self.bin(now).attempts += 1;
        self.tally(now, tenant, |tally| tally.attempts += 1);
    }

    pub fn admitted(&mut self, now: u64, tenant: usize, waited: u64) {
        self.tally(now, tenant, |tally| tally.waits.push(units(waited)));
    }

    pub fn rejected(&mut self, now: u64, tenant: usize) {
        self.bin(now).rejected += 1;
        self.tally(now, tenant, |tally| tally.rejected += 1);
    }

    /// A request for the first time.
    pub fn arrived(&mut self, now: u64, tenant: usize) {
        self.bin(now).offered += 1;
        self.windows(now, tenant).for_each(|(tally, has)| {
            tally.offered += u64::from(has);
            tally.tenants[tenant].0 += 1;
        });
    }

    pub fn answered(&mut self, now: u64, answer: Answer) {
        let Answer { tenant, first, arrived, in_time, work } = answer;
        self.tally(now, tenant, |tally| {
            tally.admitted += 1;
            tally.late += u64::from(!in_time);
            tally.latencies.push(units(now - arrived));
        });
        if in_time {
            self.windows(now, tenant).for_each(|(tally, _)| tally.tenants[tenant].1 += 1);
            let bin = self.bin(now);
            bin.good += 1;
            bin.work += work;
            self.bin(first).served += 1;
            self.tally(first, tenant, |tally| tally.served += 1);
        }
    }
}

/// In units of 10 µs: twelve hours fit.
fn units(time: u64) -> u32 {
    u32::try_from(time / 10_000).unwrap_or(u32::MAX)
}

impl Record {
    /// The run ended at `now`, with nothing left to do: what the handle showed last holds for the rest of the time.
    pub fn end(&mut self, now: u64) {
        let from = index(now).min(self.bins.len());
        let limit = self.bins[..from].last().map_or(0, |bin| bin.limit);
        self.bins[from..].iter_mut().for_each(|bin| bin.limit = limit);
    }
}

pub const fn index(time: u64) -> usize {
    (time / STEP) as usize
}
