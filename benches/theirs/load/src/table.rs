//! The table: a row for each load and variant.

use crate::{Counters, Plan, Tally};

/// What a row is made of.
#[derive(Clone, Copy, Debug)]
pub struct Row<'r> {
    /// In capacities.
    pub load: f64,
    /// What limits the calls.
    pub variant: &'r str,
    /// What was planned.
    pub plan: &'r Plan,
    /// What the callers saw.
    pub tally: &'r Tally,
    /// What the server counted.
    pub counters: Counters,
}

/// The first two lines.
#[must_use]
pub fn header() -> String {
    let names = "load | variant | offered/s | in time/s | of capacity | refused/s | late or failed/s | p50 | p99 | wasted work | \
                 most at once | memory";
    format!("| {names} |\n|---:|---|{}", "---:|".repeat(10))
}

/// One line.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "counts of some millions")]
pub fn row(row: &Row<'_>) -> String {
    let Row { load, variant, plan, tally, counters } = *row;
    let per_second = |count: u64| count as f64 / tally.seconds;
    let time = |percent| tally.percentile(percent).map_or("–".to_owned(), |time| format!("{} ms", time.as_millis()));
    let capacity = per_second(tally.work) / plan.capacity * 100.0;
    let wasted = counters.work.saturating_sub(tally.all_work) as f64 / counters.work.max(1) as f64 * 100.0;
    let (offered, in_time) = (per_second(tally.offered), per_second(tally.in_time.len() as u64));
    let (refused, late, p50, p99) = (per_second(tally.refused), per_second(tally.late), time(50), time(99));
    let Counters { most, memory, .. } = counters;
    format!(
        "| {load} | {variant} | {offered:.0} | {in_time:.0} | {capacity:.0} % | {refused:.0} | {late:.0} | {p50} | {p99} | \
         {wasted:.0} % | {most} | {memory} MB |"
    )
}
