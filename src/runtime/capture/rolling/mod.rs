//! The last minutes of a handle, in memory: for incidents that are looked at afterwards.
//!
//! ```text
//! turn (under the lock) ─▶ Tape ─▶ bounded channel ─▶ a thread: Row ─▶ compact ─▶ ring of segments
//!                                                      CapturedLines ◀─ CaptureRow ◀──┘
//! ```

mod compact;
#[cfg(test)]
mod compact_tests;
#[cfg(test)]
mod gap_tests;
mod lines;
mod ring;
mod trouble;
#[cfg(test)]
mod trouble_tests;

use std::{
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, sync_channel},
    },
    time::Duration,
};

pub use self::lines::CapturedLines;
use self::ring::Ring;
pub(in crate::runtime) use self::trouble::Slot;
use super::{BUFFER, CaptureError, header, line::ROLLING, spawn};
use crate::{
    engine::{Health, Timestamp, nanos},
    runtime::{
        Admission, CaptureStatus,
        core::{Row, Tape, lock},
        shared::Shared,
    },
};

/// Rows that are taken at a time, so that a look at the capture waits for no more.
const AT_ONCE: usize = 256;

/// Time for which rows gather: a thread that waits for each is woken by each, under the lock of the handle.
const PAUSE: Duration = Duration::from_millis(5);

/// A capture of the last minutes, in memory: it runs until it is [stopped](crate::Admission::stop_rolling_capture), and is
/// [fetched](crate::Admission::captured) after the fact. [Introspection](crate::docs::introspection#rolling-captures)
/// describes the lines.
///
/// It begins with a handle at work: requests that run or wait, the reports of workers, mode and limit are taken down
/// first. What laws and rates have learned is not, so such a capture says which requests came and what became of them,
/// and `admission simulate --replay` says what would have become of them under other settings; an exact replay needs a
/// [`Capture`](super::Capture).
///
/// ```
/// use std::time::Duration;
/// use tower_admission::{Admission, Ticket, capture::RollingCapture};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let admission = Admission::builder().build()?;
/// let running = admission.try_admit(Ticket::new().label("shop"))?;
/// RollingCapture::new().last(Duration::from_secs(60)).start(&admission)?;
/// drop(running);
/// // After the fact:
/// let lines = admission.captured(Duration::from_secs(60)).into_iter().flatten().flatten();
/// let text = String::from_utf8(lines.collect())?;
/// assert!(text.contains(r#""do":"present""#) && text.contains(r#""label":"shop""#));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use = "nothing is recorded until it is started"]
pub struct RollingCapture {
    last: Duration,
    max_bytes: usize,
}

impl Default for RollingCapture {
    fn default() -> Self {
        Self { last: Duration::from_secs(300), max_bytes: crate::config::CAPTURE_BYTES }
    }
}

impl RollingCapture {
    /// The last five minutes, in 32 MiB at the most.
    pub fn new() -> Self {
        Self::default()
    }

    /// For how long back it remembers: five minutes unless set. What is older goes in steps of a sixteenth.
    pub const fn last(mut self, time: Duration) -> Self {
        self.last = time;
        self
    }

    /// How much memory the rows may take, in bytes: 32 MiB unless set. A rejection takes about 8 bytes, a request that
    /// runs about 20; names are kept once per sixteenth. With more, the oldest go early. What runs and waits is kept
    /// besides.
    pub const fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Records the inputs of the handle from now on. A rolling capture that was stopped before is dropped.
    ///
    /// While it runs, each request takes a turn: none takes the [quiet path](crate::docs::architecture).
    ///
    /// # Errors
    ///
    /// [`CaptureError::Running`] if a capture of the handle runs already, [`CaptureError::Io`] if no thread can be
    /// started.
    pub fn start(self, admission: &Admission) -> Result<(), CaptureError> {
        // The turn may wake wakers, which are foreign code: no lock is held then.
        admission.shared.make_way_for_capture();
        let ring = self.begin(&admission.shared)?;
        lock(&admission.shared.rolling).ring = Some(ring);
        Ok(())
    }

    fn begin(self, shared: &Arc<Shared>) -> Result<Arc<Mutex<Ring>>, CaptureError> {
        let (sender, rows) = sync_channel(BUFFER);
        let checkpoint = shared.with_engine(|state, time| {
            state.engine.advance(time.now());
            state.record(Tape::with_gaps(sender))
        });
        let checkpoint = checkpoint.ok_or(CaptureError::Running)?;
        let head = header(shared, ROLLING);
        let ring = Arc::new(Mutex::new(Ring::new(self.last, self.max_bytes, head, checkpoint)));
        let taken = Arc::clone(&ring);
        spawn(shared, move || record(&taken, &rows))?;
        Ok(ring)
    }
}

/// Takes rows until no more come.
fn record(ring: &Mutex<Ring>, rows: &Receiver<Row>) {
    while let Ok(row) = rows.recv() {
        let mut ring = lock(ring);
        let taken = std::iter::once(row).chain(rows.try_iter().take(AT_ONCE)).map(|row| ring.take(row)).count();
        drop(ring);
        if taken <= AT_ONCE {
            std::thread::sleep(PAUSE);
        }
    }
    lock(ring).is_running = false;
}

