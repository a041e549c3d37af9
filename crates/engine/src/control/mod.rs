//! What the limit should be: the law that decides, the shadow law, and the samples that both are given.

mod pauses;
mod rtt_by_class;
mod shadow_law;

use std::{
    num::NonZeroU32,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

pub use self::shadow_law::ShadowSnapshot;
use self::{pauses::Pauses, rtt_by_class::RttByClass, shadow_law::ShadowLaw};
use crate::{
    Histogram, Reason, Timestamp,
    ids::ClassId,
    limit::{LimitAlgorithm, LimitInputs, LimitState, Phase, Reference, Sample},
    tokens::{Marks, Slot},
};

/// One less than zero, so that a law is asked for its pacing after its first sample.
const NO_SAMPLES: u32 = u32::MAX;

/// The laws.
#[derive(Debug)]
pub(crate) struct Controller {
    law: Box<dyn LimitAlgorithm>,
    /// One in how many requests the settings ask to be timed while all is quiet.
    one_in: Option<NonZeroU32>,
    panics: u64,
    /// The last time that the law moved the limit, if it ever did.
    last_move: Option<Move>,
    /// Samples that the law has taken, which may start anew.
    samples: u32,
    /// Of requests on slots of the engine, and on lent ones.
    going_on: GoingOn,
    lent: GoingOn,
    /// Answers that outlast the deadline of their callers, where the law learns hold times. How long they go on says nothing of the
    /// server: so samples leave them out, and they have slots on top of the limit of the law, up to its largest.
    outlasting: usize,
    learns_hold_times: bool,
    /// Whether a request was refused since the last sample although slots were free.
    refused: bool,
    pauses: Pauses,
    shadow: ShadowLaw,
    rtts: RttByClass,
}

/// Requests that were observed and go on, and those of them whose answers began in time and outlast the deadline of their callers.
#[derive(Clone, Copy, Debug, Default)]
struct GoingOn {
    answering: usize,
    outlasting: usize,
}

/// What became of the limit with a sample.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Same,
    /// The same once more, and the law is to be asked for its pacing: once in sixteen samples, fewer than a judgement takes.
    Stays,
    Moved(Move),
    /// The law panicked. The limit stays what it was.
    Panicked,
}

/// The limit before and after the law moved it, when, and the inputs of its judgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    pub(crate) at: Timestamp,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) basis: LimitInputs,
}

/// Asks a law, which is foreign code under our lock; `None` if it panics. No request suffers from that.
#[expect(clippy::inline_always, reason = "measured: 46 instructions of a turn")]
#[inline(always)]
fn guarded<T>(ask: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(ask)).ok()
}

/// Gives a law samples, up to the first that moves its limit; returns how many, the limit, and the inputs that moved it away from
/// the known limit. If it panics, the limit stays what it was, and the samples are lost.
#[inline]
fn step(law: &mut dyn LimitAlgorithm, samples: &[Sample], known: usize) -> Option<(usize, usize, Option<LimitInputs>)> {
    guarded(|| {
        let learned = law.on_samples(samples).clamp(1, samples.len());
        let limit = law.limit();
        (learned, limit, (limit != known).then(|| law.inputs()))
    })
}

impl Controller {
    /// Takes laws; one in how many requests the settings ask to be timed while all is quiet; and how long callers wait for an answer,
    /// if that is known.
    pub(crate) fn new(
        law: Box<dyn LimitAlgorithm>,
        shadow: Option<Box<dyn LimitAlgorithm>>,
        one_in: Option<NonZeroU32>,
        patience: Option<Duration>,
    ) -> Self {
        let mut controller = Self {
            learns_hold_times: law.learns_hold_times(),
            law,
            one_in,
            panics: 0,
            last_move: None,
            samples: NO_SAMPLES,
            going_on: GoingOn::default(),
            lent: GoingOn::default(),
            outlasting: 0,
            refused: false,
            pauses: Pauses::default(),
            shadow: ShadowLaw::default(),
            rtts: RttByClass::default(),
        };
        controller.shadow.replace(shadow);
        controller.note_patience(patience);
        controller
    }

