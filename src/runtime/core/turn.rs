//! The one lock, and the one function that takes it.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Waker,
};

#[cfg(feature = "introspect")]
use super::tape::{Step, Tape};
use super::wake;
#[cfg(feature = "config")]
use crate::config::file::AdmissionConfig;
use crate::runtime::{
    background::{Drivers, Recorder, Schedule, Told},
    remote::Desk,
};
use crate::{
    clock::TimeSource,
    engine::{Engine, Key, Refusal},
    rejection::Rejection,
    store::AdmissionLock,
    time::Timestamp,
};

/// Up to so many names are compared one by one: most that differ do so in length, which is quicker than any order.
const FEW: usize = 16;

/// What all clones of a handle share.
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(in crate::runtime) time: TimeSource,
    pub(in crate::runtime) name: Arc<str>,
    /// The names of the partitions by number, and their numbers sorted by name.
    names: Vec<Arc<str>>,
    sorted: Vec<u16>,
    /// The names of partitions that a reload added, whose numbers follow, and whether there are any.
    added: RwLock<Vec<Arc<str>>>,
    has_added: AtomicBool,
    pub(in crate::runtime) warnings: Mutex<Vec<String>>,
    /// How often layers of this handle were made, cloned or applied.
    pub(crate) places: AtomicUsize,
    pub(in crate::runtime) drivers: Drivers,
    pub(in crate::runtime) recorder: Mutex<Recorder>,
    /// The settings that it was made with, in words, or what there are no words for.
    #[cfg(feature = "introspect")]
    pub(in crate::runtime) policy: Result<serde_json::Value, String>,
    /// Where shared rules are counted.
    pub(in crate::runtime) desk: Option<Desk>,
    /// Whose waits are published.
    pub(in crate::runtime) admission_lock: Option<AdmissionLock>,
    /// The configuration that the present settings come from.
    #[cfg(feature = "config")]
    pub(in crate::runtime) origin: Mutex<Option<Box<AdmissionConfig>>>,
    /// What was told of changes.
    pub(in crate::runtime) told: Mutex<Told>,
}

/// What the lock guards.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) engine: Engine,
    /// Who is to be woken for each waiter, by the number of its entry.
    wakers: Vec<Option<Waker>>,
    /// The same for holders of permits that want to know when their time is over, by the number of the tenure.
    holders: Vec<Option<Waker>>,
    /// Those who want to know when nobody is left, by the number of their future.
    leaving: BTreeMap<u64, Waker>,
    /// When the drivers will look at the engine again.
    pub(in crate::runtime) schedule: Schedule,
    /// Where all that the engine is told is written down, while somebody wants that.
    #[cfg(feature = "introspect")]
    pub(in crate::runtime) tape: Option<Box<Tape>>,
}

impl Shared {
    pub(in crate::runtime) fn new(
        name: Arc<str>,
        engine: Engine,
        time: TimeSource,
        warnings: Vec<String>,
        desk: Option<Desk>,
    ) -> Self {
        let names: Vec<Arc<str>> = engine.partitions().map(|(_, name, _)| Arc::from(name)).collect();
        let mut sorted: Vec<u16> = (0..=u16::MAX).take(names.len()).collect();
        sorted.sort_unstable_by_key(|&partition| &names[partition as usize]);
        Self {
            told: Mutex::new(Told::of(&engine.snapshot())),
            state: Mutex::new(State {
                engine,
                wakers: Vec::new(),
                holders: Vec::new(),
                leaving: BTreeMap::new(),
                schedule: Schedule::default(),
                #[cfg(feature = "introspect")]
                tape: None,
            }),
            time,
            name,
            names,
            sorted,
            added: RwLock::default(),
            has_added: AtomicBool::new(false),
            warnings: Mutex::new(warnings),
            places: AtomicUsize::new(0),
            drivers: Drivers::default(),
            recorder: Mutex::default(),
            #[cfg(feature = "introspect")]
            policy: Err("settings".to_owned()),
            desk,
            admission_lock: None,
            #[cfg(feature = "config")]
            origin: Mutex::default(),
        }
    }

