//! The state of a handle in a word, and since when.
//!
//! A change for the worse shows at once. A change for the better shows when the handle was better for some seconds, and a share
//! of rejections near its bound does not make the word change to and fro.

use std::time::Duration;

use super::recent::{LastSeconds, RejectionKind};
use crate::{Timestamp, codes};

/// The state of a handle in a word, judged by the last seconds rather than by the instant. Where several apply, the one
/// listed last is told.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "HealthState", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Health {
    /// Slots are free, no request was rejected, and all got their answer in time.
    #[default]
    Fine,
    /// The slots are used up, requests wait, or slots are not given back; hardly any request was rejected, and few got no answer in time.
    Busy,
    /// Most requests of a partition get no answer in time: their callers leave, or it comes after the deadline.
    Abandoned,
    /// Caps, rates or budgets reject requests of a partition, or most requests of a label; the server has room.
    Throttled,
    /// The store of shared rules answers late, and requests wait for it.
    StoreSlow,
    /// Requests are rejected since there are too few slots.
    Overloaded,
    /// The store of shared rules is back, or new, and grants nothing yet.
    StoreQuiet,
    /// The store of shared rules does not answer.
    StoreGone,
    /// Decisions don't bind: every request is admitted.
    NotEnforcing,
    /// The handle drains: no request is admitted any more.
    Draining,
}

impl Health {
    codes! {
        /// All variants, the most harmless first.
        10:
            Fine = "fine", Busy = "busy", Abandoned = "abandoned", Throttled = "throttled", StoreSlow = "store_slow",
            Overloaded = "overloaded", StoreQuiet = "store_quiet", StoreGone = "store_gone",
            NotEnforcing = "not_enforcing", Draining = "draining",
    }

    /// Whether this is the state of the handle rather than of its load: it begins and ends at once.
    const fn is_certain(self) -> bool {
        matches!(self, Self::StoreQuiet | Self::NotEnforcing | Self::Draining)
    }
}

/// From this part of the requests of a partition on, rejections are the state of the handle, and below that part they are
/// not any more.
const FROM: f64 = 0.01;
const UNTIL: f64 = 0.005;
/// Time for which a handle has to be better before it is told so.
const BETTER_FOR: Duration = Duration::from_secs(5);
/// Seconds whose load is remembered: half of them have to be busy.
const REMEMBERED: u32 = 10;

/// What is seen of the handle at one moment, besides counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HealthInputs {
    pub(crate) is_draining: bool,
    pub(crate) binds: bool,
    pub(crate) is_store_quiet: bool,
    pub(crate) is_store_gone: bool,
    pub(crate) is_store_slow: bool,
    /// Whether all slots are used, or a request waits.
    pub(crate) is_busy: bool,
    /// Whether as many requests wait as may run, or requests wait longer than before.
    pub(crate) is_line_long: bool,
    /// Whether most slots are held by requests that don't end.
    pub(crate) is_stuck: bool,
}

/// The health, and what it takes to change it.
#[derive(Debug, Default)]
pub(super) struct Judge {
    health: Health,
    since: Timestamp,
    /// Time since when the handle was better than that, and when the process went on after it had stood still.
    better_since: Option<Timestamp>,
    went_on: Option<Timestamp>,
    /// A bit for each of the last seconds, the newest one first: whether the handle was busy; and how many seconds were noted.
    busy: u32,
    noted: u32,
}

impl Judge {
    pub(super) const fn health(&self) -> (Health, Timestamp) {
        (self.health, self.since)
    }

    /// Has the state begin now, since the process goes on after it stood still.
    pub(super) const fn begin(&mut self, now: Timestamp) {
        (self.since, self.better_since, self.went_on) = (now, None, Some(now));
    }

    /// Notes whether the handle is busy, once a second.
    pub(super) const fn note(&mut self, is_busy: bool) {
        self.busy = self.busy << 1 | is_busy as u32;
        if self.noted < REMEMBERED {
            self.noted += 1;
        }
    }

    /// Whether the handle was busy in most of the last seconds.
    pub(super) const fn is_mostly_busy(&self) -> bool {
        (self.busy & ((1 << REMEMBERED) - 1)).count_ones() * 2 > self.noted
    }

    /// Judges what is seen now, and the last seconds of all partitions.
    /// `of_label` tells whether the label with most rejections is throttled, and the part of the callers that leave of the label of
    /// which most do.
    pub(super) fn judge(
        &mut self,
        now: Timestamp,
        inputs: HealthInputs,
        of_label: (bool, f64),
        partitions: impl Iterator<Item = LastSeconds>,
    ) {
        let found = self.find(inputs, of_label, partitions);
        if found > self.health
            || found.is_certain() && found != self.health
            || self.health.is_certain() && found != self.health
        {
            (self.health, self.since, self.better_since) = (found, now, None);
        } else if found == self.health {
            self.better_since = None;
        } else if now.since(*self.better_since.get_or_insert(now)) >= BETTER_FOR
            // What came while the process stood still is no load that may come again.
            || self.went_on.is_some_and(|at| now.since(at) < LastSeconds::WINDOW + BETTER_FOR)
        {
            // Told since when it holds, rather than since when that is certain.
            (self.health, self.since) = (found, self.better_since.take().unwrap_or(now));
        }
    }

