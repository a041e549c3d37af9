//! Lanes for requests that have a label and ask for nothing else.
//!
//! Slots that are lent to a label count as running for it and for its partition, so its cap holds under every race. A lane is for the
//! requests of one label of one partition at a time. Labels that came lately get a lane when slots are lent; a lane that served no request
//! since then is given to another label. So few labels that come often enter without the engine, and of many labels each asks it.

use std::sync::OnceLock;

use super::{
    Lane, Lanes, LentSlot,
    atomics::{AtomicU64, Ordering},
};
use crate::{Timestamp, engine::PartitionId};

/// Most labels that have a lane at a time.
pub(super) const LABEL_LANES: usize = 32;

/// A lane for a label, with its memory once it is needed.
#[derive(Debug)]
pub(super) struct LabelLane {
    /// What tells the requests of the lane from others. Changes only while the lane is closed, has no
    /// slots and no request.
    key: AtomicU64,
    lane: OnceLock<Box<Lane>>,
}

/// Returns what stands for a label of a partition. The hash is keyed, so that no caller can foresee it, and with its 64 bits
/// it stands for the name.
pub(super) fn key_of(partition: PartitionId, hash: u64) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    hash ^ (partition.index() as u64).wrapping_mul(ODD)
}

impl LabelLane {
    pub(super) fn new() -> Self {
        Self { key: AtomicU64::new(0), lane: OnceLock::new() }
    }

    /// Gives the lane to the requests with this key. Under the lock of the engine.
    pub(super) fn is_for(&self, key: u64) -> &Lane {
        self.key.store(key, Ordering::Release);
        self.lane.get_or_init(|| Box::new(Lane::new()))
    }
}

impl Lanes {
    /// Returns the lanes for labels that there are, in the order in which they were made.
    pub(super) fn for_labels(&self) -> impl Iterator<Item = &Lane> {
        self.labelled.iter().map_while(|it| it.lane.get()).map(|lane| &**lane)
    }

    /// Returns all lanes, by number.
    pub(super) fn all(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.iter().chain(self.for_labels())
    }

    /// Returns the lane for labels with this number.
    pub(super) fn label_lane(&self, number: usize) -> Option<&Lane> {
        Some(self.labelled.get(number - self.lanes.len())?.lane.get()?)
    }

    /// Has requests with a label look at this number of lanes; at none while they are closed.
    pub(super) fn show_to_labels(&self, lanes: usize) {
        self.shown.store(lanes as u64, Ordering::Relaxed);
    }

    /// Takes a slot that was lent to the label with this hash. A request that gets `None` must ask the engine.
    pub(in crate::runtime) fn enter_label(
        &self,
        partition: PartitionId,
        hash: u64,
        now: impl FnOnce() -> Timestamp,
    ) -> Option<LentSlot> {
        let shown = self.shown.load(Ordering::Relaxed) as usize;
        let key = key_of(partition, hash);
        let shown = self.labelled.get(..shown)?;
        let number = shown.iter().position(|it| it.key.load(Ordering::Relaxed) == key)?;
        let LabelLane { key: is_for, lane } = &shown[number];
        let lane = lane.get()?;
        let entered = lane.state.enter()?;
        // The lane may have been closed and given to another label since the first look.
        if is_for.load(Ordering::Relaxed) != key {
            lane.state.give_up();
            return None;
        }
        Some(self.slot(self.lanes.len() + number, lane, entered, now))
    }
}
