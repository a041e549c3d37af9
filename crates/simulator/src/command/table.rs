//! Laws against scenarios, in Markdown.

use super::options::Options;
use crate::{
    metrics::Report,
    oracle::best_static,
    policy::Policy,
    scenario::Scenario,
    windows::{METRICS, metric},
};

/// A law for tables: the best limit that never moves, found anew for each scenario.
const BEST_STATIC: &str = "best-static";

/// Prints a row per scenario as soon as it is known: the metric of its focus, or the one that was asked for. Under drawn
/// scenarios, which are about the same, stand the mean and the worst of each law.
#[expect(clippy::cast_precision_loss, reason = "few scenarios")]
pub(crate) fn print(options: &Options) -> Result<(), String> {
    let wanted = options.metric.as_deref();
    let asked =
        wanted.map(|name| metric(name).ok_or_else(|| format!("--metric: found {name}, see --help"))).transpose()?;
    let mut laws = options.laws();
    if options.draw.is_some() && options.search && !laws.contains(&Some(BEST_STATIC)) {
        laws.push(Some(BEST_STATIC));
    }
    let columns = laws.iter().map(|law| options.scenarios(law.filter(|&law| law != BEST_STATIC)));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let heads: Vec<_> = laws.iter().map(|law| law.unwrap_or("as given")).collect();
    sayln!("| scenario | {} |", heads.join(" | "));
    sayln!("|---|{}", "---:|".repeat(laws.len()));
    let mut rows = Vec::new();
    for index in 0..columns[0].len() {
        let cells = laws.iter().zip(&columns).map(|(&law, scenarios)| cell(&scenarios[index], law, asked));
        let row: Vec<f64> = cells.collect();
        let scenario = &columns[0][index];
        let (window, metric) = scenario.focus;
        let what = match options.draw {
            Some(_) => scenario.about.clone(),
            None => format!("{}.{}", scenario.windows[window].name, METRICS[asked.unwrap_or(metric)].0),
        };
        print_row(&format!("{}: {what}", scenario.name), &row);
        rows.push(row);
    }
    if options.draw.is_some() {
        let column = |law: usize| rows.iter().map(move |row| row[law]);
        let mean = |law| column(law).sum::<f64>() / rows.len() as f64;
        print_row("mean", &(0..laws.len()).map(mean).collect::<Vec<_>>());
        let worst = |law| column(law).fold(f64::INFINITY, f64::min);
        print_row("worst", &(0..laws.len()).map(worst).collect::<Vec<_>>());
    }
    Ok(())
}

fn print_row(head: &str, row: &[f64]) {
    let cells: Vec<_> = row.iter().map(|value| format!("{value:.2}")).collect();
    sayln!("| {head} | {} |", cells.join(" | "));
}

/// One number: the mean of all seeds.
fn cell(scenario: &Scenario, law: Option<&str>, asked: Option<usize>) -> f64 {
    let (window, metric) = scenario.focus;
    let metric = asked.unwrap_or(metric);
    let is_best = law == Some(BEST_STATIC);
    let best = (is_best || METRICS[metric].0 == "of_static").then(|| best_static(scenario, &scenario.seeds));
    let mut scenario = scenario.clone();
    if let Some(best) = best.as_ref().filter(|_| is_best) {
        scenario.policy = Policy::fixed(best.limit);
    }
    Report::mean(&Report::of_seeds(&scenario, best.as_ref())).windows[window][metric]
}
