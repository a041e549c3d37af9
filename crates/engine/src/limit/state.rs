//! What a law says of its limit besides the number.

/// What a law does with its limit at present, and within which bounds: for a reader who asks why a limit is what it is. See
/// [`LimitAlgorithm::state`](super::LimitAlgorithm::state).
///
/// ```
/// # mod tower_admission { pub use tower_admission_engine::{*, settings::*}; }
/// use tower_admission::limit::{LimitState, Phase, Reference};
///
/// let state = LimitState::new("nightly").within(100, 400).against(Reference::Threshold).phase(Phase::Idle);
/// assert_eq!((state.law(), state.bounds()), (Some("nightly"), Some((100, 400))));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[must_use]
pub struct LimitState {
    law: Option<&'static str>,
    bounds: Option<(usize, usize)>,
    reference: Reference,
    phase: Phase,
}

/// What a law compares round-trip times with.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Reference {
    /// Nothing that is known.
    #[cfg_attr(feature = "schema", schemars(skip))]
    #[default]
    Unknown,
    /// Nothing: the limit is fixed.
    Nothing,
    /// A time that was set.
    Threshold,
    /// The shortest time, or the time with next to no load.
    Minimum,
    /// The average over a longer time.
    Average,
    /// The time at half of the concurrency.
    HalfLoad,
}

impl Reference {
    /// Returns the code; `None` where nothing is known.
    pub const fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Unknown => None,
            Self::Nothing => Some("nothing"),
            Self::Threshold => Some("threshold"),
            Self::Minimum => Some("minimum"),
            Self::Average => Some("average"),
            Self::HalfLoad => Some("half_load"),
        }
    }
}

/// What a law does at present.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Phase {
    /// The law measures and moves the limit, as far as there is reason to.
    #[default]
    Steady,
    /// The law lowers the limit for a moment, to measure with less load.
    Probing,
    /// The limit does not hold requests back, so the law can't tell what another limit would do.
    Idle,
    /// After a pause, fewer requests run than the law says: the handle notes it, not the law.
    Resuming,
}

impl LimitState {
    /// Starts with the name of the law.
    pub const fn new(law: &'static str) -> Self {
        Self { law: Some(law), bounds: None, reference: Reference::Unknown, phase: Phase::Steady }
    }

    /// Adds the least and the greatest limit that the law may set.
    pub const fn within(self, min: usize, max: usize) -> Self {
        Self { bounds: Some((min, max)), ..self }
    }

    /// Adds what the law compares with.
    pub const fn against(self, reference: Reference) -> Self {
        Self { reference, ..self }
    }

    /// Adds what the law does at present.
    pub const fn phase(self, phase: Phase) -> Self {
        Self { phase, ..self }
    }

    /// The same, idle where a condition holds.
    pub(super) const fn idle_if(self, is_idle: bool) -> Self {
        if is_idle { self.phase(Phase::Idle) } else { self }
    }

    /// Returns the name of the law, if it has told one.
    pub const fn law(&self) -> Option<&'static str> {
        self.law
    }

    /// Returns the least and the greatest limit, if they are known.
    pub const fn bounds(&self) -> Option<(usize, usize)> {
        self.bounds
    }

    /// Returns what the law compares with.
    pub const fn reference(&self) -> Reference {
        self.reference
    }

    /// Returns what the law does at present.
    pub const fn present_phase(&self) -> Phase {
        self.phase
    }
}
