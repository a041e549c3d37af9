//! What rates promise, for random arrivals: the bounds over any 60 s, the same answers as an independent
//! implementation, and the exact time of the next start.

use std::{collections::VecDeque, num::NonZeroU32, time::Duration};

use governor::{Quota, RateLimiter, clock::FakeRelativeClock};
use proptest::prelude::*;

use super::rate::Rate;
use crate::{
    Timestamp,
    plan::rules::{RateMode, RateRule, Rule, Source, WhenFull},
};

const MINUTE: u64 = 60_000_000_000;

fn rule(max: u32, mode: RateMode) -> RateRule {
    RateRule { max: NonZeroU32::new(max).unwrap(), mode }
}

/// A rule that is counted in this process.
fn local(bound: RateRule) -> Rule<RateRule> {
    Rule { bound, when_full: WhenFull::Reject, shared: None, observes: false, source: Source::Class }
}

fn smooth(max: u32, burst: u32) -> RateRule {
    rule(max, RateMode::Smooth { burst: NonZeroU32::new(burst).unwrap() })
}

fn rules() -> impl Strategy<Value = RateRule> {
    let max = || prop_oneof![1u32..10, 1u32..700, Just(7_000)];
    prop_oneof![
        max().prop_map(|max| rule(max, RateMode::Window)),
        (max(), prop_oneof![1u32..5, 1u32..100]).prop_map(|(max, burst)| smooth(max, burst)),
    ]
}

/// Gaps between arrivals: of all sorts, from nothing to minutes, or of the same sort, so that many requests arrive in a
/// minute.
fn gaps() -> impl Strategy<Value = Vec<u64>> {
    let gap = prop_oneof![
        6 => Just(0),
        2 => 0u64..4,
        6 => 0u64..100_000_000,
        3 => 0u64..2_000_000_000,
        1 => 0u64..2 * MINUTE,
        1 => Just(MINUTE),
    ];
    let mixed = prop::collection::vec(gap, 1..600);
    let even = (1u64..300_000_000).prop_flat_map(|most| prop::collection::vec(0..most, 1..1_500));
    (0u64..2 * MINUTE, prop_oneof![mixed, even]).prop_map(|(first, mut gaps)| {
        gaps[0] = first;
        gaps
    })
}

/// Returns what a rule promises for 60 s, both ends included or the last one left out.
fn bound(rule: RateRule, closed: bool) -> usize {
    let max = rule.max.get() as usize;
    match rule.mode {
        RateMode::Window => 2 * max,
        RateMode::Smooth { burst } => max + burst.get() as usize - usize::from(!closed),
    }
}

/// Returns the most starts in any 60 s. A window that is fullest can be moved until it ends with a start.
fn most(starts: &[u64], closed: bool) -> usize {
    let mut window = VecDeque::new();
    let mut most = 0;
    for &start in starts {
        window.push_back(start);
        while window.front().is_some_and(|&first| start - first > MINUTE - u64::from(!closed)) {
            window.pop_front();
        }
        most = most.max(window.len());
    }
    most
}

/// Returns when requests start that arrive at these times, and are rejected if there is no room.
fn starts(rule: RateRule, arrivals: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut rate = Rate::default();
    let mut started = Vec::new();
    for at in arrivals {
        let now = Timestamp::from_nanos(at);
        if rate.allowed_at(now, rule) <= now {
            rate.charge(now, rule);
            started.push(at);
        }
    }
    started
}

/// Returns when requests start that arrive as early as the rule allows, the first of them at `first`.
fn greedy(rule: RateRule, first: u64, count: usize) -> Vec<u64> {
    let (mut rate, mut now) = (Rate::default(), Timestamp::from_nanos(first));
    (0..count)
        .map(|_| {
            now = rate.allowed_at(now, rule);
            rate.charge(now, rule);
            now.as_nanos()
        })
        .collect()
}

fn times(gaps: &[u64]) -> impl Iterator<Item = u64> + '_ {
    gaps.iter().scan(0, |now, gap| {
        *now += gap;
        Some(*now)
    })
}

