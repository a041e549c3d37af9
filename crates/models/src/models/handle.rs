//! A handle: the lanes as they ship, the counting engine under a lock, and the turns of `src/runtime/core/turn.rs`.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
};

use loom::{
    sync::{
        Mutex,
        atomic::{AtomicUsize as LoomUsize, Ordering::Relaxed},
    },
    thread::{self, Thread},
};

use super::{
    super::{Lanes, Lending, LentSlot, Next},
    Inside,
};
use crate::{
    Mistake,
    engine::{Engine, PartitionId},
    outcome::Outcome,
    time::Timestamp,
};

/// The lanes that a handle may have.
pub(super) const LANES: [PartitionId; 2] = [PartitionId::DEFAULT, PartitionId::SECOND];

/// A handle.
#[derive(Debug)]
pub(super) struct Handle {
    lanes: Lanes,
    state: Mutex<State>,
    may_lend: AtomicBool,
    pub(super) inside: Inside,
    /// Requests that ran on lent slots, and those that were admitted by the engine.
    pub(super) on_lent: AtomicUsize,
    /// Those of them that were timed and have left.
    pub(super) timed: AtomicUsize,
    by_engine: AtomicUsize,
    /// What requests do while they run on lent slots: other threads may go on there. It orders nothing.
    work: LoomUsize,
    mistake: Mistake,
}

#[derive(Debug)]
struct State {
    engine: Engine,
    lending: Lending,
    wakers: BTreeMap<usize, Thread>,
}

impl Handle {
    /// A handle whose slots are lent, all to one lane.
    pub(super) fn new(limit: usize, mistake: Mistake) -> Arc<Self> {
        Self::with_lanes(1, limit, mistake)
    }

    /// A handle whose slots are lent to the lanes of this number of partitions, one each.
    pub(super) fn with_lanes(partitions: usize, limit: usize, mistake: Mistake) -> Arc<Self> {
        Self::of(Lanes::new(partitions, 1), limit, mistake)
    }

    /// A handle whose slots are lent to this number of lanes of one partition.
    pub(super) fn with_lanes_per_partition(per_partition: usize, limit: usize) -> Arc<Self> {
        Self::of(Lanes::new(1, per_partition), limit, Mistake::None)
    }

    fn of(lanes: Lanes, limit: usize, mistake: Mistake) -> Arc<Self> {
        let (engine, lending) = (Engine::new(limit), Lending::new(&lanes));
        let handle = Self {
            state: Mutex::new(State { engine, lending, wakers: BTreeMap::new() }),
            lanes,
            may_lend: AtomicBool::new(true),
            inside: Inside::new(limit),
            on_lent: AtomicUsize::new(0),
            timed: AtomicUsize::new(0),
            by_engine: AtomicUsize::new(0),
            work: LoomUsize::new(0),
            mistake,
        };
        handle.with_engine(|_| ());
        Arc::new(handle)
    }

    /// `Core::with_engine`: what is lent is called back, and lent again at the end; waiters are woken without the lock.
    pub(super) fn with_engine<R>(&self, step: impl FnOnce(&mut Engine) -> R) -> R {
        self.turn(|state, _| step(&mut state.engine))
    }

    fn turn<R>(&self, step: impl FnOnce(&mut State, &Lanes) -> R) -> R {
        let mut state = self.state.lock().expect("no thread panicked");
        let State { engine, lending, .. } = &mut *state;
        lending.recall(&self.lanes, engine);
        self.count_grants(engine);
        let answer = step(&mut state, &self.lanes);
        let State { engine, lending, .. } = &mut *state;
        self.count_grants(engine);
        lending.lend(&self.lanes, engine, self.may_lend.load(SeqCst));
        while let Some(request) = state.engine.take_notice() {
            let waker = state.wakers.remove(&request);
            drop(state);
            if let Some(waker) = waker {
                waker.unpark();
            }
            state = self.state.lock().expect("no thread panicked");
        }
        answer
    }

    /// A slot is taken as soon as it is granted.
    fn count_grants(&self, engine: &mut Engine) {
        (0..engine.take_new_grants()).for_each(|_| self.inside.enter());
    }

    /// `Core::look_at_lanes`, for samples to be collected.
    fn collect(&self) {
        let mut state = self.state.lock().expect("no thread panicked");
        let State { engine, lending, .. } = &mut *state;
        if lending.collect(&self.lanes, engine) {
            lending.recall(&self.lanes, engine);
        }
        self.count_grants(engine);
        lending.lend(&self.lanes, engine, self.may_lend.load(SeqCst));
    }

