//! A partition's share, as users write it.

use tower_admission_engine::{plan::PartitionMode, shares::WHOLE};

/// A percentage of the limit, and what a partition may do beyond it. Made by [`percent`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct Share {
    pub(crate) percent: f64,
    pub(crate) mode: PartitionMode,
    pub(crate) observes: bool,
    /// Part of the share that others may use, in percent.
    pub(crate) lends: f64,
}

/// `value` percent of the limit. The mode is [`PartitionMode::Burst`] unless set.
///
/// A value has to be above 0 and at most 100, else building the handle fails. A value below 1 causes a
/// [warning](https://docs.rs/tower-admission/latest/tower_admission/struct.Admission.html#method.warnings): `percent(0.6)` is 0.6 %, and 60 % is `percent(60)`. Configurations say `"60%"`
/// or `0.6`, and never `60` or `1`.
///
/// ```
/// use tower_admission::percent;
///
/// let checkout = percent(60);
/// let batch = percent(12.5).hard_cap();
/// ```
pub fn percent(value: impl Into<f64>) -> Share {
    Share::written(value.into())
}

impl Share {
    /// A percentage, as a configuration writes it.
    pub(crate) const fn written(percent: f64) -> Self {
        Self { percent, mode: PartitionMode::Burst, observes: false, lends: 100.0 }
    }

    /// Makes the share a hard cap, even while the server is idle: [`PartitionMode::HardCap`]. Further requests wait like any other; with
    /// `shed` they get 429 (`partition_cap`). For a 429 at once beside a queue, use a
    /// [`Cap::reject`](tower_admission_engine::settings::Cap::reject) rule.
    pub const fn hard_cap(self) -> Self {
        self.with_mode(PartitionMode::HardCap)
    }

    /// Admits requests below the share even at the limit: [`PartitionMode::Overcommit`].
    pub const fn overcommit(self) -> Self {
        self.with_mode(PartitionMode::Overcommit)
    }

    /// Lends others at most `percent` of the share while it is idle: 100 unless set, and 0 makes it a reserve that stays free.
    ///
    /// A request for a slot that was lent waits for the next slot that comes free. What is not lent is there at once, and is idle
    /// while the partition does not use it. Worth it where requests run for long and a partition can't wait for the next one to
    /// end. A value has to be from 0 to 100, else building the handle fails.
    ///
    /// ```
    /// use tower_admission::percent;
    ///
    /// let checkout = percent(40).lend(50); // 20 % of the limit are always free for it
    /// ```
    pub fn lend(self, percent: impl Into<f64>) -> Self {
        Self { lends: percent.into(), ..self }
    }

    /// Sets the mode.
    pub const fn with_mode(self, mode: PartitionMode) -> Self {
        Self { mode, ..self }
    }

    /// Makes the partition a dry run: requests that its share, its cap or the queue would have rejected run beside the
    /// limit, and [are counted](https://docs.rs/tower-admission/latest/tower_admission/snapshot/struct.PartitionSnapshot.html#structfield.would_reject) by reason.
    ///
    /// Other partitions are served as if this one enforced. So nothing bounds the load that such a partition adds to
    /// the server; caps and rates of labels apply to it all the same.
    pub const fn observe(self) -> Self {
        Self { observes: true, ..self }
    }

    /// Returns the part of the share that is not lent, in parts per million; `None` where that is not from 0 to 100 %.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
    pub(crate) fn withheld(self) -> Option<u32> {
        (0.0..=100.0).contains(&self.lends).then(|| ((1.0 - self.lends / 100.0) * f64::from(WHOLE)).round() as u32)
    }

    /// Parts per million; `None` where that is not above 0 and at most 100 %.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
    pub(crate) fn part(self) -> Option<u32> {
        let part = (self.percent / 100.0 * f64::from(WHOLE)).round();
        (part >= 1.0 && part <= f64::from(WHOLE)).then_some(part as u32)
    }
}
