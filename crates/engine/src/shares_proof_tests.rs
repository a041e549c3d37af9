//! Shares of any limit by any parts, and deadlines of any members.

use super::{
    deadlines::Deadlines,
    shares::{WHOLE, allocate},
};
use crate::{
    Timestamp,
    arbitrary_tests::{Any, harness},
};

/// Parts in a proof, and in a test.
const FEW: usize = 3;
const MANY: usize = 9;

fn divide(any: &mut impl Any, allocate: impl Fn(usize, &[u32], &mut [usize])) {
    let parts_at_most = usize::try_from(any.steps(MANY as u64, FEW as u64)).unwrap_or(FEW);
    let limit = usize::try_from(any.up_to(0, u64::from(u32::MAX))).unwrap_or(0);
    let (mut parts, mut left) = ([0; MANY], u64::from(WHOLE));
    for part in &mut parts[..parts_at_most] {
        let taken = any.up_to(0, left);
        left -= taken;
        *part = u32::try_from(taken).unwrap_or(0);
    }
    let parts = &parts[..parts_at_most];
    let mut shares = [usize::MAX; MANY];
    let shares = &mut shares[..parts_at_most];
    allocate(limit, parts, shares);
    let whole = parts.iter().map(|&it| u64::from(it)).sum::<u64>();
    let claimants = parts.iter().filter(|&&it| it > 0).count();
    let sum = shares.iter().sum::<usize>();
    assert!(sum <= limit, "{sum} slots of {limit}");
    assert!(whole < u64::from(WHOLE) || sum == limit, "the parts make up the whole, and {sum} of {limit} are shared");
    for (&share, &part) in shares.iter().zip(parts) {
        let exact = limit as u128 * u128::from(part) / u128::from(WHOLE);
        assert!(share as u128 <= exact + 1, "more than its part");
        assert!(part > 0 || share == 0, "a part of zero gets nothing");
        assert!(part == 0 || limit < claimants || share > 0, "a part above zero gets a slot");
        assert!(limit < claimants || (share + parts_at_most) as u128 >= exact, "gave more than others are lifted by");
    }
}

harness! { shares_add_up_to_the_limit, unwind 10: |any| divide(any, allocate) }

/// Rounded up, as Netflix's limits are: the sum passes the limit.
#[cfg(test)]
#[test]
fn control_shares_that_are_rounded_up_are_found() {
    crate::arbitrary_tests::finds(|any| {
        divide(any, |limit, parts, shares| {
            for (share, &part) in shares.iter_mut().zip(parts) {
                *share = (limit * part as usize).div_ceil(WHOLE as usize);
            }
        });
    });
}

/// Sets and removes deadlines; after each step the earliest is that of a plain list.
fn run_out(any: &mut impl Any, forgets: bool) {
    const MEMBERS: usize = 4;
    let (mut deadlines, mut plain) = (Deadlines::default(), [None; MEMBERS]);
    for _ in 0..any.steps(40, 4) {
        let member = usize::try_from(any.up_to(0, MEMBERS as u64 - 1)).unwrap_or(0);
        let number = u32::try_from(member).unwrap_or(0);
        if any.any_bool() {
            let at = any.time();
            deadlines.set(number, at);
            plain[member] = Some(at).filter(|&at| at != Timestamp::NEVER);
        } else {
            if !forgets {
                deadlines.remove(number);
            }
            plain[member] = None;
        }
        let first = plain.iter().zip(0..).filter_map(|(at, member)| at.map(|at| (at, member))).min();
        assert_eq!(deadlines.first(), first, "the first to run out of time");
        assert_eq!(deadlines.earliest(), first.map_or(Timestamp::NEVER, |(at, _)| at), "the earliest deadline");
    }
}

harness! { the_earliest_deadline_is_known, unwind 6: |any| run_out(any, false) }

#[cfg(test)]
#[test]
fn control_a_deadline_that_stays_is_found() {
    crate::arbitrary_tests::finds(|any| run_out(any, true));
}
