//! Runs what the command line asks for and prints what came of it.

use serde_json::{Map, Value, json};

use crate::{
    cli::Options,
    sim::{
        metrics::{METRICS, Report, metric},
        oracle::{Static, best_static},
        scenario::Scenario,
        world,
    },
};

/// Whether all expectations held.
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    if options.help {
        println!("help comes later");
        return Ok(true);
    }
    if options.table {
        return table(options).map(|()| true);
    }
    let mut all_hold = true;
    let laws: Vec<Option<&str>> = match options.laws.as_slice() {
        [] => vec![None],
        laws => laws.iter().map(|law| Some(law.as_str())).collect(),
    };
    for law in laws {
        for scenario in options.scenarios(law)? {
            let best = options.search.then(|| best_static(&scenario, &scenario.seeds));
            let reports = reports(&scenario, best.as_ref());
            let violations = violations(&scenario, &reports);
            all_hold &= violations.is_empty();
            if options.json {
                println!("{}", to_json(&scenario, &reports, best.as_ref(), &violations));
            } else {
                print(&scenario, &reports, best.as_ref(), &violations);
            }
        }
    }
    Ok(all_hold)
}

fn reports(scenario: &Scenario, best: Option<&Static>) -> Vec<Report> {
    let report = |(index, &seed): (usize, &u64)| {
        Report::new(scenario, world::run(scenario, &scenario.policy, seed), best.map(|best| (best, index)))
    };
    scenario.seeds.iter().enumerate().map(report).collect()
}

fn violations(scenario: &Scenario, reports: &[Report]) -> Vec<String> {
    let of_seed = |(seed, report): (&u64, &Report)| {
        let violations = scenario.expectations.iter().filter_map(|it| it.violation(report));
        violations.map(|violation| format!("seed {seed}: {violation}")).collect::<Vec<_>>()
    };
    scenario.seeds.iter().zip(reports).flat_map(of_seed).collect()
}

fn print(scenario: &Scenario, reports: &[Report], best: Option<&Static>, violations: &[String]) {
    println!("{}: {}", scenario.name, scenario.about);
    print!("law {}, seeds {:?}", scenario.policy.law(), scenario.seeds);
    if let Some(best) = best {
        print!(", best static limit {}", best.limit);
    }
    println!("\n");
    let mean = Report::mean(reports);
    print!("{:<16}", "");
    scenario.windows.iter().for_each(|window| print!("{:>12}", window.name));
    println!();
    for (metric, (name, _)) in METRICS.iter().enumerate() {
        if mean.windows.iter().all(|values| values[metric].is_nan()) {
            continue;
        }
        print!("{name:<16}");
        mean.windows.iter().for_each(|values| print!("{:>12.2}", values[metric]));
        println!();
    }
    let last = scenario.duration / super::sim::record::STEP;
    let every = (last / 20).max(1);
    print!("\nlimit over time ");
    for (index, bin) in mean.bins.iter().enumerate().take(usize::try_from(last).unwrap_or(usize::MAX)) {
        if index as u64 % every == every - 1 {
            print!(" {}", bin.limit);
        }
    }
    println!("\nhash {:016x} after {} events", mean.hash, mean.events);
    for violation in violations {
        println!("VIOLATED {violation}");
    }
    println!();
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

/// Laws by scenarios, in Markdown: one metric of each scenario's focus.
fn table(options: &Options) -> Result<(), String> {
    let name = options.metric.as_deref().unwrap_or("goodput");
    let index = metric(name).ok_or_else(|| format!("--metric: found {name}"))?;
    let laws: Vec<&str> = options.laws.iter().map(String::as_str).collect();
    let scenarios = options.scenarios(None)?;
    let names: Vec<_> = scenarios.iter().map(|scenario| scenario.name.as_str()).collect();
    println!("| {name} | {} |", laws.join(" | "));
    println!("|---|{}", "---:|".repeat(laws.len()));
    let mut rows: Vec<Vec<f64>> = vec![Vec::new(); names.len()];
    for law in &laws {
        for (row, scenario) in rows.iter_mut().zip(options.scenarios(Some(law))?) {
            row.push(Report::mean(&reports(&scenario, None)).windows[scenario.focus][index]);
        }
    }
    for (name, row) in names.iter().zip(rows) {
        let cells: Vec<_> = row.iter().map(|value| format!("{value:.1}")).collect();
        println!("| {name} | {} |", cells.join(" | "));
    }
    Ok(())
}
