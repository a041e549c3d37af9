//! Shows that something is going on: a bar in a terminal, a line per phase elsewhere.

use std::{
    io::{IsTerminal, stderr},
    sync::atomic::Ordering,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{Instant, interval};

use crate::{load::Live, schedule::Scenario};

pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// `total` is how long all runs take.
    pub(crate) fn new(total: Duration) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(u64::try_from(total.as_millis()).unwrap_or(u64::MAX));
            if let Ok(style) = ProgressStyle::with_template("{bar:10} {percent:>3}%  {wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self { bar }
    }

    /// Watches a run; `before` is how much of the total time earlier ones took. Ends with it.
    pub(crate) async fn watch(&self, run: &str, scenario: &Scenario, start: Instant, before: Duration, live: &Live) {
        let mut ticks = interval(Duration::from_millis(100));
        let mut announced = None;
        loop {
            ticks.tick().await;
            let elapsed = start.elapsed();
            let phase = scenario.phase_at(elapsed);
            let name = &scenario.phases[phase].name;
            if let Some(bar) = &self.bar {
                let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
                let (answered, late, rejected) = (count(&live.answered), count(&live.late), count(&live.rejected));
                bar.set_position(u64::try_from((before + elapsed).as_millis()).unwrap_or(u64::MAX));
                bar.set_message(format!("{run}, {name}: {answered} in time, {late} late, {rejected} refused"));
            } else if announced != Some(phase) {
                eprintln!("{run}: {name}");
                announced = Some(phase);
            }
            if elapsed >= scenario.length() + scenario.deadline {
                return;
            }
        }
    }

    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        } else {
            eprintln!();
        }
    }
}
