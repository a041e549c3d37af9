//! What tests ask of meters.

use super::Rules;

impl Rules {
    /// Returns how often a label was throttled at a meter.
    pub(in crate::quota) const fn times_throttled(&self) -> u64 {
        self.meters.stamp
    }

    /// Returns how many meters there are.
    pub(in crate::quota) fn meters(&self) -> usize {
        self.meters.numbers.len()
    }
}
