//! How long work goes on whose request was given up, by the answers to requests of its class and partition.
//!
//! Answers tell little of work that is never answered. Where callers leave slow work early, all answers are those of quick work, and
//! would make the slow work look quick. So an answer vouches for one piece of work that is given up. All other work is taken to last
//! for the longest time that work may take. So no more goes on unseen than is answered.

use std::{collections::BTreeMap, time::Duration};

use super::service_time::Usual;
use crate::{
    Timestamp,
    ids::{ClassId, PartitionId},
    nanos,
};

/// The most work that is given up at once for which answers vouch.
const MOST: u32 = 16;

/// What is known of kinds of work: noted once work is abandoned that may go on.
#[derive(Debug, Default)]
pub(crate) struct AbandonedWork {
    kinds: Option<BTreeMap<(ClassId, PartitionId), Kind>>,
}

#[derive(Debug, Default)]
struct Kind {
    usual: Usual,
    /// When the newest request started that was answered, and when the last answer came.
    newest: Timestamp,
    last: Timestamp,
    /// Work for which answers vouch.
    credit: u32,
}

impl AbandonedWork {
    /// Takes an answer to a request that started at this time.
    #[inline]
    pub(crate) fn answered(&mut self, kind: (ClassId, PartitionId), start: Timestamp, rtt: Duration) {
        if let Some(kinds) = &mut self.kinds {
            kinds.entry(kind).or_default().answered(start, rtt);
        }
    }

    /// Notes that work of this age was given up, which may go on. Returns whether answers say how long it takes.
    pub(crate) fn given_up(&mut self, kind: (ClassId, PartitionId), age: Duration) -> bool {
        let Some(kind) = self.kinds.get_or_insert_default().get_mut(&kind) else { return false };
        // Work that was not answered within the usual time is not usual.
        let is_known = kind.credit > 0 && kind.usual.likely().is_some_and(|likely| age <= likely);
        kind.credit -= u32::from(is_known);
        is_known
    }

    /// Returns when work that was given up and that started at this time has nearly always ended, by answers if these say so.
    ///
    /// Where a queue grows at the server, work takes longer than all work before it. So as long as answers come, but only of
    /// requests that started earlier, the work is waited for: twice as long at most.
    pub(crate) fn end(
        &self,
        kind: (ClassId, PartitionId),
        is_known: bool,
        start: Timestamp,
        longest: Duration,
    ) -> Timestamp {
        let kind = self.kinds.as_ref().and_then(|kinds| kinds.get(&kind));
        let likely = kind.and_then(|kind| Some((kind.usual.likely()?, kind)));
        let Some((likely, Kind { newest, last, .. })) = likely.filter(|_| is_known) else {
            return start.after(likely.map_or(longest, |(likely, _)| longest.max(likely)));
        };
        let usual = start.after(likely);
        if *newest > start { usual } else { usual.max(last.after(likely).min(usual.after(likely))) }
    }
}

impl Kind {
    fn answered(&mut self, start: Timestamp, rtt: Duration) {
        self.usual.answered(rtt);
        self.newest = self.newest.max(start);
        self.last = self.last.max(Timestamp::from_nanos(start.as_nanos().saturating_add(nanos(rtt))));
        self.credit = MOST.min(self.credit + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::at;

    const SECOND: Duration = Duration::from_secs(1);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn kind(class: usize, partition: usize) -> (ClassId, PartitionId) {
        (ClassId::from_index(class), PartitionId::from_index(partition).unwrap())
    }

    /// Work whose first request was given up, and the milliseconds after which its next ones were answered.
    fn known(answers: u64, rtt: u64) -> AbandonedWork {
        let mut work = AbandonedWork::default();
        assert!(!work.given_up(kind(1, 1), ms(0)));
        (0..answers).for_each(|start| work.answered(kind(1, 1), at(start), ms(rtt)));
        work
    }

    #[test]
    fn few_answers_and_those_of_other_kinds_say_nothing() {
        let mut never = AbandonedWork::default();
        (0..99).for_each(|start| never.answered(kind(1, 1), at(start), ms(20)));
        assert_eq!(never.end(kind(1, 1), true, at(0), SECOND), at(1_000));
        assert!(!known(15, 500).given_up(kind(1, 1), ms(10)));
        assert!(known(16, 500).given_up(kind(1, 1), ms(10)));
        for other in [kind(1, 2), kind(2, 1), kind(0, 0)] {
            let mut work = known(99, 500);
            assert!(!work.given_up(other, ms(10)));
            assert_eq!(work.end(other, false, at(7), SECOND), at(1_007));
        }
        assert_eq!(known(99, 5_000).end(kind(1, 1), false, at(0), SECOND), at(5_000), "no less than usual work");
    }

    #[test]
    fn work_that_is_older_than_usual_work_is_not_usual() {
        assert!(known(99, 500).given_up(kind(1, 1), ms(500)));
        assert!(!known(99, 500).given_up(kind(1, 1), ms(501)));
    }

    #[test]
    fn an_answer_vouches_for_one_piece_of_work() {
        let mut work = known(99_999, 500);
        let believed = |work: &mut AbandonedWork| (0..99).filter(|_| work.given_up(kind(1, 1), ms(10))).count();
        assert_eq!((believed(&mut work), believed(&mut work)), (16, 0), "all that is saved up");
        (0..5).for_each(|start| work.answered(kind(1, 1), at(start), ms(500)));
        assert_eq!(believed(&mut work), 5);
    }

    #[test]
    fn work_is_waited_for_while_answers_come_of_older_requests_alone() {
        let mut work = known(100, 100);
        let ends = |work: &AbandonedWork, start| work.end(kind(1, 1), true, at(start), SECOND);
        // The last answer came at 199.
        assert_eq!(ends(&work, 98), at(198), "a later request was answered");
        assert_eq!(ends(&work, 99), at(299), "answers came as late as that");
        assert_eq!(ends(&work, 150), at(299));
        assert_eq!(ends(&work, 300), at(400), "no answer comes any more");
        work.answered(kind(1, 1), at(99), ms(100));
        work.answered(kind(1, 1), at(151), ms(100));
        assert_eq!(ends(&work, 150), at(250), "it is overtaken");
        work.answered(kind(1, 1), at(0), Duration::MAX);
        assert_eq!(work.end(kind(1, 1), false, at(0), Duration::MAX), Timestamp::ZERO.after(Duration::MAX));
    }
}
