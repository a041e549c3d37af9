//! The packed state of a lane, for any steps, beside plain counts.

use super::lane_state::{LaneState, MOST_LENT};
use crate::arbitrary_tests::{Any, harness};

/// What the state stands for.
#[derive(Default)]
struct Plain {
    lent: i64,
    used: i64,
    left: u32,
    is_open: bool,
}

/// Any steps that the lanes take: after each, the state tells what the counts do, and no field spills into another one.
fn step(any: &mut impl Any, most: u32) {
    let (state, mut plain) = (LaneState::closed(), Plain::default());
    for _ in 0..any.steps(60, 5) {
        match any.up_to(0, 4) {
            0 => {
                let entered = state.enter();
                assert_eq!(entered.is_some(), plain.is_open && plain.used < plain.lent, "a request enters a free slot");
                if let Some(entered) = entered {
                    assert_eq!(entered.number, (plain.left + u32::try_from(plain.used).unwrap_or(0)) & 0xff_ffff);
                    plain.used += 1;
                }
            }
            1 if plain.used > 0 => {
                let seen = state.leave();
                assert_eq!((seen.left, seen.is_closed), (plain.left, !plain.is_open));
                plain.used -= 1;
                plain.left = (plain.left + 1) & 0xff_ffff;
            }
            2 if !plain.is_open => {
                let lent = i64::try_from(any.up_to(0, u64::from(most))).unwrap_or(0);
                assert_eq!(state.lent(), plain.lent, "a closed lane tells what is lent");
                state.open(lent - plain.lent);
                (plain.lent, plain.is_open) = (lent, true);
            }
            3 if plain.is_open => {
                assert!(!state.close().is_closed);
                plain.is_open = false;
            }
            4 if !plain.is_open && plain.used > 0 => {
                state.take_out();
                (plain.lent, plain.used) = (plain.lent - 1, plain.used - 1);
            }
            _ => {}
        }
        let seen = state.look();
        assert_eq!(i64::from(seen.used), plain.used, "what runs");
        assert_eq!((seen.left, seen.is_closed), (plain.left, !plain.is_open), "what left, and whether it is closed");
        assert_eq!(state.is_tight(), !(plain.is_open && plain.used < plain.lent), "whether a slot is free");
    }
}

harness! { the_state_tells_what_the_counts_do, unwind 7: |any| step(any, MOST_LENT) }

/// Twice as many slots as the state has room for.
#[cfg(test)]
#[test]
fn control_a_lane_that_is_lent_too_much_is_found() {
    crate::arbitrary_tests::finds(|any| step(any, 4 * MOST_LENT + 4));
}