    /// `Core::enter`, in the first lane.
    pub(super) fn enter(&self) -> Option<LentSlot> {
        self.enter_lane(LANES[0])
    }

    /// `Core::enter`, in this lane.
    pub(super) fn enter_lane(&self, lane: PartitionId) -> Option<LentSlot> {
        self.entered(self.lanes.enter(lane, || Timestamp::from_nanos(7)))
    }

    /// `Core::enter` of a thread of this number, in the first partition.
    pub(super) fn enter_as(&self, thread: usize) -> Option<LentSlot> {
        let entered = self.lanes.enter_any(LANES[0], thread);
        self.entered(entered.map(|(lane, it)| LentSlot::new(Timestamp::from_nanos(7), u32::MAX, it.used, lane)))
    }

    /// From here on one in so many requests is timed, a power of two.
    pub(super) fn time_one_in(&self, requests: u64) {
        self.lanes.untimed.store(requests - 1, Relaxed);
    }

    /// Makes lanes for labels. Memory that a thread made later would be unknown to loom.
    pub(super) fn make_label_lanes(&self, lanes: usize) {
        for it in self.lanes.labelled.iter().take(lanes) {
            it.is_for(0);
        }
    }

    /// A request of this label of the first partition that asks the engine, as nothing else runs.
    pub(super) fn ask_for_label(&self, label: u64) {
        self.turn(|state, _| state.lending.want(LANES[0], label));
    }

    /// `Core::enter_label`, in the first partition. The engine knows of each slot that a request has which label it is for.
    pub(super) fn enter_label(&self, label: u64) -> Option<LentSlot> {
        let lent = self.entered(self.lanes.enter_label(LANES[0], label, || Timestamp::from_nanos(7)));
        if let Some(lent) = &lent {
            let borrower = self.state.lock().expect("no thread panicked").lending.borrower(lent);
            assert_eq!(borrower.label.0, label, "the slot is for requests with this label");
        }
        lent
    }

    fn entered(&self, lent: Option<LentSlot>) -> Option<LentSlot> {
        if lent.is_some() {
            self.inside.enter();
            self.on_lent.fetch_add(1, SeqCst);
        }
        lent
    }

    /// `LaneArena::leave`.
    pub(super) fn leave(&self, lent: &LentSlot, end: u64) {
        self.inside.leave();
        self.timed.fetch_add(usize::from(lent.is_timed()), SeqCst);
        let is_needed = !lent.is_observed || self.lanes.are_tight(lent);
        let end = if is_needed { Timestamp::from_nanos(end) } else { Timestamp::NEVER };
        self.go_on(self.lanes.leave(lent, end, Outcome::Success));
    }

    /// `LaneArena::observe`.
    pub(super) fn observe(&self, lent: &mut LentSlot, end: u64) {
        let next = self.lanes.observe(lent, Timestamp::from_nanos(end), Outcome::Success);
        self.go_on(next);
    }

    fn go_on(&self, next: Next) {
        match next {
            Next::Nothing => {}
            Next::Collect => self.collect(),
            Next::Recall => self.with_engine(|_| ()),
        }
    }

    /// `Core::take_over`: from now on the engine counts the slot.
    pub(super) fn take_over(&self, lent: &LentSlot) {
        self.turn(|state, lanes| state.lending.take_over(lanes, lent));
    }

    /// A request asks the engine. Returns whether it got a slot; it waits, if not.
    pub(super) fn arrive(&self, request: usize) -> bool {
        let is_admitted = self.with_engine(|engine| {
            let is_admitted = engine.arrive(request);
            if is_admitted {
                self.inside.enter();
            }
            is_admitted
        });
        self.by_engine.fetch_add(usize::from(is_admitted), SeqCst);
        is_admitted
    }

    /// Polls a waiter: it has a slot, or its waker is registered in the same turn.
    pub(super) fn poll(&self, request: usize) -> bool {
        let waker = thread::current();
        let fetch = |state: &mut State| state.engine.fetch(request);
        let is_granted = if self.mistake == Mistake::WaitsInTwoTurns {
            let is_granted = self.turn(|state, _| fetch(state));
            self.turn(|state, _| state.wakers.insert(request, waker));
            is_granted
        } else {
            self.turn(|state, _| {
                let is_granted = fetch(state);
                if !is_granted {
                    state.wakers.insert(request, waker);
                }
                is_granted
            })
        };
        self.by_engine.fetch_add(usize::from(is_granted), SeqCst);
        is_granted
    }

