//! Replays the arrivals of a real trace.
//!
//! Reads the form of the public Azure LLM inference traces of 2023 (CC-BY), which were published with Patel et al.,
//! "Splitwise: Efficient generative LLM inference using phase splitting", ISCA 2024:
//!
//! ```text
//! TIMESTAMP,ContextTokens,GeneratedTokens
//! 2023-11-16 18:17:03.9799600,4808,10
//! ```
//!
//! A request of the trace takes a worker
//!
//! ```text
//! 0.25 ms * ContextTokens + 30 ms * GeneratedTokens
//! ```
//!
//! which is the order of magnitude of a large model: reading the prompt is fast per token, writing the answer is not.
//! With `--speed 150` all times pass 150 times faster: arrivals, work and the patience of clients, which is 30 s in the
//! time of the trace. The trace doesn't say who sent a request; the tenants take turns.

use std::{fs, path::Path, time::Duration};

use crate::schedule::{Arrival, Phase, Scenario, TENANTS};

const HEADER: &str = "TIMESTAMP,ContextTokens,GeneratedTokens";
const NANOS_PER_CONTEXT_TOKEN: u64 = 250_000;
const NANOS_PER_GENERATED_TOKEN: u64 = 30_000_000;
const PATIENCE: Duration = Duration::from_secs(30);
/// How much of the trace one line of the table speaks about.
const PHASE: Duration = Duration::from_secs(600);
/// With these a trace of one hour keeps six in ten of the workers busy on average, and all of them at its peaks.
const WORKERS: usize = 6;
/// What a run may cost; a longer trace wants a higher speed, a denser one is not for this example.
const LONGEST_RUN: Duration = Duration::from_secs(600);
const MOST_ROWS: usize = 200_000;

/// One line of the file: when, from the first line on, and how much work it is.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Row {
    nanos: u64,
    work: Duration,
}

/// The scenario that the trace at `path` makes, `speed` times faster than it was.
pub(crate) fn load(path: &Path, speed: f64) -> Result<Scenario, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: can't be read: {error}", path.display()))?;
    let rows = parse(&text).map_err(|problem| format!("{}:{problem}", path.display()))?;
    scenario(&rows, speed).map_err(|problem| format!("{}: {problem}", path.display()))
}

fn scenario(rows: &[Row], speed: f64) -> Result<Scenario, String> {
    let first = rows.iter().map(|row| row.nanos).min().unwrap_or_default();
    let last = rows.iter().map(|row| row.nanos).max().unwrap_or_default();
    let span = Duration::from_nanos(last - first);
    if span.div_f64(speed) > LONGEST_RUN {
        return Err(format!(
            "its {} s take {:.0} s at speed {speed}, allowed is {} s: raise --speed",
            span.as_secs(),
            span.div_f64(speed).as_secs_f64(),
            LONGEST_RUN.as_secs()
        ));
    }
    let mut arrivals: Vec<_> = rows
        .iter()
        .enumerate()
        .map(|(number, row)| {
            let at = Duration::from_nanos(row.nanos - first);
            let phase = usize::try_from(at.as_secs() / PHASE.as_secs()).unwrap_or(usize::MAX);
            let (at, service) = (at.div_f64(speed), row.work.div_f64(speed));
            Arrival { at, tenant: number % TENANTS.len(), phase, service }
        })
        .collect();
    arrivals.sort_by_key(|arrival| arrival.at);
    let count = arrivals.last().map_or(1, |last| last.phase + 1);
    let phases: Vec<_> = (0..count)
        .map(|phase| {
            let begin = PHASE * u32::try_from(phase).unwrap_or(u32::MAX);
            let end = (begin + PHASE).min(span.max(Duration::from_secs(1)));
            Phase {
                name: format!("min {}-{}", begin.as_secs() / 60, end.as_secs().div_ceil(60)),
                length: (end - begin.min(end)).div_f64(speed).max(Duration::from_millis(1)),
                slowness: 1,
            }
        })
        .collect();
    let work: Duration = rows.iter().map(|row| row.work).sum();
    let mean = work / u32::try_from(rows.len().max(1)).unwrap_or(u32::MAX);
    let per_phase = |phase| arrivals.iter().filter(|arrival| arrival.phase == phase).count();
    let showcase = (0..count).max_by_key(|&phase| per_phase(phase)).unwrap_or_default();
    let millis = |time: Duration| time.div_f64(speed).as_secs_f64() * 1_000.0;
    Ok(Scenario {
        about: format!(
            "Times are {speed} times shorter than in the trace. Each backend has {WORKERS} workers; a request\n\
             takes one of them for {:.1} ms on average. Clients wait {:.0} ms for an answer.",
            millis(mean),
            millis(PATIENCE)
        ),
        phases,
        http: arrivals.clone(),
        grpc: arrivals,
        workers: WORKERS,
        service: mean.div_f64(speed),
        deadline: PATIENCE.div_f64(speed),
        showcase,
    })
}

