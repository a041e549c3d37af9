//! Runs what the command line asks for and prints what came of it.

use serde_json::{Map, Value, json};

use crate::{
    cli::Options,
    sim::{
        expect::check,
        metrics::{METRICS, Report, metric},
        oracle::{Static, best_static},
        policy::Policy,
        scenario::Scenario,
        world,
    },
    svg,
};

/// Whether all expectations held.
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    if options.help {
        print!("{}", include_str!("FORMAT.md"));
        return Ok(true);
    }
    if options.check {
        return check_all(options);
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
            if let Some(path) = &options.svg {
                let drawing = svg::draw(&scenario, &reports[0]);
                std::fs::write(path, drawing).map_err(|error| format!("{}: {error}", path.display()))?;
            }
        }
    }
    Ok(all_hold)
}

/// Checks the expectations and the controls of all scenarios, and prints what is wrong.
fn check_all(options: &Options) -> Result<bool, String> {
    let mut all_hold = true;
    for scenario in options.scenarios(options.laws.first().map(String::as_str))? {
        let wrong = check(&scenario);
        println!("{} {}", if wrong.is_empty() { "ok    " } else { "FAILED" }, scenario.name);
        wrong.iter().for_each(|it| println!("       {it}"));
        all_hold &= wrong.is_empty();
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

/// A law for tables: the best limit that never moves, found anew for each scenario.
const BEST_STATIC: Option<&str> = Some("best-static");

/// Laws by scenarios, in Markdown: the metric of each scenario's focus, or the one that was asked for.
fn table(options: &Options) -> Result<(), String> {
    let wanted = options.metric.as_deref();
    let asked =
        wanted.map(|name| metric(name).ok_or_else(|| format!("--metric: found {name}, see --help"))).transpose()?;
    let laws: Vec<Option<&str>> = match options.laws.as_slice() {
        [] => vec![None],
        laws => laws.iter().map(|law| Some(law.as_str())).collect(),
    };
    let scenarios = options.scenarios(None)?;
    let mut rows: Vec<Vec<f64>> = vec![Vec::new(); scenarios.len()];
    for &law in &laws {
        for (row, mut scenario) in rows.iter_mut().zip(options.scenarios(law.filter(|_| law != BEST_STATIC))?) {
            let (window, metric) = scenario.focus;
            let metric = asked.unwrap_or(metric);
            let searches = law == BEST_STATIC || METRICS[metric].0 == "of_static";
            let best = searches.then(|| best_static(&scenario, &scenario.seeds));
            if let Some(best) = best.as_ref().filter(|_| law == BEST_STATIC) {
                scenario.policy = Policy::fixed(best.limit);
            }
            let report = Report::mean(&reports(&scenario, best.as_ref()));
            row.push(report.windows[window][metric]);
        }
    }
    let heads: Vec<_> = laws.iter().map(|law| law.unwrap_or("as given")).collect();
    println!("| scenario | {} |", heads.join(" | "));
    println!("|---|{}", "---:|".repeat(laws.len()));
    for (scenario, row) in scenarios.iter().zip(rows) {
        let cells: Vec<_> = row.iter().map(|value| format!("{value:.2}")).collect();
        let (window, metric) = scenario.focus;
        let (window, metric) = (&scenario.windows[window].name, METRICS[asked.unwrap_or(metric)].0);
        println!("| {}: {window}.{metric} | {} |", scenario.name, cells.join(" | "));
    }
    Ok(())
}
