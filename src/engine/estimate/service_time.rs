//! How long work takes, by its kind: a waiter with less time left than that gets no slot.

use std::time::Duration;

use crate::{
    engine::ids::ClassId,
    time::{Timestamp, nanos},
};

/// Fewer answers than this say nothing.
const FEWEST: u32 = 16;

/// For each kind of work a running mean and the mean distance from it, as TCP estimates round-trip times (RFC 6298).
#[derive(Debug, Default)]
pub(crate) struct ServiceTime {
    kinds: Vec<Kind>,
    /// In which order answers come, by kind: noted once work is abandoned that goes on.
    order: Option<Vec<Order>>,
}

/// When the newest request started that was answered, and when the last answer came.
#[derive(Clone, Copy, Debug, Default)]
struct Order {
    newest: Timestamp,
    last: Timestamp,
}

#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    mean: u64,
    distance: u64,
    answers: u32,
}

impl ServiceTime {
    /// Takes the round-trip time of an answer to a request that started at this time.
    pub(crate) fn answered(&mut self, class: ClassId, start: Timestamp, rtt: Duration) {
        let class = class.index();
        if self.kinds.len() <= class {
            self.kinds.resize(class + 1, Kind::default());
        }
        let (kind, rtt) = (&mut self.kinds[class], nanos(rtt));
        if kind.answers == 0 {
            (kind.mean, kind.distance) = (rtt, 0);
        }
        let distance = kind.mean.abs_diff(rtt);
        kind.distance = kind.distance - kind.distance / 16 + distance / 16;
        kind.mean = (kind.mean - kind.mean / 16).saturating_add(rtt / 16);
        kind.answers = kind.answers.saturating_add(1);
        if let Some(order) = &mut self.order {
            if order.len() <= class {
                order.resize(class + 1, Order::default());
            }
            let order = &mut order[class];
            order.newest = order.newest.max(start);
            order.last = order.last.max(Timestamp::from_nanos(start.as_nanos().saturating_add(rtt)));
        }
    }

    /// From now on, notes in which order answers come.
    pub(crate) fn note_order(&mut self) {
        self.order.get_or_insert_default();
    }

    /// Returns how long such work takes nearly always: the mean and four times the distance from it, as TCP waits for
    /// an answer.
    pub(crate) fn likely(&self, class: ClassId) -> Option<Duration> {
        self.known(class).map(Kind::likely)
    }

    /// Returns when such work that started at this time has nearly always ended.
    ///
    /// Where a queue grows at the server, work takes longer than all work before it. So as long as answers come, but only of
    /// requests that started earlier, the work is waited for: twice as long at most.
    pub(crate) fn likely_end(&self, class: ClassId, start: Timestamp) -> Option<Timestamp> {
        let kind = self.known(class)?;
        let (likely, usual) = (kind.likely(), start.after(kind.likely()));
        let Some(Order { newest, last }) = self.order.as_ref().and_then(|order| order.get(class.index())) else {
            return Some(usual);
        };
        Some(if *newest > start { usual } else { usual.max(last.after(likely).min(usual.after(likely))) })
    }

    fn known(&self, class: ClassId) -> Option<&Kind> {
        self.kinds.get(class.index()).filter(|kind| kind.answers >= FEWEST)
    }
}

impl Kind {
    const fn likely(&self) -> Duration {
        Duration::from_nanos(self.mean.saturating_add(self.distance.saturating_mul(4)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_spread_is_covered_and_few_answers_say_nothing() {
        let (mut work, class) = (ServiceTime::default(), ClassId::from_index);
        let at = |millis| Timestamp::ZERO.after(Duration::from_millis(millis));
        for i in 0..1_000_u64 {
            assert_eq!(work.likely(class(3)).is_some(), i >= u64::from(FEWEST));
            work.answered(class(3), at(i), Duration::from_millis(1_000 + i * 617 % 1_000));
        }
        let likely = work.likely(class(3)).unwrap();
        assert!((2_300..2_900).contains(&likely.as_millis()), "{likely:?}");
        assert_eq!((work.likely(class(0)), work.likely(class(9))), (None, None));
        work.answered(class(0), at(0), Duration::MAX);
        work.answered(class(0), at(0), Duration::ZERO);
    }
    #[test]
    fn work_is_waited_for_while_answers_come_of_older_requests_alone() {
        let (mut work, class) = (ServiceTime::default(), ClassId::from_index(1));
        let at = |millis| Timestamp::ZERO.after(Duration::from_millis(millis));
        assert_eq!(work.likely_end(class, at(0)), None);
        work.note_order();
        (0..100).for_each(|start| work.answered(class, at(start), Duration::from_millis(100)));
        // The last answer came at 199.
        assert_eq!(work.likely_end(class, at(98)), Some(at(198)), "a later request was answered");
        assert_eq!(work.likely_end(class, at(99)), Some(at(299)), "answers came as late as that");
        assert_eq!(work.likely_end(class, at(150)), Some(at(299)));
        assert_eq!(work.likely_end(class, at(300)), Some(at(400)), "no answer comes any more");
        work.answered(class, at(99), Duration::from_millis(100));
        work.answered(class, at(151), Duration::from_millis(100));
        assert_eq!(work.likely_end(class, at(150)), Some(at(250)), "it is overtaken");
    }
}
