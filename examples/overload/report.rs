//! The results, as a table for people and as JSON for programs.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use serde_json::{Value, json};

use crate::{
    schedule::{Arrival, Scenario, TENANTS},
    tally::{Cell, Tally},
};

/// One protocol, without protection and with it.
pub(crate) struct Comparison {
    pub(crate) name: &'static str,
    pub(crate) layer: &'static str,
    pub(crate) without: Tally,
    pub(crate) with: Tally,
    /// Where nothing was set but how long clients wait.
    pub(crate) by_patience: Option<Tally>,
}

impl Comparison {
    fn runs(&self) -> impl Iterator<Item = (&'static str, &Tally)> {
        let by_patience = self.by_patience.iter().map(|tally| ("default", tally));
        [("without", &self.without), ("with", &self.with)].into_iter().chain(by_patience)
    }

    pub(crate) fn arrivals<'s>(&self, scenario: &'s Scenario) -> &'s [Arrival] {
        if self.name == "HTTP" { &scenario.http } else { &scenario.grpc }
    }
}

pub(crate) fn table(scenario: &Scenario, comparisons: &[Comparison]) -> String {
    let mut out = String::new();
    // Writing to a string can't fail.
    let _ = write_table(&mut out, scenario, comparisons);
    out
}

fn write_table(out: &mut String, scenario: &Scenario, comparisons: &[Comparison]) -> std::fmt::Result {
    writeln!(out, "The same load each time: without protection and with it.\n{}", scenario.about)?;
    for it in comparisons {
        writeln!(out, "\n{}: {}", it.name, it.layer)?;
        let columns = ["phase", "offered", "at most", "", "in time", "p50", "p99", "late", "refused"];
        line(out, columns)?;
        for (phase, about) in scenario.phases.iter().enumerate() {
            let seconds = about.length.as_secs_f64();
            let offered = per_second(it.without.phase(phase).offered(), seconds);
            let capacity = format!("{:.0}/s", capacity(scenario, it.arrivals(scenario), phase));
            let load = std::iter::once([about.name.as_str(), &offered, &capacity]).chain(std::iter::repeat([""; 3]));
            for (load, (run, tally)) in load.zip(it.runs()) {
                let [in_time, p50, p99, late, refused] = results(&tally.phase(phase), seconds, scenario.deadline);
                line(out, [load[0], load[1], load[2], run, &in_time, &p50, &p99, &late, &refused])?;
            }
        }
    }
    write_tenants(out, scenario, comparisons)?;
    write!(
        out,
        "\n\
         in time  answers within the deadline, counted in the phase in which they were due\n\
         at most  what the backend can do; a phase that leaves work to the next gets more\n\
         p50 p99  of requests that were not refused, from the moment they were due\n\
         late     no answer within the deadline\n\
         refused  {}\n",
        refusals(comparisons)
    )?;
    if comparisons.iter().any(|it| it.by_patience.is_some()) {
        writeln!(out, "default  nothing is set but how long clients wait, and the shares; \"with\" was tuned by hand")?;
    }
    for it in comparisons {
        for (run, tally) in it.runs() {
            for (message, count) in tally.failures() {
                writeln!(out, "! {}, {run}: {count} requests failed otherwise: {message}", it.name)?;
            }
        }
    }
    Ok(())
}

/// A line of 80 columns at most.
fn line(
    out: &mut String,
    [phase, offered, at_most, run, in_time, p50, p99, late, refused]: [&str; 9],
) -> std::fmt::Result {
    writeln!(
        out,
        "{phase:<12} {offered:>7} {at_most:>7}  {run:<7} {in_time:>7} {p50:>8} {p99:>8} {late:>7} {refused:>7}"
    )
}