    /// Takes new laws and settings. A law of the same kind as the last one goes on from the state of that.
    pub(crate) fn replace(
        &mut self,
        mut law: Box<dyn LimitAlgorithm>,
        shadow: Option<Box<dyn LimitAlgorithm>>,
        one_in: Option<NonZeroU32>,
        patience: Option<Duration>,
    ) {
        guarded(|| (law.kind() == self.law.kind()).then(|| law.adopt(self.law.limit())));
        (self.last_move, self.samples) = (None, NO_SAMPLES);
        self.pauses = Pauses::default();
        self.learns_hold_times = guarded(|| law.learns_hold_times()).unwrap_or_default();
        (self.law, self.one_in) = (law, one_in);
        self.shadow.replace(shadow);
        self.note_patience(patience);
    }

    /// Has both laws note how long callers wait. A law that panics knows no more than before.
    fn note_patience(&mut self, patience: Option<Duration>) {
        self.shadow.note_patience(patience);
        guarded(|| self.law.note_patience(patience));
    }

    /// Returns the limit: at least 1, whatever the law says, and what is in force where the law panics.
    pub(crate) fn limit(&self, in_force: usize) -> usize {
        guarded(|| self.law.limit()).map_or(in_force, |limit| self.with_outlasting(limit))
    }

    fn with_outlasting(&self, limit: usize) -> usize {
        let limit = self.pauses.bound(limit.max(1));
        let most = || guarded(|| self.law.max_limit()).map_or(limit, |most| most.max(limit));
        let most = if self.outlasting == 0 { limit } else { most() };
        limit.saturating_add(self.outlasting).min(most)
    }

    /// Counts a request that was observed, if it goes on.
    #[inline]
    pub(crate) fn goes_on(&mut self, slot: &Slot) {
        self.going_on.answering += usize::from(slot.is_answering());
        self.going_on.outlasting += usize::from(slot.outlasts_caller());
    }

    /// Counts such a request no more; returns whether it outlasted the deadline of its caller.
    #[inline]
    pub(crate) fn note_end_of(&mut self, slot: &Slot) -> bool {
        let outlasts = slot.outlasts_caller();
        self.going_on.answering -= usize::from(slot.is_answering());
        self.going_on.outlasting -= usize::from(outlasts);
        outlasts
    }

    /// Notes how many requests on lent slots go on; returns whether another number of them outlasts the deadline of their callers.
    pub(crate) const fn note_lent(&mut self, answering: usize, outlasting: usize) -> bool {
        std::mem::replace(&mut self.lent, GoingOn { answering, outlasting }).outlasting != outlasting
    }

    /// Has the limit follow the answers that outlast the deadline of their callers; returns whether that moves it.
    pub(crate) const fn refit(&mut self) -> bool {
        let all = self.going_on.outlasting + self.lent.outlasting;
        let outlasting = if self.learns_hold_times { all } else { 0 };
        std::mem::replace(&mut self.outlasting, outlasting) != outlasting
    }

    /// Returns one in how many requests has to be timed while all is quiet.
    pub(crate) fn time_one_in(&self) -> u32 {
        // A shadow law learns from the same samples, and may need more of them.
        let laws = std::iter::once(&*self.law).chain(self.shadow.law());
        guarded(|| laws.map(|law| law.time_one_in(self.one_in)).min()).flatten().map_or(1, NonZeroU32::get)
    }

    /// Returns what else a sample says: how many requests that were observed go on, and whether any was rejected since the last
    /// call although slots were free.
    #[inline]
    pub(crate) const fn for_sample(&mut self) -> (usize, bool) {
        (self.going_on.answering + self.lent.answering, std::mem::replace(&mut self.refused, false))
    }

    /// Gives both laws samples, if there are any, up to the first that moves the limit; returns how many, and what that means for
    /// the limit that is in force.
    pub(crate) fn learn(&mut self, samples: &[Sample], in_force: usize) -> Option<(usize, Step)> {
        if self.outlasting == 0 && !self.shadow.is_on() {
            return (!samples.is_empty()).then(|| self.ask(samples, in_force, 0));
        }
        let mut sample = samples.first()?.clone();
        let outlasting = self.outlasting;
        [sample.in_flight, sample.running] =
            [sample.in_flight, sample.running].map(|it| it.saturating_sub(outlasting).max(usize::from(outlasting > 0)));
        sample.answering = sample.answering.saturating_sub(outlasting);
        self.shadow.learn(&sample);
        Some(self.ask(&[sample], in_force, outlasting))
    }

