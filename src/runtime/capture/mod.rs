//! Recording the inputs of a handle, so that they can be replayed.
//!
//! ```text
//! turn (under the lock): step ─▶ Tape ─▶ bounded channel ─▶ writer (a thread): Row ─▶ CaptureRow ─▶ file
//!                                  replay, in the simulator: file ─▶ Engine, and compare
//! ```

mod line;
mod rolling;
mod writer;

use std::{
    collections::HashSet,
    fmt, io,
    io::Write,
    sync::{Arc, mpsc::sync_channel},
    thread::JoinHandle,
};

pub(super) use rolling::Slot as RollingSlot;
pub use rolling::{CapturedLines, RollingCapture};

use self::line::{Header, VERSION};
use crate::{
    engine::PartitionId,
    runtime::{
        Admission,
        core::{End, Tape, lock},
        shared::Shared,
    },
};

/// Rows that may wait to be written, unless set.
const BUFFER: usize = 16_384;
/// Rows that are written, unless set.
const MOST_ROWS: u64 = 10_000_000;

/// Rows that were written, and why the capture ended, if it was not stopped.
type Written = (u64, Option<String>);

/// How a handle is to be recorded. [Introspection](crate::docs::introspection#capture-and-replay) describes the result.
///
/// ```
/// use tower_admission::{Admission, Outcome, Ticket, capture::Capture, limit::Fixed};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let admission = Admission::builder().limit(Fixed::new(1)).shed().build()?;
/// # let file = std::env::temp_dir().join(format!("capture-{}.jsonl", std::process::id()));
/// let recording = Capture::new().start(&admission, std::fs::File::create(&file)?)?;
/// let permit = admission.try_admit(Ticket::new())?;
/// assert!(admission.try_admit(Ticket::new()).is_err());
/// permit.finish(Outcome::Success);
/// assert_eq!(recording.stop()?, 3);
/// # std::fs::remove_file(file)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is recorded until it is started"]
pub struct Capture {
    buffer: usize,
    most: u64,
}

impl Default for Capture {
    fn default() -> Self {
        Self { buffer: BUFFER, most: MOST_ROWS }
    }
}

/// A capture that runs until it is [stopped](Self::stop) or dropped.
#[must_use = "recording stops when this is dropped"]
#[derive(Debug)]
pub struct Recording {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<io::Result<Written>>>,
}

/// Why a capture did not start, or is not whole.
#[derive(Debug)]
#[non_exhaustive]
pub enum CaptureError {
    /// The handle has decided something already, or is recorded already: what it has learned can't be written down, so
    /// a capture starts with a handle that was just made.
    NotFresh,
    /// A capture of the handle runs already, rolling or not: one at a time.
    Running,
    /// The handle counts rules in a shared store, whose answers can't be replayed.
    Shared,
    /// The capture ended before it was stopped: the buffer overflowed, or there were too many rows. The rows before are
    /// good.
    Cut(String),
    /// The lines could not be written.
    Io(io::Error),
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFresh => f.write_str("a capture starts with a handle that has not decided anything yet"),
            Self::Running => f.write_str("a capture of the handle runs already: stop it first"),
            Self::Shared => f.write_str("a handle with a shared store can't be recorded: it does not decide alone"),
            Self::Cut(why) => write!(f, "the capture was cut short: {why}"),
            Self::Io(error) => write!(f, "the capture could not be written: {error}"),
        }
    }
}

impl std::error::Error for CaptureError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::NotFresh | Self::Running | Self::Shared | Self::Cut(_) => None,
        }
    }
}

impl From<io::Error> for CaptureError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Capture {
    /// Up to ten million rows, of which 16,384 may wait to be written.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many rows may wait to be written: 16,384 unless set, at least 1. With one more row the capture ends, and
    /// says so in its last line: no request waits for a disk.
    pub fn buffer(mut self, rows: usize) -> Self {
        self.buffer = rows.max(1);
        self
    }

    /// How many rows are written: ten million unless set, at least 1. A request has three to four, of 100 to 200 bytes
    /// each.
    pub fn max_rows(mut self, rows: u64) -> Self {
        self.most = rows.max(1);
        self
    }

    /// Records all inputs of the handle from now on, and all its decisions, as lines of JSON.
    ///
    /// # Errors
    ///
    /// [`CaptureError::NotFresh`] if the handle has been at work already; [`CaptureError::Shared`] if it has a shared
    /// store; [`CaptureError::Io`] if no thread can be started.
    pub fn start(self, admission: &Admission, out: impl Write + Send + 'static) -> Result<Recording, CaptureError> {
        let shared = Arc::clone(&admission.shared);
        if shared.limiter.is_some() {
            return Err(CaptureError::Shared);
        }
        let (sender, rows) = sync_channel(self.buffer);
        let end = Arc::new(End::default());
        let tape = Tape::new(sender, Arc::clone(&end), self.most);
        let started = shared.with_engine(|state, _| {
            if !state.engine.is_fresh() || state.tape.is_some() {
                return Err(CaptureError::NotFresh);
            }
            state.tape = Some(Box::new(tape));
            let partitions = state.engine.partitions().filter(|&(number, ..)| number != PartitionId::DEFAULT);
            let partitions: HashSet<String> = partitions.map(|(_, name, _)| name.to_owned()).collect();
            Ok((state.engine.mode(), state.engine.limit(), partitions))
        });
        let (mode, limit, partitions) = started?;
        let header = Header { mode: mode.as_str().to_owned(), limit, ..header(&shared, VERSION) };
        let write = move || writer::write(io::BufWriter::new(out), &header, partitions, &rows, &end);
        let writer = spawn(&shared, write)?;
        Ok(Recording { shared, writer: Some(writer) })
    }
}

/// Returns the start of a capture, but for the state of the engine.
fn header(shared: &Shared, capture: u32) -> Header {
    let (policy, without_policy) = match lock(&shared.policy).clone() {
        Ok(policy) => (Some(policy), None),
        Err(what) => (None, Some(what)),
    };
    Header { capture, name: shared.name.to_string(), policy, without_policy, ..Header::default() }
}

/// Starts the thread that takes what is recorded. Where there is none, the recording ends.
fn spawn<T: Send + 'static>(
    shared: &Shared,
    take: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, CaptureError> {
    let thread = std::thread::Builder::new().name("admission-capture".to_owned()).spawn(take);
    Ok(thread.inspect_err(|_| drop(shared.with_engine(|state, _| state.tape.take())))?)
}

impl Recording {
    /// Ends the capture, waits until all of it is written, and returns how many rows there are. Blocks for as long as
    /// that takes.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Cut`] if the capture had ended before, [`CaptureError::Io`] if it could not be written.
    pub fn stop(mut self) -> Result<u64, CaptureError> {
        match self.end() {
            Some(Ok((rows, None))) => Ok(rows),
            Some(Ok((_, Some(why)))) => Err(CaptureError::Cut(why)),
            Some(Err(error)) => Err(error.into()),
            None => Err(io::Error::other("the writer panicked").into()),
        }
    }

    /// Whether rows are still recorded.
    pub fn is_running(&self) -> bool {
        self.shared.with_engine(|state, _| state.tape.is_some())
    }

    fn end(&mut self) -> Option<io::Result<Written>> {
        let writer = self.writer.take()?;
        drop(self.shared.with_engine(|state, _| state.tape.take()));
        writer.join().ok()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.end();
    }
}
