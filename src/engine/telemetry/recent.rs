//! What became of the requests of a partition in the last seconds, and how the partition fares by that.
//!
//! Nothing is counted for this: the counts that exist anyway are noted once a second, and compared.

use std::time::Duration;

use super::Counts;
use crate::{rejection::Reason, time::Timestamp};

/// Time that the view goes back, and between two notes of the counts.
const WINDOW: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_secs(1);
const SAMPLES: usize = 5;

/// What most rejections of the last seconds say of a partition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fares {
    Saturated,
    Throttled,
    Unavailable,
}

/// The meanings of rejections, the most harmless first.
const STATUSES: [Fares; 3] = [Fares::Saturated, Fares::Throttled, Fares::Unavailable];

/// Counts of one moment, since the handle was made.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Timestamp,
    admitted: u64,
    /// Rejections in the order of [`STATUSES`].
    refused: [u64; STATUSES.len()],
}

/// The counts of the last seconds.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    samples: [Option<Sample>; SAMPLES],
    next: usize,
}

impl Sample {
    fn of(at: Timestamp, counts: &Counts) -> Self {
        let mut refused = [0; STATUSES.len()];
        for (reason, count) in Reason::ALL.into_iter().zip(counts.rejected) {
            refused[kind(reason)] += count;
        }
        Self { at, admitted: counts.admitted, refused }
    }
}

/// Returns what a rejection says of the partition, as an index of [`STATUSES`].
const fn kind(reason: Reason) -> usize {
    match reason {
        Reason::Draining | Reason::PendingUnavailable | Reason::StoreUnavailable => 2,
        Reason::Budget
        | Reason::LabelCap
        | Reason::LabelQueueFull
        | Reason::NamespaceCap
        | Reason::PendingFull
        | Reason::Rate
        | Reason::RunCap => 1,
        Reason::Deadline
        | Reason::GateFull
        | Reason::GateTimeout
        | Reason::Limit
        | Reason::PartitionCap
        | Reason::PushedOut
        | Reason::QueueFull
        | Reason::QueueTimeout => 0,
    }
}

impl Recent {
    /// Notes the counts, once a step.
    pub(super) fn note(&mut self, now: Timestamp, counts: &Counts) {
        let last = self.samples[(self.next + SAMPLES - 1) % SAMPLES];
        if last.is_some_and(|last| now.since(last.at) < STEP) {
            return;
        }
        self.samples[self.next] = Some(Sample::of(now, counts));
        self.next = (self.next + 1) % SAMPLES;
    }

    /// Returns what most rejections of the last seconds stand for, if more requests were rejected than admitted.
    pub(super) fn mostly_refused(&self, now: Timestamp, counts: &Counts) -> Option<Fares> {
        let recent = self.samples.into_iter().flatten().filter(|sample| now.since(sample.at) <= WINDOW);
        let first = recent.min_by_key(|sample| sample.at)?;
        let last = Sample::of(now, counts);
        let admitted = last.admitted - first.admitted;
        let refused = [0, 1, 2].map(|kind| last.refused[kind] - first.refused[kind]);
        if refused.iter().sum::<u64>() <= admitted {
            return None;
        }
        let most = STATUSES.into_iter().zip(refused).max_by_key(|(_, count)| *count);
        most.map(|(status, _)| status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::ZERO.after(Duration::from_secs(1_000 + seconds))
    }

    fn counts(admitted: u64, refused: &[(Reason, u64)]) -> Counts {
        let mut counts = Counts { admitted, ..Counts::default() };
        for (reason, count) in refused {
            counts.rejected[reason.index()] = *count;
        }
        counts
    }

    #[test]
    fn most_of_the_last_seconds_decide_and_what_was_before_does_not() {
        let mut recent = Recent::default();
        let before = counts(1_000, &[(Reason::Limit, 9_000)]);
        assert_eq!(recent.mostly_refused(at(0), &before), None, "nothing to compare with");
        recent.note(at(0), &before);
        assert_eq!(recent.mostly_refused(at(1), &before), None, "nothing happened since");
        let half = counts(1_010, &[(Reason::Limit, 9_010)]);
        assert_eq!(recent.mostly_refused(at(1), &half), None);
        for (reason, status) in [
            (Reason::QueueFull, Fares::Saturated),
            (Reason::Rate, Fares::Throttled),
            (Reason::StoreUnavailable, Fares::Unavailable),
        ] {
            let most = counts(1_010, &[(Reason::Limit, 9_005), (reason, 6)]);
            assert_eq!(recent.mostly_refused(at(1), &most), Some(status));
        }
        let then = counts(1_010, &[(Reason::Limit, 9_100)]);
        for second in 1..20 {
            recent.note(at(second), &then);
        }
        assert_eq!(recent.mostly_refused(at(20), &then), None, "it is over");
        assert_eq!(recent.mostly_refused(at(60), &counts(0, &[])), None, "what was noted is too old");
    }

    #[test]
    fn counts_are_noted_once_a_second_however_many_looks_there_are() {
        let mut recent = Recent::default();
        let full = counts(0, &[(Reason::Limit, 10)]);
        recent.note(at(0), &counts(0, &[]));
        for _ in 0..1_000 {
            recent.note(at(0), &full);
        }
        assert_eq!(recent.mostly_refused(at(0), &full), Some(Fares::Saturated));
    }
}
