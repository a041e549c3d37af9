//! Bounds for one class of work or one key of it, as users write them.

use std::num::{NonZeroU32, NonZeroUsize};

use crate::{
    Problem, normal,
    plan::rules::{LimitsPlan, OnStoreFailure, RateMode, RateRule, Rule, Source, WhenFull},
};

/// Whether a rule is counted for all instances where there is a store that does so.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sharing {
    pub local: bool,
    pub on_store_failure: Option<OnStoreFailure>,
}

impl Sharing {
    #[doc(hidden)]
    pub const fn new() -> Self {
        Self { local: false, on_store_failure: None }
    }

    /// What the rule does without the store, if it is shared: `shared` is the setting for all rules.
    fn of(self, shared: Option<OnStoreFailure>) -> Option<OnStoreFailure> {
        let for_all = shared.filter(|_| !self.local)?;
        Some(self.on_store_failure.unwrap_or(for_all))
    }
}

/// The setters that caps and rates have in common.
macro_rules! bound_setters {
    ($what:literal; $(#[$observe:meta])+ observe; $(#[$on_store_failure:meta])* on_store_failure) => {
        $(#[$observe])+
        pub const fn observe(mut self) -> Self {
            self.observes = true;
            self
        }

        /// Sets what happens to a further request.
        pub const fn when_full(mut self, when_full: WhenFull) -> Self {
            self.when_full = Some(when_full);
            self
        }

        #[doc = concat!("Counts this ", $what, " in this process alone, although rules [are shared](https://docs.rs/tower-admission/latest/tower_admission/struct.AdmissionBuilder.html#method.shared).")]
        pub const fn local(mut self) -> Self {
            self.shared.local = true;
            self
        }

        #[doc = concat!("Sets what this ", $what, " does while the shared store is gone, if it is shared: as set")]
        /// [for all rules](https://docs.rs/tower-admission/latest/tower_admission/struct.AdmissionBuilder.html#method.on_store_failure) unless set here.
        $(#[$on_store_failure])*
        #[cfg(feature = "shared")]
        pub const fn on_store_failure(mut self, on_store_failure: OnStoreFailure) -> Self {
            self.shared.on_store_failure = Some(on_store_failure);
            self
        }

        /// `shared`: rules are counted for all instances, and what becomes of them without the store.
        fn rule<B>(self, bound: B, when_full: WhenFull, shared: Option<OnStoreFailure>) -> Rule<B> {
            let when_full = self.when_full.unwrap_or(when_full);
            let shared = self.shared.of(shared.filter(|_| !self.observes));
            Rule { bound, when_full, shared, observes: self.observes, source: Source::Class }
        }
    };
}

/// A bound on requests at one time, and what happens to a further request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub struct Cap {
    /// `None` is no bound. 0 is an error, found when the handle is built.
    #[doc(hidden)]
    pub max: Option<usize>,
    #[doc(hidden)]
    pub when_full: Option<WhenFull>,
    #[doc(hidden)]
    pub shared: Sharing,
    #[doc(hidden)]
    pub observes: bool,
}

impl Cap {
    /// At most `max` requests.
    ///
    /// Plain numbers are taken too, as in `Cap::from(8)` and `max_in_flight(8)`; 0 is an error then, found when the
    /// handle is built.
    pub const fn new(max: NonZeroUsize) -> Self {
        Self::at_most(Some(max.get()))
    }

    /// No bound: lifts the cap that a less specific key sets.
    ///
    /// ```
    /// # mod tower_admission { pub use tower_admission_engine::{*, settings::*}; }
    /// use tower_admission::{Cap, ClassLimits, Rules};
    ///
    /// let rules = Rules::new()
    ///     .class("workflow", ClassLimits::new().max_in_flight(25))
    ///     .override_key("nightly", "workflow", ClassLimits::new().max_in_flight(Cap::unlimited()));
    /// ```
    pub const fn unlimited() -> Self {
        Self::at_most(None)
    }

    const fn at_most(max: Option<usize>) -> Self {
        Self { max, when_full: None, shared: Sharing::new(), observes: false }
    }

    /// Rejects a further request at once (429 over HTTP) instead of letting it wait: short for
    /// [`when_full(WhenFull::Reject)`](Self::when_full).
    ///
    /// ```
    /// # mod tower_admission { pub use tower_admission_engine::{*, settings::*}; }
    /// use tower_admission::{Cap, ClassLimits, Rules};
    ///
    /// // Four requests of each label run, a fifth is told to come back.
    /// let rules = Rules::new().default_limits(ClassLimits::new().max_in_flight(Cap::from(4).reject()));
    /// ```
    pub const fn reject(self) -> Self {
        self.when_full(WhenFull::Reject)
    }

    bound_setters! {
        "cap";
        /// Makes this cap a dry run: a further request runs, counts as [would-be rejected or
        /// queued](crate::PartitionSnapshot::would_reject), and not towards this cap. The cap is counted in
        /// this process alone then.
        observe;
        ///
        /// Each process keeps to a cap by itself in any case: an open one is then the cap times the number of processes.
        on_store_failure
    }

    fn setting(
        self,
        default: WhenFull,
        path: &str,
        shared: Option<OnStoreFailure>,
        problems: &mut Vec<Problem>,
    ) -> Option<Rule<usize>> {
        let bound = self.max?;
        if bound == 0 {
            problems.push(Problem::new(path, "found 0, allowed is 1 or more; Cap::unlimited() lifts a cap"));
            return None;
        }
        Some(self.rule(bound, default, shared))
    }
}

impl From<NonZeroUsize> for Cap {
    fn from(max: NonZeroUsize) -> Self {
        Self::new(max)
    }
}

impl From<usize> for Cap {
    /// At most `max` requests; 0 is an error, found when the handle is built.
    fn from(max: usize) -> Self {
        Self::at_most(Some(max))
    }
}

/// A bound on the requests that start per minute, or [per second](Self::per_second), and what happens to a further request.
///
/// Each refusal hands out the next start that none was promised yet, as its `Retry-After`, for ten minutes ahead. So callers that don't
/// heed it are sent away for ever longer. Of a shared rate each process promises by itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub struct Rate {
    #[doc(hidden)]
    pub max: u32,
    #[doc(hidden)]
    pub mode: Option<RateMode>,
    #[doc(hidden)]
    pub when_full: Option<WhenFull>,
    #[doc(hidden)]
    pub shared: Sharing,
    #[doc(hidden)]
    pub observes: bool,
}

impl Rate {
    /// At most `max` requests start per minute.
    ///
    /// Plain numbers are taken too, as in `Rate::from(600)` and `max_per_minute(600)`; 0 is an error then, found when
    /// the handle is built.
    ///
    /// ```
    /// # mod tower_admission { pub use tower_admission_engine::{*, settings::*}; }
    /// use std::num::NonZeroU32;
    /// use tower_admission::Rate;
    ///
    /// const DOWNSTREAM: Rate = Rate::per_minute(NonZeroU32::new(600).unwrap());
    /// assert_eq!(Rate::from(600), DOWNSTREAM);
    /// ```
    pub const fn per_minute(max: NonZeroU32) -> Self {
        Self::at_most(max.get())
    }

    /// At most `max` requests start per second, spread evenly: [`smooth`](Self::smooth), with a [`burst`](Self::burst) of `max`
    /// unless set. Counted, and shown, per minute; 0 is an error, found when the handle is built.
    ///
    /// ```
    /// # mod tower_admission { pub use tower_admission_engine::{*, settings::*}; }
    /// use tower_admission::Rate;
    ///
    /// assert_eq!(Rate::per_second(2), Rate::from(120).smooth());
    /// let rate = Rate::per_second(2).burst(5);
    /// ```
    pub fn per_second(max: u32) -> Self {
        Self::at_most(max.saturating_mul(60)).smooth()
    }

    /// Spreads starts evenly (token bucket), and lets so many start at once after a pause; 0 counts as 1.
    pub fn burst(self, requests: u32) -> Self {
        self.mode(RateMode::Smooth { burst: NonZeroU32::new(requests).unwrap_or(NonZeroU32::MIN) })
    }

    const fn at_most(max: u32) -> Self {
        Self { max, mode: None, when_full: None, shared: Sharing::new(), observes: false }
    }

    /// Sets how starts are counted: [by minutes of the clock](RateMode::Window) unless set.
    pub const fn mode(mut self, mode: RateMode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Spreads starts evenly (token bucket), with a burst of a second's worth after a pause; see [`RateMode::Smooth`].
    pub fn smooth(self) -> Self {
        self.burst(self.max.div_ceil(60))
    }

    bound_setters! {
        "rate";
        /// Makes this rate a dry run; see [`Cap::observe`].
        observe;
        on_store_failure
    }

    fn setting(
        self,
        path: &str,
        shared: Option<OnStoreFailure>,
        problems: &mut Vec<Problem>,
    ) -> Option<Rule<RateRule>> {
        let Some(max) = NonZeroU32::new(self.max) else {
            problems
                .push(Problem::new(path, "found 0, allowed is 1 or more; a rate that lets nothing start is a mistake"));
            return None;
        };
        Some(self.rule(RateRule { max, mode: self.mode.unwrap_or_default() }, WhenFull::Reject, shared))
    }
}

impl From<NonZeroU32> for Rate {
    fn from(max: NonZeroU32) -> Self {
        Self::per_minute(max)
    }
}

impl From<u32> for Rate {
    /// At most `max` starts per minute; 0 is an error, found when the handle is built.
    fn from(max: u32) -> Self {
        Self::at_most(max)
    }
}

/// The rules of a class of work, or of one key of it. Rules that are not set here come from the next less specific key;
/// see [`Rules`](super::Rules).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct ClassLimits {
    #[doc(hidden)]
    pub in_flight: Option<Cap>,
    #[doc(hidden)]
    pub in_flight_per_namespace: Option<Cap>,
    #[doc(hidden)]
    pub per_minute: Option<Rate>,
    #[doc(hidden)]
    pub per_minute_per_namespace: Option<Rate>,
    #[doc(hidden)]
    pub budget: Option<(String, Rate)>,
    #[doc(hidden)]
    pub pending: Option<Cap>,
}

/// Pending requests per label of a class that must fail fast, unless set otherwise.
pub(crate) const PENDING: usize = 1_024;

impl ClassLimits {
    /// No rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bounds the requests in flight of one label. Further requests of the label wait, without blocking other labels. Requests without a
    /// label count as one label together.
    pub fn max_in_flight(mut self, cap: impl Into<Cap>) -> Self {
        self.in_flight = Some(cap.into());
        self
    }

    /// Bounds the requests in flight of one namespace, over all its labels. Further requests are rejected unless the
    /// cap says otherwise.
    pub fn max_in_flight_per_namespace(mut self, cap: impl Into<Cap>) -> Self {
        self.in_flight_per_namespace = Some(cap.into());
        self
    }

    /// Bounds the requests of one label that start per minute. Further requests are rejected unless the rate says
    /// otherwise.
    pub fn max_per_minute(mut self, rate: impl Into<Rate>) -> Self {
        self.per_minute = Some(rate.into());
        self
    }

    /// Bounds the requests of one namespace that start per minute, over all its labels. Further requests are rejected
    /// unless the rate says otherwise.
    pub fn max_per_minute_per_namespace(mut self, rate: impl Into<Rate>) -> Self {
        self.per_minute_per_namespace = Some(rate.into());
        self
    }

    /// Sets a budget: one rate for all labels of a namespace with the same `group`, across all classes, such as the
    /// quota of a downstream service. Further requests are rejected unless the rate says otherwise.
    pub fn budget(mut self, group: impl Into<String>, rate: impl Into<Rate>) -> Self {
        self.budget = Some((group.into(), rate.into()));
        self
    }

    /// Bounds the waiting and running requests of one label. Further requests are rejected with
    /// [`PendingFull`](crate::Reason::PendingFull), so that interactive work fails fast.
    pub fn max_pending(mut self, cap: impl Into<Cap>) -> Self {
        self.pending = Some(cap.into());
        self
    }

    /// Bounds the waiting and running requests of one label to 1,024.
    pub fn fail_fast(self) -> Self {
        self.max_pending(PENDING)
    }

    /// `shared`: rules are counted for all instances, and what becomes of them without the store.
    pub(crate) fn plan(&self, path: &str, shared: Option<OnStoreFailure>, problems: &mut Vec<Problem>) -> LimitsPlan {
        let mut rate = |name: &str, rate: Option<Rate>| rate?.setting(&format!("{path}.{name}"), shared, problems);
        let per_minute = rate("max_per_minute", self.per_minute);
        let per_minute_per_namespace = rate("max_per_minute_per_namespace", self.per_minute_per_namespace);
        let group_rate = rate("budget", self.budget.as_ref().map(|(_, rate)| *rate));
        let group = self.budget.as_ref().and_then(|(group, _)| normal(group));
        if self.budget.is_some() && group.is_none() {
            problems.push(Problem::new(
                format!("{path}.budget"),
                "found no name for the group, allowed are 1 to 256 bytes",
            ));
        }
        let mut cap = |name: &str, cap: Option<Cap>, default: WhenFull, shared: Option<OnStoreFailure>| {
            Some(cap?.setting(default, &format!("{path}.{name}"), shared, problems))
        };
        LimitsPlan {
            in_flight: cap("max_in_flight", self.in_flight, WhenFull::Queue, shared),
            in_flight_per_namespace: cap(
                "max_in_flight_per_namespace",
                self.in_flight_per_namespace,
                WhenFull::Reject,
                shared,
            ),
            per_minute,
            per_minute_per_namespace,
            budget: group.map(Into::into).zip(group_rate),
            // Waiters are counted where they wait.
            pending: cap("max_pending", self.pending, WhenFull::Reject, None),
        }
    }
}
