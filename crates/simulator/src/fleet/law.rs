//! A law that moves at each sample, and panics now and then.

use tower_admission::limit::{LimitAlgorithm, Sample};

use super::ledger::{Event, Log};
use crate::random::Stream;

/// Moves between half of the largest limit and the largest.
#[derive(Debug)]
pub(super) struct Restless {
    limit: usize,
    most: usize,
    rng: Stream,
    log: Log,
}

/// The panic of a handler, a classifier or a law of the plan: no hook is told of it.
pub(super) fn panic_on_purpose() -> ! {
    std::panic::resume_unwind(Box::new("on purpose"))
}

impl Restless {
    pub(super) fn new(most: usize, seed: u64, log: Log) -> Self {
        Self { limit: most, most, rng: Stream::new(seed, 106, 0), log }
    }
}

impl LimitAlgorithm for Restless {
    fn limit(&self) -> usize {
        self.limit
    }

    fn max_limit(&self) -> usize {
        self.most
    }

    fn on_sample(&mut self, _: &Sample) {
        if self.rng.happens(20) {
            panic_on_purpose();
        }
        let low = self.most.div_ceil(2) as u64;
        self.limit = usize::try_from(self.rng.between(low, self.most as u64)).unwrap_or(self.most);
        self.log.note(Event::Limit(self.limit));
    }
}
