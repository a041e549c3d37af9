//! An instance of the service: the handle that ships, on a runtime of its own, with its callers and handlers.

use std::{
    collections::BTreeMap,
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    runtime::Runtime,
    sync::Semaphore,
    task::yield_now,
    time::{Instant, advance, sleep, sleep_until},
};
use tower_admission::{
    Admission, AdmissionBuilder, Cap, ClassLimits, DrainMode, Labels, Mode, Rate, Rules, WhenFull,
    limit::{Aimd, Fixed, Limit},
    percent,
    store::{Keys, Leases, OnStoreFailure},
};

use super::{
    clock::InstanceClock,
    law::Restless,
    ledger::{Event, Kinds, Log},
    link::Link,
    network::Network,
    plan::{Control, Discipline, Law, Plan, Settings, WhenGone},
    request::{Request, label},
};

/// The longest wait in the room for guarantees, in milliseconds, as the guarantees page has it.
const LONGEST_IN_ROOM: u64 = 500;

/// The prefix of all keys.
pub(super) const PREFIX: &str = "fleet";

/// Something that is done in an instance.
#[derive(Debug)]
pub(super) enum Command {
    Serve(Request),
    Reload {
        limit: usize,
        cap: usize,
    },
    Drain {
        serves: bool,
    },
    SetMode(Mode),
    ClockJumps(i64),
    ClockStands,
    ClockGoesOn,
    /// Whatever is stuck goes on.
    Rest,
    /// Compare what the handle says with what callers and handlers know.
    Look,
}

/// An instance that runs.
pub(super) struct Instance {
    here: Here,
    link: Link,
    runtime: Runtime,
    /// When it was started and to when it has run, on the clock of the world.
    started: u64,
    now: u64,
    base: Instant,
    pub(super) inbox: Vec<Command>,
}

/// What the requests of an instance know of it.
#[derive(Clone)]
pub(super) struct Here(Arc<Inside>);

struct Inside {
    admission: Admission,
    settings: Settings,
    clock: InstanceClock,
    log: Log,
    counts: Mutex<Counts>,
    /// Closed at rest. Wakes in order, other than Tokio's `watch`.
    rest: Semaphore,
    control: Option<Control>,
}

/// What callers and handlers know.
#[derive(Default)]
struct Counts {
    waiting: BTreeMap<u64, (u64, Kinds)>,
    running: BTreeMap<u64, Kinds>,
    /// The first request that came after decisions began to bind again, and whether they bind.
    bound_from: u64,
    is_unbound: bool,
    newest: u64,
    is_draining: bool,
    /// No wait is judged before: the process was stopped until then.
    lenient_until: u64,
    looks: u64,
    judged: u64,
}

impl Here {
    pub(super) fn note(&self, event: Event) {
        {
            let mut counts = self.counts();
            match &event {
                Event::Arrived(id, kinds) => {
                    counts.newest = *id;
                    let now = self.0.log.now();
                    counts.waiting.insert(*id, (now, *kinds));
                }
                Event::Started(id) => {
                    if let Some((_, kinds)) = counts.waiting.remove(id) {
                        counts.running.insert(*id, kinds);
                    }
                }
                Event::Rejected(id, _) | Event::Cancelled(id) => {
                    counts.waiting.remove(id);
                    counts.running.remove(id);
                }
                Event::Ended(id) | Event::Abandoned(id) | Event::Overdue(id) => {
                    counts.running.remove(id);
                }
                _ => {}
            }
        }
        self.0.log.note(event);
    }

    pub(super) fn admission(&self) -> Admission {
        self.0.admission.clone()
    }

    pub(super) fn has_partitions(&self) -> bool {
        self.0.settings.partitions
    }

    /// Whether a handler keeps its permit for ever, for a control.
    pub(super) fn keeps_permits(&self) -> bool {
        self.0.control == Some(Control::KeepsPermits)
    }

