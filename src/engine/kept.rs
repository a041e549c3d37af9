//! Room that is kept for one partition out of something that all share: slots, or places in line.
//!
//! Percentages are guarantees, but whoever comes most often takes what is free before the others come. A partition that
//! can wait gets the next freed slot; one that is turned away can't. So after it was turned away below its share, as much
//! room is kept for it as it has use for at once: one more for each request that is turned away, up to the share. What it
//! leaves unused is let go by halves, so that a partition that has gone quiet costs the others little and not for long.

use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kept {
    /// Up to how much in use room is kept.
    level: usize,
    /// When half of what is not in use is let go.
    until: Timestamp,
}

impl Kept {
    /// How much is kept and not in use, out of at most `share`.
    pub(super) fn unused(self, used: usize, share: usize) -> usize {
        self.level.min(share).saturating_sub(used)
    }

    /// Keeps one more than is in use or kept already, `share` in all at most.
    pub(super) fn raise(&mut self, used: usize, share: usize, until: Timestamp) {
        let level = self.level.min(share).max(used) + 1;
        if level <= share {
            *self = Self { level, until };
        }
    }

    /// Lets half of what is not in use go if it is time to, and asks again at `until`. Where all is in use, nothing needs
    /// to be kept any more. Answers when to come back, if anything is kept.
    pub(super) fn let_go(&mut self, used: usize, share: usize, now: Timestamp, until: Timestamp) -> Timestamp {
        if self.until <= now {
            let unused = self.unused(used, share);
            *self = Self { level: if unused > 0 { used + unused / 2 } else { 0 }, until };
        }
        self.until()
    }

    /// When some of it is let go; never, where nothing is kept.
    pub(super) const fn until(self) -> Timestamp {
        if self.level > 0 { self.until } else { Timestamp::NEVER }
    }
}
