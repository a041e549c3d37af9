//! How many lanes a partition has, and which of them a thread tries first.

use std::{
    cell::Cell,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread::available_parallelism,
};

use super::MOST_LANES;

/// The fewest cores for each lane of a partition: fewer get on well with a single number to write to.
const CORES: usize = 4;

/// Slots of the limit for each lane at least: with fewer of them, a request would often find none in its own.
const SLOTS: usize = 32;

/// Most lanes of a partition. Each turn of the engine that calls slots back looks at all of them.
const MOST_LANES_PER_PARTITION: usize = 8;

/// Returns how many lanes each partition gets: a power of two.
fn lanes_per_partition(cores: usize, partitions: usize, max_limit: usize) -> usize {
    let partitions = partitions.max(1);
    let most =
        (cores / CORES).min(max_limit / SLOTS / partitions).min(MOST_LANES / partitions).min(MOST_LANES_PER_PARTITION);
    most.checked_ilog2().map_or(1, |power| 1 << power)
}

/// Returns how many lanes each partition gets on this machine.
pub(in crate::runtime) fn lanes_per_partition_here(partitions: usize, max_limit: usize) -> usize {
    static HERE: OnceLock<usize> = OnceLock::new();
    #[cfg(test)]
    if let Some(forced) = FORCED.get() {
        return forced;
    }
    let cores = *HERE.get_or_init(|| available_parallelism().map_or(1, usize::from));
    lanes_per_partition(cores, partitions, max_limit)
}

thread_local! {
    /// The number of this thread, plus 1; 0 as long as it has none.
    static NUMBER: Cell<usize> = const { Cell::new(0) };
    #[cfg(test)]
    static FORCED: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Returns the number of this thread. Threads are numbered as they come, so they spread evenly over the lanes.
#[inline]
pub(super) fn this_thread() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(THREADS.fetch_add(1, Ordering::Relaxed).wrapping_add(1));
        }
        number.get().wrapping_sub(1)
    })
}

/// Sets the number of lanes of each partition of handles that this thread builds.
#[cfg(test)]
pub(in crate::runtime) fn force_lanes_per_partition<R>(per_partition: usize, build: impl FnOnce() -> R) -> R {
    let before = FORCED.replace(Some(per_partition));
    let built = build();
    FORCED.set(before);
    built
}

/// Changes the number of this thread.
#[cfg(test)]
pub(in crate::runtime) fn be_thread(number: usize) {
    NUMBER.set(number + 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_as_many_as_cores_and_limit_are_worth() {
        const NO_LIMIT: usize = usize::MAX;
        let few = [(0, 1), (1, 1), (2, 1), (7, 1), (8, 2), (15, 2), (16, 4), (31, 4), (32, 8), (512, 8)];
        for (cores, expected) in few {
            assert_eq!(lanes_per_partition(cores, 1, NO_LIMIT), expected, "{cores} cores");
        }
        for (limit, expected) in [(0, 1), (1, 1), (63, 1), (64, 2), (127, 2), (128, 4), (256, 8), (NO_LIMIT, 8)] {
            assert_eq!(lanes_per_partition(64, 1, limit), expected, "limit {limit}");
        }
        assert_eq!([255, 256, 1_024].map(|limit| lanes_per_partition(64, 4, limit)), [1, 2, 8], "four partitions");
        // No partition that fits goes without a lane.
        for (partitions, expected) in [(0, 8), (8, 8), (9, 4), (16, 4), (17, 2), (32, 2), (33, 1), (64, 1), (9_999, 1)]
        {
            assert_eq!(lanes_per_partition(64, partitions, NO_LIMIT), expected, "{partitions} partitions");
        }
    }

    #[test]
    fn each_thread_has_a_number_of_its_own_and_keeps_it() {
        let number = this_thread();
        let other = std::thread::spawn(|| [this_thread(), this_thread()]).join().unwrap();
        assert!(other[0] == other[1] && other[0] != number);
        assert_eq!(this_thread(), number);
    }
}