    /// Waits until the world is at rest.
    pub(super) async fn rest(&self) {
        drop(self.0.rest.acquire().await);
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the longest wait of a request, in milliseconds, whatever is full.
    fn longest_wait(&self) -> u64 {
        let of = &self.0.settings;
        let wait = if of.queue > 0 { of.admission_timeout + of.max_wait } else { of.wait_timeout };
        // A request within the share of its partition waits in the room for guarantees, with or without a line.
        let wait = if self.has_partitions() { wait.max(LONGEST_IN_ROOM) } else { wait };
        // The store is asked for one time limit at most, and unused units are called back for 50 ms.
        wait + wait * of.drift / 100 + of.network.time_limit + 50 + self.0.clock.late()
    }

    /// Compares, again and again while tasks that were woken have not run.
    async fn look(&self) {
        let mut wrong = None;
        for _ in 0..64 {
            wrong = self.compare();
            if wrong.is_none() {
                break;
            }
            yield_now().await;
        }
        if let Some(wrong) = wrong {
            self.0.log.note(Event::Wrong(wrong));
        }
    }

    /// Returns what is wrong, unless this can't be told now.
    fn compare(&self) -> Option<(&'static str, String)> {
        let snapshot = self.0.admission.snapshot();
        let longest = self.longest_wait() + 150;
        let now = self.0.log.now();
        let mut counts = self.counts();
        let eldest = counts.waiting.keys().chain(counts.running.keys()).min();
        if counts.is_unbound || eldest.is_some_and(|&id| id < counts.bound_from) {
            return None;
        }
        counts.looks += 1;
        let known = counts.waiting.len() + counts.running.len();
        let told =
            snapshot.in_flight + snapshot.waiting + snapshot.at_gate - snapshot.abandoned.min(snapshot.in_flight);
        if known != told {
            let what = format!(
                "{} wait and {} run, as callers and handlers know; the handle says {} in flight, {} of them abandoned, {} in line, {} at the gate",
                counts.waiting.len(),
                counts.running.len(),
                snapshot.in_flight,
                snapshot.abandoned,
                snapshot.waiting,
                snapshot.at_gate,
            );
            return Some(("conservation", what));
        }
        if snapshot.in_flight < snapshot.limit && !self.has_partitions() {
            let free = counts.waiting.iter().find(|(_, (_, kinds))| {
                !kinds.shared && counts.may_run(kinds, &self.0.settings, snapshot.abandoned > 0)
            });
            if let Some((id, _)) = free {
                let what = format!(
                    "request {id} waits beside a free slot: {} of {} in flight",
                    snapshot.in_flight, snapshot.limit
                );
                return Some(("no free slot beside a waiter", what));
            }
        }
        let oldest = counts.waiting.iter().next().map(|(id, (since, _))| (*id, *since));
        if let Some((id, since)) = oldest.filter(|_| now >= counts.lenient_until) {
            counts.judged += 1;
            if now - since > longest {
                let what = format!("request {id} has waited for {} ms, {longest} ms at most", now - since);
                return Some(("every wait ends", what));
            }
        }
        None
    }
}

impl Counts {
    /// Whether nothing but the limit keeps such a request from running.
    fn may_run(&self, kinds: &Kinds, settings: &Settings, has_abandoned: bool) -> bool {
        let Some(label) = kinds.label.filter(|_| settings.label_cap > 0) else { return true };
        if has_abandoned {
            // Work that goes on counts against the cap of its label, and only the handle knows until when.
            return false;
        }
        let running = self.running.values().filter(|it| it.label == Some(label) && !it.shared).count();
        running < settings.label_cap
    }
}

impl Instance {
    /// Starts an instance at `now`.
    pub(super) fn start(plan: &Plan, network: &Arc<Network>, index: usize, now: u64, limit: usize, cap: usize) -> Self {
        let settings = &plan.settings;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without a thread of its own is made");
        let (here, link, base) = runtime.block_on(async {
            align().await;
            let base = Instant::now();
            let log = Log::new(base, now);
            let link = Link::connect(network, &settings.network, now, plan.seed);
            #[expect(clippy::cast_precision_loss, reason = "a few percent")]
            let pace = 1.0 + settings.drift as f64 / 100.0 * [0.0, 1.0, -0.9, 0.5][index % 4];
            let clock = InstanceClock::new(pace);
            let seed = plan.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ link.number() as u64;
            let builder = settings_of(settings, limit, cap, seed, &log).clock(clock.clone()).name("fleet");
            let builder = match &settings.shared {
                Some(shared) => {
                    let leases = Leases::builder()
                        .expiry(Duration::from_millis(shared.expiry))
                        .local_shares(shared.local_shares)
                        .seed(seed)
                        .build(Arc::new(link.clone()));
                    builder.shared(leases, Keys::new(PREFIX).expect("the prefix is good"))
                }
                None => builder,
            };
            let admission = builder.build().expect("the settings are good");
            let counts = Mutex::default();
            let rest = Semaphore::new(0);
            let (settings, control) = (settings.clone(), plan.control);
            let here = Here(Arc::new(Inside { admission, settings, clock, log, counts, rest, control }));
            (here, link, base)
        });
        Self { here, link, runtime, started: now, now, base, inbox: Vec::new() }
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    pub(super) fn admission(&self) -> Admission {
        self.here.admission()
    }

    /// Asks the handle something, in its runtime.
    pub(super) fn enter<R>(&self, ask: impl FnOnce(&Admission) -> R) -> R {
        let _runtime = self.runtime.enter();
        ask(&self.here.0.admission)
    }

    /// Whether it was told to drain.
    pub(super) fn is_draining(&self) -> bool {
        self.here.counts().is_draining
    }

    /// Takes what has happened.
    pub(super) fn events(&self) -> Vec<(u64, Event)> {
        self.here.0.log.take()
    }

    /// Returns how many looks there were, and how many waits were judged.
    pub(super) fn looks(&self) -> (u64, u64) {
        let counts = self.here.counts();
        (counts.looks, counts.judged)
    }

    /// Runs until `until`. If it was stopped since its last step, all of that time passes at once.
    pub(super) fn step(&mut self, network: &Network, from: u64, until: u64) {
        let (here, mut commands) = (&self.here, std::mem::take(&mut self.inbox));
        let late = from.saturating_sub(self.now);
        let end = self.base + Duration::from_millis(until - self.started);
        let deliveries = network.inbox(self.link.number());
        self.runtime.block_on(async {
            if late > 0 {
                here.counts().lenient_until = until + 300;
                // Requests that came meanwhile run before any timer does, every second time.
                if (from / 2).is_multiple_of(2) {
                    let (first, rest) = commands.into_iter().partition(|it| matches!(it, Command::Serve(_)));
                    commands = rest;
                    let first: Vec<Command> = first;
                    for request in first {
                        here.follow(request).await;
                    }
                }
                advance(Duration::from_millis(late)).await;
            }
            deliveries.into_iter().for_each(|delivery| delivery());
            for command in commands {
                here.follow(command).await;
            }
            sleep_until(end).await;
        });
        self.now = until;
    }

    /// Kills the process: nothing that it does from now on reaches the store.
    pub(super) fn die(self, network: &Network) {
        network.disconnect(self.link.number());
        drop(self.runtime);
    }
}

impl Here {
    async fn follow(&self, command: Command) {
        let admission = &self.0.admission;
        match command {
            Command::Serve(request) => drop(tokio::spawn(request.live(self.clone()))),
            Command::Reload { limit, cap } => {
                self.note(Event::Reloaded { limit, cap });
                let settings = settings_of(&self.0.settings, limit, cap, 1, &self.0.log);
                if let Err(error) = admission.reload(settings) {
                    self.note(Event::Wrong(("a reload", error.to_string())));
                }
            }
            Command::Drain { serves } => {
                let mode = if serves { DrainMode::ServeWaiting } else { DrainMode::RejectWaiting };
                self.counts().is_draining = true;
                admission.drain(mode);
                self.note(Event::Draining);
                let here = self.clone();
                drop(tokio::spawn(async move {
                    here.admission().drained().await;
                    here.note(Event::Drained);
                }));
            }
            Command::SetMode(mode) => {
                let is_unbound = mode != Mode::Enforce;
                self.note(Event::Unbound(is_unbound));
                admission.set_mode(mode);
                let mut counts = self.counts();
                counts.is_unbound = is_unbound;
                counts.bound_from = counts.newest + 1;
            }
            Command::ClockJumps(by) => self.0.clock.jump(by),
            Command::ClockStands => self.0.clock.stand(),
            Command::ClockGoesOn => self.0.clock.go_on(),
            Command::Rest => self.0.rest.close(),
            Command::Look => self.look().await,
        }
    }
}

/// Moves the paused clock to a whole millisecond of the runtime's timers.
///
/// Timers count from when the runtime was made, and the clock stands still from a moment after that. How much later that was is
/// chance, and timers round up: whether a wait of 4.2 ms takes 5 or 6 would be chance as well.
async fn align() {
    let tick = Duration::from_millis(1);
    // The longest sleep that ends with the next tick.
    let (mut low, mut high) = (0_u64, 1_000_001_u64);
    while high - low > 1 {
        let (middle, began) = (low.midpoint(high), Instant::now());
        sleep(Duration::from_nanos(middle)).await;
        if began.elapsed() > tick { high = middle } else { low = middle }
    }
    advance(Duration::from_nanos(low)).await;
}

/// Returns the settings of a handle.
fn settings_of(of: &Settings, limit: usize, cap: usize, seed: u64, log: &Log) -> AdmissionBuilder {
    let ms = Duration::from_millis;
    let law: Limit = match of.law {
        Law::Fixed => Fixed::new(limit).into(),
        Law::Restless => Limit::per_sample(Restless::new(limit, seed, log.clone())),
        Law::Aimd => Limit::per_sample(Aimd::new(ms(40)).initial(limit).min(1).max(limit)),
    };
    let discipline = match of.discipline {
        Discipline::Fair => tower_admission::Discipline::Fair,
        Discipline::Fifo => tower_admission::Discipline::Fifo,
        Discipline::AdaptiveLifo => tower_admission::Discipline::AdaptiveLifo { interval: ms(100), short_wait: ms(5) },
    };
    let mut builder = Admission::builder()
        .limit(law)
        .queue(of.queue)
        .admission_timeout(ms(of.admission_timeout))
        .max_wait(ms(of.max_wait))
        .wait_timeout(ms(of.wait_timeout))
        .discipline(discipline)
        .labels(Labels::new().cap(of.label_cap));
    if of.partitions {
        builder = builder.partition("hard", percent(30).hard_cap()).partition("soft", percent(30));
    }
    if let Some(time) = of.time_to_live {
        builder = builder.permit_time_to_live(ms(time));
    }
    let Some(shared) = &of.shared else { return builder };
    let instances = u32::try_from(of.instances).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
    let when_gone = match shared.when_gone {
        WhenGone::Closed => OnStoreFailure::FailClosed,
        WhenGone::Open => OnStoreFailure::FailOpen,
        WhenGone::LocalShare => OnStoreFailure::LocalShare { instances },
    };
    let when_full = if shared.waits { WhenFull::Queue } else { WhenFull::Reject };
    let mut limits = ClassLimits::new().max_in_flight(Cap::from(cap).when_full(when_full));
    if let Some(cap) = shared.namespace_cap {
        limits = limits.max_in_flight_per_namespace(Cap::from(cap).when_full(when_full));
    }
    if let Some(rate) = shared.rate {
        limits = limits.max_per_minute(Rate::from(rate));
    }
    builder.rules(Rules::new().class("work", limits)).when_gone(when_gone)
}

/// Returns the keys of all caps that are shared, with their bounds.
pub(super) fn caps(settings: &Settings, cap: usize) -> Vec<(tower_admission::store::Key, usize)> {
    let Some(shared) = &settings.shared else { return Vec::new() };
    let keys = Keys::new(PREFIX).expect("the prefix is good");
    let labels = (0..3).map(|number| (keys.cap("", "work.label", label(number)), cap));
    labels.chain(shared.namespace_cap.map(|cap| (keys.cap("", "work.namespace", ""), cap))).collect()
}