    #[expect(clippy::inline_always, reason = "measured: 40 instructions of a turn")]
    #[inline(always)]
    fn ask(&mut self, samples: &[Sample], in_force: usize, outlasting: usize) -> (usize, Step) {
        let known = in_force.saturating_sub(outlasting);
        let Some((learned, limit, basis)) = step(&mut *self.law, samples, known) else {
            self.panics += 1;
            return (samples.len(), Step::Panicked);
        };
        let limit = self.with_outlasting(limit);
        let before = self.samples;
        self.samples = before.wrapping_add(u32::try_from(learned).unwrap_or(u32::MAX));
        let step = if limit != in_force {
            let basis = basis.unwrap_or_default();
            let moved = Move { at: samples[learned - 1].end, from: in_force, to: limit, basis };
            self.last_move = Some(moved);
            Step::Moved(moved)
        } else if self.samples / 16 != before / 16 {
            Step::Stays
        } else {
            Step::Same
        };
        (learned, step)
    }

    /// Returns until when no request starts, `NEVER` if requests do, and the limit from now on, if this sample, of a request that was
    /// answered or not, begins a pause with this limit in force, or ends one, or lets one more request run after it.
    #[inline]
    pub(crate) fn pause(&mut self, sample: &Sample, was_answered: bool, in_force: usize) -> Option<(Timestamp, usize)> {
        let Self { pauses, law, outlasting, .. } = self;
        let in_force = in_force.saturating_sub(*outlasting);
        let until = pauses.learn(sample, was_answered, || {
            let state = guarded(|| law.state())?;
            // A limit that never moves is as it was set; that of a law without bounds has no least; half of a limit shows what brings nothing.
            let (min, _) = state.bounds().filter(|(min, max)| min < max && state.reference() != Reference::Nothing)?;
            let is_least = in_force <= min.max(1);
            (is_least || state.reference() != Reference::HalfLoad).then_some((in_force, is_least))
        })?;
        let limit = guarded(|| law.limit()).unwrap_or(in_force);
        pauses.most = if until == Timestamp::NEVER && pauses.most >= limit { 0 } else { pauses.most };
        Some((until, self.with_outlasting(limit)))
    }

    /// Asks the law for the least time from one start to the next; zero where starts are not spread.
    #[cold]
    pub(crate) fn pacing(&self) -> Duration {
        guarded(|| self.law.pacing()).unwrap_or_default()
    }

    /// Returns the kind of the law, what it says of its limit, the inputs of its present judgement, and the last time that it moved
    /// the limit. Of a law that panics, that move alone is known.
    pub(crate) fn state(&self) -> (&'static str, LimitState, LimitInputs, Option<Move>) {
        let law = &*self.law;
        let (kind, state, inputs) = guarded(|| (law.kind(), law.state(), law.inputs())).unwrap_or_default();
        let state = if self.pauses.most == 0 { state } else { state.phase(Phase::Resuming) };
        (kind, state, inputs, self.last_move)
    }

    /// Returns how often the law panicked.
    pub(crate) const fn panics(&self) -> u64 {
        self.panics
    }

    /// Returns the number of a kind of work; 0 for kinds that are not told apart.
    pub(crate) fn class(&mut self, name: &str) -> ClassId {
        self.rtts.number(name)
    }

    /// Returns the number of a kind of work, if it is known; else 0.
    pub(crate) fn find_class(&self, name: &str) -> ClassId {
        self.rtts.find(name)
    }

    /// Returns the round-trip times of each kind of work that has a name.
    pub(crate) fn times_by_class(&self) -> impl Iterator<Item = (&str, ClassId, Histogram)> {
        self.rtts.times().map(|(name, class, times)| (name, class, times.clone()))
    }

    /// Returns what a round-trip time would have been, had the request been of the first class.
    #[inline]
    pub(crate) fn normalise(&mut self, class: ClassId, rtt: Duration) -> Duration {
        self.rtts.normalise(class, rtt)
    }

    /// Whether there is a shadow law.
    pub(crate) const fn has_shadow(&self) -> bool {
        self.shadow.is_on()
    }

    /// Counts a request that takes a slot, where there is a shadow law; returns the mark of a slot that the request would have under
    /// that law as well. `waits` where requests may wait.
    pub(crate) fn enter_shadow(&mut self, waits: bool) -> Marks {
        self.shadow.enter(waits)
    }

    /// Counts a request that gives its slot back, if it has that mark.
    #[inline]
    pub(crate) fn leave_shadow(&mut self, marks: Marks) {
        if marks.has(Marks::IN_SHADOW) {
            self.shadow.leave();
        }
    }

