//! Where a server stays down after what brought it down has gone: a map over load, retries and how long callers wait.
//!
//! ```sh
//! cargo run --release -p admission-simulator --example second_state > second-state.svg
//! ```
//!
//! A pool of sixteen workers with a queue without an end loses seven tenths of its workers for ten seconds. Work goes on when its
//! caller has left, and callers come back. Such a state, which outlives its cause, is called metastable (Bronson et al., HotOS '21;
//! Isaacs et al., HotOS '25). The drawing goes to standard output, the numbers to standard error. It ends with 1 if a point with the
//! layer takes longer than 200 service times, or if all points without it recover, since then the map would say nothing.

use std::{error::Error, path::Path, process::ExitCode};

use admission_simulator::{
    metrics::Report,
    record::{STEP, index},
    scenario::Scenario,
};

const LOADS: [f64; 8] = [0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95];
/// How long callers wait, in service times.
const TIMEOUTS: [u32; 6] = [4, 6, 10, 15, 25, 40];
const RETRIES: [u32; 3] = [0, 1, 3];
const WAYS: [&str; 2] = ["without", "with patience alone"];
/// Service times in which all has to be well again, and seconds that are looked at.
const SOON: f64 = 200.0;
const LOOKED_AT: u32 = 60;
const SERVICE: f64 = 0.05;
const SEEDS: [u64; 3] = [1, 2, 3];

/// Service times from the end of the trouble until five seconds in a row have nine tenths of the goodput of perfect admission: the
/// longest of three seeds, and infinite where that does not happen within the time that is looked at.
fn recovers(load: f64, timeout: u32, retries: u32, way: &str) -> Result<f64, Box<dyn Error>> {
    let (rate, deadline, end) = (load * 16.0 / SERVICE, f64::from(timeout) * SERVICE * 1e3, 20 + LOOKED_AT);
    let policy = match way {
        "without" => "law = { kind = \"none\" }".to_owned(),
        _ => format!("patience = \"{deadline:.0}ms\""),
    };
    let text = format!(
        "duration = \"{end}s\"\nwarmup = \"2s\"\narrivals = {{ rate = {rate} }}\n\
         changes = [{{ at = \"10s\", workers = 0.3 }}, {{ at = \"20s\", workers = 1.0 }}]\n\
         service = {{ distribution = \"lognormal\", mean = \"50ms\", sigma = 0.5 }}\n\
         server = {{ model = \"pool\", workers = 16, abandoned = \"runs-on\" }}\n\
         clients = {{ deadline = \"{deadline:.0}ms\", retries = {retries}, backoff = \"100ms\" }}\n\
         policy = {{ {policy} }}\n"
    );
    let scenario = Scenario::read("point", &text.parse()?, Path::new("."))?;
    let times = SEEDS.map(|seed| {
        let report = Report::run(&scenario, &scenario.policy, seed, None);
        let is_well = |at: &usize| {
            let span = *at..*at + index(5_000_000_000);
            let good: f64 = report.bins[span.clone()].iter().map(|bin| f64::from(bin.good)).sum();
            good >= 0.9 * report.ideal[span].iter().map(|it| it.good).sum::<f64>()
        };
        let (from, to) = (index(20_000_000_000), index(u64::from(end - 5) * 1_000_000_000));
        (from..to).find(is_well).map_or(f64::INFINITY, |at| f64::from(u32::try_from(at - from).unwrap_or(u32::MAX)))
    });
    let bins_of_a_service_time = SERVICE * 1e9 / STEP as f64;
    Ok(times.into_iter().fold(0.0, f64::max) / bins_of_a_service_time)
}

const CELL: [f64; 2] = [30.0, 18.0];
const STYLE: &str = "\
.map text { font: 11px system-ui, sans-serif; fill: #333 } .map .title { font-size: 13px; font-weight: 600 } \
.map .back { fill: #fff } .map .soon { fill: #1a985055 } .map .late { fill: #f4a58288 } .map .never { fill: #d6604dcc } \
@media (prefers-color-scheme: dark) { .map text { fill: #ddd } .map .back { fill: #16181d } } \
.rustdoc .map text { fill: var(--main-color) } .rustdoc .map .back { fill: var(--main-background-color) }";

