//! Numbers out of a record.

use super::{
    oracle::{Ideal, Static, perfect},
    policy::Policy,
    record::{Bin, Record, STEP, Tally, index},
    scenario::Scenario,
    windows::{Values, Window, metric},
    world,
};

/// What came of one run, or the mean of several.
#[derive(Clone, Debug)]
pub struct Report {
    /// In the order of the scenario's windows.
    pub windows: Vec<Values>,
    /// For each window and tenant: offered, answered in time, and the fair share of that.
    pub tenants: Vec<Vec<[f64; 3]>>,
    pub bins: Vec<Bin>,
    pub ideal: Vec<Ideal>,
    pub hash: u64,
    pub events: u64,
}

impl Report {
    /// Runs `scenario` under `policy`, and what it is compared with, and looks at what came of it.
    pub fn run(scenario: &Scenario, policy: &Policy, seed: u64, best: Option<(&Static, usize)>) -> Self {
        let mut report = Self::new(scenario, world::run(scenario, policy, seed), best);
        if !scenario.compare_without.is_empty() {
            let other = world::run_without(scenario, policy, seed, &scenario.compare_without);
            let other = Self::new(scenario, other, None);
            for name in ["p99", "wait_p99"] {
                let metric = metric(name).unwrap_or_default();
                for (values, other) in report.windows.iter_mut().zip(&other.windows) {
                    // Each ratio stands behind its metric.
                    values[metric + 1] = values[metric] / other[metric];
                }
            }
        }
        report
    }

    /// One report for each seed.
    pub fn of_seeds(scenario: &Scenario, best: Option<&Static>) -> Vec<Self> {
        let of = |(index, &seed)| Self::run(scenario, &scenario.policy, seed, best.map(|best| (best, index)));
        scenario.seeds.iter().enumerate().map(of).collect()
    }

    /// Looks at one run; `best` is the static limit with the index of this seed, if it was searched for.
    pub fn new(scenario: &Scenario, mut record: Record, best: Option<(&Static, usize)>) -> Self {
        let ideal = perfect(scenario, &record.bins);
        let mut windows = Vec::new();
        let mut tenants = Vec::new();
        for (window, tally) in scenario.windows.iter().zip(&mut record.tallies) {
            let part = index(window.from)..index(window.to).min(record.bins.len());
            let fair = fair_shares(tally, ideal[part.clone()].iter().map(|it| it.good).sum());
            let best = best.map(|(best, seed)| best.records[seed][part.clone()].iter().map(|&it| f64::from(it)).sum());
            windows.push(values(window, tally, &record.bins[part.clone()], &ideal[part], &fair, best));
            tenants.push(fair);
        }
        Self { windows, tenants, bins: record.bins, ideal, hash: record.hash, events: record.events }
    }

