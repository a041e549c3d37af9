//! What holds for one label of one class, and which meters it shares with others.
//!
//! A meter lives as long as a label needs it, and what a label has of its own as long as it is known. A label is not forgotten
//! while anything that was used of a rate still counts. So there are never more meters than the table of labels has
//! room for, and no name buys a new rate.

use super::{Remote, Rules, rate::Rate};
use crate::{
    Timestamp,
    ids::MeterId,
    plan::rules::{Resolved, WhenFull},
    tokens::Need,
};

/// The rules of one label of one class, and the meters that it is counted by.
#[derive(Debug)]
pub(in crate::quota) struct KeyMeters {
    pub(in crate::quota) rules: Resolved,
    pub(super) rate: Rate,
    pub(super) namespace: MeterId,
    pub(super) group: Option<MeterId>,
    pub(super) throttled: Throttled,
    /// State of its shared rules, where it has some.
    pub(in crate::quota) remote: Option<Box<Remote>>,
}

/// The meter at which a label waits for room.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Throttled {
    pub(super) at: Option<(MeterId, Need)>,
    /// Its place in line; stays until the label is served, in case that it has to go back.
    pub(super) stamp: Option<u64>,
}

impl KeyMeters {
    /// Returns how many requests of the label may run before further ones wait, if its cap lets them wait.
    pub(in crate::quota) fn waits_at(&self) -> usize {
        let cap = self.rules.in_flight.filter(|rule| rule.when_full == WhenFull::Queue && !rule.observes);
        cap.map_or(usize::MAX, |rule| rule.bound)
    }
}

impl Rules {
    /// Whether closing the meters of a label gives no label a new rate: nothing of what was used of its rates counts any more, or
    /// other labels need the meter.
    pub(in crate::quota) fn may_close(&self, now: Timestamp, key_meters: &KeyMeters) -> bool {
        let meters = [Some(key_meters.namespace), key_meters.group];
        key_meters.rate.is_fresh(now) && meters.into_iter().flatten().all(|meter| self.meters.may_leave(now, meter))
    }

    /// Closes the meters of a label that is forgotten. Its use of shared meters stays counted as long as that matters.
    pub(in crate::quota) fn close(&mut self, now: Timestamp, key_meters: &KeyMeters) {
        #[cfg(test)]
        assert!(key_meters.throttled.at.is_none(), "a label that nobody waits for is not parked");
        self.meters.leave(now, key_meters.namespace);
        if let Some(group) = key_meters.group {
            self.meters.leave(now, group);
        }
    }
}
