//! What the rooms do together.

mod check_tests;
mod conformance_tests;
mod edge_tests;
mod fairness_tests;
mod incident_tests;
mod model_tests;
mod pacing_tests;
mod rule_tests;
mod sample_tests;
mod shadow_tests;
mod share_tests;
mod story_tests;

use crate::{
    Engine, LabelSnapshot, Timestamp,
    tokens::{Arrival, Ask, Refusal, Slot},
};

/// The moment so many milliseconds after the first.
pub(crate) fn at(millis: u64) -> Timestamp {
    Timestamp::from_nanos(millis * 1_000_000)
}

/// The moment so many seconds after a thousand.
pub(crate) fn at_second(seconds: u64) -> Timestamp {
    at((1_000 + seconds) * 1_000)
}

/// So many runs of a property test, or what `PROPTEST_CASES` says.
fn cases(unless_set: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(unless_set)
}

/// A generator of numbers that are random enough.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    const fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    const fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 16) % bound
    }

    fn roll(&mut self, below: usize) -> usize {
        usize::try_from(self.below(below as u64)).unwrap_or(0)
    }

    const fn one_in(&mut self, sides: u64) -> bool {
        self.below(sides) == 0
    }
}

impl Engine {
    /// Like [`arrive_now`](Self::arrive_now), where no request has to ask a store.
    pub(crate) fn arrive_without_waiting(&mut self, now: Timestamp, ask: &Ask<'_>) -> Result<Slot, Refusal> {
        match self.arrive_now(now, ask) {
            Arrival::Admit(slot) => Ok(slot),
            Arrival::Reject(refusal) => Err(refusal),
            Arrival::Ask(..) | Arrival::Wait(_) => unreachable!("no request waits or has to ask"),
        }
    }

    /// Returns the state of all labels at once.
    pub(crate) fn all_labels(&self) -> Vec<LabelSnapshot> {
        let mut labels = Vec::new();
        assert_eq!(self.label_snapshots(0, usize::MAX, &mut labels), None, "there are no more");
        labels
    }
}
