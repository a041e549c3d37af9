//! What each rule of `TwoPoint` is good for: all scenarios with all rules, and then without one rule at a time.

use tower_admission::limit::TwoPoint;

use super::options::Options;
use crate::{metrics::Report, scenario::Scenario, windows::METRICS};

/// Numbers that are parts of a whole, of which more is better: only these can be averaged over scenarios.
const PARTS: [&str; 2] = ["goodput", "served"];

/// A scenario's name and the number that it stands for.
type Score = (String, f64);

/// Prints a row for each rule: what the files and the drawn scenarios lose without the rule, on average and at the most.
pub(crate) fn print(options: &Options) -> Result<(), String> {
    let groups = options.groups();
    let heads: Vec<_> = groups.iter().map(|(name, _)| format!("{name} | most lost")).collect();
    sayln!("| without | {} |", heads.join(" | "));
    sayln!("|---|{}", "---:|---|".repeat(groups.len()));
    let run = |law: &str| -> Result<Vec<Vec<Score>>, String> {
        groups.iter().map(|(_, options)| Ok(options.scenarios(Some(law))?.iter().filter_map(score).collect())).collect()
    };
    let whole = run("two-point")?;
    let cells: Vec<_> = whole.iter().map(|scores| format!("{:.2} of {} |", mean(scores).0, scores.len())).collect();
    sayln!("| nothing | {} |", cells.join(" | "));
    for rule in TwoPoint::rules() {
        let without = run(&format!("two-point:without={rule}"))?;
        let cells: Vec<_> = whole.iter().zip(&without).map(|(whole, without)| cell(whole, without)).collect();
        sayln!("| {rule} | {} |", cells.join(" | "));
    }
    Ok(())
}

/// Returns the number that a scenario stands for, if it is a part of a whole.
fn score(scenario: &Scenario) -> Option<Score> {
    let (window, metric) = scenario.focus;
    PARTS.contains(&METRICS[metric].0).then(|| {
        let value = Report::mean(&Report::of_seeds(scenario, None)).windows[window][metric];
        (scenario.name.clone(), value)
    })
}

/// Returns in words by how much the scores are lower without a rule, and where most.
fn cell(whole: &[Score], without: &[Score]) -> String {
    let lost: Vec<Score> =
        whole.iter().zip(without).map(|((name, whole), (_, score))| (name.clone(), whole - score)).collect();
    let (average, error) = mean(&lost);
    let most = lost.iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, lost)| *lost >= 0.5);
    let most = most.map_or_else(String::new, |(name, lost)| format!("{name} {lost:.1}"));
    format!("{average:+.2} ± {error:.2} | {most}")
}

/// Returns the mean of the scores, and its standard error.
#[expect(clippy::cast_precision_loss, reason = "few scenarios")]
fn mean(scores: &[Score]) -> (f64, f64) {
    let count = scores.len().max(1) as f64;
    let mean = scores.iter().map(|(_, score)| score).sum::<f64>() / count;
    let squares = scores.iter().map(|(_, score)| (score - mean).powi(2)).sum::<f64>();
    (mean, (squares / (count - 1.0).max(1.0) / count).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(values: &[f64]) -> Vec<Score> {
        values.iter().enumerate().map(|(index, &value)| (format!("it-{index}"), value)).collect()
    }

    #[test]
    fn a_row_names_the_scenario_that_loses_most() {
        let (whole, without) = (scores(&[90.0, 80.0, 70.0]), scores(&[90.0, 74.0, 71.0]));
        assert_eq!(cell(&whole, &without), "+1.67 ± 2.19 | it-1 6.0");
        assert_eq!(cell(&whole, &whole), "+0.00 ± 0.00 | ");
    }

    #[test]
    fn a_rule_that_is_switched_off_is_missed_and_an_unknown_one_is_an_error() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/born-in-overload.toml");
        let arguments: Vec<_> = ["--seeds", "1", file].map(str::to_owned).into();
        let options = Options::read(&arguments).unwrap();
        let goodput = |law| score(&options.scenarios(Some(law)).unwrap()[0]).unwrap().1;
        assert!(goodput("two-point") > 90.0);
        assert!(
            (goodput("two-point:without=hurry") - goodput("two-point")).abs() > 1e-9,
            "hurry is a part of the start"
        );
        let problem = options.scenarios(Some("two-point:without=magic")).unwrap_err();
        assert!(problem.contains("found magic"), "{problem}");
    }
}
