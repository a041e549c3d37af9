#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use super::{
    super::{Law, Sample},
    TwoPoint,
};
use crate::{outcome::Outcome, time::Timestamp};

const RTT: Duration = Duration::from_millis(20);

/// As many requests as allowed, one round after the other, all of the same latency; answers the limits.
fn rounds(law: &mut TwoPoint, count: u64) -> Vec<usize> {
    let mut limits = Vec::new();
    for round in 0..count {
        let start = Timestamp::ZERO.after(RTT * u32::try_from(round).unwrap());
        let limit = law.limit();
        for left in (1..=limit).rev() {
            let mut sample = Sample::new(start, RTT, limit, Outcome::Success);
            sample.running = left;
            law.on_sample(&sample);
        }
        limits.push(law.limit());
    }
    limits
}

#[test]
fn it_doubles_while_latency_stays() {
    let limits = rounds(&mut TwoPoint::new(), 20);
    assert!(*limits.last().unwrap() >= 640, "{limits:?}");
}

#[test]
fn it_goes_on_from_what_it_adopts_and_asks_before_it_grows() {
    let mut law = TwoPoint::new().max(100);
    law.adopt(60);
    assert_eq!(law.limit(), 60);
    let limits = rounds(&mut law, 20);
    let changed = limits.iter().find(|&&limit| limit != 60).unwrap();
    assert!(*changed <= 30, "a probe comes first: {limits:?}");
    law.adopt(500);
    assert_eq!(law.limit(), 100, "within its own range");
}
