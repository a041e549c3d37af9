//! The rules of the law, each of which can be switched off, so that it can be measured what a rule is good for.
//!
//! A rule is asked for once per cohort or less often, so the switches cost next to nothing.

macro_rules! rules {
    ($($(#[$doc:meta])+ $rule:ident = $name:literal,)+) => {
        /// A rule that the law can do without.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        #[repr(u8)]
        pub(super) enum Rule {
            $($(#[$doc])+ $rule,)+
        }

        /// All rules with their names.
        const ALL: &[(&str, Rule)] = &[$(($name, Rule::$rule)),+];
    };
}

rules! {
    /// A cohort that is plainly slower than usual ends at once.
    Alarm = "alarm",
    /// A limit that was too much a step ago goes back to where it was.
    Back = "back",
    /// Below what was too high the limit grows only halfway.
    Ceiling = "ceiling",
    /// A limit of few slots grows where callers don't notice, and throughput doesn't fall.
    Dear = "dear",
    /// A limit that stood for long is tried higher where the points say little.
    Doubt = "doubt",
    /// A limit that brings next to no answers falls to an eighth.
    Drowned = "drowned",
    /// A cut takes two standard errors, not 0.6, where requests scatter or shares of the limit refuse them.
    Evidence = "evidence",
    /// A point far away that is hardly faster says that latency does not depend on the limit.
    Flat = "flat",
    /// A cut takes a lower point of the last seconds.
    Fresh = "fresh",
    /// The gap between probes doubles where a probe finds nothing new.
    Gap = "gap",
    /// A cohort counts unfinished requests by a guess.
    Guess = "guess",
    /// A cohort is in a hurry while the limit doubles.
    Hurry = "hurry",
    /// A ratio that no crowd explains asks for a probe.
    Implausible = "implausible",
    /// A client that gave up early does not count.
    Impatience = "impatience",
    /// A limit at which many answers come too late is cut, however flat both points are.
    Late = "late",
    /// A lull is a lower point.
    Lull = "lull",
    /// Where most of an answer is delay, requests start one after the other.
    Pace = "pace",
    /// A probe has to pay off before the next one.
    PayOff = "pay-off",
    /// Points of the same concurrency are pooled.
    Pool = "pool",
    /// A request that was refused while slots were free met the limit.
    Refused = "refused",
    /// After a fall, quick answers open slots one by one.
    Reopen = "reopen",
    /// Where few requests meet the limit, the limit grows without a probe.
    Room = "room",
    /// After a lull the law rests.
    Rest = "rest",
    /// The largest scatter is remembered.
    Scatter = "scatter",
    /// A point from a lull is not compared with the first cohort after it.
    Settled = "settled",
    /// Where answers take longer, the limit doubles only up to the throughput that the server has shown.
    Shown = "shown",
    /// Where few requests are answered, slots that callers leave are not given again.
    Silence = "silence",
    /// A probe that is slower than the limit was is no comparison.
    Slower = "slower",
    /// Delay that does not depend on concurrency is left out of the comparison.
    Space = "space",
    /// The limit doubles while there is nothing to compare with.
    Start = "start",
    /// Where answers take a small part of what callers wait, only a throughput that falls is a reason to cut.
    Unnoticed = "unnoticed",
}

/// Which rules are switched off: none, but in an ablation.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Rules {
    off: u32,
}

impl Rules {
    /// All rules hold.
    pub(super) const ALL: Self = Self { off: 0 };

    pub(super) const fn has(self, rule: Rule) -> bool {
        self.off & 1 << rule as u8 == 0
    }

    /// Returns these rules without the rule of this name, if there is such a rule.
    pub(super) fn without(self, name: &str) -> Option<Self> {
        let &(_, rule) = ALL.iter().find(|(known, _)| *known == name)?;
        Some(Self { off: self.off | 1 << rule as u8 })
    }

    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        ALL.iter().map(|(name, _)| *name)
    }
}