/// The rows of a trace, or `line: what is wrong with it`.
fn parse(text: &str) -> Result<Vec<Row>, String> {
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let header = lines.next().map_or("", |(_, line)| line.trim_start_matches('\u{feff}'));
    if header != HEADER {
        return Err(format!("1: found {}, allowed is the header {HEADER:?}", quoted(header)));
    }
    let mut rows = Vec::new();
    for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
        rows.push(row(line).map_err(|problem| format!("{number}: {problem}"))?);
        if rows.len() > MOST_ROWS {
            return Err(format!("{number}: found more than {MOST_ROWS} rows, which is the most that is allowed"));
        }
    }
    if rows.is_empty() { Err("2: found the end of the file, needed is at least one row".to_owned()) } else { Ok(rows) }
}

fn row(line: &str) -> Result<Row, String> {
    let fields: Vec<_> = line.split(',').collect();
    let [time, context, generated] = fields[..] else {
        return Err(format!("found {} fields in {}, needed are 3: {HEADER}", fields.len(), quoted(line)));
    };
    let nanos = timestamp(time).ok_or_else(|| {
        format!(
            "TIMESTAMP: found {}, allowed is a time such as 2023-11-16 18:17:03.9799600, from 1970 to 2200",
            quoted(time)
        )
    })?;
    let context = tokens("ContextTokens", context)?;
    let generated = tokens("GeneratedTokens", generated)?;
    let work = context * NANOS_PER_CONTEXT_TOKEN + generated * NANOS_PER_GENERATED_TOKEN;
    Ok(Row { nanos, work: Duration::from_nanos(work) })
}

fn tokens(name: &str, field: &str) -> Result<u64, String> {
    const MOST: u64 = 10_000_000;
    let number = field.trim().parse().ok().filter(|&tokens| tokens <= MOST);
    number.ok_or_else(|| format!("{name}: found {}, allowed is a whole number from 0 to {MOST}", quoted(field)))
}

/// Nanoseconds since 1970 of `2023-11-16 18:17:03.9799600`; one to nine digits after the point, or none.
fn timestamp(text: &str) -> Option<u64> {
    let (date, time) = text.trim().split_once(' ')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let in_range = (1970..2200).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    let digits = fraction.bytes().all(|byte| byte.is_ascii_digit()) && (1..=9).contains(&fraction.len());
    if !in_range || !digits {
        return None;
    }
    let days: u64 = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum::<u64>()
        + (1..month).map(|month| days_in(year, month)).sum::<u64>()
        + day
        - 1;
    let nanos: u64 = format!("{fraction:0<9}").parse().ok()?;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000_000 + nanos)
}

fn numbers(text: &str, separator: char) -> Option<[u64; 3]> {
    let parts: Option<Vec<u64>> = text
        .split(separator)
        .map(|part| part.parse().ok().filter(|_| part.bytes().all(|byte| byte.is_ascii_digit())))
        .collect();
    parts?.try_into().ok()
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn days_in(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// At most 60 characters of what was found: a line of a wrong file may be very long.
fn quoted(text: &str) -> String {
    let start: String = text.chars().take(60).collect();
    if start.len() < text.len() { format!("{start:?}…") } else { format!("{start:?}") }
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
