//! A partition's share, as users write it.

use crate::engine::{plan::PartitionMode, shares::WHOLE};

/// A percentage of the limit, and what a partition may do beyond it. Made by [`percent`].
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Share {
    percent: f64,
    mode: PartitionMode,
    observes: bool,
    /// Whether it was written with its unit, so that it can't be a part of one.
    has_unit: bool,
}

impl PartialEq for Share {
    /// Shares that do the same are equal, however they were written.
    fn eq(&self, other: &Self) -> bool {
        (self.percent, self.mode, self.observes) == (other.percent, other.mode, other.observes)
    }
}

/// `value` percent of the limit. The mode is [`PartitionMode::Burst`] unless set.
///
/// A value has to be above 0 and at most 100, else building the handle fails. A value below 1 causes a
/// [warning](crate::Admission::warnings): `percent(0.6)` is 0.6 %, and 60 % is `percent(60)`. Configurations say `60%`
/// or `0.6`.
///
/// ```
/// use tower_admission::percent;
///
/// let checkout = percent(60);
/// let batch = percent(12.5).hard_cap();
/// ```
pub fn percent(value: impl Into<f64>) -> Share {
    Share { has_unit: false, ..Share::written(value.into()) }
}

impl Share {
    /// So many percent, as a configuration says it.
    pub(in crate::config) const fn written(percent: f64) -> Self {
        Self { percent, mode: PartitionMode::Burst, observes: false, has_unit: true }
    }

    /// Whether it looks like a part of one that was taken for a percentage.
    pub(in crate::config) const fn may_be_a_part_of_one(self) -> bool {
        !self.has_unit && self.percent > 0.0 && self.percent < 1.0
    }

    /// Makes the share a hard cap, even while the server is idle: [`PartitionMode::HardCap`].
    pub const fn hard_cap(self) -> Self {
        self.with_mode(PartitionMode::HardCap)
    }

    /// Admits requests below the share even at the limit: [`PartitionMode::Overcommit`].
    pub const fn overcommit(self) -> Self {
        self.with_mode(PartitionMode::Overcommit)
    }

    /// Sets the mode.
    pub const fn with_mode(self, mode: PartitionMode) -> Self {
        Self { mode, ..self }
    }

    /// Makes the partition a dry run: requests that its share, its cap or the queue would have rejected run beside the
    /// limit, and [are counted](crate::snapshot::PartitionSnapshot::would_reject) by reason.
    ///
    /// Other partitions are served as if this one enforced. So nothing bounds the load that such a partition adds to
    /// the server; caps and rates of labels apply to it all the same.
    pub const fn observe(self) -> Self {
        Self { observes: true, ..self }
    }

    pub(in crate::config) const fn observes(self) -> bool {
        self.observes
    }

    pub(in crate::config) const fn as_percent(self) -> f64 {
        self.percent
    }

    pub(in crate::config) const fn mode(self) -> PartitionMode {
        self.mode
    }

    /// Parts per million; `None` where that is not above 0 and at most 100 %.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
    pub(in crate::config) fn part(self) -> Option<u32> {
        let part = (self.percent / 100.0 * f64::from(WHOLE)).round();
        (part >= 1.0 && part <= f64::from(WHOLE)).then_some(part as u32)
    }
}
