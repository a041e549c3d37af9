//! Pauses: what is less than the least limit.
//!
//! Where the work of a request that was given up goes on in the server, its slot is free as soon as its caller leaves. A limit of one then
//! starts a request for each caller that leaves, which may be as fast as the server drains: once full, it stays full, and no request is
//! ever answered in time.
//!
//! So a law that is at its least limit, and whose requests all end late and without an answer, has no request start for a while: for as
//! long as the late request held its slot, and twice as long and a bit with each further pause. After a pause a single request starts, and
//! each answer in time lets one more run, until they are as many as the law says: so TCP begins anew after a timeout (RFC 5681, 3.1). The
//! first answer in time ends the pauses. None is longer than so many answers that a single request in it is next to no load.
//!
//! A law that goes to its least limit step by step feeds the server on its way: for minutes, where a step takes a window. So it pauses
//! above its least limit as well, after four rounds without an answer. A law that looks at half of its limit cuts what brings nothing
//! sooner, and learns less from the few requests that pauses leave.
//!
//! An end is late if it brought no answer, and came no sooner than answers usually do: a caller that leaves sooner is impatient. An answer
//! that came too late is no such end: its slot was held for as long as its work took, so nothing goes on that a pause would wait for. A
//! class of work that takes longer than callers wait would else stop all others. Two late ends for each answer are even odds at a third of
//! requests answered, which is where half of the limit brings more than all of it.

use std::time::Duration;

use crate::{Outcome, Timestamp, limit::Sample, nanos};

/// Late ends, less two for each answer, of which there are as many as slots; but no more than these. Above the least limit, as many as slots so
/// many times, and no fewer than these.
const ENOUGH: usize = 32;
const ROUNDS: usize = 4;
/// The longest pause: so many doublings of the first; a minute, as a stream may have held its slot for hours; or so many answers.
const DOUBLINGS: u32 = 6;
const LONGEST: Duration = Duration::from_secs(60);
const LONGEST_ANSWERS: u32 = 128;

#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// Late ends that answers did not make up for.
    late: usize,
    /// Pauses since the last answer.
    in_a_row: u32,
    /// Most requests that run since then; 0 once they may be as many as the law says.
    pub(super) most: usize,
    /// When the last of them began: a request that started before says nothing about it.
    since: Timestamp,
    /// Mean time of an answer in nanoseconds.
    usual: u64,
}

impl Pauses {
    /// Returns the limit in force where the law says this one.
    #[inline]
    pub(super) const fn bound(&self, limit: usize) -> usize {
        if self.most == 0 || limit < self.most { limit } else { self.most }
    }

    /// Takes a sample, of a request that was answered, in time or not, or that was not; `limit` returns the limit in force of a law that pauses,
    /// and whether that is its least. Returns until when no request starts, if that or the [bound](Self::bound) changes: `NEVER`, if requests start.
    #[inline]
    pub(super) fn learn(
        &mut self,
        sample: &Sample,
        was_answered: bool,
        limit: impl FnOnce() -> Option<(usize, bool)>,
    ) -> Option<Timestamp> {
        let rtt = nanos(sample.rtt?);
        if sample.outcome != Outcome::Success {
            let is_late = !was_answered && sample.start >= self.since && rtt >= self.usual;
            return if is_late { self.learn_late(sample, limit()) } else { None };
        }
        self.usual = if self.usual == 0 { rtt } else { self.usual - self.usual / 16 + rtt / 16 };
        self.late = self.late.saturating_sub(2);
        (self.most > 0).then(|| {
            (self.late, self.in_a_row, self.most) = (0, 0, self.most + 1);
            Timestamp::NEVER
        })
    }

