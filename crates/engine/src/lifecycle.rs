//! Whether decisions bind, and whether the handle still admits.

use crate::plan::Mode;

/// The state of the handle as a whole. A handle that drains never opens again.
#[derive(Debug, Default)]
pub(crate) struct Lifecycle {
    mode: Mode,
    phase: Phase,
    /// Whether the handle will drain soon. Until then it decides as ever.
    is_leaving: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum Phase {
    #[default]
    Open,
    /// No request is admitted any more; waiters are served, or were rejected.
    Draining { serves_waiting: bool },
}

impl Lifecycle {
    pub(crate) const fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether decisions bind.
    pub(crate) const fn enforces(&self) -> bool {
        matches!(self.mode, Mode::Enforce)
    }

    /// Whether requests are neither decided nor counted. No mode reopens a handle that drains.
    pub(crate) const fn is_off(&self) -> bool {
        matches!(self.mode, Mode::Off) && !self.is_draining()
    }

    /// Whether no request is admitted any more.
    pub(crate) const fn is_draining(&self) -> bool {
        matches!(self.phase, Phase::Draining { .. })
    }

    /// Whether each request is to take a turn, since its answer tells its client to go elsewhere.
    pub(crate) const fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// Begins to leave; returns whether that is new.
    pub(crate) const fn leave(&mut self) -> bool {
        !std::mem::replace(&mut self.is_leaving, true)
    }

    /// Whether requests that would wait are rejected, since the handle drains and does not serve them.
    pub(crate) const fn rejects_waiting(&self) -> bool {
        matches!(self.phase, Phase::Draining { serves_waiting: false })
    }

    /// Sets the mode; returns the last one.
    pub(crate) const fn set_mode(&mut self, mode: Mode) -> Mode {
        std::mem::replace(&mut self.mode, mode)
    }

    /// Begins to drain, or changes whether waiters are served; returns whether the handle was open.
    pub(crate) const fn drain(&mut self, serves_waiting: bool) -> bool {
        let was_open = !self.is_draining();
        self.phase = Phase::Draining { serves_waiting };
        was_open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_that_drains_never_opens_again() {
        let mut it = Lifecycle::default();
        assert!(!it.is_draining() && it.enforces());
        assert!(it.drain(true) && !it.rejects_waiting());
        assert!(!it.drain(false) && it.rejects_waiting());
        for mode in [Mode::Off, Mode::Observe, Mode::Enforce] {
            it.set_mode(mode);
            assert!(it.is_draining() && !it.is_off(), "{mode:?}");
        }
    }
}