    /// The mean of the values; the rest is that of the first one.
    #[expect(clippy::cast_precision_loss, reason = "a few seeds")]
    pub fn mean(reports: &[Self]) -> Self {
        let mut mean = reports[0].clone();
        for (window, values) in mean.windows.iter_mut().enumerate() {
            for (metric, value) in values.iter_mut().enumerate() {
                *value =
                    reports.iter().map(|report| report.windows[window][metric]).sum::<f64>() / reports.len() as f64;
            }
        }
        mean
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of less than 2^53")]
fn values(
    window: &Window,
    tally: &mut Tally,
    bins: &[Bin],
    ideal: &[Ideal],
    fair: &[[f64; 3]],
    best: Option<f64>,
) -> Values {
    let sum = |count: fn(&Bin) -> u32| bins.iter().map(|bin| f64::from(count(bin))).sum::<f64>();
    let mean =
        |count: fn(&Bin) -> usize| bins.iter().map(|bin| count(bin) as f64).sum::<f64>() / bins.len().max(1) as f64;
    // What is known of all tenants together says nothing about some of them.
    let of_all = |value: f64| if window.is_partial() { f64::NAN } else { value };
    let fair: Vec<_> = fair.iter().enumerate().filter(|&(it, _)| window.has(it)).map(|(_, it)| it).collect();
    let (good, perfect) = if window.is_partial() {
        (fair.iter().map(|it| it[1]).sum(), fair.iter().map(|it| it[2]).sum())
    } else {
        (sum(|bin| bin.good), ideal.iter().map(|it| it.good).sum())
    };
    let falsely = bins.iter().zip(ideal).filter(|(_, ideal)| ideal.calm).map(|(bin, _)| f64::from(bin.rejected)).sum();
    tally.latencies.sort_unstable();
    tally.waits.sort_unstable();
    let share = |it: &[f64; 3]| if it[2] > 0.0 { it[1] / it[2] } else { 1.0 };
    let squares = fair.iter().map(|it| share(it).powi(2)).sum::<f64>() * fair.len() as f64;
    let (settle, recover) = times(bins, ideal, window);
    [
        percent(good, perfect).min(100.0),
        best.map_or(f64::NAN, |best| of_all(percent(good, best))),
        of_all(percent(bins.iter().map(|bin| bin.work).sum(), ideal.iter().map(|it| it.work).sum()).min(100.0)),
        percent(tally.served as f64, tally.offered as f64),
        part(tally.rejected as f64, tally.attempts as f64),
        of_all(part(falsely, tally.attempts as f64)),
        part(tally.late as f64, tally.admitted as f64),
        quantile(&tally.latencies, 50),
        quantile(&tally.latencies, 99),
        f64::NAN,
        quantile(&tally.waits, 99),
        f64::NAN,
        of_all(settle),
        of_all(recover),
        if squares > 0.0 { fair.iter().map(|it| share(it)).sum::<f64>().powi(2) / squares } else { 0.0 },
        fair.iter().map(|it| share(it)).fold(f64::INFINITY, f64::min) * 100.0,
        // Who gets what it asks for is limited by nobody else: what it lacks, its neighbours took.
        fair.iter().filter(|it| it[0] <= it[2]).map(|it| share(it)).fold(1.0, f64::min) * 100.0,
        of_all(mean(|bin| bin.limit)),
        of_all(bins.last().map_or(0.0, |bin| bin.limit as f64)),
        of_all(mean(|bin| bin.in_flight)),
    ]
}

/// That part, in percent, of `sorted` is no longer, in ms.
fn quantile(sorted: &[u32], part: usize) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get(last * part / 100).map_or(0.0, |&time| f64::from(time) / 100.0)
}

/// `value` in percent of `whole`; all of nothing is 100 %.
fn percent(value: f64, whole: f64) -> f64 {
    if whole > 0.0 { value / whole * 100.0 } else { 100.0 }
}

/// `value` in percent of `whole`; no part of nothing is 0 %.
fn part(value: f64, whole: f64) -> f64 {
    // A sum of nothing is -0.
    if whole > 0.0 { value / whole * 100.0 + 0.0 } else { 0.0 }
}

/// For each tenant what it offered, what was answered in time, and its max-min fair share of `total`.
#[expect(clippy::cast_precision_loss, reason = "counts of less than 2^53")]
fn fair_shares(tally: &Tally, total: f64) -> Vec<[f64; 3]> {
    let mut tenants: Vec<_> = tally.tenants.iter().map(|&(offered, good)| [offered as f64, good as f64, 0.0]).collect();
    let mut order: Vec<usize> = (0..tenants.len()).collect();
    order.sort_by(|&a, &b| tenants[a][0].total_cmp(&tenants[b][0]));
    let mut left = total;
    for (position, &tenant) in order.iter().enumerate() {
        let fair = tenants[tenant][0].min(left / (order.len() - position) as f64);
        tenants[tenant][2] = fair;
        left -= fair;
    }
    tenants
}

/// When goodput settled, and when it had recovered, in seconds from the start of the window.
///
/// Both look at the three seconds to come, every half second, relative to perfect admission: the first at the answers
/// in them, the second at the requests that arrive in them. What never settles takes as long as the window.
#[expect(clippy::cast_precision_loss, reason = "times of less than a hundred days")]
fn times(bins: &[Bin], ideal: &[Ideal], window: &Window) -> (f64, f64) {
    const SPAN: usize = 30;
    const EVERY: usize = 5;
    let whole = (window.to - window.from) as f64 / 1e9;
    if bins.len() < SPAN {
        return (whole, whole);
    }
    let ratios = |real: fn(&Bin) -> u32, ideal_of: fn(&Ideal) -> f64| -> Vec<f64> {
        let ratio = |at: usize| {
            let real: f64 = bins[at..at + SPAN].iter().map(|bin| f64::from(real(bin))).sum();
            let perfect: f64 = ideal[at..at + SPAN].iter().map(ideal_of).sum();
            // Where next to nothing is to be done, there is nothing to miss.
            if perfect < 3.0 { 1.0 } else { real / perfect }
        };
        (0..=bins.len() - SPAN).step_by(EVERY).map(ratio).collect()
    };
    let since = |ratios: &[f64], holds: &dyn Fn(f64) -> bool| match ratios.iter().rposition(|&ratio| !holds(ratio)) {
        None => 0.0,
        Some(last) if last + 1 == ratios.len() => whole,
        Some(last) => ((last + 1) * EVERY) as f64 * STEP as f64 / 1e9,
    };
    let answers = ratios(|bin| bin.good, |ideal| ideal.good);
    let tail = &answers[answers.len() - answers.len().div_ceil(4)..];
    let end = tail.iter().sum::<f64>() / tail.len() as f64;
    let served = ratios(|bin| bin.served, |ideal| ideal.served);
    (since(&answers, &|ratio| (ratio - end).abs() <= 0.1 * end), since(&served, &|ratio| ratio >= 0.95))
}
