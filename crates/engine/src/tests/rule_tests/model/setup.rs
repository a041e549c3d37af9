//! Rules and verbs, drawn at random.

use proptest::prelude::*;

use super::super::{Cap, ClassLimits, MINUTE, Rate, RateMode, Rules, SECOND, WhenFull, smooth};

#[derive(Clone, Copy, Debug)]
pub(super) struct Of {
    pub(super) class: usize,
    pub(super) namespace: usize,
    pub(super) label: usize,
}

pub(super) const CLASSES: [&str; 2] = ["one", "two"];
pub(super) const NAMES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Copy, Debug)]
pub(super) struct Bounded<B> {
    pub(super) max: B,
    pub(super) when_full: WhenFull,
}

/// The rules of one class. The budget is the same for all: differing maxima are an error.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClassRules {
    pub(super) cap: Option<Bounded<usize>>,
    pub(super) namespace_cap: Option<Bounded<usize>>,
    /// Label `a` has a namespace cap of its own.
    pub(super) wider: Option<Bounded<usize>>,
    pub(super) rate: Option<Bounded<(u32, RateMode)>>,
    pub(super) namespace_rate: Option<Bounded<(u32, RateMode)>>,
    pub(super) pending: Option<usize>,
    pub(super) budget: Option<WhenFull>,
}

#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) limit: usize,
    pub(super) classes: [ClassRules; 2],
    pub(super) group: (u32, RateMode),
}

impl Setup {
    pub(super) fn rules(&self) -> Rules {
        let cap = |it: Bounded<usize>| Cap::from(it.max).when_full(it.when_full);
        let rate = |it: Bounded<(u32, RateMode)>| Rate::from(it.max.0).mode(it.max.1).when_full(it.when_full);
        let mut rules = Rules::new();
        for (name, class) in CLASSES.iter().zip(&self.classes) {
            let mut limits = ClassLimits::new();
            limits.in_flight = class.cap.map(cap);
            limits.in_flight_per_namespace = class.namespace_cap.map(cap);
            limits.per_minute = class.rate.map(rate);
            limits.per_minute_per_namespace = class.namespace_rate.map(rate);
            limits.pending = class.pending.map(Cap::from);
            if let Some(when_full) = class.budget {
                limits = limits.budget("shared", rate(Bounded { max: self.group, when_full }));
            }
            rules = rules.class(*name, limits);
            if let Some(wider) = class.wider {
                rules = rules.override_key("a", *name, ClassLimits::new().max_in_flight_per_namespace(cap(wider)));
            }
        }
        rules
    }
}

#[derive(Clone, Debug)]
pub(super) enum Verb {
    Arrive(Of),
    ArriveWithoutWaiting(Of),
    Claim(usize),
    Cancel(usize),
    Finish(usize),
    Pass(u64),
}

fn when_full() -> impl Strategy<Value = WhenFull> {
    prop_oneof![3 => Just(WhenFull::Queue), 1 => Just(WhenFull::Reject), 1 => Just(WhenFull::RespondEmpty)]
}

fn caps(max: std::ops::Range<usize>) -> impl Strategy<Value = Option<Bounded<usize>>> {
    prop::option::weighted(0.4, (max, when_full()).prop_map(|(max, when_full)| Bounded { max, when_full }))
}

fn modes() -> impl Strategy<Value = RateMode> {
    prop_oneof![Just(RateMode::Window), (1u32..4).prop_map(smooth)]
}

fn rates() -> impl Strategy<Value = Option<Bounded<(u32, RateMode)>>> {
    let rate = (1u32..8, modes(), when_full());
    prop::option::weighted(0.3, rate.prop_map(|(max, mode, when_full)| Bounded { max: (max, mode), when_full }))
}

fn classes() -> impl Strategy<Value = ClassRules> {
    let pending = prop::option::weighted(0.2, 1usize..6);
    (caps(1..4), caps(1..5), caps(3..7), rates(), rates(), pending, prop::option::of(when_full())).prop_map(
        |(cap, namespace_cap, wider, rate, namespace_rate, pending, budget)| ClassRules {
            cap,
            namespace_cap,
            wider,
            rate,
            namespace_rate,
            pending,
            budget,
        },
    )
}

pub(super) fn setups() -> impl Strategy<Value = Setup> {
    (1usize..8, classes(), classes(), (1u32..10, modes())).prop_map(|(limit, one, two, group)| Setup {
        limit,
        classes: [one, two],
        group,
    })
}

pub(super) fn verbs() -> impl Strategy<Value = Vec<Verb>> {
    let of = || (0usize..2, 0usize..2, 0usize..3).prop_map(|(class, namespace, label)| Of { class, namespace, label });
    let verb = prop_oneof![
        8 => of().prop_map(Verb::Arrive),
        1 => of().prop_map(Verb::ArriveWithoutWaiting),
        4 => (0usize..64).prop_map(Verb::Claim),
        1 => (0usize..64).prop_map(Verb::Cancel),
        5 => (0usize..64).prop_map(Verb::Finish),
        2 => (0..20 * SECOND).prop_map(Verb::Pass),
        1 => (0..2 * MINUTE).prop_map(Verb::Pass),
    ];
    prop::collection::vec(verb, 1..150)
}
