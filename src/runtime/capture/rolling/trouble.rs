//! Captures of trouble: the first minute in which a handle is not fine, so that there is something to look at afterwards
//! although no capture was asked for.
//!
//! A handle that is fine pays nothing for it, since nothing is recorded. A handle in trouble pays for a tenth of the time
//! at most, unless it gets worse, and a flood for no more than its first seconds.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use super::{Ring, RollingCapture};
use crate::{
    engine::{Health, Timestamp},
    runtime::core::lock,
};

/// Time that is recorded of trouble.
const STRETCH: Duration = Duration::from_secs(60);
/// Rows that are enough, as of some 30,000 requests: looked at once a second.
const ENOUGH: u64 = 100_000;
/// Least time between the starts of two captures, unless the handle gets worse than it was in the first.
const APART: Duration = Duration::from_secs(600);

/// The capture of a handle, if there was one.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Slot {
    pub(super) ring: Option<Arc<Mutex<Ring>>>,
    /// The capture that the settings want; for no time where they want none at all.
    pub(super) configured: Option<RollingCapture>,
    pub(super) trouble: Trouble,
}

/// The trouble that was recorded last, if any was.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Trouble {
    /// Whether the capture that there is was begun here. Any other is left alone.
    pub(super) is_recorded: bool,
    pub(super) max_bytes: usize,
    began: Timestamp,
    /// The worst state while it was recorded.
    worst: Health,
    was_fine: bool,
}

/// Whether the state is one that a capture helps to understand: decisions bind, and the handle does not drain.
const fn is_trouble(health: Health) -> bool {
    !matches!(health, Health::Fine | Health::NotEnforcing | Health::Draining)
}

impl Slot {
    /// Returns the capture to end, or the capture to begin.
    pub(super) fn change(
        &mut self,
        now: Timestamp,
        health: Health,
    ) -> Result<Option<Arc<Mutex<Ring>>>, RollingCapture> {
        let (Self { ring, trouble: it, .. }, is_trouble) = (self, is_trouble(health));
        it.was_fine |= !is_trouble;
        if let Some(ring) = ring.as_ref().filter(|ring| it.is_recorded && lock(ring).is_running) {
            it.worst = it.worst.max(if is_trouble { health } else { Health::Fine });
            let is_over = !is_trouble || now.since(it.began) >= STRETCH || lock(ring).rows >= ENOUGH;
            return Ok(is_over.then(|| Arc::clone(ring)));
        }
        let is_news = !it.is_recorded || health > it.worst || it.was_fine && now.since(it.began) >= APART;
        if !is_trouble || !is_news {
            return Ok(None);
        }
        (it.began, it.worst, it.was_fine) = (now, health, false);
        Err(RollingCapture { max_bytes: it.max_bytes, ..RollingCapture::default() })
    }
}
