//! What became of the requests of a partition in the last seconds, and what its rejections say of it.
//!
//! Nothing is counted for this: the counts that exist anyway are noted once a second, and compared.

use std::{collections::VecDeque, time::Duration};

use super::Counts;
use crate::{Reason, Timestamp};

/// Time that the view goes back, and between two notes of the counts.
const WINDOW: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_secs(1);
const SAMPLES: usize = 11;
/// Callers that left from which on they say something, and from which on they say something of most callers.
pub(super) const FEW: u64 = 3;
const ENOUGH: u64 = 20;

/// What most rejections of the last seconds say of a partition, or of a label.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RejectionKind {
    Saturated,
    Throttled,
    Unavailable,
}

impl RejectionKind {
    /// The meanings of rejections, the most harmless first.
    pub(crate) const ALL: [Self; 3] = [Self::Saturated, Self::Throttled, Self::Unavailable];

    /// Returns what a rejection says of the partition.
    pub(crate) const fn of(reason: Reason) -> Self {
        match reason {
            // A bound of the caller's own as well, and for want of slots.
            Reason::PartitionCap => Self::Saturated,
            _ if reason.is_unavailable() => Self::Unavailable,
            _ if reason.is_caller_limit() => Self::Throttled,
            _ => Self::Saturated,
        }
    }

    /// Returns the reasons that stand for this.
    pub(crate) fn reasons(self) -> impl Iterator<Item = Reason> {
        Reason::ALL.into_iter().filter(move |it| Self::of(*it) == self)
    }

    /// Returns what most of these rejections stand for, in the order of `ALL`, if they are more than were admitted.
    pub(super) fn mostly(rejected: [u64; 3], admitted: u64) -> Option<Self> {
        if rejected.iter().sum::<u64>() <= admitted {
            return None;
        }
        Self::ALL.into_iter().zip(rejected).max_by_key(|(_, count)| *count).map(|(kind, _)| kind)
    }
}

/// How many rejections there were, by reason.
type ByReason = [u64; Reason::ALL.len()];

/// Slots that were held throughout some time, and how many were given back in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Held {
    /// The fewer of those at its beginning and at its end.
    pub(crate) slots: u64,
    pub(crate) given_back: u64,
    pub(crate) seconds: f64,
}

impl Held {
    /// Returns what is held between two moments, each with the requests that ran and those that were admitted until then.
    pub(crate) fn between(moments: [(usize, u64); 2], seconds: f64) -> Self {
        let [(before, admitted), (after, admitted_since)] =
            moments.map(|(running, admitted)| (running as u64, admitted));
        let given_back = (admitted_since.saturating_sub(admitted) + before).saturating_sub(after);
        Self { slots: before.min(after), given_back, seconds }
    }

    /// Returns the time for which each of these slots is held, or longer: by Little's law, the slots divided by the rate at which
    /// they come back. Where none came back, one may have come back a moment later.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub(crate) fn each(&self) -> Duration {
        Duration::from_secs_f64(self.slots as f64 * self.seconds / (self.given_back + 1) as f64)
    }

    /// Whether slots come back far more slowly than those that do come back were held for: most of them are held by requests that
    /// don't end.
    pub(crate) fn is_stuck(&self, usual: Duration) -> bool {
        /// A time that is worth a word, and how often the usual time is exceeded.
        const LONG: Duration = Duration::from_secs(5);
        const FACTOR: u32 = 8;
        self.slots > 0 && self.each() >= LONG.max(usual.saturating_mul(FACTOR))
    }
}

/// What is seen of a partition at one moment, besides counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PartitionGauges {
    pub(crate) running: usize,
    /// Whether it runs fewer requests than its share.
    pub(crate) is_below_share: bool,
}

/// Counts of one moment, since the handle was made.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Timestamp,
    admitted: u64,
    rejected: ByReason,
    would_reject: u64,
    /// Requests that ended or left the line, those among them that had no answer in time, and those whose answer came late.
    ended: u64,
    left: u64,
    late: u64,
    gauges: PartitionGauges,
}

/// The counts of the last seconds.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// At most `SAMPLES`, the oldest first.
    samples: VecDeque<Sample>,
}

/// What became of the requests of a partition in the last seconds, at most ten.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct LastSeconds {
    /// Time that is looked back on, in seconds; 0 while there is nothing to look back on.
    pub(crate) seconds: f64,
    pub(crate) admitted: u64,
    pub(crate) rejected: ByReason,
    pub(crate) would_reject: u64,
    /// Requests that ended or left the line, those among them that had no answer in time, since the callers left or it came after the
    /// deadline, and those whose answer came late.
    pub(crate) ended: u64,
    pub(crate) left: u64,
    pub(crate) late: u64,
    pub(crate) held: Held,
    /// Whether requests were rejected for want of capacity in a second at the begin or end of which the partition ran fewer
    /// than its share.
    pub(crate) is_rejected_below_share: bool,
}

