//! The one lock, and the one function that takes it.

use std::{
    collections::BTreeMap,
    fmt, mem,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{
    drivers::Drivers,
    foreign::wake,
    lock::lock,
    partition_names::PartitionNames,
    quiet::{Lanes, LentSlot, Next},
    recorded::SettingsText,
    slots::SlotRef,
    standing_refusals,
    state::State,
};
use crate::{
    Outcome, Timestamp,
    clock::TimeSource,
    engine::{Engine, PartitionId, Refusal, plan::Plan},
    keys::PartitionKey,
    ticket::Ticket,
};

/// The engine of a handle under its lock, and what is read without it.
pub(crate) struct Core {
    /// What requests enter without the lock while all is quiet.
    lanes: &'static Lanes,
    state: Mutex<State>,
    pub(in crate::runtime) time: TimeSource,
    pub(in crate::runtime) name: Arc<str>,
    /// What tells this handle from all others of the process, also from those that are gone.
    serial: u64,
    pub(in crate::runtime) partitions: PartitionNames,
    pub(in crate::runtime) warnings: Mutex<Vec<String>>,
    pub(in crate::runtime) drivers: Drivers,
}

impl Core {
    pub(in crate::runtime) fn new(
        name: Arc<str>,
        engine: Engine,
        time: TimeSource,
        lanes: &'static Lanes,
        warnings: Vec<String>,
    ) -> Self {
        static HANDLES: AtomicU64 = AtomicU64::new(0);
        let partitions = PartitionNames::of(engine.partitions().map(|(_, name, _)| name));
        Self {
            serial: HANDLES.fetch_add(1, Ordering::Relaxed),
            state: Mutex::new(State::new(engine, lanes)),
            lanes,
            time,
            name,
            partitions,
            warnings: Mutex::new(warnings),
            drivers: Drivers::default(),
        }
    }

    /// Locks, lets `step` talk to the engine, unlocks, and wakes the waiters whose wait ended.
    ///
    /// Where a time is needed for certain, the clock is read before: it takes longer than all the rest. Steps that wait
    /// for the lock meanwhile may then bring an earlier time than the last one, and the engine takes the later of the
    /// two. No closure of the user's, no waker and no recorder runs in here; laws do, and so do clocks now and then.
    pub(in crate::runtime) fn with_engine<R>(&self, step: impl FnOnce(&mut State, &TimeSource) -> R) -> R {
        self.turn(lock(&self.state), step)
    }

    fn turn<R>(&self, mut state: MutexGuard<'_, State>, step: impl FnOnce(&mut State, &TimeSource) -> R) -> R {
        state.recall(self.lanes);
        state.open_row();
        let answer = step(&mut state, &self.time);
        state.close_row();
        state.lend(self.lanes);
        let next = state.next_wakeup();
        if next < state.schedule.armed || state.engine.has_notices() || state.engine.is_closed() {
            self.tell(state, next);
        }
        answer
    }

    /// Takes a lent slot of a partition, if all is quiet: a request that gets `None` asks the engine.
    #[inline]
    pub(in crate::runtime) fn enter(&self, partition: PartitionId) -> Option<LentSlot> {
        self.lanes.enter(partition, || self.time.now())
    }

    /// Takes a slot that was lent to a label, if all is quiet.
    #[inline]
    pub(in crate::runtime) fn enter_label(&self, partition: PartitionId, hash: u64) -> Option<LentSlot> {
        self.lanes.enter_label(partition, hash, || self.time.now())
    }

    /// Takes the refusal that stands for all requests of a partition, if one does and the request asks for nothing but a slot, as
    /// does a request without a ticket.
    #[inline]
    pub(crate) fn standing_refusal(&self, partition: PartitionId, ticket: Option<&Ticket<'_>>) -> Option<Refusal> {
        let is_plain = ticket.is_none_or(Ticket::is_plain);
        if is_plain { standing_refusals::take(self.lanes, partition, || self.time.now()) } else { None }
    }

    /// Looks at the lanes, as a request that left says. Returns whether no driver has looked for long.
    pub(in crate::runtime) fn look_at_lanes(&self, next: Next) -> bool {
        match next {
            Next::Nothing => false,
            Next::Collect => {
                // Other requests enter meanwhile.
                let mut state = lock(&self.state);
                state.collect(self.lanes);
                state.lend(self.lanes);
                let now = state.engine.now();
                state.schedule.is_stale(now)
            }
            Next::Recall => {
                // The waiter that gets the slot may be too late for it by now.
                let now = self.time.now();
                let mut state = lock(&self.state);
                state.engine.advance(now);
                self.turn(state, |state, _| state.schedule.is_stale(now))
            }
        }
    }

    /// Takes a request over from the quiet path, as if the engine had admitted it.
    #[cold]
    pub(in crate::runtime) fn take_over(&self, lent: &LentSlot, outcome: Option<Outcome>) -> SlotRef {
        let now = self.time.now();
        self.with_engine(|state, _| state.take_over(self.lanes, lent, now, outcome))
    }

    /// Takes new settings in a turn, and the names of the partitions that come with them.
    pub(in crate::runtime) fn reload(&self, state: &mut State, now: Timestamp, plan: Plan, text: SettingsText) {
        let learns_hold_times = plan.law.learns_hold_times();
        self.partitions.add(state.reload(now, plan, text));
        self.lanes.note_settings(state.engine.default_deadline(), learns_hold_times);
    }

    /// Closes the lanes, for good.
    pub(in crate::runtime) fn close_lanes(&self) {
        lock(&self.state).recall(self.lanes);
    }

    /// Wakes the waiters whose wait ended, never under the lock: the first of them without an array and a second lock.
    fn tell(&self, mut state: MutexGuard<'_, State>, next: Timestamp) {
        let earlier = next < state.schedule.armed;
        state.schedule.armed = state.schedule.armed.min(next);
        let first = state.take_waker();
        let is_more = state.engine.has_notices() || state.engine.is_drained();
        drop(state);
        first.into_iter().for_each(wake);
        if is_more {
            self.tell_all();
        }
        if earlier {
            self.drivers.arm(next);
        }
    }

    /// Wakes all that are left, a batch at a time, and the futures that wait until the handle is drained.
    #[cold]
    fn tell_all(&self) {
        let mut state = lock(&self.state);
        while state.engine.has_notices() {
            let batch = state.take_batch();
            drop(state);
            batch.into_iter().for_each(wake);
            state = lock(&self.state);
        }
        let left = if state.engine.is_drained() { mem::take(&mut state.wakers.leaving) } else { BTreeMap::new() };
        drop(state);
        left.into_values().for_each(wake);
    }

    /// Returns the number of the partition of this name; the default one, if none has this name.
    #[inline]
    pub(crate) fn partition(&self, name: Option<&(impl AsRef<[u8]> + ?Sized)>) -> PartitionId {
        name.map_or(PartitionId::DEFAULT, |name| self.partitions.find(name.as_ref()))
    }

    /// Returns the number of the partition of a request.
    #[inline]
    pub(crate) fn partition_of(&self, ticket: &Ticket<'_>) -> PartitionId {
        let key = ticket.partition_key().and_then(|key| key.index_in(self.serial)).and_then(PartitionId::from_index);
        key.unwrap_or_else(|| self.partition(ticket.partition_name()))
    }

    /// Returns the key of a partition; `None` if none has this name.
    pub(in crate::runtime) fn partition_key(&self, name: &str) -> Option<PartitionKey> {
        let number = self.partition(Some(name));
        let found = self.partition_name(number);
        (*found == *name).then(|| PartitionKey::new(self.serial, number.index(), found))
    }

    /// Returns the name of the partition with this number.
    #[inline]
    pub(crate) fn partition_name(&self, partition: PartitionId) -> Arc<str> {
        self.partitions.name(partition)
    }

    /// Notes a warning of a likely mistake, once.
    pub(crate) fn warn(&self, warning: &str) {
        let mut warnings = lock(&self.warnings);
        if warnings.len() < 64 && !warnings.iter().any(|known| known == warning) {
            warnings.push(warning.to_owned());
        }
    }
}

/// Shows only what a reader of logs wants to see; the snapshot has the rest.
impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partitions = &self.partitions.built.names;
        f.debug_struct("Shared").field("name", &self.name).field("partitions", partitions).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Core {
        /// Returns how many requests of the default partition took a refusal that stood.
        pub(in crate::runtime) fn taken_from_standing_refusals(&self) -> u64 {
            self.lanes.standing_refusal(PartitionId::DEFAULT).map_or(0, |it| it.taken())
        }

        /// Loses the sample of the request that left last.
        pub(in crate::runtime) fn lose_sample(&self) {
            self.lanes.overwrite_newest();
        }

        /// Has the engine decide about each request, in each state.
        pub(crate) fn never_lend(&self) {
            self.with_engine(|state, _| state.never_lends = true);
        }

        /// Tells the lanes what runs elsewhere, as each collection does.
        pub(crate) fn count_lanes(&self) {
            let _state = lock(&self.state);
            self.lanes.tell_what_runs_elsewhere();
        }
    }
}