    /// The same, with a lock whose waits it publishes.
    pub(in crate::runtime) fn with_lock(mut self, lock: Option<AdmissionLock>) -> Self {
        self.admission_lock = lock;
        self
    }

    /// The same, with the configuration that its settings come from.
    #[cfg(feature = "config")]
    pub(in crate::runtime) fn with_origin(mut self, origin: Option<Box<AdmissionConfig>>) -> Self {
        self.origin = Mutex::new(origin);
        self
    }

    /// The same, with its settings in words.
    #[cfg(feature = "introspect")]
    pub(in crate::runtime) fn described(mut self, policy: Result<serde_json::Value, String>) -> Self {
        self.policy = policy;
        self
    }

    /// Locks, lets `step` talk to the engine, unlocks, and wakes whoever's wait ended.
    ///
    /// Where a time is needed for certain, the clock is read before: it takes longer than all the rest. Those who wait
    /// for the lock meanwhile may then bring an earlier time than the last one, and the engine takes the later of the
    /// two. No closure of the user's, no waker and no recorder runs in here; laws do, and so do clocks now and then.
    pub(in crate::runtime) fn turn<R>(&self, step: impl FnOnce(&mut State, &TimeSource) -> R) -> R {
        let mut state = lock(&self.state);
        #[cfg(feature = "introspect")]
        let untold = if state.tape.is_some() { state.engine.untold() } else { 0 };
        let answer = step(&mut state, &self.time);
        #[cfg(feature = "introspect")]
        state.close_row(untold);
        let earlier = state.engine.next_wakeup().is_some_and(|at| at < state.schedule.armed);
        if earlier || state.engine.has_notices() || state.engine.is_closed() {
            self.tell(state, earlier);
        }
        answer
    }