fn write_tenants(out: &mut String, scenario: &Scenario, comparisons: &[Comparison]) -> std::fmt::Result {
    let showcase = scenario.showcase;
    let phase = &scenario.phases[showcase];
    writeln!(out, "\nAnswered in time during \"{}\", by tenant", phase.name)?;
    write!(out, "{:<12} {:>7}", "tenant", "offered")?;
    for it in comparisons {
        write!(out, "   {} without {} with", it.name, it.name)?;
    }
    writeln!(out)?;
    for (tenant, name) in TENANTS.iter().enumerate() {
        let offered = comparisons.first().map_or(0, |it| it.without.cell(showcase, tenant).offered());
        write!(out, "{name:<12} {:>7}", per_second(offered, phase.length.as_secs_f64()))?;
        for it in comparisons {
            let answered = |tally: &Tally| {
                let cell = tally.cell(showcase, tenant);
                percent(cell.answered, cell.offered())
            };
            write!(out, "   {:>12} {:>9}", answered(&it.without), answered(&it.with))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The right half of a line.
fn results(cell: &Cell, seconds: f64, deadline: Duration) -> [String; 5] {
    let latency = |quantile| match cell.latency(quantile) {
        None => "-".to_owned(),
        Some(latency) if latency >= deadline => format!("> {}", time(deadline)),
        Some(latency) => time(latency),
    };
    let share = |count| if count == 0 { "-".to_owned() } else { percent(count, cell.offered()) };
    [per_second(cell.answered, seconds), latency(0.5), latency(0.99), share(cell.late), share(cell.rejections())]
}

/// How many requests such as those of this phase the backend can do in a second.
pub(crate) fn capacity(scenario: &Scenario, arrivals: &[Arrival], phase: usize) -> f64 {
    let services = arrivals.iter().filter(|arrival| arrival.phase == phase).map(|arrival| arrival.service);
    let (count, sum) = services.fold((0, Duration::ZERO), |(count, sum), service| (count + 1, sum + service));
    let mean = sum.checked_div(count).filter(|mean| !mean.is_zero()).unwrap_or(scenario.service);
    #[expect(clippy::cast_precision_loss, reason = "a handful of workers")]
    let workers = scenario.workers as f64;
    workers / mean.as_secs_f64() / f64::from(scenario.phases[phase].slowness)
}

/// Which codes the refused requests got.
fn refusals(comparisons: &[Comparison]) -> String {
    let mut all = BTreeMap::<_, u64>::new();
    for tally in comparisons.iter().flat_map(|it| it.runs().map(|(_, tally)| tally)) {
        for (code, count) in (0..tally.phases()).flat_map(|phase| tally.phase(phase).rejected) {
            *all.entry(code).or_default() += count;
        }
    }
    let all: Vec<_> = all.iter().map(|(code, count)| format!("{count} with {code}")).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

fn time(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1_000.0;
    match millis {
        1_000.0.. => format!("{} s", (millis / 10.0).round() / 100.0),
        10.0.. => format!("{millis:.0} ms"),
        _ => format!("{millis:.1} ms"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run of a minute")]
fn per_second(count: u64, seconds: f64) -> String {
    format!("{:.0}/s", count as f64 / seconds)
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run of a minute")]
fn percent(count: u64, of: u64) -> String {
    let percent = count as f64 * 100.0 / of.max(1) as f64;
    match percent {
        // Neither all nor nothing is said of what is only nearly so.
        0.0..0.05 if count > 0 => "< 0.1 %".to_owned(),
        99.95..100.0 => "99.9 %".to_owned(),
        99.5..100.0 | 0.0..0.95 if count > 0 => format!("{percent:.1} %"),
        _ => format!("{percent:.0} %"),
    }
}

pub(crate) fn json(scenario: &Scenario, comparisons: &[Comparison]) -> Value {
    let protocols: Vec<_> = comparisons
        .iter()
        .map(|it| {
            json!({
                "protocol": it.name,
                "layer": it.layer,
                "without_protection": run(scenario, it, &it.without),
                "with_protection": run(scenario, it, &it.with),
                "with_patience_alone": it.by_patience.as_ref().map(|tally| run(scenario, it, tally)),
            })
        })
        .collect();
    json!({
        "workers": scenario.workers,
        "service_seconds": scenario.service.as_secs_f64(),
        "deadline_seconds": scenario.deadline.as_secs_f64(),
        "protocols": protocols,
    })
}

fn run(scenario: &Scenario, comparison: &Comparison, tally: &Tally) -> Value {
    let phases = scenario.phases.iter().enumerate().map(|(index, phase)| {
        let seconds = phase.length.as_secs_f64();
        let tenants = TENANTS.iter().enumerate().map(|(tenant, &name)| {
            let mut value = cell(tally.cell(index, tenant), seconds);
            value["tenant"] = name.into();
            value
        });
        let mut value = cell(&tally.phase(index), seconds);
        value["phase"] = phase.name.as_str().into();
        value["seconds"] = seconds.into();
        value["capacity_per_second"] = capacity(scenario, comparison.arrivals(scenario), index).into();
        value["tenants"] = tenants.collect();
        value
    });
    phases.collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run of a minute")]
fn cell(cell: &Cell, seconds: f64) -> Value {
    let latency = |quantile| cell.latency(quantile).map(|latency| latency.as_secs_f64());
    json!({
        "offered": cell.offered(),
        "answered_in_time": cell.answered,
        "goodput_per_second": cell.answered as f64 / seconds,
        "late": cell.late,
        "rejected": cell.rejected,
        "failed": cell.failed,
        "accepted_p50_seconds": latency(0.5),
        "accepted_p99_seconds": latency(0.99),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_never_claim_all_or_nothing_of_what_is_only_nearly_so() {
        let all = [(0, 10), (1, 10_000), (1, 200), (1, 3), (999, 1_000), (99_999, 100_000), (10, 10)];
        let text = all.map(|(count, of)| percent(count, of));
        assert_eq!(text, ["0 %", "< 0.1 %", "0.5 %", "33 %", "99.9 %", "99.9 %", "100 %"]);
    }

    #[test]
    fn times_are_short() {
        let text = [8_960, 100_400, 999_900, 1_000_000, 12_345_678].map(|micros| time(Duration::from_micros(micros)));
        assert_eq!(text, ["9.0 ms", "100 ms", "1000 ms", "1 s", "12.35 s"]);
    }
}