proptest! {
    #[test]
    fn no_60_s_hold_more_than_the_rule_promises(rule in rules(), gaps in gaps()) {
        let started = starts(rule, times(&gaps));
        for closed in [true, false] {
            prop_assert!(most(&started, closed) <= bound(rule, closed), "{} in 60 s", most(&started, closed));
        }
    }

    #[test]
    fn nor_do_they_if_requests_come_as_early_as_possible(rule in rules(), first in 0..MINUTE) {
        let started = greedy(rule, first, 3 * bound(rule, true));
        for closed in [true, false] {
            prop_assert!(most(&started, closed) <= bound(rule, closed));
        }
    }

    /// The times at which starts are allowed, and not a nanosecond earlier.
    #[test]
    fn the_time_of_the_next_start_is_exact(rule in rules(), gaps in gaps()) {
        let mut rate = Rate::default();
        for at in times(&gaps) {
            let now = Timestamp::from_nanos(at);
            let allowed = rate.allowed_at(now, rule);
            if allowed <= now {
                rate.charge(now, rule);
                continue;
            }
            prop_assert!(rate.remaining(now, rule) == 0);
            prop_assert_eq!(now.after(allowed.since(now).max(Duration::from_nanos(1))), allowed);
            let before = Timestamp::from_nanos(allowed.as_nanos() - 1);
            prop_assert_eq!(rate.allowed_at(before, rule), allowed, "refused just before");
            prop_assert_eq!(rate.allowed_at(allowed, rule), allowed, "admitted at it");
            prop_assert!(rate.remaining(allowed, rule) > 0);
        }
    }

    /// What is said to remain can be used at once, and no more than that.
    #[test]
    fn what_remains_may_start_at_once(rule in rules(), gaps in gaps()) {
        let mut rate = Rate::default();
        for at in times(&gaps) {
            let now = Timestamp::from_nanos(at);
            let (mut one, mut more) = (rate, 0);
            while one.allowed_at(now, rule) <= now {
                one.charge(now, rule);
                more += 1;
            }
            prop_assert_eq!(rate.remaining(now, rule), more);
            if rate.allowed_at(now, rule) <= now {
                rate.charge(now, rule);
            }
        }
    }

    /// A rate that is forgotten when it says so gives nothing away.
    #[test]
    fn a_fresh_rate_is_like_a_new_one(rule in rules(), gaps in gaps()) {
        let mut rate = Rate::default();
        for at in times(&gaps) {
            let now = Timestamp::from_nanos(at);
            if rate.is_fresh(now) {
                prop_assert_eq!(rate.remaining(now, rule), Rate::default().remaining(now, rule));
            }
            if rate.allowed_at(now, rule) <= now {
                rate.charge_for(now, local(rule));
            }
            let later = now.after(Duration::from_secs(120));
            let tolerance = if matches!(rule.mode, RateMode::Window) { 0 } else { bound(rule, true) as u64 };
            prop_assert!(rate.is_fresh(later.after(Duration::from_secs(60 * tolerance))), "it ends some time");
        }
    }

    /// An independent implementation of the same algorithm gives the same answers. It is given our interval: its own
    /// rounds down where ours rounds up, which is one nanosecond for rates that don't divide a minute.
    #[test]
    fn governor_decides_the_same(max in prop_oneof![1u32..1_000, Just(7_000)], burst in 1u32..100, gaps in gaps()) {
        let interval = Duration::from_nanos(MINUTE.div_ceil(u64::from(max)));
        let quota = Quota::with_period(interval).unwrap().allow_burst(NonZeroU32::new(burst).unwrap());
        let own = Quota::per_minute(NonZeroU32::new(max).unwrap()).replenish_interval();
        prop_assert!(interval - own <= Duration::from_nanos(1));
        prop_assert_eq!(interval == own, MINUTE.is_multiple_of(u64::from(max)));
        prop_assert_eq!(disagreement(smooth(max, burst), quota, &gaps), None);
    }

    /// Like `governor_decides_the_same`, with its own interval, where that is the same.
    #[test]
    fn governor_per_minute_decides_the_same(
        max in prop::sample::select(vec![1u32, 2, 3, 5, 6, 10, 60, 75, 100, 600, 1_000, 6_000]),
        burst in 1u32..100,
        gaps in gaps(),
    ) {
        let quota = Quota::per_minute(NonZeroU32::new(max).unwrap()).allow_burst(NonZeroU32::new(burst).unwrap());
        prop_assert_eq!(disagreement(smooth(max, burst), quota, &gaps), None);
    }
}

/// Returns the first arrival about which the rule and `governor` disagree.
fn disagreement(rule: RateRule, quota: Quota, gaps: &[u64]) -> Option<usize> {
    let clock = FakeRelativeClock::default();
    let theirs = RateLimiter::direct_with_clock(quota, clock.clone());
    let mut ours = Rate::default();
    let mut now = Timestamp::ZERO;
    gaps.iter().position(|&gap| {
        clock.advance(Duration::from_nanos(gap));
        now = now.after(Duration::from_nanos(gap));
        let allowed = ours.allowed_at(now, rule) <= now;
        if allowed {
            ours.charge(now, rule);
        }
        allowed != theirs.check().is_ok()
    })
}

#[test]
fn both_bounds_are_reached() {
    for max in [1, 2, 60, 600] {
        let minute = rule(max, RateMode::Window);
        // All of a minute at its end, and all of the next one at its beginning.
        let late = greedy(minute, MINUTE - 1, 2 * max as usize);
        assert_eq!(late.last(), Some(&MINUTE));
        assert_eq!(most(&late, false), bound(minute, false));
        for burst in [1, 2, 10, 100] {
            let smooth = smooth(max, burst);
            let started = greedy(smooth, 12_345, 3 * bound(smooth, true));
            assert_eq!(most(&started, true), bound(smooth, true));
            assert_eq!(most(&started, false), bound(smooth, false));
        }
    }
}

/// The control of the tests above: rates that are a little wrong are found.
#[test]
fn a_wrong_rate_is_found() {
    let cases: Vec<Vec<u64>> = {
        use proptest::strategy::ValueTree;
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        (0..200).map(|_| gaps().new_tree(&mut runner).unwrap().current()).collect()
    };
    let quota = Quota::per_minute(NonZeroU32::new(600).unwrap()).allow_burst(NonZeroU32::new(10).unwrap());
    assert!(cases.iter().all(|gaps| disagreement(smooth(600, 10), quota, gaps).is_none()));
    for wrong in [smooth(601, 10), smooth(599, 10), smooth(600, 11), smooth(600, 9), rule(600, RateMode::Window)] {
        assert!(cases.iter().any(|gaps| disagreement(wrong, quota, gaps).is_some()), "{wrong:?}");
    }
    for (wrong, right) in [(smooth(602, 10), smooth(600, 10)), (smooth(600, 11), smooth(600, 10))] {
        assert!(most(&greedy(wrong, 0, 2_000), true) > bound(right, true), "{wrong:?}");
    }
    let (wrong, right) = (rule(61, RateMode::Window), rule(60, RateMode::Window));
    assert!(most(&greedy(wrong, MINUTE - 1, 200), true) > bound(right, true));
}
