//! How a limit is divided among partitions.
//!
//! What `allocate` promises, for parts of a whole in parts per million:
//!
//! - the shares never add up to more than the limit, and to exactly the limit where the parts make up the whole;
//! - while the limit allows it, every part above zero gets at least 1; below that, the largest parts get 1 each, and
//!   the scheduler lets the rest take turns;
//! - apart from that minimum, each share differs from the exact product by less than 1 (largest remainder, as in
//!   Hamilton's method of apportionment);
//! - a part of zero gets nothing.

/// The whole, in parts per million.
pub const WHOLE: u32 = 1_000_000;

/// Divides `limit` by `parts` into `shares`, which has the length of `parts`. The parts add up to [`WHOLE`] at most.
pub fn allocate(limit: usize, parts: &[u32], shares: &mut [usize]) {
    let claimants = parts.iter().filter(|&&part| part > 0).count();
    if limit < claimants {
        shares.fill(0);
        for _ in 0..limit {
            let without = (0..parts.len()).filter(|&i| shares[i] == 0 && parts[i] > 0);
            if let Some(largest) = without.max_by_key(|&i| (parts[i], std::cmp::Reverse(i))) {
                shares[largest] = 1;
            }
        }
        return;
    }
    for (share, &part) in shares.iter_mut().zip(parts) {
        *share = floor(limit, part).max(usize::from(part > 0));
    }
    // Parts that were lifted to 1 may have made the sum too large: those slots come from the share that is closest
    // above its exact value. Otherwise rounding down left some slots over, and they go to the largest remainders.
    let whole: u64 = parts.iter().map(|&part| u64::from(part)).sum();
    let target = floor(limit, u32::try_from(whole).unwrap_or(WHOLE).min(WHOLE));
    let mut sum: usize = shares.iter().sum();
    let remainder = |shares: &[usize], i: usize| exact(limit, parts[i]) - i128::from(WHOLE) * to_i128(shares[i]);
    while sum > target.max(claimants) {
        let givers = (0..parts.len()).filter(|&i| shares[i] > 1);
        let Some(giver) = givers.min_by_key(|&i| remainder(shares, i)) else { return };
        shares[giver] -= 1;
        sum -= 1;
    }
    while sum < target {
        let takers = (0..parts.len()).filter(|&i| parts[i] > 0);
        let Some(taker) = takers.max_by_key(|&i| (remainder(shares, i), std::cmp::Reverse(i))) else { return };
        shares[taker] += 1;
        sum += 1;
    }
}

/// `max(1, ceil(limit * part))` in IEEE doubles, the rounding of Netflix's concurrency-limits: the sum of such shares
/// may pass the limit.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "conformance asks for exactly this arithmetic"
)]
pub(crate) fn ceil_share(limit: usize, part: u32) -> usize {
    ((limit as f64 * (f64::from(part) / f64::from(WHOLE))).ceil() as usize).max(1)
}

fn floor(limit: usize, part: u32) -> usize {
    let share = limit as u128 * u128::from(part) / u128::from(WHOLE);
    usize::try_from(share).unwrap_or(limit)
}

fn exact(limit: usize, part: u32) -> i128 {
    to_i128(limit) * i128::from(part)
}

fn to_i128(count: usize) -> i128 {
    i128::try_from(count).unwrap_or(i128::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shares(limit: usize, parts: &[u32]) -> Vec<usize> {
        let mut shares = vec![0; parts.len()];
        allocate(limit, parts, &mut shares);
        shares
    }

    #[test]
    fn examples_are_what_a_person_expects() {
        assert_eq!(shares(100, &[600_000, 200_000, 200_000]), [60, 20, 20]);
        assert_eq!(shares(10, &[333_334, 333_333, 333_333]), [4, 3, 3]);
        assert_eq!(shares(10, &[990_000, 5_000, 5_000]), [8, 1, 1]);
        assert_eq!(shares(2, &[100_000, 500_000, 400_000]), [0, 1, 1]);
        assert_eq!(shares(7, &[0, 1_000_000]), [0, 7]);
        assert_eq!(shares(0, &[500_000, 500_000]), [0, 0]);
    }

    #[test]
    fn ceil_share_keeps_the_quirks_of_doubles() {
        assert_eq!(ceil_share(100, 70_000), 8, "100 * 0.07 is a little more than 7");
        assert_eq!(ceil_share(100, 550_000), 56);
        assert_eq!(ceil_share(10, 0), 1);
    }

    /// Any parts that add up to the whole.
    fn parts() -> impl Strategy<Value = Vec<u32>> {
        prop::collection::vec(0..WHOLE, 0..12).prop_map(|mut cuts| {
            cuts.sort_unstable();
            cuts.push(WHOLE);
            let mut last = 0;
            cuts.into_iter().map(|cut| cut - std::mem::replace(&mut last, cut)).collect()
        })
    }

    proptest! {
        #[test]
        fn the_specification_holds(limit in 0usize..2_000, parts in parts()) {
            let shares = shares(limit, &parts);
            let claimants = parts.iter().filter(|&&part| part > 0).count();
            prop_assert_eq!(shares.iter().sum::<usize>(), limit, "the parts make up the whole");
            let lifted = shares.iter().zip(&parts).filter(|&(_, &part)| part > 0 && floor(limit, part) == 0).count();
            for (&share, &part) in shares.iter().zip(&parts) {
                if part == 0 {
                    prop_assert_eq!(share, 0);
                } else if limit >= claimants {
                    prop_assert!(share >= 1);
                    prop_assert!(share <= floor(limit, part) + 1);
                    prop_assert!(share + lifted >= floor(limit, part), "gave more than the minimum of others took");
                }
            }
        }
    }
}