    /// Counts a rejected request, and whether it was rejected while slots were free.
    pub(crate) fn rejected(&mut self, reason: Reason, is_full: bool) {
        use Reason::{GateFull, GateTimeout, Limit, PartitionCap, QueueFull, QueueTimeout};
        // What follows from the limit: a higher one has larger shares.
        let by_limit = matches!(reason, Limit | PartitionCap | QueueFull | QueueTimeout | GateFull | GateTimeout);
        self.refused |= by_limit && !is_full;
        self.shadow.refused(reason);
    }

    /// Returns what the shadow law would have done.
    pub(crate) fn shadow_snapshot(&self) -> Option<ShadowSnapshot> {
        self.shadow.snapshot(&*self.law)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Outcome, limit::Fixed};

    /// For `Engine::check`.
    impl Controller {
        pub(crate) fn check(&self, running: usize) {
            let GoingOn { answering, outlasting } = self.going_on;
            assert!(answering <= running, "what was observed and goes on has a slot");
            assert!(outlasting <= answering, "what outlasts its caller was observed");
        }
    }

    /// A law whose limit is the number that it was given.
    #[derive(Debug)]
    struct Says(usize);

    impl Says {
        const PANICS: usize = 13;

        fn answer<T>(&self, answer: T) -> T {
            assert_ne!(self.0, Self::PANICS, "a law may panic");
            answer
        }
    }

    impl LimitAlgorithm for Says {
        fn on_sample(&mut self, sample: &Sample) {
            assert!(sample.in_flight > 0, "a law may panic");
            self.0 = sample.in_flight - 1;
        }

        fn limit(&self) -> usize {
            self.answer(self.0)
        }

        fn max_limit(&self) -> usize {
            self.answer(self.0)
        }

        fn kind(&self) -> &'static str {
            self.answer("says")
        }

        fn learns_hold_times(&self) -> bool {
            self.answer(true)
        }

        fn time_one_in(&self, _: Option<NonZeroU32>) -> NonZeroU32 {
            self.answer(NonZeroU32::MAX)
        }

        fn inputs(&self) -> LimitInputs {
            assert!(self.0 != 6, "a law may panic");
            LimitInputs::default()
        }

        fn note_patience(&mut self, patience: Option<Duration>) {
            assert!(patience.is_none(), "a law may panic");
        }
    }

    #[test]
    fn laws_may_panic_whatever_they_are_asked() {
        let says = |limit| -> Box<dyn LimitAlgorithm> { Box::new(Says(limit)) };
        let mut control = Controller::new(says(7), Some(says(7)), None, None);
        control.going_on = GoingOn { answering: 2, outlasting: 2 };
        assert!(control.refit());
        assert_eq!((control.limit(3), control.time_one_in()), (7, u32::MAX));
        control.replace(says(Says::PANICS), Some(says(Says::PANICS)), None, None);
        assert_eq!((control.limit(3), control.time_one_in()), (3, 1), "what is in force, and each request is timed");
        assert_eq!(control.with_outlasting(5), 5);
        let shadow = control.shadow_snapshot().unwrap();
        assert_eq!((shadow.limit, shadow.counterfactual), (7, true));
        assert!(control.refit(), "a law that can't say so learns no hold times");
    }

    #[test]
    fn the_limit_is_at_least_one_and_outlives_a_panic() {
        let mut control = Controller::new(Box::new(Says(0)), None, None, None);
        assert_eq!(control.limit(0), 1);
        let sample = |in_flight| {
            let (start, end) = (Timestamp::ZERO, Timestamp::ZERO.after(Duration::from_millis(1)));
            Sample { rtt: None, end, ..Sample::new(start, Duration::ZERO, in_flight, Outcome::Success) }
        };
        let mut limit = 1;
        for (in_flight, expected) in [(1, 1), (9, 8), (9, 8), (0, 8), (7, 8), (1, 1)] {
            if let Some((1, Step::Moved(Move { to: moved, .. }))) = control.learn(&[sample(in_flight)], limit) {
                assert_ne!(moved, limit);
                limit = moved;
            }
            assert_eq!(limit, expected);
        }
        assert_eq!(control.panics(), 2);
        control.note_patience(Some(Duration::from_secs(1)));
        assert_eq!(control.limit(0), 1, "a panic here does no harm either");
        control.replace(Box::new(Fixed::new(5)), None, None, None);
        assert_eq!(control.limit(0), 5);
    }
}