    fn find(
        &self,
        inputs: HealthInputs,
        of_label: (bool, f64),
        partitions: impl Iterator<Item = LastSeconds>,
    ) -> Health {
        if inputs.is_draining {
            return Health::Draining;
        } else if !inputs.binds {
            return Health::NotEnforcing;
        } else if inputs.is_store_quiet {
            return Health::StoreQuiet;
        } else if inputs.is_store_gone {
            return Health::StoreGone;
        }
        let bound = |health| if self.health == health { UNTIL } else { FROM };
        let (is_label_throttled, leaves) = of_label;
        let (mut lacks_capacity, mut throttles) = (false, is_label_throttled);
        let mut rejects = inputs.is_stuck || inputs.is_line_long || leaves >= bound(Health::Busy);
        let mut is_abandoned = false;
        for last in partitions {
            #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
            let part = |kind| last.rejected_as(kind) as f64 / last.decided().max(1) as f64;
            lacks_capacity |= part(RejectionKind::Saturated) >= bound(Health::Overloaded);
            throttles |= part(RejectionKind::Throttled) >= bound(Health::Throttled);
            rejects |= last.rejected() > 0 || last.part_left() >= bound(Health::Busy);
            is_abandoned |= last.are_most_unanswered();
        }
        // Now counts as one second more: of a handle that is seconds old, no more may be known.
        let busy = (self.busy & ((1 << REMEMBERED) - 1)).count_ones() + u32::from(inputs.is_busy);
        match () {
            () if lacks_capacity => Health::Overloaded,
            () if inputs.is_store_slow => Health::StoreSlow,
            () if throttles => Health::Throttled,
            () if is_abandoned => Health::Abandoned,
            () if busy > 0 && busy * 2 > self.noted || rejects => Health::Busy,
            () => Health::Fine,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;
    use crate::tests::at_second as at;

    const OPEN: HealthInputs = HealthInputs {
        binds: true,
        is_draining: false,
        is_store_quiet: false,
        is_store_gone: false,
        is_store_slow: false,
        is_busy: false,
        is_line_long: false,
        is_stuck: false,
    };

    fn last(admitted: u64, reason: Reason, rejected: u64) -> LastSeconds {
        let mut last = LastSeconds { seconds: 10.0, admitted, ..LastSeconds::default() };
        last.rejected[reason.index()] = rejected;
        last
    }

    fn left(ended: u64, left: u64) -> LastSeconds {
        LastSeconds { seconds: 10.0, admitted: ended, ended, left, ..LastSeconds::default() }
    }

    fn judged(judge: &mut Judge, now: u64, inputs: HealthInputs, last: LastSeconds) -> (Health, Timestamp) {
        judge.judge(at(now), inputs, (false, 0.0), [last].into_iter());
        judge.health()
    }

    #[test]
    fn each_state_is_found_and_the_worst_is_told() {
        let fine = last(100, Reason::Limit, 0);
        for (inputs, last, expected) in [
            (OPEN, fine, Health::Fine),
            (OPEN, last(1_000, Reason::Limit, 1), Health::Busy),
            (OPEN, last(98, Reason::Rate, 2), Health::Throttled),
            (OPEN, last(98, Reason::QueueFull, 2), Health::Overloaded),
            (OPEN, last(0, Reason::Limit, 1), Health::Overloaded),
            (OPEN, left(100, 1), Health::Fine),
            (OPEN, left(100, 3), Health::Busy),
            (OPEN, left(400, 3), Health::Fine),
            (OPEN, left(39, 19), Health::Busy),
            (OPEN, left(39, 20), Health::Abandoned),
            (HealthInputs { is_stuck: true, ..OPEN }, fine, Health::Busy),
            (HealthInputs { is_line_long: true, ..OPEN }, fine, Health::Busy),
            (HealthInputs { is_store_slow: true, ..OPEN }, fine, Health::StoreSlow),
            (HealthInputs { is_store_slow: true, ..OPEN }, last(98, Reason::Rate, 2), Health::StoreSlow),
            (HealthInputs { is_store_slow: true, ..OPEN }, last(0, Reason::Limit, 1), Health::Overloaded),
            (HealthInputs { is_store_gone: true, ..OPEN }, last(0, Reason::StoreUnavailable, 9), Health::StoreGone),
            (HealthInputs { is_store_quiet: true, is_store_gone: true, ..OPEN }, fine, Health::StoreQuiet),
            (HealthInputs { binds: false, is_store_gone: true, ..OPEN }, fine, Health::NotEnforcing),
            (HealthInputs { is_draining: true, binds: false, ..OPEN }, fine, Health::Draining),
        ] {
            assert_eq!(judged(&mut Judge::default(), 0, inputs, last).0, expected, "{last:?}");
        }
        let mut judge = Judge::default();
        judge.judge(at(0), OPEN, (true, 0.0), [last(10_000, Reason::LabelCap, 9)].into_iter());
        assert_eq!(judge.health().0, Health::Throttled, "one label among very many requests");
        let mut judge = Judge::default();
        judge.judge(at(0), OPEN, (false, 0.3), [left(10_000, 30)].into_iter());
        assert_eq!(judge.health().0, Health::Busy, "callers of one label among very many");
        let mut both = last(10, Reason::Limit, 20);
        both.rejected[Reason::Rate.index()] = 500;
        assert_eq!(judged(&mut Judge::default(), 0, OPEN, both).0, Health::Overloaded, "one of many reasons");
        let mut judge = Judge::default();
        for second in 0..20 {
            let inputs = HealthInputs { is_busy: second >= 10, ..OPEN };
            judge.note(inputs.is_busy);
            let expected = if second >= 14 { Health::Busy } else { Health::Fine };
            assert_eq!(judged(&mut judge, second, inputs, fine).0, expected, "after {second} s");
        }
        let mut young = Judge::default();
        young.note(false);
        assert_eq!(
            judged(&mut young, 0, HealthInputs { is_busy: true, ..OPEN }, fine).0,
            Health::Busy,
            "half of what is known"
        );
    }

    /// With `BETTER_FOR` at 0 the word was `Fine` after the first second without a rejection, and with `UNTIL` at 0.01 it was `Busy` at
    /// 0.8 %.
    #[test]
    fn the_word_does_not_flap() {
        let mut judge = Judge::default();
        assert_eq!(judged(&mut judge, 0, OPEN, last(50, Reason::Limit, 50)), (Health::Overloaded, at(0)));
        for second in 1..100 {
            let rejected = if second % 4 == 0 { 50 } else { 0 };
            assert_eq!(
                judged(&mut judge, second, OPEN, last(50, Reason::Limit, rejected)),
                (Health::Overloaded, at(0))
            );
        }
        for second in 100..200 {
            assert_eq!(judged(&mut judge, second, OPEN, last(992, Reason::Limit, 8)).0, Health::Overloaded);
        }
        for second in 200..205 {
            assert_eq!(judged(&mut judge, second, OPEN, last(9, Reason::Limit, 0)).0, Health::Overloaded);
        }
        assert_eq!(judged(&mut judge, 205, OPEN, last(9, Reason::Limit, 0)), (Health::Fine, at(200)), "since it is so");
        assert_eq!(judged(&mut judge, 206, OPEN, last(992, Reason::Limit, 8)).0, Health::Busy, "below the bound");
        assert_eq!(judged(&mut judge, 207, OPEN, last(98, Reason::Limit, 2)), (Health::Overloaded, at(207)), "at once");
    }

    #[test]
    fn what_came_while_the_process_stood_still_is_over_once_it_is_served() {
        for (stood_still, expected) in [(true, Health::Fine), (false, Health::Overloaded)] {
            let mut judge = Judge::default();
            if stood_still {
                judge.begin(at(0));
            }
            assert_eq!(judged(&mut judge, 1, OPEN, last(50, Reason::Limit, 50)).0, Health::Overloaded);
            assert_eq!(judged(&mut judge, 11, OPEN, last(50, Reason::Limit, 0)).0, expected);
            // Control: what comes later is a load like any other.
            assert_eq!(judged(&mut judge, 20, OPEN, last(50, Reason::Limit, 50)).0, Health::Overloaded);
            assert_eq!(judged(&mut judge, 31, OPEN, last(50, Reason::Limit, 0)).0, Health::Overloaded);
        }
    }

    #[test]
    fn a_mode_and_a_drain_show_at_once() {
        let (mut judge, fine) = (Judge::default(), last(9, Reason::Limit, 0));
        let observes = HealthInputs { binds: false, ..OPEN };
        assert_eq!(judged(&mut judge, 1, observes, fine), (Health::NotEnforcing, at(1)));
        assert_eq!(judged(&mut judge, 2, OPEN, fine), (Health::Fine, at(2)), "there and back");
        let drains = HealthInputs { is_draining: true, ..OPEN };
        assert_eq!(judged(&mut judge, 3, drains, fine), (Health::Draining, at(3)));
        assert_eq!(judged(&mut judge, 9, drains, fine), (Health::Draining, at(3)));
    }
}
