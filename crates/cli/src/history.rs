//! `admission history`: the last hour, in a number of rows that can be read.

use std::collections::BTreeMap;

use serde_json::Value;
use tower_admission::{
    introspection::{HistoryFrame, HistoryPage, HistoryRow},
    journal::{ChangeEntry, JournalEvent},
};

use crate::{
    args::HistoryArgs,
    client::{Client, block_on, encode},
    failure::{End, Failure},
    journal::{entry::in_words, now, time_of_day},
    table::{Cell, Table},
    text::{self, Look, Paint, safe, seconds},
};

/// Times that a row may be about, in seconds: they divide an hour, so that rows begin where clocks have a round time.
const WIDTHS: [f64; 12] = [1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 180.0, 300.0, 600.0];
/// Labels that a row names.
const NAMED: usize = 3;

pub(crate) fn run(args: &HistoryArgs) -> Result<End, Failure> {
    let client = Client::new(&args.server)?;
    let last = args.last.as_secs() + u64::from(args.last.subsec_nanos() > 0);
    let mut path = format!("/history?last={last}");
    for (name, value) in [("partition", &args.partition), ("label", &args.label), ("namespace", &args.namespace)] {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", encode(value)));
        }
    }
    if args.labels {
        path.push_str("&labels=top");
    }
    let (json, age) = block_on(client.get_dated(&path))?;
    let page: HistoryPage = client.read(json.clone())?;
    // All fields of a page have defaults: any object could be read as one.
    client.read::<Vec<serde::de::IgnoredAny>>(json["frames"].clone())?;
    if args.json {
        return text::print(&text::json(&json));
    }
    if page.frames.is_empty() {
        return text::print(
            "nothing is known yet: the history begins with the first call of `Admission::introspection`\n",
        );
    }
    if let Some(name) = unknown(&page, args) {
        return Err(Failure::Missing(name));
    }
    // By the clock of this machine, as in the journal.
    let began = now() - age;
    text::print(&(lines(&page, &json["marks"], began, args).join("\n") + "\n"))
}

/// Why there is nothing about what was asked for.
fn unknown(page: &HistoryPage, args: &HistoryArgs) -> Option<String> {
    let is_known = page.frames.iter().any(|it| !of(it, args).is_empty());
    let (name, why) = match (&args.label, &args.partition) {
        (Some(label), _) => (label, "the history has the sixteen labels with the most requests: --labels shows them"),
        (_, Some(partition)) => (partition, "no request of it came, or there is no such partition"),
        _ => return None,
    };
    (!is_known).then(|| format!("nothing is known about {:?} in this time: {why}", safe(name)))
}

/// The rows of a frame that are wanted.
fn of<'a>(frame: &'a HistoryFrame, args: &HistoryArgs) -> Vec<&'a HistoryRow> {
    match (&args.label, &args.partition) {
        (Some(_), _) => frame.labels.iter().collect(),
        (_, Some(_)) => frame.partitions.iter().collect(),
        _ => vec![&frame.whole],
    }
}

/// What happened in the time of a row.
#[derive(Debug, Default)]
struct Sum {
    seconds: f64,
    limits: Option<[usize; 2]>,
    in_flight: f64,
    waiting: f64,
    admitted: f64,
    rejected: f64,
    reasons: BTreeMap<String, u32>,
    labels: BTreeMap<String, f64>,
    rtt_p50: [f64; 2],
    rtt_p99: Option<f64>,
    wait_p99: Option<f64>,
}

impl Sum {
    fn add(&mut self, frame: &HistoryFrame, args: &HistoryArgs) {
        let time = frame.to_seconds - frame.from_seconds;
        self.seconds += time;
        let [least, greatest] = self.limits.unwrap_or([usize::MAX, 0]);
        self.limits = Some([least.min(frame.limit_min), greatest.max(frame.limit_max)]);
        for row in of(frame, args) {
            self.in_flight += row.in_flight * time;
            self.waiting += row.waiting * time;
            self.admitted += f64::from(row.admitted);
            self.rejected += row.rejected as f64;
            for it in &row.rejected_by {
                let reason = it.rule.as_ref().unwrap_or(&it.reason);
                *self.reasons.entry(reason.clone()).or_default() += it.count;
            }
            if let Some(p50) = row.rtt_p50_seconds {
                let count = f64::from(row.admitted.max(1));
                self.rtt_p50 = [self.rtt_p50[0] + p50 * count, self.rtt_p50[1] + count];
            }
            self.rtt_p99 = worse(self.rtt_p99, row.rtt_p99_seconds);
            self.wait_p99 = worse(self.wait_p99, row.wait_p99_seconds);
        }
        for row in frame.labels.iter().filter(|row| !row.name.is_empty()) {
            let namespace = if row.namespace.is_empty() { String::new() } else { format!("{}:", row.namespace) };
            let count = self.labels.entry(format!("{namespace}{}", row.name)).or_default();
            *count += f64::from(row.admitted) + row.rejected as f64;
        }
    }

