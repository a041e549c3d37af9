//! A resource that does so many pieces of work at once, and slows down for all where too many requests are inside.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until},
};

use crate::Meter;

/// The resource. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Slots {
    free: Arc<Semaphore>,
    /// When each slot that is free now ended its last work.
    ended: Arc<Mutex<Vec<Instant>>>,
    work: Duration,
    inside: u64,
    meter: Meter,
}

impl Slots {
    /// `slots` pieces of work at once, which take `work` each. So many handlers `inside` cost nothing extra, and each one
    /// above makes the work of all slower by a hundredth.
    #[must_use]
    pub fn new(slots: usize, work: Duration, inside: u64, meter: &Meter) -> Self {
        let ended = Arc::new(Mutex::new(vec![Instant::now(); slots]));
        Self { free: Arc::new(Semaphore::new(slots)), ended, work, inside, meter: meter.clone() }
    }

    /// Does one piece, which counts as one unit. Once begun it goes on where its request is given up, as the work of a
    /// database does.
    pub async fn work(&self) {
        let came = Instant::now();
        let slot = Arc::clone(&self.free).acquire_owned().await.expect("it is not closed");
        let it = self.clone();
        let work = tokio::spawn(async move {
            let above = it.meter.running().saturating_sub(it.inside);
            let work = it.work + it.work * u32::try_from(above).unwrap_or(u32::MAX) / 100;
            // Timers fire late. Work that waited begins when the last on its slot should have ended, so that the
            // capacity is what it is said to be.
            let last = it.ended.lock().expect("no thread panics").pop().expect("one for each slot");
            let end = came.max(last) + work;
            sleep_until(end).await;
            it.meter.worked(1);
            it.ended.lock().expect("no thread panics").push(end);
            drop(slot);
        });
        work.await.expect("it does not panic");
    }
}
