//! A law that only says what it would do.

use super::step;
use crate::{
    engine::{
        limit::{Fixed, LimitAlgorithm, Sample},
        tokens::IN_SHADOW,
    },
    rejection::Reason,
};

/// A law beside the one that decides, and what it would have done.
#[derive(Debug, Default)]
pub(crate) struct ShadowLaw {
    law: Option<Box<dyn LimitAlgorithm>>,
    limit: usize,
    /// How many of those that run would run under its limit.
    running: usize,
    would_queue: u64,
    would_reject: u64,
    would_admit: u64,
    panics: u64,
}

/// What a shadow law would have done. See [`AdmissionBuilder::shadow_limit`](crate::AdmissionBuilder::shadow_limit).
#[derive(Clone, Debug)]
#[cfg_attr(feature = "introspect", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ShadowSnapshot {
    /// The limit that it would have set.
    pub limit: usize,
    /// How many of those that run would run under that limit.
    pub in_flight: usize,
    /// How many would have found its limit full, where requests may wait.
    pub would_queue: u64,
    /// How many would have found its limit full, where nobody waits. Those that were rejected anyway are included.
    pub would_reject: u64,
    /// How many were rejected for want of a slot that would have found one. How long these would have run isn't known, so
    /// they are not counted as running, and this is the most that it can be.
    pub would_admit: u64,
    /// Whether the figures are about a world that was not seen: a law that learns learned from times that were met under
    /// another limit. Between fixed limits they are exact, as far as times don't depend on load and nobody waits.
    pub counterfactual: bool,
    /// How often the law panicked. Its limit then stays what it was.
    pub law_panics: u64,
}

impl ShadowLaw {
    /// Takes another law, or none. One of the same kind goes on where the last one was.
    pub(crate) fn replace(&mut self, law: Option<Box<dyn LimitAlgorithm>>) {
        self.law = law;
        let limit = self.limit;
        if let Some(law) = &mut self.law {
            if limit > 0 {
                law.adopt(limit);
            }
            self.limit = law.limit().max(1);
        }
    }

    pub(crate) fn kind(&self) -> Option<&'static str> {
        self.law.as_ref().map(|law| law.kind())
    }

    pub(crate) const fn is_on(&self) -> bool {
        self.law.is_some()
    }

    /// Somebody gets a slot; answers the mark of those who would have got one here.
    pub(crate) fn enter(&mut self, waits: bool) -> u8 {
        if self.running < self.limit {
            self.running += 1;
            return IN_SHADOW;
        }
        *(if waits { &mut self.would_queue } else { &mut self.would_reject }) += 1;
        0
    }

    pub(crate) fn leave(&mut self) {
        self.running -= 1;
    }

    /// Somebody was turned away.
    pub(crate) fn refused(&mut self, reason: Reason) {
        use Reason::{GateFull, GateTimeout, Limit, QueueFull, QueueTimeout};
        if self.is_on() && matches!(reason, Limit | QueueFull | QueueTimeout | GateFull | GateTimeout) {
            let full = self.running >= self.limit;
            *(if full { &mut self.would_reject } else { &mut self.would_admit }) += 1;
        }
    }

    /// Learns from the same samples as the law that decides.
    pub(crate) fn learn(&mut self, sample: &Sample) {
        let Some(law) = &mut self.law else { return };
        match step(&mut **law, sample, self.limit) {
            Some((limit, _)) => self.limit = limit.max(1),
            None => self.panics += 1,
        }
    }

    pub(crate) fn snapshot(&self, decides: &dyn LimitAlgorithm) -> Option<ShadowSnapshot> {
        let fixed = std::any::type_name::<Fixed>();
        Some(ShadowSnapshot {
            counterfactual: self.kind()? != fixed || decides.kind() != fixed,
            limit: self.limit,
            in_flight: self.running,
            would_queue: self.would_queue,
            would_reject: self.would_reject,
            would_admit: self.would_admit,
            law_panics: self.panics,
        })
    }
}