    fn cells(&self, time: String, args: &HistoryArgs) -> [Cell; 10] {
        let per_second = |count: f64| format!("{:.1}", count / self.seconds.max(0.001));
        let or_none = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), seconds);
        let limit = match self.limits.unwrap_or_default() {
            [least, greatest] if least == greatest => least.to_string(),
            [least, greatest] => format!("{least}..{greatest}"),
        };
        let mean = |sum: f64| format!("{:.1}", sum / self.seconds.max(0.001));
        let [rtt, count] = self.rtt_p50;
        let last = if args.labels {
            let mut labels: Vec<_> = self.labels.iter().filter(|(_, count)| **count > 0.0).collect();
            labels.sort_by(|a, b| b.1.total_cmp(a.1));
            let labels = labels.into_iter().take(NAMED);
            let labels = labels.map(|(name, count)| format!("{} {}/s", text::cut(name), per_second(*count)));
            labels.collect::<Vec<_>>().join(", ")
        } else {
            let most = self.reasons.iter().max_by_key(|(_, count)| **count);
            most.map(|(reason, _)| reason.clone()).unwrap_or_default()
        };
        let look = if self.rejected > 0.0 { Look::Bad } else { Look::Plain };
        [
            Cell::from(time).with(Look::Dim),
            Cell::from(limit),
            Cell::from(mean(self.in_flight)),
            Cell::from(mean(self.waiting)),
            Cell::from(per_second(self.admitted)),
            Cell::from(per_second(self.rejected)).with(look),
            Cell::from(or_none((count > 0.0).then(|| rtt / count))),
            Cell::from(or_none(self.rtt_p99)),
            Cell::from(or_none(self.wait_p99)),
            Cell::from(last),
        ]
    }
}

fn worse(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::max)
}

/// The rows, and a line of its own for each change and for each time of which nothing is known.
fn lines(page: &HistoryPage, marks: &Value, began: f64, args: &HistoryArgs) -> Vec<String> {
    let wanted = args.last.as_secs_f64() / args.rows as f64;
    let width = WIDTHS.into_iter().find(|width| *width >= wanted).unwrap_or(WIDTHS[WIDTHS.len() - 1]);
    let row_of = |at: f64| ((began + at) / width).floor();
    let clock = |at: f64| time_of_day(began + at)[..8].to_owned();
    let mut rows: Vec<(f64, Sum)> = Vec::new();
    let mut between: Vec<(f64, String)> = Vec::new();
    for frame in &page.frames {
        let (from, time) = (frame.from_seconds, frame.to_seconds - frame.from_seconds);
        if frame.gap {
            between.push((from, format!("{}  the process stood still for {}", clock(from), seconds(time))));
            continue;
        }
        // A frame of ten seconds belongs to the row of its middle.
        let row = row_of(from + time / 2.0);
        if rows.last().is_none_or(|(last, _)| *last != row) {
            rows.push((row, Sum::default()));
        }
        if let Some((_, sum)) = rows.last_mut() {
            sum.add(frame, args);
        }
    }
    between.extend(changes(page, marks, row_of, clock));
    between.sort_by(|a, b| a.0.total_cmp(&b.0));
    let last = if args.labels { "MOST REQUESTS" } else { "MOSTLY BECAUSE OF" };
    let mut table = Table::new([
        "TIME (UTC)",
        ">LIMIT",
        ">RUNNING",
        ">WAITING",
        ">ADMITTED/S",
        ">REFUSED/S",
        ">RTT P50",
        ">P99",
        ">WAIT P99",
        last,
    ]);
    for (row, sum) in &rows {
        table.row(sum.cells(time_of_day(row * width)[..8].to_owned(), args));
    }
    let (paint, mut between) = (Paint::for_stdout(), between.into_iter().peekable());
    let mut shown = table.lines(paint).into_iter();
    let mut lines: Vec<String> = shown.next().into_iter().collect();
    for (line, (row, _)) in shown.zip(&rows) {
        while let Some((_, line)) = between.next_if(|(at, _)| row_of(*at) < *row) {
            lines.push(paint.paint(Look::Bold, &line));
        }
        lines.push(line);
    }
    lines.extend(between.map(|(_, line)| paint.paint(Look::Bold, &line)));
    lines
}

/// The changes. Moves of the limit within a row are a line together.
fn changes(
    page: &HistoryPage,
    json: &Value,
    row_of: impl Fn(f64) -> f64,
    clock: impl Fn(f64) -> String,
) -> Vec<(f64, String)> {
    let mut lines: Vec<(f64, String)> = Vec::new();
    let mut moves: Option<(f64, usize, usize)> = None;
    for (mark, json) in page.marks.iter().zip(json.as_array().into_iter().flatten()) {
        let at = mark.at_seconds;
        let is_move = matches!(&mark.event, JournalEvent::Change(ChangeEntry::Limit { .. }));
        let from = json["from"].as_u64().and_then(|from| usize::try_from(from).ok()).unwrap_or(mark.limit);
        moves = match moves.filter(|(row, ..)| is_move && *row == row_of(at)) {
            Some((row, first, count)) => {
                lines.pop();
                let text = format!("{}  limit {first} → {} in {} moves", clock(at), mark.limit, count + 1);
                lines.push((at, text));
                Some((row, first, count + 1))
            }
            None => {
                lines.push((at, format!("{}  {}", clock(at), safe(&in_words(mark, json)))));
                is_move.then(|| (row_of(at), from, 1))
            }
        };
    }
    lines
}