/// One map: a cell for each load and patience, with the service times that it takes.
fn drawn(at: [f64; 2], title: &str, cells: &[[f64; LOADS.len()]; TIMEOUTS.len()]) -> String {
    let text = |x: f64, y: f64, anchor: &str, text: &str| {
        format!("<text x=\"{x:.0}\" y=\"{y:.0}\" text-anchor=\"{anchor}\">{text}</text>\n")
    };
    let mut drawn = format!("<text class=\"title\" x=\"{:.0}\" y=\"{:.0}\">{title}</text>\n", at[0], at[1] - 8.0);
    let middle = CELL[0] / 2.0;
    for (row, (timeout, cells)) in TIMEOUTS.iter().zip(cells).enumerate() {
        let y = at[1] + CELL[1] * f64::from(u32::try_from(row).unwrap_or_default());
        drawn += &text(at[0] - 4.0, y + 13.0, "end", &timeout.to_string());
        for (column, time) in cells.iter().enumerate() {
            let x = at[0] + CELL[0] * f64::from(u32::try_from(column).unwrap_or_default());
            let (class, label) = match time {
                it if *it <= SOON => ("soon", format!("{it:.0}")),
                it if it.is_finite() => ("late", format!("{it:.0}")),
                _ => ("never", "–".to_owned()),
            };
            let [width, height] = CELL.map(|it| it - 1.0);
            drawn +=
                &format!("<rect class=\"{class}\" x=\"{x:.0}\" y=\"{y:.0}\" width=\"{width}\" height=\"{height}\"/>\n");
            drawn += &text(x + middle, y + 13.0, "middle", &label);
            if row + 1 == TIMEOUTS.len() {
                drawn += &text(x + middle, y + CELL[1] + 13.0, "middle", &format!("{:.0} %", LOADS[column] * 100.0));
            }
        }
    }
    drawn
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let (mut maps, mut longest, mut late) = (String::new(), 0.0_f64, [0; 2]);
    for (row, way) in WAYS.into_iter().enumerate() {
        for (column, retries) in RETRIES.into_iter().enumerate() {
            let mut cells = [[0.0; LOADS.len()]; TIMEOUTS.len()];
            for (timeout, cells) in TIMEOUTS.into_iter().zip(&mut cells) {
                for (load, cell) in LOADS.into_iter().zip(cells) {
                    *cell = recovers(load, timeout, retries, way)?;
                    eprintln!("{way}: load {load}, callers wait {timeout} service times, {retries} retries: {cell:.0}");
                    late[row] += usize::from(*cell > SOON);
                    if row > 0 {
                        longest = longest.max(*cell);
                    }
                }
            }
            let place =
                |it: usize, step: f64, from: f64| from + step * f64::from(u32::try_from(it).unwrap_or_default());
            let title = format!("{way}, {retries} {}", if retries == 1 { "retry" } else { "retries" });
            maps += &drawn([place(column, 290.0, 40.0), place(row, 160.0, 60.0)], &title, &cells);
        }
    }
    println!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 900 350\" class=\"map\" role=\"img\">\n<style>{STYLE}</style>\n\
         <title>Service times until a server is well again after an outage, by load, patience and retries</title>\n\
         <rect class=\"back\" width=\"900\" height=\"350\"/>\n<text x=\"12\" y=\"20\">Service times until all is well again (–: not within \
         1,100); across: load; down: how long callers wait, in service times</text>\n{maps}</svg>"
    );
    let all = LOADS.len() * TIMEOUTS.len() * RETRIES.len();
    eprintln!(
        "longer than 200 service times, of {all} points: {} without, {} with; {longest:.0} at most with",
        late[0], late[1]
    );
    Ok(if late[0] > 0 && late[1] == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
