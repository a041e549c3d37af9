//! The results, as a table for people and as JSON for programs.

use std::{fmt::Write, time::Duration};

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
}

impl Comparison {
    fn arrivals<'s>(&self, scenario: &'s Scenario) -> &'s [Arrival] {
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
    let Scenario { workers, service, deadline, showcase, .. } = scenario;
    writeln!(
        out,
        "The same load twice. Clients wait {} for an answer. Each backend has {workers} workers,",
        time(*deadline)
    )?;
    writeln!(out, "and a request takes one of them {} unless the backend is slow.", time(*service))?;
    for it in comparisons {
        writeln!(out, "\n{:<30}  {:^41} | {:^41}", it.name, "WITHOUT PROTECTION", it.layer)?;
        let columns = format!("{:>8} {:>8} {:>8} {:>6} {:>7}", "in time", "p50", "p99", "late", "refused");
        writeln!(out, "{:<13} {:>8} {:>7}  {columns} | {columns}", "phase", "offered", "at most")?;
        for (phase, about) in scenario.phases.iter().enumerate() {
            let seconds = about.length.as_secs_f64();
            let (without, with) = (it.without.phase(phase), it.with.phase(phase));
            let offered = per_second(without.offered(), seconds);
            let capacity = capacity(scenario, it.arrivals(scenario), phase);
            let (without, with) = (half(&without, seconds, *deadline), half(&with, seconds, *deadline));
            writeln!(out, "{:<13} {offered:>8} {:>5.0}/s  {without} | {with}", about.name, capacity)?;
        }
    }
    writeln!(
        out,
        "\nin time: answers within the deadline. at most: what the backend can do. p50 and p99: of requests not refused,"
    )?;
    writeln!(
        out,
        "from the moment they were due. late: no answer within the deadline. refused: {}.",
        refusals(comparisons)
    )?;

    let phase = &scenario.phases[*showcase];
    writeln!(out, "\nAnswered in time during \"{}\", by tenant", phase.name)?;
    write!(out, "{:<13} {:>8}", "tenant", "offered")?;
    for it in comparisons {
        write!(out, "   {:>4} without {:>4} with", it.name, it.name)?;
    }
    writeln!(out)?;
    for (tenant, name) in TENANTS.iter().enumerate() {
        let offered = comparisons.first().map_or(0, |it| it.without.cell(*showcase, tenant).offered());
        write!(out, "{name:<13} {:>8}", per_second(offered, phase.length.as_secs_f64()))?;
        for it in comparisons {
            let answered = |tally: &Tally| {
                let cell = tally.cell(*showcase, tenant);
                percent(cell.answered, cell.offered())
            };
            write!(out, "   {:>12} {:>9}", answered(&it.without), answered(&it.with))?;
        }
        writeln!(out)?;
    }
    for it in comparisons {
        for (run, tally) in [("without", &it.without), ("with", &it.with)] {
            for (message, count) in tally.failures() {
                writeln!(out, "! {} {run} protection: {count} requests failed otherwise: {message}", it.name)?;
            }
        }
    }
    Ok(())
}

fn half(cell: &Cell, seconds: f64, deadline: Duration) -> String {
    let latency = |quantile| match cell.latency(quantile) {
        None => "-".to_owned(),
        Some(latency) if latency >= deadline => format!("> {}", time(deadline)),
        Some(latency) => time(latency),
    };
    let share = |count| if count == 0 { "-".to_owned() } else { percent(count, cell.offered()) };
    format!(
        "{:>8} {:>8} {:>8} {:>6} {:>7}",
        per_second(cell.answered, seconds),
        latency(0.5),
        latency(0.99),
        share(cell.late),
        share(cell.rejections())
    )
}

/// How many requests such as those of this phase the backend can do in a second.
fn capacity(scenario: &Scenario, arrivals: &[Arrival], phase: usize) -> f64 {
    let work = arrivals.iter().filter(|arrival| arrival.phase == phase).map(|arrival| arrival.service.as_secs_f64());
    let (count, sum) = work.fold((0.0, 0.0), |(count, sum), work| (count + 1.0, sum + work));
    let mean = if sum > 0.0 { sum / count } else { scenario.service.as_secs_f64() };
    #[expect(clippy::cast_precision_loss, reason = "a handful of workers")]
    let workers = scenario.workers as f64;
    workers / mean / f64::from(scenario.phases[phase].slowness)
}

/// Which codes the refused requests got.
fn refusals(comparisons: &[Comparison]) -> String {
    let mut all: Vec<(&str, u64)> = Vec::new();
    for tally in comparisons.iter().flat_map(|it| [&it.without, &it.with]) {
        for (&code, &count) in (0..tally.phases())
            .map(|phase| tally.phase(phase))
            .flat_map(|cell| cell.rejected)
            .collect::<Vec<_>>()
            .iter()
            .map(|(code, count)| (code, count))
        {
            match all.iter_mut().find(|(known, _)| *known == code) {
                Some((_, sum)) => *sum += count,
                None => all.push((code, count)),
            }
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