    #[cold]
    fn learn_late(&mut self, sample: &Sample, limit: Option<(usize, bool)>) -> Option<Timestamp> {
        self.late = self.late.saturating_add(1);
        let (limit, is_least) = limit?;
        let is_low = is_least || self.most > 0;
        let enough = if is_low { limit.min(ENOUGH) } else { limit.saturating_mul(ROUNDS).max(ENOUGH) };
        if self.late < enough {
            return None;
        }
        self.in_a_row = (self.in_a_row + 1).min(DOUBLINGS);
        (self.since, self.most) = (sample.end, 1);
        // The round-trip time may be that of another class of work.
        let pause = sample.end.since(sample.start).saturating_mul((1 << self.in_a_row) - 1).min(LONGEST);
        // How long answers take is not known where there was none.
        let answers = if self.usual == 0 { LONGEST } else { Duration::from_nanos(self.usual) * LONGEST_ANSWERS };
        Some(sample.end.after(pause.min(answers)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::at;

    /// A request that starts at `start` and takes `millis`, where the limit is the least, of `least`.
    fn ends(pauses: &mut Pauses, start: u64, millis: u64, outcome: Outcome, least: usize) -> Option<Timestamp> {
        let sample = Sample::new(at(start), Duration::from_millis(millis), 1, outcome);
        pauses.learn(&sample, outcome == Outcome::Success, || Some((least, true)))
    }

    const LATE: Outcome = Outcome::Cancelled;

    #[test]
    fn pauses_grow_until_an_answer_ends_them() {
        let mut pauses = Pauses::default();
        for seconds in [1, 3, 7, 15, 31, 60, 60] {
            let now = pauses.since.as_nanos() / 1_000_000;
            let until = at(now + 1_000 + seconds * 1_000);
            assert_eq!(ends(&mut pauses, now, 1_000, LATE, 1), Some(until), "after {seconds} s");
            assert_eq!(ends(&mut pauses, now + 999, 1_000, LATE, 1), None, "it started before the pause");
        }
        let now = pauses.since.as_nanos() / 1_000_000;
        assert_eq!(ends(&mut pauses, now, 10, Outcome::Success, 1), Some(Timestamp::NEVER));
        assert_eq!([1, 9].map(|limit| pauses.bound(limit)), [1, 2], "one more than one");
        pauses.most = 0;
        assert_eq!(pauses.bound(9), 9);
        assert_eq!(ends(&mut pauses, now, 10, Outcome::Success, 1), None);
        let too_late = Sample::new(at(now), Duration::from_secs(1), 1, LATE);
        assert_eq!(
            pauses.learn(&too_late, true, || Some((1, true))),
            None,
            "an answer that comes too late leaves no work behind"
        );
        assert_eq!(ends(&mut pauses, now, 9, LATE, 1), None, "a caller that leaves before answers come is impatient");
        let late = Sample::new(at(now), Duration::from_secs(90), 1, LATE);
        let late = Sample { rtt: Some(Duration::from_secs(900)), end: at(now + 20_000), ..late };
        assert_eq!(
            pauses.learn(&late, false, || Some((1, true))),
            Some(at(now + 21_280)),
            "no longer than 128 answers, of 10 ms"
        );
    }

    #[test]
    fn there_is_no_pause_of_a_law_that_has_none_nor_where_a_third_is_answered() {
        let mut pauses = Pauses::default();
        let sample = Sample::new(at(0), Duration::from_secs(1), 1, LATE);
        assert!((0..100).all(|_| pauses.learn(&sample, false, || None).is_none()));
        assert_eq!(
            pauses.learn(&Sample { rtt: None, ..sample }, false, || Some((1, true))),
            None,
            "it says nothing of the server"
        );
        // Of so many requests one is answered: after so many a limit that can't go below `least` pauses.
        for (least, answered, expected) in
            [(20, 3, None), (20, 4, Some(71)), (20, 400, Some(20)), (1_000, 9, Some(44)), (1_000, 400, Some(32))]
        {
            let mut pauses = Pauses::default();
            let pause = (1..400).find(|&number| {
                let outcome = if number % answered == 0 { Outcome::Success } else { LATE };
                ends(&mut pauses, 0, 1_000, outcome, least).is_some()
            });
            assert_eq!(pause, expected, "{least}, one answer in {answered}");
        }
    }
}