impl Admission {
    /// Ends the [rolling capture](RollingCapture); what it has recorded stays until the next one is started. Returns whether
    /// one was running.
    #[cfg_attr(docsrs, doc(cfg(feature = "capture")))]
    pub fn stop_rolling_capture(&self) -> bool {
        let ring = lock(&self.shared.rolling).ring.clone();
        ring.is_some_and(|ring| self.shared.stop_rolling(&ring))
    }

    /// Returns how the [rolling capture](RollingCapture) stands, if there is one or was one.
    #[cfg_attr(docsrs, doc(cfg(feature = "capture")))]
    #[must_use]
    pub fn rolling_capture(&self) -> Option<CaptureStatus> {
        let slot = lock(&self.shared.rolling);
        let ring = lock(slot.ring.as_ref()?);
        let (first, newest) = ring.span();
        Some(CaptureStatus {
            running: ring.is_running,
            last_seconds: ring.last.as_secs_f64(),
            max_bytes: ring.max_bytes,
            span_seconds: Duration::from_nanos(newest.saturating_sub(first)).as_secs_f64(),
            bytes: ring.size(),
            rows: ring.rows,
            missed: ring.missed,
        })
    }

    /// Returns what the [rolling capture](RollingCapture) has recorded in the last time, if there is one or was one, from the
    /// start of a sixteenth of it on. Rows of the last milliseconds may be on their way yet.
    #[cfg_attr(docsrs, doc(cfg(feature = "capture")))]
    #[must_use]
    pub fn captured(&self, last: Duration) -> Option<CapturedLines> {
        let slot = lock(&self.shared.rolling);
        let ring = lock(slot.ring.as_ref()?);
        // Of a capture that was stopped, what came before its end.
        let now = if ring.is_running { self.shared.time.now().as_nanos() } else { ring.span().1 };
        Some(CapturedLines::new(ring.since(now.saturating_sub(nanos(last)))))
    }
}

impl Shared {
    /// Starts, changes or stops the capture that settings want. A capture that was started otherwise stays, unless settings want
    /// another.
    pub(in crate::runtime) fn capture_as_configured(self: &Arc<Self>, (last, max_bytes): (Option<Duration>, usize)) {
        if let Err(error) = self.configure_capture(last.map(|last| RollingCapture { last, max_bytes }), max_bytes) {
            self.warn(&format!("capture_last: {error}"));
        }
    }

    fn configure_capture(
        self: &Arc<Self>,
        wanted: Option<RollingCapture>,
        max_bytes: usize,
    ) -> Result<(), CaptureError> {
        // As in `start`: no lock is held while a turn may wake foreign wakers.
        let running = {
            let mut slot = lock(&self.rolling);
            slot.trouble.max_bytes = max_bytes;
            if std::mem::replace(&mut slot.configured, wanted) == wanted {
                return Ok(());
            }
            // What settings wanted, and want no more, may be followed by what trouble brings.
            slot.trouble.is_recorded = wanted.is_none();
            slot.ring.clone().filter(|ring| lock(ring).is_running)
        };
        match (running, wanted.filter(|it| !it.last.is_zero())) {
            (Some(ring), Some(wanted)) => {
                let mut ring = lock(&ring);
                (ring.last, ring.max_bytes) = (wanted.last, wanted.max_bytes);
                ring.forget();
            }
            (Some(ring), None) => drop(self.stop_rolling(&ring)),
            (None, Some(wanted)) => {
                let ring = wanted.begin(self).inspect_err(|_| lock(&self.rolling).configured = None)?;
                lock(&self.rolling).ring = Some(ring);
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// Starts and ends captures of trouble, given the state of the handle; once a second.
    pub(in crate::runtime) fn capture_trouble(self: &Arc<Self>, (now, health): (Timestamp, Health)) {
        // As in `start`: no lock is held while a turn may wake foreign wakers.
        let change = {
            let mut slot = lock(&self.rolling);
            let is_others = slot.ring.is_some() && !slot.trouble.is_recorded;
            if slot.configured.is_some() || is_others { Ok(None) } else { slot.change(now, health) }
        };
        match change {
            Ok(None) => {}
            Ok(Some(ring)) => drop(self.stop_rolling(&ring)),
            Err(capture) => {
                // Fails while another capture runs, or where there is no thread: that is no reason for a warning.
                let Ok(ring) = capture.begin(self) else { return };
                let mut slot = lock(&self.rolling);
                (slot.ring, slot.trouble.is_recorded) = (Some(ring), true);
            }
        }
    }

    /// Ends a capture of trouble, if there is one, for a capture that was asked for.
    fn make_way_for_capture(&self) {
        let ring = {
            let mut slot = lock(&self.rolling);
            if std::mem::take(&mut slot.trouble.is_recorded) { slot.ring.clone() } else { None }
        };
        if let Some(ring) = ring {
            self.stop_rolling(&ring);
        }
    }

    fn stop_rolling(&self, ring: &Mutex<Ring>) -> bool {
        if !std::mem::replace(&mut lock(ring).is_running, false) {
            return false;
        }
        drop(self.with_engine(|state, _| state.tape.take_if(|tape| tape.leaves_gaps)));
        true
    }
}