    /// Wakes those whose wait ended, a batch at a time and never under the lock.
    #[cold]
    fn tell<'a>(&'a self, mut state: MutexGuard<'a, State>, earlier: bool) {
        let next = state.engine.next_wakeup().unwrap_or(Timestamp::NEVER);
        if earlier {
            state.schedule.armed = next;
        }
        loop {
            let batch = state.take_batch();
            drop(state);
            batch.into_iter().flatten().for_each(wake);
            state = lock(&self.state);
            if !state.engine.has_notices() {
                break;
            }
        }
        let left = if state.engine.is_drained() { std::mem::take(&mut state.leaving) } else { BTreeMap::new() };
        drop(state);
        left.into_values().for_each(wake);
        if earlier {
            self.drivers.arm(next);
        }
    }

    /// The number of the partition of this name; the default one, if none has this name.
    pub(in crate::runtime) fn partition(&self, name: Option<&str>) -> u16 {
        let Some(name) = name else { return 0 };
        let found = if self.names.len() <= FEW {
            let found = self.names.iter().position(|known| **known == *name);
            found.and_then(|partition| u16::try_from(partition).ok())
        } else {
            let found = self.sorted.binary_search_by(|&partition| (*self.names[partition as usize]).cmp(name));
            found.ok().map(|position| self.sorted[position])
        };
        found.or_else(|| self.added_partition(name)).unwrap_or(0)
    }

    /// The number of a partition that came with a reload.
    fn added_partition(&self, name: &str) -> Option<u16> {
        if !self.has_added.load(Ordering::Acquire) {
            return None;
        }
        let added = self.added.read().unwrap_or_else(PoisonError::into_inner);
        let position = added.iter().position(|known| **known == *name)?;
        u16::try_from(self.names.len() + position).ok()
    }

    /// Notes the names of partitions that came with a reload, in the order of their numbers.
    pub(in crate::runtime) fn add_partitions(&self, names: Vec<Arc<str>>) {
        if !names.is_empty() {
            self.added.write().unwrap_or_else(PoisonError::into_inner).extend(names);
            self.has_added.store(true, Ordering::Release);
        }
    }

    /// The name of the partition with this number.
    pub(in crate::runtime) fn partition_name(&self, partition: u16) -> Arc<str> {
        let partition = usize::from(partition);
        self.names.get(partition).cloned().unwrap_or_else(|| {
            let added = self.added.read().unwrap_or_else(PoisonError::into_inner);
            added.get(partition - self.names.len()).cloned().unwrap_or_else(|| Arc::from(""))
        })
    }

    pub(in crate::runtime) fn rejection(&self, refusal: Refusal) -> Rejection {
        let partition = self.partition_name(refusal.partition);
        Rejection::new(refusal.reason, refusal.retry_after, partition, refusal.bound)
            .answered_with_nothing(refusal.empty)
            .after_a_wait(refusal.timed_out)
            .after_its_deadline(refusal.over)
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
    /// Notes what the engine is told in this turn, if somebody wants to know.
    #[cfg(feature = "introspect")]
    #[inline]
    pub(in crate::runtime) fn note(&mut self, step: impl FnOnce() -> Step) {
        if let Some(tape) = &mut self.tape {
            tape.note(step());
        }
    }

    /// The turn is over: what it brought about is known.
    #[cfg(feature = "introspect")]
    #[inline]
    fn close_row(&mut self, untold: usize) {
        if let Some(tape) = &mut self.tape
            && !tape.close(&self.engine, untold)
        {
            self.tape = None;
        }
    }

    /// Up to 32 wakers of those whose wait ended. More of them may be left.
    fn take_batch(&mut self) -> [Option<Waker>; 32] {
        std::array::from_fn(|_| {
            if let Some(key) = self.engine.take_notice() {
                return self.wakers.get_mut(key.index as usize)?.take();
            }
            let tenure = self.engine.take_overdue()?;
            self.holders.get_mut(tenure as usize)?.take()
        })
    }

    /// Remembers whom to wake; answers who was to be woken before, to be dropped outside the lock: dropping a waker
    /// may drop a task, and with it a place that wants the lock.
    #[must_use]
    pub(in crate::runtime) fn register(&mut self, key: Key, waker: Waker) -> Option<Waker> {
        remember(&mut self.wakers, key.index, waker)
    }

    /// The same for the holder of a tenure.
    #[must_use]
    pub(in crate::runtime) fn register_holder(&mut self, tenure: u32, waker: Waker) -> Option<Waker> {
        remember(&mut self.holders, tenure, waker)
    }

    /// Forgets the holder of a tenure. Answers its waker, to be dropped outside the lock.
    #[must_use]
    pub(in crate::runtime) fn unregister_holder(&mut self, tenure: u32) -> Option<Waker> {
        self.holders.get_mut(tenure as usize)?.take()
    }

    /// Remembers whom to wake once nobody is left; answers the waker before, to be dropped outside the lock.
    #[must_use]
    pub(in crate::runtime) fn register_leaving(&mut self, number: u64, waker: Waker) -> Option<Waker> {
        self.leaving.insert(number, waker)
    }

    /// Forgets it, since its future is gone. Answers its waker, to be dropped outside the lock.
    #[must_use]
    pub(in crate::runtime) fn unregister_leaving(&mut self, number: u64) -> Option<Waker> {
        self.leaving.remove(&number)
    }

    /// Forgets whom to wake. Answers it, to be dropped outside the lock.
    #[must_use]
    pub(in crate::runtime) fn unregister(&mut self, key: Key) -> Option<Waker> {
        self.wakers.get_mut(key.index as usize)?.take()
    }

    /// Everybody who waits, to be woken outside the lock.
    pub(in crate::runtime) fn take_all_wakers(&mut self) -> VecDeque<Waker> {
        self.wakers.iter_mut().filter_map(Option::take).collect()
    }
}

fn remember(wakers: &mut Vec<Option<Waker>>, number: u32, waker: Waker) -> Option<Waker> {
    let index = number as usize;
    if wakers.len() <= index {
        wakers.resize(index + 1, None);
    }
    match &wakers[index] {
        Some(known) if known.will_wake(&waker) => Some(waker),
        _ => wakers[index].replace(waker),
    }
}

/// A panic in foreign code under the lock leaves the engine consistent: the engine catches those of laws, and clocks
/// are read before it changes anything. So poison means nothing here.
pub(in crate::runtime) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
