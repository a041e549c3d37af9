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

/// What is known of the handle besides whether decisions bind, and whether it drains.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) mode: Mode,
    /// Whether requests are neither decided nor counted. No mode reopens a handle that drains.
    pub(crate) is_off: bool,
    /// Whether each request is to take a turn, since its answer tells its client to go elsewhere.
    pub(crate) is_leaving: bool,
    /// Whether requests that would wait are rejected, since the handle drains and does not serve them.
    pub(crate) rejects_waiting: bool,
}

impl Lifecycle {
    /// Whether decisions bind.
    pub(crate) const fn enforces(&self) -> bool {
        matches!(self.mode, Mode::Enforce)
    }

    /// Whether no request is admitted any more.
    pub(crate) const fn is_draining(&self) -> bool {
        matches!(self.phase, Phase::Draining { .. })
    }

    /// Returns what else is known of the handle.
    #[inline]
    pub(crate) const fn standing(&self) -> Standing {
        let &Self { mode, phase, is_leaving } = self;
        let is_off = matches!((mode, phase), (Mode::Off, Phase::Open));
        let rejects_waiting = matches!(phase, Phase::Draining { serves_waiting: false });
        Standing { mode, is_off, is_leaving, rejects_waiting }
    }

    /// Begins to leave; returns whether that is new.
    pub(crate) const fn leave(&mut self) -> bool {
        !std::mem::replace(&mut self.is_leaving, true)
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
        assert!(it.drain(true) && !it.standing().rejects_waiting);
        assert!(!it.drain(false) && it.standing().rejects_waiting);
        for mode in [Mode::Off, Mode::Observe, Mode::Enforce] {
            it.set_mode(mode);
            assert!(it.is_draining() && !it.standing().is_off, "{mode:?}");
        }
    }
}
