//! The ledger: what callers, handlers and operators saw, and whether it is what was promised.
//!
//! It takes nothing from the product's own counters. The time of an event is that of the world, in milliseconds. What
//! happens in the same millisecond is taken together: a request that ends and one that begins then did not run at once.

mod allowed;
mod book;
mod shared;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::time::Instant;
use tower_admission::Reason;

use self::book::Book;
use super::plan::Plan;

/// What a request is, as far as promises differ.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kinds {
    pub(super) shared: bool,
    pub(super) label: Option<u8>,
    pub(super) partition: u8,
    pub(super) waits: bool,
}

/// Something that was seen in an instance.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Arrived(u64, Kinds),
    Started(u64),
    Ended(u64),
    /// The request has ended, and its work goes on.
    Abandoned(u64),
    Rejected(u64, Reason),
    /// The caller gave up while it waited, or its classifier panicked.
    Cancelled(u64),
    /// The handler was told that its lease is lost.
    Lost(u64),
    /// The handler was told that its slot was taken back.
    Overdue(u64),
    Limit(usize),
    /// The process was killed.
    Died,
    Reloaded {
        limit: usize,
        cap: usize,
    },
    /// Whether decisions don't bind from now on.
    Unbound(bool),
    Draining,
    Drained,
    /// A promise was broken inside of the instance.
    Wrong((&'static str, String)),
}

/// Where an instance notes what is seen in it.
#[derive(Clone, Debug)]
pub(super) struct Log(Arc<Noted>);

#[derive(Debug)]
struct Noted {
    base: Instant,
    started: u64,
    events: Mutex<Vec<(u64, Event)>>,
}

impl Log {
    /// `base` on the clock of the instance's runtime is `started` on that of the world.
    pub(super) fn new(base: Instant, started: u64) -> Self {
        Self(Arc::new(Noted { base, started, events: Mutex::default() }))
    }

    pub(super) fn now(&self) -> u64 {
        let since = Instant::now().saturating_duration_since(self.0.base);
        self.0.started + u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn note(&self, event: Event) {
        let now = self.now();
        self.events().push((now, event));
    }

    pub(super) fn take(&self) -> Vec<(u64, Event)> {
        std::mem::take(&mut *self.events())
    }

    fn events(&self) -> MutexGuard<'_, Vec<(u64, Event)>> {
        self.0.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A promise that was broken.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Broken {
    pub promise: &'static str,
    /// When, in milliseconds since the beginning of the world.
    pub at: u64,
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms: {}: {}", self.at, self.promise, self.what)
    }
}

/// How often each promise was put to the test.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attempts {
    pub requests: u64,
    /// Starts that were compared with the limits of their instance.
    pub starts: u64,
    /// Starts under a shared rule, and how many of them while a bound held as it stands, without an allowance.
    pub shared: u64,
    pub strict: u64,
    /// Times that what a handle says was compared with what callers know.
    pub looks: u64,
    /// Waits that were compared with their bound.
    pub waits: u64,
    pub drains: u64,
    /// Leases that handlers were told to be lost.
    pub lost: u64,
    pub faults: u64,
    /// Units of shared caps that were free again at rest.
    pub returned: u64,
    /// Questions that the store was asked.
    pub asked: u64,
}

impl std::ops::AddAssign for Attempts {
    fn add_assign(&mut self, other: Self) {
        let pairs = [
            (&mut self.requests, other.requests),
            (&mut self.starts, other.starts),
            (&mut self.shared, other.shared),
            (&mut self.strict, other.strict),
            (&mut self.looks, other.looks),
            (&mut self.waits, other.waits),
            (&mut self.drains, other.drains),
            (&mut self.lost, other.lost),
            (&mut self.faults, other.faults),
            (&mut self.returned, other.returned),
            (&mut self.asked, other.asked),
        ];
        for (sum, part) in pairs {
            *sum += part;
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stage {
    Waiting,
    Running,
    Over,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) book: usize,
    pub(super) kinds: Kinds,
    pub(super) arrived: u64,
    pub(super) started: u64,
    pub(super) stage: Stage,
    is_lost: bool,
    pub(super) is_overdue: bool,
    /// Whether decisions did not bind when it was admitted.
    is_unbound: bool,
}

/// All that was seen.
#[derive(Debug)]
pub(super) struct Ledger {
    plan: Plan,
    /// By the number of the request.
    entries: Vec<Option<Entry>>,
    /// By the number of the link: an instance that was started again has another one.
    books: Vec<Book>,
    world: allowed::World,
    /// Requests that run under shared rules.
    sharing: Vec<u64>,
    pub(super) hash: u64,
    pub(super) attempts: Attempts,
    pub(super) broken: Option<Broken>,
}

impl Ledger {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            plan: plan.clone(),
            entries: Vec::new(),
            books: Vec::new(),
            world: allowed::World::default(),
            sharing: Vec::new(),
            hash: 0xcbf2_9ce4_8422_2325,
            attempts: Attempts::default(),
            broken: None,
        }
    }

    pub(super) fn breaks(&mut self, promise: &'static str, at: u64, what: String) {
        self.broken.get_or_insert(Broken { promise, at, what });
    }

    const fn mix(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    }

    /// Takes what happened in all instances before `until`: with its time and the link of its instance, sorted.
    pub(super) fn take(&mut self, events: &[(u64, usize, Event)]) {
        for moment in events.chunk_by(|one, other| one.0 == other.0) {
            let at = moment[0].0;
            let mut started = Vec::new();
            for (_, book, event) in moment {
                if self.plan.is_told {
                    println!("{at} ms, instance {}: {event:?}", self.books[*book].instance);
                }
                self.happened(at, *book, event, &mut started);
            }
            // A slot that is taken back may be what a drain waits for, and its holder is told in the same moment.
            for (_, book, _) in moment.iter().filter(|(_, _, event)| matches!(event, Event::Drained)) {
                self.drained(at, *book);
            }
            self.check(at, &started);
        }
    }

    fn happened(&mut self, at: u64, book: usize, event: &Event, started: &mut Vec<u64>) {
        self.mix(at);
        self.mix(event.word() ^ (book as u64) << 8);
        match event {
            Event::Arrived(id, kinds) => {
                let index = usize::try_from(*id).unwrap_or(usize::MAX);
                if self.entries.len() <= index {
                    self.entries.resize(index + 1, None);
                }
                self.attempts.requests += 1;
                self.entries[index] = Some(Entry {
                    book,
                    kinds: *kinds,
                    arrived: at,
                    started: 0,
                    stage: Stage::Waiting,
                    is_lost: false,
                    is_overdue: false,
                    is_unbound: false,
                });
                self.books[book].waiting.insert(*id);
            }
            Event::Started(id) => {
                self.start(at, book, *id);
                started.push(*id);
            }
            Event::Ended(id) | Event::Abandoned(id) | Event::Rejected(id, _) | Event::Cancelled(id) => {
                if let Event::Rejected(_, reason) = event {
                    self.rejected(at, book, *id, *reason);
                }
                self.over(*id);
            }
            Event::Lost(id) => {
                self.lost(at, *id);
            }
            Event::Overdue(id) => self.entry(*id).is_overdue = true,
            Event::Drained => {}
            Event::Wrong((promise, what)) => {
                self.breaks(promise, at, format!("instance {}: {what}", self.books[book].instance))
            }
            Event::Died => self.died(at, book),
            Event::Limit(_) | Event::Reloaded { .. } | Event::Unbound(_) | Event::Draining => {
                self.books[book].operated(at, event);
            }
        }
    }

    fn entry(&mut self, id: u64) -> &mut Entry {
        let index = usize::try_from(id).unwrap_or(usize::MAX);
        self.entries[index].as_mut().expect("a request arrives before anything else happens to it")
    }

    fn known(&self, id: u64) -> &Entry {
        let index = usize::try_from(id).unwrap_or(usize::MAX);
        self.entries[index].as_ref().expect("a request arrives before anything else happens to it")
    }

    fn start(&mut self, at: u64, book: usize, id: u64) {
        let arrived = self.known(id).arrived;
        let is_unbound = self.books[book].was_unbound(arrived);
        let entry = self.entry(id);
        (entry.stage, entry.started, entry.is_unbound) = (Stage::Running, at, is_unbound);
        let is_shared = entry.kinds.shared;
        self.books[book].waiting.remove(&id);
        self.books[book].running.insert(id);
        if is_shared {
            self.sharing.push(id);
        }
        if let Some(since) = self.books[book].draining.filter(|&since| arrived > since) {
            self.breaks(
                "a drain is for good",
                at,
                format!("request {id} came at {arrived} ms and was admitted; the drain began at {since} ms"),
            );
        }
    }

    fn over(&mut self, id: u64) {
        let entry = self.entry(id);
        let (book, was) = (entry.book, std::mem::replace(&mut entry.stage, Stage::Over));
        self.books[book].waiting.remove(&id);
        if was == Stage::Running {
            self.books[book].running.remove(&id);
            self.sharing.retain(|it| *it != id);
        }
    }

    fn rejected(&mut self, at: u64, book: usize, id: u64, reason: Reason) {
        let is_draining = self.books[book].draining.is_some();
        if reason == Reason::Draining && !is_draining {
            self.breaks("reasons are true", at, format!("request {id} was rejected as {reason}, without a drain"));
        }
        let is_gone = matches!(reason, Reason::StoreUnavailable | Reason::PendingUnavailable);
        let entry = *self.known(id);
        // "A request waits for a dead or slow server at most the time limit." With local shares it may stand behind others that
        // ask, so that a store that takes a third of that limit for each answer is too slow for it.
        let may_stand = self.plan.settings.shared.as_ref().is_some_and(|shared| shared.local_shares);
        if is_gone && entry.kinds.waits && !may_stand && self.is_calm() {
            self.breaks(
                "reasons are true",
                at,
                format!("request {id} was rejected as {reason}, while the store answered"),
            );
        }
    }

    /// A lease is lost only where something keeps it from being renewed.
    fn lost(&mut self, at: u64, id: u64) {
        self.attempts.lost += 1;
        self.entry(id).is_lost = true;
        if self.is_calm() {
            self.breaks("no lease is lost without a cause", at, format!("request {id} lost its lease"));
        }
    }

    /// Whether nothing has kept, or can keep, an answer of the store from coming in time.
    fn is_calm(&self) -> bool {
        let network = &self.plan.settings.network;
        !self.world.is_disturbed && network.lost == 0 && network.jitter <= 5
    }

    fn drained(&mut self, at: u64, book: usize) {
        self.attempts.drains += 1;
        self.books[book].has_drained = true;
        let runs = self.books[book].running.iter().copied().find(|&id| {
            let entry = self.known(id);
            !entry.is_unbound && !entry.is_overdue
        });
        if let Some(id) = runs {
            self.breaks("a drain ends after the last request", at, format!("request {id} still runs"));
        }
    }

    /// An instance begins, with the next link.
    pub(super) fn begin(&mut self, instance: usize, at: u64, limit: usize, cap: usize) {
        self.mix(at ^ (instance as u64) << 32);
        self.books.push(Book::new(instance, at, limit, cap));
    }

    /// Returns how many requests wait or run.
    pub(super) fn live(&self) -> usize {
        self.books.iter().map(|book| book.waiting.len() + book.running.len()).sum()
    }

    /// The process is dead: what it did is over.
    fn died(&mut self, at: u64, book: usize) {
        self.mix(at ^ 0xdead);
        let requests: Vec<_> = self.books[book].running.iter().chain(&self.books[book].waiting).copied().collect();
        requests.into_iter().for_each(|id| self.over(id));
        self.books[book].is_dead = true;
    }

    /// Compares what runs with what may run, after all of a millisecond has happened.
    fn check(&mut self, at: u64, started: &[u64]) {
        for &id in started {
            let entry = *self.known(id);
            if entry.stage != Stage::Running || entry.is_unbound {
                continue;
            }
            self.attempts.starts += 1;
            if let Some((promise, what)) = self.over_local_bound(id, &entry) {
                self.breaks(promise, at, what);
            }
        }
        if started.iter().any(|&id| self.known(id).kinds.shared) {
            self.check_shared(at, started);
        }
    }

    fn over_local_bound(&self, id: u64, entry: &Entry) -> Option<(&'static str, String)> {
        let book = &self.books[entry.book];
        let counted = |it: &&u64| {
            let it = self.known(**it);
            !it.is_unbound && !it.is_overdue
        };
        let running: Vec<_> = book.running.iter().filter(counted).map(|it| self.known(*it).kinds).collect();
        let of = &self.plan.settings;
        let limit = book.limit_since(entry.arrived);
        let told = |count: usize, bound: usize, of: &str| {
            (count > bound)
                .then(|| format!("instance {}: {count} run {of} with request {id}, {bound} may", book.instance))
        };
        if let Some(what) = told(running.len(), limit, "") {
            return Some(("the limit is hard", what));
        }
        if entry.kinds.partition == 1 {
            let count = running.iter().filter(|it| it.partition == 1).count();
            let share = (limit * 3).div_ceil(10).max(1);
            return Some(("a hard cap is hard", told(count, share, "in the partition")?));
        }
        let label = entry.kinds.label?;
        let count = running.iter().filter(|it| it.label == Some(label) && it.shared == entry.kinds.shared).count();
        if of.label_cap > 0
            && let Some(what) = told(count, of.label_cap, "of the label")
        {
            return Some(("a label keeps to its cap", what));
        }
        if entry.kinds.shared {
            let cap = book.cap_since(entry.arrived);
            return Some(("each process keeps to the whole cap", told(count, cap, "of the label")?));
        }
        None
    }

    /// What is left when the world is at rest.
    pub(super) fn at_rest(&mut self, at: u64) {
        for index in 0..self.books.len() {
            let book = &self.books[index];
            let left = (book.waiting.iter().next().copied(), book.running.iter().next().copied());
            let (instance, never_drained) =
                (book.instance, book.draining.is_some() && !book.has_drained && !book.is_dead);
            if let (Some(id), _) | (None, Some(id)) = left {
                self.breaks(
                    "every request ends",
                    at,
                    format!("instance {instance}: request {id} is still there: {:?}", self.known(id)),
                );
            }
            if never_drained {
                self.breaks("a drain ends", at, format!("instance {instance} drains for ever"));
            }
        }
    }
}

impl Event {
    /// Returns a number for the hash.
    fn word(&self) -> u64 {
        match self {
            Self::Arrived(id, _) => 1 | id << 24,
            Self::Started(id) => 2 | id << 24,
            Self::Ended(id) => 3 | id << 24,
            Self::Abandoned(id) => 4 | id << 24,
            Self::Rejected(id, reason) => 5 | id << 24 | (*reason as u64) << 16,
            Self::Cancelled(id) => 6 | id << 24,
            Self::Lost(id) => 7 | id << 24,
            Self::Overdue(id) => 8 | id << 24,
            Self::Limit(limit) => 9 | (*limit as u64) << 24,
            Self::Died => 10,
            Self::Reloaded { limit, cap } => 11 | (*limit as u64) << 24 | (*cap as u64) << 40,
            Self::Unbound(is_unbound) => 12 | u64::from(*is_unbound) << 24,
            Self::Draining => 13,
            Self::Drained => 14,
            Self::Wrong(_) => 15,
        }
    }
}
