//! Shows how far a run is: a bar in a terminal, a line every few seconds elsewhere.

use std::{
    io::{IsTerminal, stderr},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{Instant, interval};
use tower_admission::{Admission, snapshot::Snapshot};

const SILENCE: Duration = Duration::from_secs(5);

/// Watches a run of so many calls. Never ends by itself.
pub(crate) async fn watch(name: &str, calls: u64, admission: &Admission) {
    let bar = stderr().is_terminal().then(|| bar(calls));
    let mut ticks = interval(Duration::from_millis(100));
    let start = Instant::now();
    let mut next_line = start;
    loop {
        ticks.tick().await;
        let snapshot = admission.snapshot();
        let done: u64 = snapshot.partitions.iter().map(|partition| partition.successes).sum();
        let state = state(&snapshot);
        if let Some(bar) = &bar {
            bar.set_position(done + snapshot.rejected());
            bar.set_message(format!("{name}: {state}"));
        } else if Instant::now() >= next_line {
            eprintln!("{name}, {:>2} s: {done} done, {state}", start.elapsed().as_secs());
            next_line += SILENCE;
        }
    }
}

fn bar(calls: u64) -> Cleared {
    let bar = ProgressBar::new(calls);
    if let Ok(style) = ProgressStyle::with_template("{bar:20} {pos}/{len}  {wide_msg}") {
        bar.set_style(style);
    }
    Cleared(bar)
}

/// What runs and waits, and how long that takes at the pace of those that are done.
#[expect(clippy::cast_precision_loss, reason = "some thousand calls")]
fn state(snapshot: &Snapshot) -> String {
    let inside = snapshot.in_flight + snapshot.waiting + snapshot.at_gate;
    let left = inside as f64 / snapshot.limit as f64 * snapshot.mean_hold_seconds;
    let (running, waiting, refused) = (snapshot.in_flight, snapshot.waiting, snapshot.rejected());
    format!("{running} run, {waiting} wait, {refused} refused, about {left:.0} s to go")
}

/// Gone from the screen as soon as nobody watches any more.
struct Cleared(ProgressBar);

impl std::ops::Deref for Cleared {
    type Target = ProgressBar;

    fn deref(&self) -> &ProgressBar {
        &self.0
    }
}

impl Drop for Cleared {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
