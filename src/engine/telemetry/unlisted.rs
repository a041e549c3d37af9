//! Requests that the quiet path admitted or rejected without the engine: counted many at a time, and listed later or nowhere.

use std::time::Duration;

use super::{Blocker, Fares, Gauges, Telemetry, journal::DecisionCode};
use crate::{
    engine::{
        ids::{LabelId, PartitionId},
        tokens::RequestRef,
    },
    outcome::Outcome,
    rejection::Reason,
    time::Timestamp,
};

impl Telemetry {
    /// Requests without a label arrived and were admitted at once. They are [listed](Self::list_admitted) when they end.
    ///
    /// Less than 0 takes back requests that were counted before they gave up.
    pub(crate) fn admitted_unlisted(&mut self, partition: PartitionId, count: i64) {
        let counts = &mut self.counts[partition.index()];
        counts.arrived = counts.arrived.wrapping_add_signed(count);
        counts.admitted = counts.admitted.wrapping_add_signed(count);
    }

    /// Requests without a label arrived and were rejected, and are listed nowhere.
    pub(crate) fn rejected_unlisted(&mut self, partition: PartitionId, reason: Reason, count: u64) {
        let counts = &mut self.counts[partition.index()];
        counts.arrived += count;
        counts.rejected[reason.index()] += count;
        self.totals_mut(LabelId::DEFAULT).rejected[Fares::of(reason) as usize] += count;
        #[cfg(feature = "introspect")]
        self.count_rejected_plainly(partition, reason, count);
    }

    /// Lists a request that was admitted at once.
    #[inline]
    pub(crate) fn list_admitted(&mut self, at: Timestamp, partition: PartitionId, gauges: Gauges) {
        let request = RequestRef::new(at, partition, LabelId::DEFAULT);
        self.journal.decided(at, DecisionCode::ADMITTED, request, Blocker::NOTHING, gauges);
    }

    /// Counts requests that ended in a time that is not known.
    pub(crate) fn ended_untimed(&mut self, partition: PartitionId, outcome: Outcome, count: u64) {
        *self.counts[partition.index()].of(outcome) += count;
    }

    /// Counts so many successes as if they had been timed.
    #[inline]
    pub(crate) fn times_alike(&mut self, partition: PartitionId, rtt: Duration, count: u64) {
        if count > 0 {
            self.counts[partition.index()].rtt.record_many(rtt, count);
        }
    }
}
