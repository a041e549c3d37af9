//! Turns that do much at once: meanwhile nobody else gets an answer, because each turn holds the lock.
#![expect(clippy::disallowed_methods, reason = "a stopwatch: no decision depends on it")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use queue::{
    contestants::{LONGEST_WAIT, Ours},
    tasks::runtime,
    waiters::Waiters,
};
use tower_admission::{Clock, Mode};

const WAITERS: usize = 100_000;
const LABELS: usize = 10_000;

/// A clock that is set by hand.
#[derive(Clone, Debug, Default)]
struct Hand(Arc<AtomicU64>);

impl Clock for Hand {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

fn main() {
    let runtime = runtime();
    let _guard = runtime.enter();
    println!("| turn | ms |");
    println!("|---|---:|");
    for labels in [0, LABELS] {
        let about = format!("{WAITERS} waiters, {labels} labels");
        let clock = Hand::default();
        let line = Ours::with(WAITERS, labels, |builder| builder.max_wait(LONGEST_WAIT).clock(clock.clone()));
        let mut waiters = Waiters::new(&line, WAITERS);
        (0..WAITERS).for_each(|_| waiters.join());
        report(&format!("{about}: snapshot"), || drop(line.admission.snapshot()));
        report(&format!("{about}: publish the metrics"), || line.admission.publish_metrics());
        clock.0.store(LONGEST_WAIT.as_secs(), Ordering::Relaxed);
        report(&format!("{about}: all waits end by time"), || line.admission.tick());
        drop(waiters);

        let line = Ours::new(WAITERS, labels);
        let mut waiters = Waiters::new(&line, WAITERS);
        (0..WAITERS).for_each(|_| waiters.join());
        report(&format!("{about}: decisions stop to bind"), || line.admission.set_mode(Mode::Observe));
        drop(waiters);
    }
}

fn report(what: &str, turn: impl FnOnce()) {
    let start = Instant::now();
    turn();
    println!("| {what} | {:.2} |", start.elapsed().as_secs_f64() * 1_000.0);
}
