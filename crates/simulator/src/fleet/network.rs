//! The network, and the store at its end: the [`MemoryStore`] that ships, behind messages that are late, lost or repeated.
//!
//! No message is faster than a round. So what an instance does in a round reaches no other instance in the same round, and
//! the instances can be stepped one after another.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tower_admission::{
    Clock,
    store::{MemoryStore, Notice, Notices, Store as _},
};

/// Something that happens in the process that an answer comes to.
pub(super) type Delivery = Box<dyn FnOnce() + Send>;

/// A question: what it does to a store, and what becomes of the answer.
pub(super) type Question = Arc<dyn Fn(&MemoryStore) -> Delivery + Send + Sync>;

/// A question on its way.
pub(super) struct Parcel {
    pub(super) question: Question,
    pub(super) link: usize,
    /// Time that the answer takes; none where it is lost.
    pub(super) back: Option<u64>,
}

/// One end of the network, at an instance.
#[derive(Default)]
struct End {
    is_alive: bool,
    no_questions: bool,
    no_answers: bool,
    inbox: Vec<Delivery>,
    notices: Option<tokio::sync::broadcast::Sender<Notice>>,
}

#[derive(Clone, Debug, Default)]
struct StoreClock(Arc<AtomicU64>);

impl Clock for StoreClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// A store, and the notices that it sends.
struct Server {
    store: MemoryStore,
    clock: StoreClock,
    notices: Notices,
}

impl Server {
    fn new(now: u64) -> Self {
        let clock = StoreClock(Arc::new(AtomicU64::new(now)));
        let store = MemoryStore::with_clock(clock.clone());
        Self { notices: store.notices(), store, clock }
    }
}

/// The messages on their way, and the store.
pub(super) struct Network(Mutex<State>);

struct State {
    ends: Vec<End>,
    questions: BTreeMap<(u64, usize, u64), Parcel>,
    answers: BTreeMap<(u64, usize, u64), Delivery>,
    sent: u64,
    server: Server,
    /// The store of every second instance, for a control.
    other: Option<MemoryStore>,
    /// What the clock of the store shows at the beginning of the world.
    clock_at: u64,
    /// A replica, which hears of everything this much later; and what it has not heard of.
    replica: Option<(Server, u64)>,
    unheard: BTreeMap<(u64, u64), Question>,
    is_gone: bool,
    slow_by: u64,
    lost: u64,
    round: u64,
    /// Questions that the store was asked.
    asked: u64,
    rng: crate::random::Stream,
}

