//! Runs what the command line asks for and prints what came of it.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::{ablation, multiples, options::Options, replay, svg, table};
use crate::{
    check::{check, violations},
    metrics::Report,
    oracle::{Static, best_static},
    scenario::Scenario,
    windows::METRICS,
};

/// Whether all expectations held.
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    if options.help {
        let all = include_str!("../../FORMAT.md");
        let end = all.split_inclusive("\n\n").take_while(|part| !part.starts_with("## ")).map(str::len).sum();
        say!("{}", &all[..if options.is_brief { end } else { all.len() }]);
        return Ok(true);
    }
    if let Some(file) = &options.replay {
        return replay::run(file, &options.policies, options.json);
    }
    if let Some(folder) = &options.write {
        return options.write_drawn(folder).map(|()| true);
    }
    if options.ablate {
        return ablation::print(options).map(|()| true);
    }
    if options.check {
        return check_all(options);
    }
    if options.table || (options.draw.is_some() && !options.json) {
        return table::print(options).map(|()| true);
    }
    let mut all_hold = true;
    let mut runs = Vec::new();
    for law in options.laws() {
        for scenario in options.scenarios(law)? {
            let best = options.search.then(|| best_static(&scenario, &scenario.seeds));
            let mut reports = Report::of_seeds(&scenario, best.as_ref());
            let violations = violations(&scenario, &reports);
            all_hold &= violations.is_empty();
            if options.json {
                sayln!("{}", to_json(&scenario, &reports, best.as_ref(), &violations));
            } else {
                print(&scenario, &reports, best.as_ref(), &violations);
            }
            if options.svg.is_some() {
                runs.push((scenario, reports.remove(0)));
            }
        }
    }
    if let Some(path) = &options.svg {
        write_drawing(path, &runs)?;
    }
    Ok(all_hold)
}

/// Draws one run, or one scenario under several laws.
fn write_drawing(path: &Path, runs: &[(Scenario, Report)]) -> Result<(), String> {
    let drawing = match runs {
        [(scenario, report)] => svg::draw(scenario, report),
        [(first, _), others @ ..] if others.iter().all(|(other, _)| other.name == first.name) => multiples::draw(runs),
        _ => return Err("--svg: allowed is one scenario, with any number of laws".to_owned()),
    };
    std::fs::write(path, drawing).map_err(|error| format!("{}: {error}", path.display()))
}

/// Checks the expectations and the controls of all scenarios, and prints what is wrong.
fn check_all(options: &Options) -> Result<bool, String> {
    let mut all_hold = true;
    for scenario in options.scenarios(options.laws()[0])? {
        let wrong = check(&scenario);
        sayln!("{} {}", if wrong.is_empty() { "ok    " } else { "FAILED" }, scenario.name);
        wrong.iter().for_each(|it| sayln!("       {it}"));
        all_hold &= wrong.is_empty();
    }
    Ok(all_hold)
}

fn print(scenario: &Scenario, reports: &[Report], best: Option<&Static>, violations: &[String]) {
    sayln!("{}: {}", scenario.name, scenario.about);
    say!("law {}, seeds {:?}", scenario.policy.law(), scenario.seeds);
    if let Some(best) = best {
        say!(", best static limit {}", best.limit);
    }
    sayln!("\n");
    let mean = Report::mean(reports);
    say!("{:<16}", "");
    scenario.windows.iter().for_each(|window| say!("{:>12}", window.name));
    sayln!();
    for (metric, (name, _)) in METRICS.iter().enumerate() {
        if mean.windows.iter().all(|values| values[metric].is_nan()) {
            continue;
        }
        say!("{name:<16}");
        mean.windows.iter().for_each(|values| say!("{:>12.2}", values[metric]));
        sayln!();
    }
    let last = scenario.duration / crate::record::STEP;
    let every = (last / 20).max(1);
    say!("\nlimit over time ");
    for (index, bin) in mean.bins.iter().enumerate().take(usize::try_from(last).unwrap_or(usize::MAX)) {
        if index as u64 % every == every - 1 {
            say!(" {}", bin.limit);
        }
    }
    sayln!("\nhash {:016x} after {} events", mean.hash, mean.events);
    for violation in violations {
        sayln!("VIOLATED {violation}");
    }
    sayln!();
}

fn to_json(scenario: &Scenario, reports: &[Report], best: Option<&Static>, violations: &[String]) -> Value {
    let mean = Report::mean(reports);
    let windows: Map<_, _> = scenario
        .windows
        .iter()
        .zip(&mean.windows)
        .map(|(window, values)| {
            let values: Map<_, _> =
                METRICS.iter().zip(values).map(|((name, _), value)| ((*name).to_owned(), json!(value))).collect();
            (window.name.clone(), Value::Object(values))
        })
        .collect();
    let tenants: Vec<_> = scenario
        .tenants
        .iter()
        .enumerate()
        .map(|(index, tenant)| {
            let [offered, good, fair] = mean.tenants[0][index];
            json!({ "name": tenant.name, "offered": offered, "good": good, "fair_share": fair })
        })
        .collect();
    json!({
        "scenario": scenario.name,
        "law": scenario.policy.law(),
        "seeds": scenario.seeds,
        "best_static_limit": best.map(|best| best.limit),
        "windows": windows,
        "tenants_of_first_seed": tenants,
        "limit_every_100_ms_of_first_seed": mean.bins.iter().map(|bin| bin.limit).collect::<Vec<_>>(),
        "hashes": reports.iter().map(|report| format!("{:016x}", report.hash)).collect::<Vec<_>>(),
        "violations": violations,
    })
}