impl LastSeconds {
    /// The longest time that is looked back on.
    pub(crate) const WINDOW: Duration = WINDOW;

    /// Returns how many requests were rejected.
    pub(crate) fn rejected(&self) -> u64 {
        self.rejected.iter().sum()
    }

    /// Returns how many requests were admitted or rejected.
    pub(crate) fn decided(&self) -> u64 {
        self.admitted + self.rejected()
    }

    /// Returns how many rejections stand for this.
    pub(crate) fn rejected_as(&self, kind: RejectionKind) -> u64 {
        kind.reasons().map(|it| self.rejected[it.index()]).sum()
    }

    /// Returns the most frequent reason of rejections that stand for this.
    pub(crate) fn main_reason(&self, kind: RejectionKind) -> Option<Reason> {
        kind.reasons().max_by_key(|it| self.rejected[it.index()]).filter(|it| self.rejected[it.index()] > 0)
    }

    /// Returns the part of the requests that had no answer in time, where these are enough to say something.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub(crate) fn part_left(&self) -> f64 {
        if self.left < FEW { 0.0 } else { self.left as f64 / self.ended.max(1) as f64 }
    }

    /// Whether most requests had no answer in time.
    pub(crate) const fn are_most_unanswered(&self) -> bool {
        self.are_most(self.left)
    }

    /// Whether the callers of most requests left before the answer.
    pub(crate) const fn have_most_left(&self) -> bool {
        self.are_most(self.left - self.late)
    }

    const fn are_most(&self, count: u64) -> bool {
        count >= ENOUGH && count * 2 > self.ended
    }

    /// Returns a count as a rate per second. A part of a second is taken for a whole one: two requests at once are no thousands per second.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub(crate) fn per_second(&self, count: u64) -> f64 {
        if self.seconds > 0.0 { count as f64 / self.seconds.max(1.0) } else { 0.0 }
    }

    /// Returns what most rejections stand for, if more requests were rejected than admitted.
    pub(crate) fn mostly_rejected(&self) -> Option<RejectionKind> {
        RejectionKind::mostly(RejectionKind::ALL.map(|it| self.rejected_as(it)), self.admitted)
    }
}

impl Sample {
    fn of(at: Timestamp, counts: &Counts, gauges: PartitionGauges) -> Self {
        let would_reject = counts.would_reject.iter().sum();
        Self {
            at,
            admitted: counts.admitted,
            rejected: counts.rejected,
            would_reject,
            ended: counts.successes + counts.overloads + counts.ignored + counts.cancelled + counts.cancelled_waiting,
            left: counts.unanswered(),
            late: counts.late,
            gauges,
        }
    }

    fn lacked_capacity(&self) -> u64 {
        RejectionKind::Saturated.reasons().map(|it| self.rejected[it.index()]).sum()
    }
}

