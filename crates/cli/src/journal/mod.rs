//! `admission journal`: what was decided lately, and what changed.

pub(crate) mod entry;
mod feed;

use std::time::{Duration, UNIX_EPOCH};

use serde_json::json;
use tokio::time::Instant;

use self::{
    entry::{HEADS, cells},
    feed::{Batch, Feed},
};
use crate::{
    args::JournalArgs,
    client::{Client, block_on, told_to_stop},
    failure::{End, Failure},
    table::{Cell, Table},
    text::{self, Look, Paint, seconds},
};

/// A column for the time, and those of entries.
const COLUMNS: usize = HEADS.len() + 1;

pub(crate) fn run(args: &JournalArgs) -> Result<End, Failure> {
    let client = Client::new(&args.server)?;
    block_on(async {
        tokio::select! {
            end = show(&client, args) => end,
            () = told_to_stop() => Ok(End::Well),
        }
    })
}

async fn show(client: &Client, args: &JournalArgs) -> Result<End, Failure> {
    let (feed, first) = Feed::open(client, args).await?;
    if first.capacity == 0 {
        return Err(Failure::Missing(format!("{} keeps no journal: its setting `journal` is 0", client.url)));
    }
    if args.follow {
        return follow(feed, &first, args).await;
    }
    if args.json {
        let all = json!({ "capacity": first.capacity, "newest": first.newest, "entries": first.json });
        return text::print(&text::json(&all));
    }
    if first.entries.is_empty() {
        return text::print("no entries\n");
    }
    let ago = |at: f64| format!("{} ago", seconds((first.now - at).max(0.0)));
    let table = table("WHEN", &first, ago);
    text::print(&joined(&table.lines(Paint::for_stdout())))
}

/// Shows new entries, until the reader stops. Errors are reported, and don't end it.
async fn follow(mut feed: Feed<'_>, first: &Batch, args: &JournalArgs) -> Result<End, Failure> {
    let mut widths = None;
    if !told(first, args, &mut widths)? {
        return Ok(End::Well);
    }
    let mut complaint = String::new();
    loop {
        let at = Instant::now();
        tokio::time::sleep_until(at + args.interval).await;
        match feed.next().await {
            Ok(batch) => {
                complaint.clear();
                complain_about(&batch);
                if !told(&batch, args, &mut widths)? {
                    return Ok(End::Well);
                }
            }
            Err(failure) => {
                let again = failure.to_string();
                if again != complaint {
                    eprintln!("admission: {again}");
                }
                complaint = again;
            }
        }
    }
}

fn complain_about(batch: &Batch) {
    if batch.started_anew {
        eprintln!("admission: the server was restarted, and its journal begins again");
    }
    if batch.lost > 0 {
        eprintln!(
            "admission: {} entries were pushed out before they could be read: ask more often (--interval), or give the \
             server a larger journal than {}",
            batch.lost, batch.capacity
        );
    }
}

/// Prints new entries below the printed ones. Returns whether the output is still read.
fn told(batch: &Batch, args: &JournalArgs, widths: &mut Option<[usize; COLUMNS]>) -> Result<bool, Failure> {
    if args.json {
        return text::show(&batch.json.iter().map(text::json_line).collect::<String>());
    }
    let read_at = now();
    let table = table("TIME (UTC)", batch, |at| time_of_day(read_at - (batch.now - at).max(0.0)));
    text::show(&joined(&table.lines_below(Paint::for_stdout(), widths)))
}

fn table(head: &'static str, batch: &Batch, time: impl Fn(f64) -> String) -> Table<COLUMNS> {
    let [what, why, label, class, partition, running, waiting] = HEADS;
    let mut table = Table::new([head, what, why, label, class, partition, running, waiting]);
    for (entry, json) in batch.entries.iter().zip(&batch.json) {
        let [what, why, label, class, partition, running, waiting] = cells(entry, json);
        let time = Cell::from(time(entry.at_seconds)).with(Look::Dim);
        table.row([time, what, why, label, class, partition, running, waiting]);
    }
    table
}

fn joined(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// In seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "people compare it with other logs, and nothing is decided by it")]
pub(crate) fn now() -> f64 {
    std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// The time of day, to a thousandth of a second, of a number of seconds since 1970.
pub(crate) fn time_of_day(since_epoch: f64) -> String {
    let time = Duration::try_from_secs_f64(since_epoch).unwrap_or_default();
    let seconds = time.as_secs() % 86_400;
    format!("{:02}:{:02}:{:02}.{:03}", seconds / 3_600, seconds / 60 % 60, seconds % 60, time.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_day_are_those_of_a_clock() {
        assert_eq!(time_of_day(1_700_000_000.25), "22:13:20.250");
        assert_eq!(time_of_day(86_399.9), "23:59:59.900");
        assert_eq!(time_of_day(-1.0), "00:00:00.000");
    }
}