    /// Drops a waiter.
    pub(super) fn cancel(&self, request: usize) {
        self.turn(|state, _| {
            state.wakers.remove(&request);
            if state.engine.cancel(request) {
                self.inside.leave();
                if self.mistake != Mistake::KeepsWhatItDidNotFetch {
                    state.engine.finish();
                }
            }
        });
    }

    /// Gives back a slot that the engine counts.
    pub(super) fn finish(&self) {
        self.with_engine(|engine| {
            self.inside.leave();
            engine.finish();
        });
    }

    /// A request from its arrival to its end: on a lent slot, on a slot of the engine, or after a wait.
    pub(super) fn serve(&self, request: usize) {
        self.serve_in(LANES[0], request);
    }

    /// The same for a request that enters this lane.
    pub(super) fn serve_in(&self, lane: PartitionId, request: usize) {
        self.serve_after(self.enter_lane(lane), request);
    }

    /// The same for a request of a thread of this number.
    pub(super) fn serve_as(&self, thread: usize, request: usize) {
        self.serve_after(self.enter_as(thread), request);
    }

    /// What a request does while it runs. Without it loom would take what counts here for independent of other threads.
    pub(super) fn work(&self) {
        self.work.fetch_add(1, Relaxed);
    }

    fn serve_after(&self, lent: Option<LentSlot>, request: usize) {
        if let Some(lent) = lent {
            self.work();
            self.leave(&lent, 9);
            return;
        }
        if !self.arrive(request) {
            while !self.poll(request) {
                thread::park();
            }
        }
        self.finish();
    }

    /// Returns how many requests were admitted.
    pub(super) fn served(&self) -> usize {
        self.on_lent.load(SeqCst) + self.by_engine.load(SeqCst)
    }

    /// Sets the limit: from here on, no request enters beyond it.
    pub(super) fn set_limit(&self, limit: usize) {
        self.with_engine(|engine| {
            self.inside.set_limit(limit);
            engine.set_limit(limit);
        });
    }

    pub(super) fn spawn(self: &Arc<Self>, step: impl FnOnce(&Self) + 'static) -> thread::JoinHandle<()> {
        let handle = Arc::clone(self);
        thread::spawn(move || step(&handle))
    }

    /// From here on no slot is lent.
    pub(super) fn stop_lending(&self) {
        self.may_lend.store(false, SeqCst);
    }

    /// At rest: nothing runs or waits, no slot is lost, and samples are whole. Returns the engine's counts.
    pub(super) fn count(&self) -> Counts {
        self.with_engine(|engine| {
            assert_eq!((engine.running(), engine.waiting()), (0, 0), "nothing runs or waits");
            assert_eq!(engine.free_slots(), engine.limit(), "no slot is lost");
            let samples = engine.samples.len();
            let wrong = engine.samples.iter().filter(|(start, end)| start.as_nanos() != 7 || end.as_nanos() < 9).count();
            assert_eq!(wrong, 0, "samples are whole: {:?}", engine.samples);
            let (holds, untimed) = (engine.holds, engine.untimed);
            Counts { admitted: engine.admitted, left: engine.left, samples, holds, untimed }
        })
    }

    /// At rest: nothing runs or waits, and all slots are free or lent. Returns the engine's counts.
    pub(super) fn check(&self) -> Counts {
        assert_eq!(self.inside.now(), 0);
        let counts = self.count();
        // Slots are lent after some quiet turns: these are enough.
        for _ in 0..6 {
            self.with_engine(|_| ());
        }
        let limit = self.inside.limit();
        let enter = || LANES.into_iter().find_map(|lane| self.enter_lane(lane));
        let free = std::iter::from_fn(enter).take(9).count();
        let elsewhere = self.with_engine(|engine| engine.running());
        assert!(free == limit || free == 0, "all slots are lent again, or none");
        assert_eq!(elsewhere, free, "the lanes and the engine agree");
        counts
    }
}

/// What the engine counted of requests on lent slots.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Counts {
    pub(super) admitted: u64,
    pub(super) left: u64,
    pub(super) samples: usize,
    pub(super) holds: usize,
    pub(super) untimed: u64,
}
