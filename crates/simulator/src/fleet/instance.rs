//! An instance of the service: the handle that ships, on a runtime of its own, with its callers and handlers.

use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    runtime::Runtime,
    sync::Semaphore,
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
    here::{Here, Inside},
    law::Restless,
    ledger::{Event, Log},
    link::Link,
    network::Network,
    plan::{Discipline, Law, OnFailure, Plan, Settings},
    request::{Request, label},
};

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
        .labels(Labels::new().cap(Some(of.label_cap).filter(|cap| *cap > 0)));
    if of.partitions {
        builder = builder.partition("hard", percent(30).hard_cap()).partition("soft", percent(30));
    }
    if let Some(time) = of.time_to_live {
        builder = builder.permit_time_to_live(ms(time));
    }
    let Some(shared) = &of.shared else { return builder };
    let instances = u32::try_from(of.instances).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
    let on_store_failure = match shared.on_store_failure {
        OnFailure::Closed => OnStoreFailure::FailClosed,
        OnFailure::Open => OnStoreFailure::FailOpen,
        OnFailure::LocalShare => OnStoreFailure::LocalShare { instances },
    };
    let when_full = if shared.waits { WhenFull::Queue } else { WhenFull::Reject };
    let mut limits = ClassLimits::new().max_in_flight(Cap::from(cap).when_full(when_full));
    if let Some(cap) = shared.namespace_cap {
        limits = limits.max_in_flight_per_namespace(Cap::from(cap).when_full(when_full));
    }
    if let Some(rate) = shared.rate {
        limits = limits.max_per_minute(Rate::from(rate));
    }
    builder.rules(Rules::new().class("work", limits)).on_store_failure(on_store_failure)
}

/// Returns the keys of all caps that are shared, with their bounds.
pub(super) fn caps(settings: &Settings, cap: usize) -> Vec<(tower_admission::store::Key, usize)> {
    let Some(shared) = &settings.shared else { return Vec::new() };
    let keys = Keys::new(PREFIX).expect("the prefix is good");
    let labels = (0..3).map(|number| (keys.cap("", "work.label", label(number)), cap));
    labels.chain(shared.namespace_cap.map(|cap| (keys.cap("", "work.namespace", ""), cap))).collect()
}