impl Network {
    /// `clock_at`: what the clock of the store shows. With a replica, that is behind by so much.
    pub(super) fn new(seed: u64, round: u64, lost: u64, clock_at: u64, behind: Option<u64>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            ends: Vec::new(),
            questions: BTreeMap::new(),
            answers: BTreeMap::new(),
            sent: 0,
            server: Server::new(clock_at),
            other: None,
            clock_at,
            replica: behind.map(|behind| (Server::new(clock_at), behind)),
            unheard: BTreeMap::new(),
            is_gone: false,
            slow_by: 0,
            lost,
            round,
            asked: 0,
            rng: crate::random::Stream::new(seed, 104, 0),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes an end for an instance that was started.
    pub(super) fn connect(&self, notices: tokio::sync::broadcast::Sender<Notice>) -> usize {
        let mut state = self.state();
        state.ends.push(End { is_alive: true, notices: Some(notices), ..End::default() });
        state.ends.len() - 1
    }

    /// The process at this end is dead: it neither sends nor hears any more.
    pub(super) fn disconnect(&self, link: usize) {
        self.state().ends[link] = End::default();
    }

    pub(super) fn cut(&self, link: usize, questions: bool, answers: bool) {
        let end = &mut self.state().ends[link];
        (end.no_questions, end.no_answers) = (questions, answers);
    }

    /// Sends a question that is there at `at`.
    pub(super) fn send(&self, at: u64, parcel: Parcel) {
        let mut state = self.state();
        let end = &state.ends[parcel.link];
        if end.is_alive && !end.no_questions {
            state.sent += 1;
            let sent = state.sent;
            state.questions.insert((at, parcel.link, sent), parcel);
        }
    }

    /// Returns the answers and notices that have come for an instance.
    pub(super) fn inbox(&self, link: usize) -> Vec<Delivery> {
        std::mem::take(&mut self.state().ends[link].inbox)
    }

    /// Has everything happen that is due at `now`. Closures of others run outside of the lock.
    pub(super) fn step(&self, now: u64) {
        loop {
            let Some((at, parcel, store)) = self.next_question(now) else { break };
            let delivery = (parcel.question)(&store);
            self.state().answer(at.max(now), &parcel, delivery);
        }
        self.replicate(now);
        let mut state = self.state();
        state.send_notices(now);
        while let Some(first) = state.answers.first_entry().filter(|entry| entry.key().0 <= now) {
            let link = first.key().1;
            let delivery = first.remove();
            let end = &mut state.ends[link];
            if end.is_alive {
                end.inbox.push(delivery);
            }
        }
    }

    /// Returns the next question that is due, with the store whose clock shows the time.
    fn next_question(&self, now: u64) -> Option<(u64, Parcel, MemoryStore)> {
        let mut state = self.state();
        loop {
            let entry = state.questions.first_entry().filter(|entry| entry.key().0 <= now)?;
            let ((at, ..), parcel) = (*entry.key(), entry.remove());
            if state.is_gone {
                continue;
            }
            state.asked += 1;
            state.server.clock.0.fetch_max(state.clock_at + at, Ordering::Relaxed);
            if state.replica.is_some() {
                let number = state.asked;
                state.unheard.insert((at, number), Arc::clone(&parcel.question));
            }
            let other = state.other.clone().filter(|_| parcel.link % 2 == 1);
            return Some((at, parcel, other.unwrap_or_else(|| state.server.store.clone())));
        }
    }

    fn replicate(&self, now: u64) {
        loop {
            let (question, store) = {
                let mut state = self.state();
                let Some(&(ref replica, behind)) = state.replica.as_ref() else { return };
                let store = replica.store.clone();
                let clock = replica.clock.clone();
                let clock_at = state.clock_at;
                let heard = |at: u64| at + behind <= now;
                let Some(entry) = state.unheard.first_entry().filter(|entry| heard(entry.key().0)) else { return };
                clock.0.fetch_max(clock_at + entry.key().0, Ordering::Relaxed);
                (entry.remove(), store)
            };
            // The answer is not sent.
            drop(question(&store));
        }
    }

    /// Has every second instance ask a store of its own.
    pub(super) fn split(&self) {
        let mut state = self.state();
        state.other = Some(MemoryStore::with_clock(state.server.clock.clone()));
    }

    pub(super) fn set_gone(&self, is_gone: bool) {
        self.state().is_gone = is_gone;
    }

    pub(super) fn set_slow(&self, by: u64) {
        self.state().slow_by = by;
    }

    /// The store is started again, empty.
    pub(super) fn empty(&self) {
        let mut state = self.state();
        let now = state.server.clock.0.load(Ordering::Relaxed);
        state.server = Server::new(now);
        state.replica = None;
    }

    /// The replica takes over, without what it has not heard of.
    pub(super) fn fail_over(&self) {
        let mut state = self.state();
        let now = state.server.clock.0.load(Ordering::Relaxed);
        if let Some((replica, _)) = state.replica.take() {
            replica.clock.0.store(now, Ordering::Relaxed);
            state.server = replica;
        }
        state.unheard.clear();
    }

    pub(super) fn jump(&self, by: u64) {
        let mut state = self.state();
        state.clock_at += by;
        state.server.clock.0.fetch_add(by, Ordering::Relaxed);
    }

    /// From now on nothing is lost.
    pub(super) fn heal(&self) {
        let mut state = self.state();
        (state.is_gone, state.slow_by, state.lost) = (false, 0, 0);
        state.ends.iter_mut().for_each(|end| (end.no_questions, end.no_answers) = (false, false));
    }

    /// Forgets all messages that are on their way.
    pub(super) fn clear(&self) {
        let (questions, answers, ends, unheard) = {
            let mut state = self.state();
            let state = &mut *state;
            let questions = std::mem::take(&mut state.questions);
            let ends = state.ends.iter_mut().map(std::mem::take).collect::<Vec<_>>();
            (questions, std::mem::take(&mut state.answers), ends, std::mem::take(&mut state.unheard))
        };
        // Outside of the lock: a client may be dropped with its last message.
        drop((questions, answers, ends, unheard));
    }

    /// Returns the store itself, at `now`: for a look that no instance has.
    pub(super) fn store_at(&self, now: u64) -> MemoryStore {
        let state = self.state();
        state.server.clock.0.fetch_max(state.clock_at + now, Ordering::Relaxed);
        state.server.store.clone()
    }

    pub(super) fn asked(&self) -> u64 {
        self.state().asked
    }
}

impl State {
    fn answer(&mut self, at: u64, parcel: &Parcel, delivery: Delivery) {
        let end = &self.ends[parcel.link];
        let Some(back) = parcel.back.filter(|_| end.is_alive && !end.no_answers) else { return };
        self.sent += 1;
        self.answers.insert((at + back + self.slow_by, parcel.link, self.sent), delivery);
    }

    fn send_notices(&mut self, now: u64) {
        while let Some(notice) = next(&mut self.server.notices) {
            for link in 0..self.ends.len() {
                let end = &self.ends[link];
                let Some(to) = end.notices.clone().filter(|_| end.is_alive && !end.no_answers) else { continue };
                if self.rng.happens(self.lost) {
                    continue;
                }
                self.sent += 1;
                let notice = notice.clone();
                let delivery: Delivery = Box::new(move || drop(to.send(notice)));
                self.answers.insert((now + self.round, link, self.sent), delivery);
            }
        }
    }
}

/// Returns a notice that is there.
fn next(notices: &mut Notices) -> Option<Notice> {
    match pin!(notices.next()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(notice) => notice,
        Poll::Pending => None,
    }
}

/// Returns what a future of the [`MemoryStore`] answers, which never waits.
pub(super) fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("the store in memory has waited"),
    }
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}
