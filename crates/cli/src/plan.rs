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
    let forecast = match (args.limit, settings(args)) {
        (_, Some(settings)) => burst.predict(settings),
        (Some(limit), None) => burst.plan(limit),
        (None, None) => {
            let Some(patience) = args.patience else {
                let why = "without --patience any limit would do: give --patience or --limit";
                return Err(Failure::Usage(why.to_owned()));
            };
            burst.suggest().ok_or_else(|| {
                let (longest, patience) = (write_time(longest), write_time(patience));
                Failure::Missing(format!(
                    "tasks take up to {longest} and clients wait for {patience}: no limit serves them in time"
                ))
            })?
        }
    };
    text::print(&if args.json { text::json(&to_json(args, &forecast)) } else { human(args, &forecast) })?;
    Ok(End::wrong_if(args.exit_code && forecast.rejected + forecast.too_late > 0))
}

/// The settings, if more than the limit was given.
fn settings(args: &PlanArgs) -> Option<Settings> {
    let mut settings = Settings::new(args.limit?);
    let times = [args.admission_timeout, args.max_wait, args.wait_timeout];
    if args.queue.is_none() && args.max_concurrent_streams.is_none() && times.iter().all(Option::is_none) {
        return None;
    }
    settings.queue = args.queue.unwrap_or(0);
    settings = args.max_wait.into_iter().fold(settings, Settings::max_wait);
    settings.admission_timeout = args.admission_timeout.unwrap_or(settings.admission_timeout);
    settings.wait_timeout = args.wait_timeout.unwrap_or(settings.wait_timeout);
    settings.max_concurrent_streams = args.max_concurrent_streams;
    Some(settings)
}

/// The settings as a configuration has them: names, and values in TOML.
fn in_words(given: &Settings) -> Vec<(&'static str, String)> {
    let time = |time: Duration| format!("{:?}", write_time(time));
    let mut settings = vec![("limit", given.limit.to_string()), ("queue", given.queue.to_string())];
    if given.queue == 0 {
        settings.push(("wait_timeout", time(given.wait_timeout)));
    } else {
        // With a bound of the wait there is no gate unless it is asked for.
        if given.max_wait.is_none() || !given.admission_timeout.is_zero() {
            settings.push(("admission_timeout", time(given.admission_timeout)));
        }
        settings.extend(given.max_wait.map(|wait| ("max_wait", time(wait))));
    }
    settings.extend(given.max_concurrent_streams.map(|streams| ("max_concurrent_streams", streams.to_string())));
    settings
}

fn human(args: &PlanArgs, forecast: &Forecast) -> String {
    let paint = Paint::for_stdout();
    let (shortest, longest) = args.task_time;
    let task_time = if shortest == longest {
        write_time(shortest)
    } else {
        format!("{} to {}", write_time(shortest), write_time(longest))
    };
    let patience = args.patience.map_or_else(|| "forever".to_owned(), |it| format!("for {}", write_time(it)));
    let mut text = format!(
        "# {} requests within {}, {task_time} each; clients wait {patience}.\n",
        args.requests,
        write_time(args.within)
    );
    for (name, value) in in_words(&forecast.settings) {
        let _ = writeln!(text, "{name} = {value}");
    }
    let count = |what: &str, count: usize| {
        let look = if count == 0 { Look::Good } else { Look::Bad };
        let percent = if args.requests == 0 { 0.0 } else { count as f64 * 100.0 / args.requests as f64 };
        format!("# {what:<16}{}\n", paint.paint(look, &format!("{count} ({percent:.1} %)")))
    };
    text.push_str("#\n");
    text.push_str(&count("rejected", forecast.rejected));
    text.push_str(&count("too late", forecast.too_late));
    let _ = writeln!(text, "# {:<16}{}", "longest wait", seconds(forecast.longest_wait.as_secs_f64()));
    let _ = writeln!(text, "# {:<16}{}", "all done after", seconds(forecast.drain_time.as_secs_f64()));
    for advice in &forecast.advice {
        let _ = writeln!(text, "# {}", paint.paint(Look::Busy, &format!("note: {advice}")));
    }
    text
}

fn to_json(args: &PlanArgs, forecast: &Forecast) -> Value {
    let time = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    let Settings { limit, queue, admission_timeout, max_wait, wait_timeout, max_concurrent_streams, .. } =
        &forecast.settings;
    json!({
        "requests": args.requests,
        "limit": limit,
        "queue": queue,
        "admission_timeout_seconds": time(Some(*admission_timeout)),
        "max_wait_seconds": time(*max_wait),
        "wait_timeout_seconds": time(Some(*wait_timeout)),
        "max_concurrent_streams": max_concurrent_streams,
        "rejected": forecast.rejected,
        "too_late": forecast.too_late,
        "longest_wait_seconds": forecast.longest_wait.as_secs_f64(),
        "drain_time_seconds": forecast.drain_time.as_secs_f64(),
        "advice": forecast.advice,
    })
}
