//! What could have been: perfect admission, and the best limit that never moves.
//!
//! Perfect admission is a fluid that knows the capacity of the server at each moment, never idles while there is work, and turns away on
//! arrival whom it could not serve within the client's deadline, retries or not. It is blind for sizes: of what it serves, the part counts
//! whose own service time fits the deadline. No policy that can't see sizes does better, but for the luck of small requests.

use super::{
    policy::Policy,
    record::{Bin, Record, STEP},
    scenario::Scenario,
    world,
};

/// Perfect admission in one piece of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ideal {
    /// Answered in time, now; and of those that arrived now, later.
    pub good: f64,
    pub served: f64,
    /// Work that the server does now, in nanoseconds of a worker.
    pub work: f64,
    /// Whether nobody had to be turned away half a second before or after: a rejection now is a false one.
    pub calm: bool,
}

/// Perfect admission of the requests that arrived in `bins`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "times of less than a hundred days"
)]
pub fn perfect(scenario: &Scenario, bins: &[Bin]) -> Vec<Ideal> {
    const AROUND: usize = 5;
    let deadline = scenario.clients.deadline;
    let mut ideal = vec![Ideal { calm: true, ..Ideal::default() }; bins.len()];
    let mut known = None;
    let (mut hint, mut backlog) = (0, 0.0f64);
    for (index, bin) in bins.iter().enumerate() {
        let (moment, _) = scenario.timeline.at(index as u64 * STEP, &mut hint);
        let work = scenario.service.mean(&moment);
        let alone = scenario.server.alone(&moment);
        let fits = match known {
            Some((same, fits)) if same == moment => fits,
            _ if deadline == u64::MAX => 1.0,
            _ => scenario.service.fits(&moment, (deadline as f64 - moment.delay) / alone),
        };
        known = Some((moment, fits));
        let capacity = scenario.server.capacity(work, &moment);
        let room =
            if deadline == u64::MAX { f64::INFINITY } else { capacity * (deadline as f64 - moment.delay).max(0.0) };
        backlog += f64::from(bin.offered);
        let served = backlog.min(capacity * STEP as f64);
        backlog -= served;
        let away = (backlog - room).max(0.0);
        backlog -= away;
        ideal[index].work = served * work;
        ideal[index].served = (f64::from(bin.offered) - away).max(0.0) * fits;
        if away > 0.0 {
            let from = index.saturating_sub(AROUND);
            let to = (index + AROUND + 1).min(bins.len());
            ideal[from..to].iter_mut().for_each(|it| it.calm = false);
        }
        // The answer comes after the service time, however perfect the admission is.
        let later = ((work * alone + moment.delay) / STEP as f64) as usize;
        let part = (work * alone + moment.delay) / STEP as f64 - later as f64;
        for (at, part) in [(index + later, 1.0 - part), (index + later + 1, part)] {
            if let Some(it) = ideal.get_mut(at) {
                it.good += served * fits * part;
            }
        }
    }
    ideal
}

/// The limit, among many, under which most requests are answered in time in the window that the scenario is about.
/// Nobody waits, and there are no partitions.
#[derive(Clone, Debug)]
pub struct Static {
    pub limit: usize,
    /// One for each seed.
    pub records: Vec<Good>,
}

/// Answers in time, piece by piece.
pub type Good = Vec<u32>;

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "limits are small"
)]
pub fn best_static(scenario: &Scenario, seeds: &[u64]) -> Static {
    let (moment, _) = scenario.timeline.at(0, &mut 0);
    let work = scenario.service.mean(&moment);
    // The concurrency that uses the server fully, about: more for what waits in delays.
    let center = (scenario.server.capacity(work, &moment) * work).max(1.0);
    let mut limits: Vec<usize> =
        (-9..=15).map(|step| (center * 2f64.powf(f64::from(step) / 3.0)).round().max(1.0) as usize).collect();
    limits.dedup();
    let window = &scenario.windows[scenario.focus.0];
    let mut best: Option<(u64, Static)> = None;
    for limit in limits {
        let policy = Policy::fixed(limit);
        let records: Vec<Good> = seeds.iter().map(|&seed| good(&world::run(scenario, &policy, seed))).collect();
        let total = records
            .iter()
            .map(|it| it[bins(window.from)..bins(window.to)].iter().map(|&n| u64::from(n)).sum::<u64>())
            .sum();
        // A larger limit has to earn it.
        if best.as_ref().is_none_or(|&(most, _)| total as f64 > most as f64 * 1.000_5) {
            best = Some((total, Static { limit, records }));
        }
    }
    best.map(|(_, best)| best).expect("there is at least one limit")
}

fn good(record: &Record) -> Good {
    record.bins.iter().map(|bin| bin.good).collect()
}

fn bins(time: u64) -> usize {
    super::record::index(time)
}
