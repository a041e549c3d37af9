//! A shadow law: a law that only counts what it would do.

use std::time::Duration;

use super::{guarded, step};
use crate::{
    Reason,
    limit::{Fixed, LimitAlgorithm, Sample},
    tokens::Marks,
};

/// A law beside the law that decides, and what it would have done.
#[derive(Debug, Default)]
pub(crate) struct ShadowLaw {
    law: Option<Box<dyn LimitAlgorithm>>,
    limit: usize,
    /// Running requests that would run under its limit.
    running: usize,
    would_queue: u64,
    would_reject: u64,
    would_admit: u64,
    panics: u64,
}

/// What a [shadow law][shadow_limit] would have done.
///
/// [shadow_limit]: https://docs.rs/tower-admission/latest/tower_admission/struct.AdmissionBuilder.html#method.shadow_limit
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(default))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Shadow"))]
#[non_exhaustive]
pub struct ShadowSnapshot {
    /// The limit that the law would have set.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub limit: usize,
    /// Running requests that would run under that limit.
    pub in_flight: usize,
    /// Requests that would have found its limit full, where requests may wait.
    pub would_queue: u64,
    /// Requests that would have found its limit full, where no request waits. Requests that were rejected anyway are
    /// included.
    pub would_reject: u64,
    /// Requests rejected for want of a slot that would have found one: an upper bound. How long they would have run
    /// isn't known, so they are not counted as running.
    pub would_admit: u64,
    /// Whether the figures are about a world that was not seen: a law that learns was given times that were met under
    /// another limit. Between fixed limits the figures are exact, as far as times don't depend on load and no request
    /// waits.
    pub counterfactual: bool,
    /// Panics of the law. Its limit then stays what it was.
    pub law_panics: u64,
}

impl ShadowLaw {
    /// Takes another law, or none. A law of the same kind goes on from the state of the last one.
    pub(crate) fn replace(&mut self, mut law: Option<Box<dyn LimitAlgorithm>>) {
        if let (Some(law), Some(last)) = (&mut law, &self.law) {
            guarded(|| (law.kind() == last.kind()).then(|| law.adopt(self.limit)));
        }
        self.limit = law.as_ref().and_then(|law| guarded(|| law.limit())).map_or(self.limit, |limit| limit.max(1));
        self.law = law;
    }

    pub(crate) fn note_patience(&mut self, patience: Option<Duration>) {
        if let Some(law) = &mut self.law {
            guarded(|| law.note_patience(patience));
        }
    }

    pub(crate) fn law(&self) -> Option<&dyn LimitAlgorithm> {
        self.law.as_deref()
    }

    pub(crate) const fn is_on(&self) -> bool {
        self.law.is_some()
    }

    /// Counts a request that gets a slot, if there is a law; returns the mark of a slot that the request would have got here as well.
    pub(crate) fn enter(&mut self, waits: bool) -> Marks {
        if !self.is_on() {
            return Marks::NONE;
        }
        if self.running < self.limit {
            self.running += 1;
            return Marks::IN_SHADOW;
        }
        *(if waits { &mut self.would_queue } else { &mut self.would_reject }) += 1;
        Marks::NONE
    }

    pub(crate) fn leave(&mut self) {
        self.running -= 1;
    }

    /// Counts a request that was rejected.
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
        match step(&mut **law, std::slice::from_ref(sample), self.limit) {
            Some((_, limit, _)) => self.limit = limit.max(1),
            None => self.panics += 1,
        }
    }

    pub(crate) fn snapshot(&self, decides: &dyn LimitAlgorithm) -> Option<ShadowSnapshot> {
        let (law, fixed) = (self.law.as_ref()?, std::any::type_name::<Fixed>());
        Some(ShadowSnapshot {
            counterfactual: guarded(|| law.kind() != fixed || decides.kind() != fixed).unwrap_or(true),
            limit: self.limit,
            in_flight: self.running,
            would_queue: self.would_queue,
            would_reject: self.would_reject,
            would_admit: self.would_admit,
            law_panics: self.panics,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Controller;
    use crate::limit::{Fixed, LimitAlgorithm, TwoPoint};

    #[test]
    fn a_shadow_law_does_not_count_what_ran_before_it_came_and_after_it_left() {
        let fixed = |limit| -> Box<dyn LimitAlgorithm> { Box::new(Fixed::new(limit)) };
        let mut controller = Controller::new(fixed(9), None, None, None);
        let counts = |controller: &mut Controller| {
            for waits in [true, false] {
                controller.enter_shadow(waits);
            }
            controller.replace(fixed(9), Some(fixed(1)), None, None);
            let seen = controller.shadow_snapshot().unwrap();
            (seen.in_flight, seen.would_queue, seen.would_reject)
        };
        assert_eq!(counts(&mut controller), (0, 0, 0), "in `Mode::Off`, before there was a shadow law");
        assert_eq!(counts(&mut controller), (1, 0, 1), "control: the law of before counted these");
        controller.replace(fixed(9), None, None, None);
        assert_eq!(counts(&mut controller), (1, 0, 1));
    }

    #[test]
    fn a_shadow_law_goes_on_from_a_law_of_its_kind_only() {
        let two_point =
            |initial| -> Option<Box<dyn LimitAlgorithm>> { Some(Box::new(TwoPoint::new().initial(initial))) };
        let fixed = || -> Box<dyn LimitAlgorithm> { Box::new(Fixed::new(9)) };
        let mut controller = Controller::new(fixed(), Some(Box::new(Fixed::new(3))), None, None);
        let limits = [two_point(40), two_point(50), Some(fixed())].map(|shadow| {
            controller.replace(fixed(), shadow, None, None);
            controller.shadow_snapshot().unwrap().limit
        });
        assert_eq!(limits, [40, 40, 9], "as set, since a fixed limit was before it; as learned; and as set");
    }

    #[test]
    fn as_many_are_timed_as_the_shadow_law_needs() {
        let with = |shadow| Controller::new(Box::new(Fixed::new(9)), shadow, None, None).time_one_in();
        let shadow = |law: Box<dyn LimitAlgorithm>| with(Some(law));
        assert_eq!((with(None), shadow(Box::new(Fixed::new(5))), shadow(Box::<TwoPoint>::default())), (8, 8, 1));
    }
}
