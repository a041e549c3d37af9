//! What part of a cap each claimant should have.

use crate::Token;

/// The claimant of units: an allotment, or all leases together, which come last in order.
#[cfg_attr(feature = "rows", derive(serde::Deserialize, serde::Serialize))]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Name {
    Block(Token),
    Leases,
}

/// A process that holds or waits for units.
#[cfg_attr(feature = "rows", derive(serde::Deserialize, serde::Serialize))]
#[derive(Clone, Copy, Debug)]
pub(super) struct Claimant {
    pub(super) name: Name,
    pub(super) need: u64,
    /// Time since when the process waits, or when it was last served.
    pub(super) turn: u64,
}

impl Name {
    fn order(self) -> (bool, [u8; 16]) {
        match self {
            Self::Block(token) => (false, token.bytes()),
            Self::Leases => (true, [0; 16]),
        }
    }
}

/// Returns how many units `name` should have, and the level: each claimant has what it needs up to a level that is the
/// same for all. What rounding leaves over goes to the claimants whose turn is the oldest, a unit each.
pub(super) fn fair(bound: u32, name: Name, mut all: Vec<Claimant>) -> (u32, u32) {
    let few = |units: u64| u32::try_from(units).unwrap_or(u32::MAX);
    all.sort_by_key(|claimant| claimant.need);
    let (mut left, mut level, mut first) = (u64::from(bound), u64::from(bound), all.len());
    for (index, claimant) in all.iter().enumerate() {
        let each = left / (all.len() - index) as u64;
        if claimant.need > each {
            (level, first) = (each, index);
            break;
        }
        left -= claimant.need;
    }
    // All claimants from here on need more than the level.
    let above = &mut all[first..];
    above.sort_by_key(|claimant| (claimant.turn, claimant.name.order()));
    let over = left - level * above.len() as u64;
    let units = match above.iter().position(|claimant| claimant.name == name) {
        Some(place) => level + u64::from((place as u64) < over),
        None => all.iter().find(|claimant| claimant.name == name).map_or(0, |claimant| claimant.need),
    };
    (few(units), few(level))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what each claimant should have, by need and turn.
    fn shares(bound: u32, all: &[(u64, u64)]) -> Vec<u32> {
        let names: Vec<_> = all.iter().map(|_| Name::Block(Token::random().unwrap())).collect();
        let claimants = || {
            let each = all.iter().zip(&names);
            each.map(|(&(need, turn), &name)| Claimant { name, need, turn }).collect()
        };
        names.iter().map(|&name| fair(bound, name, claimants()).0).collect()
    }

    #[test]
    fn each_has_what_it_needs_up_to_a_level_and_the_rest_by_turn() {
        assert_eq!(shares(200, &[(900, 0), (900, 1), (900, 2), (900, 3)]), [50; 4]);
        assert_eq!(shares(40, &[(60, 0), (60, 1), (60, 2), (4, 3)]), [12, 12, 12, 4]);
        assert_eq!(shares(2, &[(9, 3), (9, 1), (9, 0), (9, 2)]), [0, 1, 1, 0]);
        assert_eq!(shares(10, &[(3, 0), (4, 0)]), [3, 4], "enough for all");
        assert_eq!(shares(7, &[(1, 0), (9, 1), (9, 0)]), [1, 3, 3]);
    }

    #[test]
    fn never_more_than_the_bound_in_all() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..10_000 {
            let bound = rng.u32(1..50);
            let all: Vec<_> = (0..rng.usize(1..9)).map(|_| (rng.u64(0..30), rng.u64(0..4))).collect();
            let shares = shares(bound, &all);
            let need: u64 = all.iter().map(|(need, _)| need).sum();
            let sum: u64 = shares.iter().copied().map(u64::from).sum();
            assert_eq!(sum, need.min(bound.into()), "{bound} {all:?} {shares:?}");
        }
    }
}
