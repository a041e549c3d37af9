//! `admission watch`: what happens between two looks at a server.

mod change;
mod screen;

use std::{
    io::{IsTerminal, stdout},
    time::Duration,
};

use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};
use serde_json::json;
use tokio::{sync::mpsc, time::Instant};
use tower_admission::introspection::Overview;

use self::{change::Change, screen::Screen};
use crate::{
    args::WatchArgs,
    client::{Client, block_on, told_to_stop},
    failure::{End, Failure},
    status,
    text::{self, safe},
};

/// More labels than fit on a screen.
const LABELS: usize = 100;

pub(crate) fn run(args: &WatchArgs) -> Result<End, Failure> {
    let client = Client::new(&args.server)?;
    let is_screen = !args.json && stdout().is_terminal() && std::io::stdin().is_terminal() && !text::is_dumb();
    block_on(async {
        let ended = async { if is_screen { live(&client, args).await } else { lines(&client, args).await } };
        tokio::select! {
            end = ended => end,
            () = told_to_stop() => Ok(End::Well),
        }
    })
}

/// The answer of the server, and how long ago its handle was made, in seconds.
struct Seen {
    overview: Overview,
    age: f64,
}

/// One look at the server.
async fn look(client: &Client, args: &WatchArgs, labels: usize) -> Result<Seen, Failure> {
    let (json, age) = client.get_dated(&format!("?limit={labels}&order=desc&sort={}", args.sort)).await?;
    Ok(Seen { overview: client.read(json)?, age })
}

/// A line for each look, in words or in JSON. What goes wrong is told, and does not end it; it counts only if it was the last look.
async fn lines(client: &Client, args: &WatchArgs) -> Result<End, Failure> {
    let start = Instant::now();
    let mut before: Option<(Instant, Seen)> = None;
    let mut looks = 0;
    loop {
        let at = Instant::now();
        looks += 1;
        let is_last = args.count.is_some_and(|count| looks >= count);
        match look(client, args, 1).await {
            Ok(now) => {
                let change =
                    before.as_ref().map(|(then, old)| Change::between(&old.overview, &now.overview, at - *then));
                let (since, change) = (at - start, change.unwrap_or_default());
                let line = if args.json { json_line(since, &now, &change) } else { line(since, &now, &change) };
                if !text::show(&line)? {
                    return Ok(End::Well);
                }
                before = Some((at, now));
            }
            Err(failure) if is_last || before.is_none() => return Err(failure),
            Err(failure) => eprintln!("admission: {failure}"),
        }
        if is_last {
            return Ok(End::Well);
        }
        tokio::time::sleep_until(at + args.interval).await;
    }
}

fn json_line(since: Duration, seen: &Seen, change: &Change) -> String {
    let now = &seen.overview.snapshot;
    let [p50, p90, p99] = change.rtt.map_or([None; 3], |times| times.map(Some));
    text::json_line(&json!({
        "seconds": since.as_secs_f64(), "name": now.name, "mode": now.mode, "draining": now.draining, "limit": now.limit,
        "in_flight": now.in_flight, "waiting": now.waiting, "at_gate": now.at_gate,
        "admitted_per_second": change.admitted, "rejected_per_second": change.rejected,
        "rtt_p50_seconds": p50, "rtt_p90_seconds": p90, "rtt_p99_seconds": p99,
        "health": now.health, "foremost": seen.overview.foremost,
    }))
}

fn line(since: Duration, seen: &Seen, change: &Change) -> String {
    let now = &seen.overview.snapshot;
    let rejected: Vec<_> = change.rejected.iter().map(|(reason, rate)| format!("{}:{rate:.1}", safe(reason))).collect();
    let rejected = if rejected.is_empty() { "0".to_owned() } else { rejected.join(",") };
    let rtt = change.rtt.map_or_else(String::new, |[p50, _, p99]| {
        format!(" rtt_p50_ms={:.1} rtt_p99_ms={:.1}", p50 * 1_000.0, p99 * 1_000.0)
    });
    format!(
        "t={:.1}s limit={} in_flight={} waiting={} at_gate={} admitted_per_s={:.1} rejected_per_s={rejected}{rtt} health={}{}\
         headline=\"{}\"\n",
        since.as_secs_f64(),
        now.limit,
        now.in_flight,
        now.waiting,
        now.at_gate,
        change.admitted,
        safe(&now.health.state),
        if now.draining { " draining " } else { " " },
        status::headline(&now.health, seen.age).replace('"', "'")
    )
}

/// The whole screen, until the user quits.
async fn live(client: &Client, args: &WatchArgs) -> Result<End, Failure> {
    // A wrong address is an error before the screen opens.
    let mut before = (Instant::now(), look(client, args, LABELS).await?);
    let mut screen = Screen::open(&client.url)?;
    screen.show(&before.1, &Change::default())?;
    let mut keys = keys();
    let mut looks = 1;
    loop {
        if args.count.is_some_and(|count| looks >= count) {
            return Ok(End::Well);
        }
        let next = before.0 + args.interval;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(next) => break,
                key = keys.recv() => match key {
                    Some(Key::Quit) | None => return Ok(End::Well),
                    Some(Key::Resized) => screen.draw()?,
                },
            }
        }
        let at = Instant::now();
        looks += 1;
        let answer = tokio::select! {
            answer = look(client, args, LABELS) => answer,
            () = quit(&mut keys) => return Ok(End::Well),
        };
        match answer {
            Ok(now) => {
                let change = Change::between(&before.1.overview, &now.overview, at - before.0);
                screen.show(&now, &change)?;
                before = (at, now);
            }
            Err(failure) => {
                screen.complain(&failure.to_string())?;
                before.0 = at;
            }
        }
    }
}

/// The input of the user.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Key {
    Quit,
    Resized,
}

/// Reads the terminal in a thread of its own, which ends with the process.
fn keys() -> mpsc::Receiver<Key> {
    let (sender, receiver) = mpsc::channel(8);
    std::thread::spawn(move || {
        while let Ok(event) = crossterm::event::read() {
            let Some(key) = meaning(&event) else { continue };
            if sender.blocking_send(key).is_err() {
                return;
            }
        }
    });
    receiver
}

fn meaning(event: &Event) -> Option<Key> {
    match event {
        Event::Resize(..) => Some(Key::Resized),
        Event::Key(key) if key.kind == KeyEventKind::Press => {
            let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
            let quits = match key.code {
                KeyCode::Char('c' | 'd') if is_control => true,
                KeyCode::Char('q' | 'Q') | KeyCode::Esc => true,
                _ => false,
            };
            quits.then_some(Key::Quit)
        }
        _ => None,
    }
}

async fn quit(keys: &mut mpsc::Receiver<Key>) {
    while let Some(Key::Resized) = keys.recv().await {}
}
