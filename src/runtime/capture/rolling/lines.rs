//! The rows of a rolling capture as lines.

use std::sync::Arc;

use super::ring::{At, Segment};
use crate::runtime::capture::{
    line::{CaptureRow, Verb},
    writer,
};

/// Bytes that are made at a time.
const CHUNK: usize = 64 * 1_024;

/// The lines of a [rolling capture](crate::capture::RollingCapture), in pieces of some 64 KiB that end with a line. They are made as they
/// are taken; rows that come meanwhile are not among them.
#[derive(Clone, Debug)]
#[must_use = "lines are made as they are taken"]
pub struct CapturedLines {
    segments: Vec<Arc<Segment>>,
    /// The segment and the row that come next.
    segment: usize,
    at: Option<At>,
    rows: u64,
    has_ended: bool,
}

impl CapturedLines {
    pub(super) const fn new(segments: Vec<Arc<Segment>>) -> Self {
        Self { segments, segment: 0, at: None, rows: 0, has_ended: false }
    }

    /// Returns the time of the newest row.
    fn until(&self) -> u64 {
        self.segments.last().map_or(0, |segment| segment.last)
    }

    /// Puts the lines with which a segment begins.
    fn begin(&self, segment: &Segment, out: &mut Vec<u8>) -> At {
        if self.segment == 0 {
            put(out, &segment.header(self.until()));
        } else if segment.missed > 0 {
            let (t, count) = (segment.first, Some(segment.missed));
            put(out, &CaptureRow { t, verb: Verb::Gap, count, ..CaptureRow::default() });
        }
        segment.start(self.segment == 0 || segment.missed > 0)
    }
}

impl Iterator for CapturedLines {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.has_ended {
            return None;
        }
        let mut out = Vec::with_capacity(CHUNK + 1_024);
        while out.len() < CHUNK {
            let Some(segment) = self.segments.get(self.segment).map(Arc::clone) else {
                let (rows, t) = (Some(self.rows), self.until());
                let end = CaptureRow { t, verb: Verb::End, rows, ..CaptureRow::default() };
                put(&mut out, &end);
                self.has_ended = true;
                return Some(out);
            };
            let mut at = self.at.unwrap_or_else(|| self.begin(&segment, &mut out));
            match segment.read(&mut at) {
                Some(row) => {
                    self.rows += 1;
                    self.at = Some(at);
                    put(&mut out, &row);
                }
                None => (self.segment, self.at) = (self.segment + 1, None),
            }
        }
        Some(out)
    }
}

/// Puts a line. Writing to memory does not fail.
fn put(out: &mut Vec<u8>, line: &impl serde::Serialize) {
    let _ = writer::put(out, line);
}
