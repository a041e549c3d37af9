//! `admission plan`: capacity for a burst.

use std::{fmt::Write, time::Duration};

use serde_json::{Value, json};
use tower_admission::{
    capacity::{Burst, Forecast, Settings},
    configuration::write_time,
};

use crate::{
    args::PlanArgs,
    failure::{End, Failure},
    text::{self, Look, Paint, seconds},
};

pub(crate) fn run(args: &PlanArgs) -> Result<End, Failure> {
    let (shortest, longest) = args.task_time;
    let mut burst = Burst::new(args.requests, args.within, shortest..=longest);
    if let Some(patience) = args.patience {
        burst = burst.patience(patience);
    }
    let plan = match (args.limit, room(args)) {
        (_, Some(room)) => burst.predict(room),
        (Some(limit), None) => burst.plan(limit),
        (None, None) => {
            let Some(patience) = args.patience else {
                let why = "without --patience any limit would do: say how long clients wait, or a --limit";
                return Err(Failure::Usage(why.to_owned()));
            };
            burst.suggest().ok_or_else(|| {
                let (longest, patience) = (write_time(longest), write_time(patience));
                Failure::Missing(format!(
                    "tasks take up to {longest} and clients wait for {patience}: no limit makes tasks faster"
                ))
            })?
        }
    };
    text::print(&if args.json { text::json(&to_json(args, &plan)) } else { human(args, &plan) })?;
    Ok(End::wrong_if(args.exit_code && plan.rejected + plan.too_late > 0))
}

/// The settings, if more than the limit was given.
fn room(args: &PlanArgs) -> Option<Settings> {
    let mut room = Settings::new(args.limit?);
    let times = [args.admission_timeout, args.max_wait, args.wait_timeout];
    if args.queue.is_none() && args.max_concurrent_streams.is_none() && times.iter().all(Option::is_none) {
        return None;
    }
    room.queue = args.queue.unwrap_or(0);
    room.admission_timeout = args.admission_timeout.unwrap_or(room.admission_timeout);
    room.max_wait = args.max_wait;
    room.wait_timeout = args.wait_timeout.unwrap_or(room.wait_timeout);
    room.max_concurrent_streams = args.max_concurrent_streams;
    Some(room)
}

/// The settings as a configuration has them: names, and values in TOML.
fn settings(room: &Settings) -> Vec<(&'static str, String)> {
    let time = |time: Duration| format!("{:?}", write_time(time));
    let mut settings = vec![("limit", room.limit.to_string()), ("queue", room.queue.to_string())];
    if room.queue == 0 {
        settings.push(("wait_timeout", time(room.wait_timeout)));
    } else {
        settings.push(("admission_timeout", time(room.admission_timeout)));
        settings.extend(room.max_wait.map(|wait| ("max_wait", time(wait))));
    }
    settings.extend(room.max_concurrent_streams.map(|streams| ("max_concurrent_streams", streams.to_string())));
    settings
}

fn human(args: &PlanArgs, plan: &Forecast) -> String {
    let paint = Paint::for_stdout();
    let (shortest, longest) = args.task_time;
    let task_time = if shortest == longest {
        write_time(shortest)
    } else {
        format!("{} to {}", write_time(shortest), write_time(longest))
    };
    let patience =
        args.patience.map_or_else(|| "as long as it takes".to_owned(), |it| format!("for {}", write_time(it)));
    let mut text = format!(
        "# {} requests within {}, {task_time} each; clients wait {patience}.\n",
        args.requests,
        write_time(args.within)
    );
    for (name, value) in settings(&plan.settings) {
        let _ = writeln!(text, "{name} = {value}");
    }
    let count = |what: &str, count: usize| {
        let look = if count == 0 { Look::Good } else { Look::Bad };
        let percent = if args.requests == 0 { 0.0 } else { count as f64 * 100.0 / args.requests as f64 };
        format!("# {what:<16}{}\n", paint.paint(look, &format!("{count} ({percent:.1} %)")))
    };
    text.push_str("#\n");
    text.push_str(&count("rejected", plan.rejected));
    text.push_str(&count("too late", plan.too_late));
    let _ = writeln!(text, "# {:<16}{}", "longest wait", seconds(plan.longest_wait.as_secs_f64()));
    let _ = writeln!(text, "# {:<16}{}", "all done after", seconds(plan.drain_time.as_secs_f64()));
    for advice in &plan.advice {
        let _ = writeln!(text, "# {}", paint.paint(Look::Busy, &format!("note: {advice}")));
    }
    text
}

fn to_json(args: &PlanArgs, plan: &Forecast) -> Value {
    let time = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    let Settings { limit, queue, admission_timeout, max_wait, wait_timeout, max_concurrent_streams, .. } =
        &plan.settings;
    json!({
        "requests": args.requests,
        "limit": limit,
        "queue": queue,
        "admission_timeout_seconds": time(Some(*admission_timeout)),
        "max_wait_seconds": time(*max_wait),
        "wait_timeout_seconds": time(Some(*wait_timeout)),
        "max_concurrent_streams": max_concurrent_streams,
        "rejected": plan.rejected,
        "too_late": plan.too_late,
        "longest_wait_seconds": plan.longest_wait.as_secs_f64(),
        "drain_time_seconds": plan.drain_time.as_secs_f64(),
        "advice": plan.advice,
    })
}
