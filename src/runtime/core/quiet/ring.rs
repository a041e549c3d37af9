//! The samples of requests that ended, until the engine collects them.

use super::{
    NUMBERS,
    atomics::{AtomicU64, Ordering},
};
use crate::{Outcome, Timestamp};

/// Entries of a ring. Collected twice as often as it is full, and more.
pub(in crate::runtime) const RING: u32 = 256;

/// What one request said.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::runtime) struct RingSample {
    /// When the request entered and ended; never, for a request that was not timed.
    pub(in crate::runtime) start: Timestamp,
    pub(in crate::runtime) end: Timestamp,
    /// Requests in flight when it entered and when the sample was taken, itself included.
    pub(in crate::runtime) in_flight: u32,
    pub(in crate::runtime) running: u32,
    /// `None` where the sample was taken before.
    pub(in crate::runtime) outcome: Option<Outcome>,
    /// Whether it is an answer that came after its deadline, or a request that was given up in the first half of the time
    /// that it had.
    pub(in crate::runtime) is_untimely: bool,
    /// Whether it is of a body that went on after its answer had begun.
    pub(in crate::runtime) is_of_body: bool,
}

const OUTCOMES: [Option<Outcome>; 4] = [None, Some(Outcome::Success), Some(Outcome::Cancelled), Some(Outcome::Ignore)];
const COUNT: u64 = (1 << 18) - 1;

/// A place in the ring: written by the request of its number, read under the lock of the engine.
///
/// A request may be slow to write, and the next one at this place may write at the same time, or while the last sample is
/// read. So the rest is stored with a check of both times in it: a mixture of two samples has the number of neither. Of
/// 2^25 mixtures, a single one would be taken for a sample.
#[derive(Debug)]
struct Entry {
    start: AtomicU64,
    end: AtomicU64,
    /// Number, outcome, and both counts, with the check; written last.
    rest: AtomicU64,
}

/// The ring.
#[derive(Debug)]
pub(in crate::runtime) struct SampleRing(Box<[Entry; RING as usize]>);

/// All that there is to say of most requests where few are timed.
const fn untimed_success(number: u32) -> u64 {
    ((number & 0xff_ffff) as u64) << 40 | 0b11
}

/// The lowest bits of a sample, and of one that is late. An entry that was never written has neither. A success of a body has the
/// latter and no outcome: where the sample was taken before, nothing is late.
const TIMELY: u64 = 0b01;
const UNTIMELY: u64 = 0b10;

fn pack(number: u32, sample: &RingSample) -> u64 {
    let &RingSample { outcome, in_flight, running, is_untimely, is_of_body, .. } = sample;
    let outcome = if is_of_body { None } else { outcome };
    let outcome = OUTCOMES.iter().position(|&it| it == outcome).unwrap_or(0) as u64;
    let count = |count: u32| u64::from(count).min(COUNT);
    let kind = if is_untimely || is_of_body { UNTIMELY } else { TIMELY };
    u64::from(number & 0xff_ffff) << 40 | outcome << 38 | count(in_flight) << 20 | count(running) << 2 | kind
}

/// What a small change of either time changes in all bits; 0 for a place that was never written.
const fn check(start: u64, end: u64) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    start.wrapping_mul(ODD).wrapping_add(end).wrapping_mul(ODD)
}

impl SampleRing {
    pub(in crate::runtime) fn new() -> Self {
        let entry = |_| Entry { start: AtomicU64::new(0), end: AtomicU64::new(0), rest: AtomicU64::new(0) };
        Self(Box::new(std::array::from_fn(entry)))
    }

    #[inline]
    fn place(&self, number: u32) -> &Entry {
        &self.0[(number % RING) as usize]
    }

    /// Writes what the request with this number said: a sample, or only that it was not timed and succeeded.
    #[inline]
    pub(in crate::runtime) fn note(&self, number: u32, is_plain: bool, sample: impl FnOnce() -> RingSample) {
        if is_plain {
            return self.place(number).rest.store(untimed_success(number), Ordering::Release);
        }
        self.write(number, &sample());
    }

    /// Returns the first number, up to `to`, of a request for which that was not written.
    #[inline]
    pub(in crate::runtime) fn after_untimed_successes(&self, from: u32, to: u32) -> u32 {
        let mut number = from;
        while number != to && self.place(number).rest.load(Ordering::Acquire) == untimed_success(number) {
            number = number.wrapping_add(1) & NUMBERS;
        }
        number
    }

    /// Writes the sample of the request with this number, of 24 bits. An overload is not for the ring: it is told at once.
    #[inline]
    pub(in crate::runtime) fn write(&self, number: u32, sample: &RingSample) {
        let entry = self.place(number);
        let (start, end) = (sample.start.as_nanos(), sample.end.as_nanos());
        let rest = pack(number, sample) ^ check(start, end);
        entry.start.store(start, Ordering::Relaxed);
        entry.end.store(end, Ordering::Relaxed);
        entry.rest.store(rest, Ordering::Release);
    }

    /// Reads the sample of the request with this number; `None` if the request has left and not written yet.
    #[inline]
    pub(in crate::runtime) fn read(&self, number: u32) -> Option<RingSample> {
        let entry = self.place(number);
        let rest = entry.rest.load(Ordering::Acquire);
        let (start, end) = (entry.start.load(Ordering::Relaxed), entry.end.load(Ordering::Relaxed));
        let rest = rest ^ check(start, end);
        if !matches!(rest & 3, TIMELY | UNTIMELY) || rest >> 40 != u64::from(number & 0xff_ffff) {
            return None;
        }
        let count = |shift: u32| (rest >> shift & COUNT) as u32;
        let outcome = OUTCOMES[(rest >> 38 & 3) as usize];
        let is_of_body = rest & 3 == UNTIMELY && outcome.is_none();
        Some(RingSample {
            start: Timestamp::from_nanos(start),
            end: Timestamp::from_nanos(end),
            in_flight: count(20),
            running: count(2),
            outcome: if is_of_body { Some(Outcome::Success) } else { outcome },
            is_untimely: rest & 3 == UNTIMELY && !is_of_body,
            is_of_body,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_read_as_it_was_written_and_by_its_own_number_only() {
        let ring = SampleRing::new();
        let at = Timestamp::from_nanos;
        for (number, outcome) in (0xff_fffe..0xff_fffe + 300).zip(OUTCOMES.into_iter().cycle()) {
            let (start, end) = (at(u64::from(number)), Timestamp::NEVER);
            let is_untimely = number % 3 == 0 && outcome.is_some();
            let is_of_body = number % 3 == 1 && outcome == Some(Outcome::Success);
            let sample = RingSample { start, end, in_flight: 262_143, running: 1, outcome, is_untimely, is_of_body };
            assert_eq!(ring.read(number), None);
            ring.write(number, &sample);
            assert_eq!(ring.read(number), Some(sample));
            assert_eq!(ring.read(number.wrapping_sub(RING)), None, "overwritten");
        }
    }
}
