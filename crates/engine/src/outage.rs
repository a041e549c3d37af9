//! Whether the store of shared rules answers.

use std::time::Duration;

use crate::{
    Timestamp,
    tokens::{StoreChange, StoreState},
};

/// Time for which a store that gave no answer counts as gone although it is still asked: after that nothing is known.
const LATELY: Duration = Duration::from_secs(10);

/// From this mean time on the answers of a store are slow: half of what a store is given by default.
const SLOW: Duration = Duration::from_millis(25);

/// What is known of the store.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outage {
    state: StoreState,
    /// Time when the store went down, if it is down; time when it grants again, if it is quiet.
    since: Timestamp,
    /// Time when the store gave no answer to a request, unless it gave an answer since.
    unanswered: Option<Timestamp>,
    /// Time when the store was back.
    back: Timestamp,
    /// Mean time of its answers, and when the last one came.
    answers_after: Duration,
    answered: Option<Timestamp>,
}

/// What is seen of the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreSeen {
    pub(crate) state: StoreState,
    /// How long it takes until a store that is back grants again.
    pub(crate) quiet: Option<Duration>,
    /// The mean time of its answers, if there were any lately and they are slow.
    pub(crate) slow: Option<Duration>,
}

impl Outage {
    /// Notes the state of the store and, if it is down, for how long, if it is quiet, for how long it will be; returns how
    /// that differs from before.
    pub(crate) fn change(&mut self, now: Timestamp, to: StoreState, lasts: Duration) -> StoreChange {
        let down = (self.state == StoreState::Down).then(|| now.since(self.since));
        let change = StoreChange { from: self.state, to, down_for: down };
        self.state = to;
        self.since = if to == StoreState::Quiet { now.after(lasts) } else { now.before(lasts) };
        if matches!(to, StoreState::Up | StoreState::Evicting) {
            (self.unanswered, self.back) = (None, now);
        }
        change
    }

    /// Returns what is seen of the store.
    pub(crate) fn seen(&self, now: Timestamp) -> StoreSeen {
        let quiet = (self.state == StoreState::Quiet).then(|| self.since.since(now));
        let is_known = self.answered.is_some_and(|at| now.since(at) < LATELY);
        let slow = (is_known && self.answers_after >= SLOW).then_some(self.answers_after);
        StoreSeen { state: self.state, quiet, slow }
    }

    /// Notes that a request got an answer, or none.
    pub(crate) const fn note_answer(&mut self, unanswered: Option<Timestamp>) {
        self.unanswered = unanswered;
    }

    /// Notes how long a request waited for an answer.
    pub(crate) fn note_time(&mut self, now: Timestamp, took: Duration) {
        // What was known before a long silence says nothing of now.
        let mean = self.answered.filter(|&at| now.since(at) < LATELY).map(|_| self.answers_after);
        (self.answers_after, self.answered) = (mean.map_or(took, |mean| (mean * 7 + took) / 8), Some(now));
    }

    /// Fail closed: whether rules that fail closed reject, because the store is down or quiet, or gave no answer lately, to any
    /// label or to this one.
    pub(crate) fn is_gone(&self, now: Timestamp, of_label: Option<Timestamp>) -> bool {
        let lately =
            |unanswered: Option<Timestamp>| unanswered.is_some_and(|at| at >= self.back && now.since(at) < LATELY);
        matches!(self.state, StoreState::Down | StoreState::Quiet) || lately(self.unanswered) || lately(of_label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_slow_while_its_answers_come_late() {
        let at = |seconds| Timestamp::ZERO.after(Duration::from_secs(seconds));
        let ms = Duration::from_millis;
        let mut it = Outage::default();
        assert_eq!(it.seen(at(0)).slow, None, "no answer, no time");
        it.note_time(at(1), ms(2));
        it.note_time(at(1), ms(100));
        assert_eq!(it.seen(at(1)).slow, None, "a single late answer is none");
        for _ in 0..20 {
            it.note_time(at(2), ms(100));
        }
        assert!(it.seen(at(2)).slow.is_some_and(|mean| mean > ms(90)));
        assert_eq!(it.seen(at(12)).slow, None, "nothing is known any more");
        it.note_time(at(12), ms(2));
        assert_eq!(it.seen(at(12)).slow, None, "what was before counts no more");
    }

    #[test]
    fn an_unanswered_question_counts_until_an_answer_a_recovery_or_ten_seconds() {
        let at = |seconds| Timestamp::ZERO.after(Duration::from_secs(seconds));
        let mut it = Outage::default();
        it.note_answer(Some(at(5)));
        assert!(it.is_gone(at(6), None) && !it.is_gone(at(15), None));
        it.note_answer(None);
        assert!(!it.is_gone(at(6), None) && it.is_gone(at(6), Some(at(6))));
        let down = it.change(at(8), StoreState::Down, Duration::from_secs(2));
        assert_eq!((down.from, down.down_for), (StoreState::Up, None));
        assert!(it.is_gone(at(999), None));
        let back = it.change(at(10), StoreState::Up, Duration::ZERO);
        assert_eq!(back.down_for, Some(Duration::from_secs(4)));
        assert!(!it.is_gone(at(10), Some(at(9))), "an outage before the recovery says nothing");
    }
}
