//! The one lock, and the one function that takes it.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicUsize},
    task::Waker,
};

use super::{driver::Driver, recorder::Recorder};
use crate::{
    clock::TimeSource,
    engine::{Engine, Key, Refusal},
    rejection::Rejection,
    time::Timestamp,
};

/// Up to so many names are compared one by one: most that differ do so in length, which is quicker than any order.
const FEW: usize = 16;

/// What all clones of a handle share.
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(super) time: TimeSource,
    pub(super) name: Arc<str>,
    /// The names of the partitions by number, and their numbers sorted by name.
    names: Vec<Arc<str>>,
    sorted: Vec<u16>,
    pub(super) warnings: Mutex<Vec<String>>,
    /// How often layers of this handle were made, cloned or applied.
    pub(crate) places: AtomicUsize,
    pub(super) driver: Driver,
    pub(super) recorder: Mutex<Recorder>,
}

/// What the lock guards.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) engine: Engine,
    /// Who is to be woken for each waiter, by the number of its entry.
    wakers: Vec<Option<Waker>>,
    /// When the driver will look at the engine again.
    pub(super) armed: Timestamp,
}

impl Shared {
    pub(super) fn new(name: Arc<str>, engine: Engine, time: TimeSource, warnings: Vec<String>) -> Self {
        let names: Vec<Arc<str>> = engine.partitions().map(|(name, _)| Arc::from(name)).collect();
        let mut sorted: Vec<u16> = (0..=u16::MAX).take(names.len()).collect();
        sorted.sort_unstable_by_key(|&partition| &names[partition as usize]);
        Self {
            state: Mutex::new(State { engine, wakers: Vec::new(), armed: Timestamp::NEVER }),
            time,
            name,
            names,
            sorted,
            warnings: Mutex::new(warnings),
            places: AtomicUsize::new(0),
            driver: Driver::default(),
            recorder: Mutex::default(),
        }
    }

    /// Locks, lets `step` talk to the engine, unlocks, and wakes whoever's wait ended.
    ///
    /// Where a time is needed for certain, the clock is read before: it takes longer than all the rest. Those who wait
    /// for the lock meanwhile may then bring an earlier time than the last one, and the engine takes the later of the
    /// two. No closure of the user's, no waker and no recorder runs in here; laws do, and so do clocks now and then.
    pub(super) fn turn<R>(&self, step: impl FnOnce(&mut State, &TimeSource) -> R) -> R {
        let mut state = lock(&self.state);
        let answer = step(&mut state, &self.time);
        let earlier = state.engine.next_wakeup().is_some_and(|at| at < state.armed);
        if earlier || state.engine.has_notices() {
            self.tell(state, earlier);
        }
        answer
    }

    /// Wakes those whose wait ended, a batch at a time and never under the lock.
    #[cold]
    fn tell<'a>(&'a self, mut state: MutexGuard<'a, State>, earlier: bool) {
        if earlier {
            state.armed = state.engine.next_wakeup().unwrap_or(Timestamp::NEVER);
        }
        loop {
            let batch = state.take_batch();
            drop(state);
            batch.into_iter().flatten().for_each(Waker::wake);
            state = lock(&self.state);
            if !state.engine.has_notices() {
                break;
            }
        }
        drop(state);
        if earlier {
            self.driver.look_again();
        }
    }

    /// The number of the partition of this name; the default one, if none has this name.
    pub(super) fn partition(&self, name: Option<&str>) -> u16 {
        let Some(name) = name else { return 0 };
        if self.names.len() <= FEW {
            let found = self.names.iter().position(|known| **known == *name);
            return found.and_then(|partition| u16::try_from(partition).ok()).unwrap_or(0);
        }
        let found = self.sorted.binary_search_by(|&partition| (*self.names[partition as usize]).cmp(name));
        found.map_or(0, |position| self.sorted[position])
    }

    pub(super) fn rejection(&self, refusal: Refusal) -> Rejection {
        let partition = Arc::clone(&self.names[refusal.partition as usize]);
        Rejection::new(refusal.reason, refusal.retry_after, partition, refusal.bound)
    }

    /// Notes something that is likely to be a mistake, once.
    pub(crate) fn warn(&self, warning: &str) {
        let mut warnings = lock(&self.warnings);
        if warnings.len() < 64 && !warnings.iter().any(|known| known == warning) {
            warnings.push(warning.to_owned());
        }
    }
}

/// Only what a reader of logs wants to see; for the rest there is the snapshot.
impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("name", &self.name).field("partitions", &self.names).finish_non_exhaustive()
    }
}

impl State {
    /// Up to 32 wakers of those whose wait ended. More of them may be left.
    fn take_batch(&mut self) -> [Option<Waker>; 32] {
        std::array::from_fn(|_| {
            let key = self.engine.take_notice()?;
            self.wakers.get_mut(key.index as usize)?.take()
        })
    }

    /// Remembers whom to wake; answers who was to be woken before, to be dropped outside the lock: dropping a waker
    /// may drop a task, and with it a place that wants the lock.
    #[must_use]
    pub(super) fn register(&mut self, key: Key, waker: Waker) -> Option<Waker> {
        let index = key.index as usize;
        if self.wakers.len() <= index {
            self.wakers.resize(index + 1, None);
        }
        match &self.wakers[index] {
            Some(known) if known.will_wake(&waker) => Some(waker),
            _ => self.wakers[index].replace(waker),
        }
    }

    /// Forgets whom to wake. Answers it, to be dropped outside the lock.
    #[must_use]
    pub(super) fn unregister(&mut self, key: Key) -> Option<Waker> {
        self.wakers.get_mut(key.index as usize)?.take()
    }

    /// Everybody who waits, to be woken outside the lock.
    pub(super) fn take_all_wakers(&mut self) -> VecDeque<Waker> {
        self.wakers.iter_mut().filter_map(Option::take).collect()
    }
}

/// A panic in foreign code under the lock leaves the engine consistent: the engine catches those of laws, and clocks
/// are read before it changes anything. So poison means nothing here.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
