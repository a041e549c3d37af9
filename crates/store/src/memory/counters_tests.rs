use std::{num::NonZeroU32, time::Duration};

use super::{
    at,
    counters::{Meter, granted},
};
use crate::{AllotmentRequest, Keys, RateMode, Token};

const SECOND: u64 = 1_000_000;
const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_window_gives_its_maximum_and_the_next_begins_anew() {
    let meter = Meter::new(10, MINUTE, RateMode::Window);
    let now = 90 * SECOND;
    let (units, after, state) = meter.draw(None, 4, now);
    assert_eq!((units, after), (4, at(30 * SECOND)), "for use until the window ends");
    let (units, _, state) = meter.draw(Some(state), 100, now + SECOND);
    assert_eq!(units, 6, "the rest");
    let (units, after, state) = meter.draw(Some(state), 1, now + SECOND);
    assert_eq!((units, after), (0, at(29 * SECOND)), "none until the window ends");
    let (units, after, _) = meter.draw(Some(state), 100, 120 * SECOND);
    assert_eq!((units, after), (10, at(60 * SECOND)));
}

#[test]
fn a_smooth_rate_gives_its_burst_and_then_a_unit_each_step() {
    let burst = NonZeroU32::new(3).unwrap();
    let meter = Meter::new(7, MINUTE, RateMode::Smooth { burst });
    // A seventh of a minute, rounded up.
    let step = 8_571_429;
    let now = 100 * SECOND;
    let (units, after, state) = meter.draw(None, 100, now);
    assert_eq!((units, after), (3, at(3 * step)));
    let (units, after, state) = meter.draw(Some(state), 100, now);
    assert_eq!((units, after), (0, at(step)));
    let (units, after, state) = meter.draw(Some(state), 100, now + step - 1);
    assert_eq!((units, after), (0, at(1)), "a microsecond early");
    let (units, _, state) = meter.draw(Some(state), 100, now + step);
    assert_eq!(units, 1);
    let (units, _, _) = meter.draw(Some(state), 2, now + 100 * step);
    assert_eq!(units, 2, "no more than was asked for");
}

#[test]
fn an_allotment_grows_by_half_of_what_is_free_and_keeps_what_is_in_use() {
    let key = Keys::new("test").unwrap().cap("ns", "label", "a");
    let bound = NonZeroU32::new(100).unwrap();
    let first = AllotmentRequest::new(Token::random().unwrap(), key, bound, MINUTE);
    let ask = |want, used, had| AllotmentRequest { want, used, had, ..first.clone() };
    assert_eq!(granted(&ask(100, 10, 10), 10, 50, None), 30, "half of the 40 that others don't have");
    assert_eq!(granted(&ask(100, 10, 10), 10, 11, None), 11, "a last unit is not halved");
    assert_eq!(granted(&ask(20, 10, 10), 10, 50, None), 20, "no more than is wanted");
    assert_eq!(granted(&ask(100, 10, 10), 10, 50, Some(12)), 12, "no more than a share while others wait");
    assert_eq!(granted(&ask(0, 8, 10), 10, 5, Some(2)), 8, "what is in use stays");
    assert_eq!(granted(&ask(0, 12, 12), 10, 5, Some(2)), 10, "more than it had is not restored this way");
}