impl Recent {
    /// Whether it is time to note the counts.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.samples.back().is_none_or(|last| now.since(last.at) >= STEP)
    }

    /// Notes the counts, once a step.
    pub(super) fn note(&mut self, now: Timestamp, counts: &Counts, gauges: PartitionGauges) {
        if self.is_due(now) {
            if self.samples.len() >= SAMPLES {
                self.samples.pop_front();
            }
            self.samples.push_back(Sample::of(now, counts, gauges));
        }
    }

    /// Returns what has happened since the oldest note of the window, if there is any.
    pub(super) fn since(&self, now: Timestamp, counts: &Counts, gauges: PartitionGauges) -> LastSeconds {
        let mut samples = self.samples.iter().filter(|sample| now.since(sample.at) <= WINDOW).peekable();
        let Some(&&first) = samples.peek() else { return LastSeconds::default() };
        let last = Sample::of(now, counts, gauges);
        let (mut before, mut is_rejected_below_share) = (first, false);
        for sample in samples.copied().chain([last]) {
            let below = before.gauges.is_below_share || sample.gauges.is_below_share;
            is_rejected_below_share |= below && sample.lacked_capacity() > before.lacked_capacity();
            before = sample;
        }
        let seconds = now.since(first.at).as_secs_f64();
        LastSeconds {
            seconds,
            admitted: last.admitted - first.admitted,
            rejected: std::array::from_fn(|index| last.rejected[index] - first.rejected[index]),
            would_reject: last.would_reject - first.would_reject,
            ended: last.ended - first.ended,
            left: last.left - first.left,
            late: last.late - first.late,
            held: Held::between([first, last].map(|it| (it.gauges.running, it.admitted)), seconds),
            is_rejected_below_share,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::at_second as at;

    fn counts(admitted: u64, rejected: &[(Reason, u64)]) -> Counts {
        let mut counts = Counts { admitted, ..Counts::default() };
        for (reason, count) in rejected {
            counts.rejected[reason.index()] = *count;
        }
        counts
    }

    fn mostly(recent: &Recent, now: Timestamp, counts: &Counts) -> Option<RejectionKind> {
        recent.since(now, counts, PartitionGauges::default()).mostly_rejected()
    }

    #[test]
    fn most_of_the_last_seconds_decide_and_what_was_before_does_not() {
        let mut recent = Recent::default();
        let before = counts(1_000, &[(Reason::Limit, 9_000)]);
        assert_eq!(mostly(&recent, at(0), &before), None, "nothing to compare with");
        recent.note(at(0), &before, PartitionGauges::default());
        assert_eq!(mostly(&recent, at(1), &before), None, "nothing happened since");
        let half = counts(1_010, &[(Reason::Limit, 9_010)]);
        assert_eq!(mostly(&recent, at(1), &half), None);
        for (reason, status) in [
            (Reason::QueueFull, RejectionKind::Saturated),
            (Reason::Rate, RejectionKind::Throttled),
            (Reason::StoreUnavailable, RejectionKind::Unavailable),
        ] {
            let most = counts(1_010, &[(Reason::Limit, 9_005), (reason, 6)]);
            assert_eq!(mostly(&recent, at(1), &most), Some(status));
        }
        let then = counts(1_010, &[(Reason::Limit, 9_100)]);
        for second in 1..20 {
            recent.note(at(second), &then, PartitionGauges::default());
        }
        assert_eq!(mostly(&recent, at(20), &then), None, "it is over");
        assert_eq!(mostly(&recent, at(60), &counts(0, &[])), None, "what was noted is too old");
    }

    #[test]
    fn counts_are_noted_once_a_second_however_many_looks_there_are() {
        let mut recent = Recent::default();
        let full = counts(0, &[(Reason::Limit, 10)]);
        recent.note(at(0), &counts(0, &[]), PartitionGauges::default());
        for _ in 0..1_000 {
            recent.note(at(0), &full, PartitionGauges::default());
        }
        assert_eq!(mostly(&recent, at(0), &full), Some(RejectionKind::Saturated));
    }

    #[test]
    fn the_view_goes_back_ten_seconds_and_names_its_length() {
        let mut recent = Recent::default();
        for second in 0..=30 {
            recent.note(
                at(second),
                &counts(second * 5, &[(Reason::Limit, second * 3), (Reason::Rate, second)]),
                PartitionGauges::default(),
            );
        }
        let last =
            recent.since(at(30), &counts(150, &[(Reason::Limit, 90), (Reason::Rate, 30)]), PartitionGauges::default());
        assert_eq!((last.seconds, last.admitted, last.rejected(), last.decided()), (10.0, 50, 40, 90));
        assert_eq!((last.rejected_as(RejectionKind::Saturated), last.rejected_as(RejectionKind::Throttled)), (30, 10));
        assert_eq!(
            (last.main_reason(RejectionKind::Saturated), last.main_reason(RejectionKind::Unavailable)),
            (Some(Reason::Limit), None)
        );
        assert_eq!((last.per_second(30), LastSeconds::default().per_second(30)), (3.0, 0.0));
        assert!(!last.is_rejected_below_share);
    }

    #[test]
    fn slots_that_come_back_far_more_slowly_than_usual_are_stuck() {
        for (before, admitted, after, usual, each, is_stuck) in [
            (40, 0, 40, 0.02, 400, true),
            // A slot in ten is given back as usual.
            (36, 40, 36, 0.02, 8, true),
            (36, 40, 36, 2.0, 8, false),
            // Just taken, or given back all the time.
            (0, 40, 40, 0.02, 0, false),
            (40, 20_000, 40, 0.02, 0, false),
            // As long as usual.
            (40, 0, 40, 240.0, 400, false),
            (1, 0, 1, 0.02, 10, true),
        ] {
            let held = Held::between([(before, 0), (after, admitted)], 10.0);
            assert_eq!(held.each().as_secs(), each, "{held:?}");
            assert_eq!(held.is_stuck(Duration::from_secs_f64(usual)), is_stuck, "{held:?}");
        }
        assert!(!Held::between([(40, 0), (40, 0)], 0.1).is_stuck(Duration::ZERO), "a moment says nothing");
    }

    #[test]
    fn a_rejection_below_the_share_is_seen_where_the_second_began_or_ended_below_it() {
        for (noted, now, expected) in [(false, false, false), (true, false, true), (false, true, true)] {
            let mut recent = Recent::default();
            let [noted, now] = [noted, now].map(|is_below_share| PartitionGauges { is_below_share, running: 0 });
            recent.note(at(0), &counts(0, &[]), noted);
            let rejected = counts(5, &[(Reason::Limit, 1)]);
            assert_eq!(recent.since(at(1), &rejected, now).is_rejected_below_share, expected);
            // A cap of the caller's own says nothing of shares.
            let throttled = counts(5, &[(Reason::Rate, 1)]);
            assert!(!recent.since(at(1), &throttled, now).is_rejected_below_share);
        }
    }
}
