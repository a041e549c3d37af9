//! Markdown tables and quantiles.

use std::time::Duration;

pub fn head(columns: &[&str]) {
    println!("| {} |", columns.join(" | "));
    println!("|{}", "---|".repeat(columns.len()));
}

pub fn row(cells: &[String]) {
    println!("| {} |", cells.join(" | "));
}

/// The value that `percent` of a hundred don't exceed. Sorts.
pub fn quantile(values: &mut [Duration], percent: usize) -> Duration {
    values.sort_unstable();
    values.get((values.len() * percent / 100).min(values.len().saturating_sub(1))).copied().unwrap_or_default()
}

pub fn millis(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1e3)
}
