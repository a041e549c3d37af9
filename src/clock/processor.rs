//! The counter of the processor.

use std::sync::OnceLock;

use quanta::Clock;

/// The counter, and what it said when this process first asked.
struct Counter {
    clock: Clock,
    start: u64,
}

/// Returns the nanoseconds since this process first asked. That first time, the counter is compared with the time of the
/// system for a millisecond or so. Kept out of the code around each reading, where most handles have Tokio's time.
#[inline(never)]
pub(super) fn elapsed() -> u64 {
    static COUNTER: OnceLock<Counter> = OnceLock::new();
    let counter = COUNTER.get_or_init(|| {
        let clock = Clock::new();
        let start = clock.raw();
        Counter { clock, start }
    });
    counter.clock.delta_as_nanos(counter.start, counter.clock.raw())
}
