//! Tenants of a handle, what happens to them, and what their callers get.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use fastrand::Rng;
use tokio::{
    task::LocalSet,
    time::{Instant, advance, sleep, timeout},
};

use crate::{Admission, AdmissionBuilder, DrainMode, Labels, Outcome, Ticket, limit::Fixed, percent};

pub(super) const TENANTS: [(&str, &str); 6] =
    [("web", "front"), ("shop", "front"), ("vip", "front"), ("batch", "back"), ("feed", "back"), ("acme", "back")];
pub(super) const LIMIT: usize = 40;
/// What is done, and to which tenant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fault {
    Nothing,
    /// One in so many requests never ends.
    Leak(usize, u32),
    /// Requests take so many times as long.
    Slow(usize, u32),
    /// Requests come so many times as often.
    Storm(usize, u32),
    /// A reload with this cap for the tenant, or with this limit.
    Cap(usize, usize),
    Limit(usize),
    /// Callers leave after half the time that a request takes.
    Impatient(usize),
    Gone(usize),
    Freeze,
    /// All requests take so many times as long.
    Host(u32),
    /// The requests of a tenant come so many times as often, each with a label of its own.
    Crowd(usize, u32),
    /// The partition of a tenant's requests is misspelt, and its requests come so many times as often.
    Typo(usize, u32),
    /// Requests of a class take so many times as long, of each tenant.
    Class(u32),
    /// In a second of each ten, requests come so many times as often.
    Burst(usize, u32),
    Drain,
}

impl Fault {
    pub(super) const KINDS: u32 = 14;

    pub(super) fn draw(kind: u32, random: &mut Rng) -> Self {
        let who = random.usize(..TENANTS.len());
        match kind {
            0 => Self::Leak(who, random.u32(1..=2)),
            1 => Self::Slow(who, random.u32(20..=60)),
            2 => Self::Storm(who, random.u32(20..=60)),
            3 => Self::Cap(who, 1),
            4 => Self::Limit(random.usize(1..=3)),
            5 => Self::Impatient(who),
            6 => Self::Gone(who),
            7 => Self::Freeze,
            8 => Self::Host(random.u32(5..=20)),
            9 => Self::Crowd(who, random.u32(20..=60)),
            10 => Self::Typo(who, random.u32(20..=60)),
            11 => Self::Class(random.u32(20..=60)),
            12 => Self::Burst(who, random.u32(20..=60)),
            _ => Self::Drain,
        }
    }

    pub(super) const fn who(self) -> Option<usize> {
        match self {
            Self::Leak(who, _) | Self::Slow(who, _) | Self::Storm(who, _) | Self::Cap(who, _) => Some(who),
            Self::Impatient(who) | Self::Gone(who) | Self::Crowd(who, _) | Self::Typo(who, _) => Some(who),
            Self::Burst(who, _) => Some(who),
            Self::Nothing | Self::Limit(_) | Self::Freeze | Self::Host(_) | Self::Class(_) | Self::Drain => None,
        }
    }
}

/// What callers of a tenant got.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Got {
    pub(super) served: u32,
    pub(super) refused: u32,
    pub(super) left: u32,
    pub(super) late: u32,
}

impl Got {
    pub(super) const fn harmed(&self) -> u32 {
        self.refused + self.left + self.late
    }

    /// Whether one request in twenty was not served as it should be.
    pub(super) const fn is_hurt(&self) -> bool {
        self.harmed() * 20 >= self.served + self.harmed() && self.harmed() >= 5
    }
}

pub(super) struct World {
    pub(super) admission: Admission,
    pub(super) faults: RefCell<Vec<Fault>>,
    /// Requests per second and milliseconds of work of each tenant.
    pub(super) tenants: [(f64, f64); TENANTS.len()],
    pub(super) got: RefCell<[Got; TENANTS.len()]>,
    pub(super) is_over: Cell<bool>,
    pub(super) strangers: Cell<u32>,
    /// The load as a part of the usual one.
    pub(super) wave: Cell<f64>,
    pub(super) began: Instant,
}

pub(super) fn settings(limit: usize, cap: Option<(usize, usize)>) -> AdmissionBuilder {
    let labels = cap.map_or_else(Labels::new, |(who, cap)| Labels::new().label_cap(TENANTS[who].0, cap));
    Admission::builder()
        .limit(Fixed::new(limit))
        .queue(200)
        .max_wait(Duration::from_secs(1))
        .partition("front", percent(60))
        .partition("back", percent(40))
        .labels(labels)
}

impl World {
    pub(super) fn new(random: &mut Rng) -> Rc<Self> {
        let admission = settings(LIMIT, None).build().unwrap();
        admission.shared.begin_history();
        let tenants = TENANTS.map(|_| (4.0 + random.f64() * 16.0, 10.0 + random.f64() * 60.0));
        let (faults, got) = (RefCell::default(), RefCell::default());
        Rc::new(Self {
            admission,
            faults,
            tenants,
            got,
            is_over: Cell::new(false),
            strangers: Cell::new(0),
            wave: Cell::new(1.0),
            began: Instant::now(),
        })
    }

    pub(super) fn of(&self, who: usize) -> Vec<Fault> {
        let is_of = |it: &Fault| it.who() == Some(who) || matches!(it, Fault::Host(_) | Fault::Class(_));
        self.faults.borrow().iter().copied().filter(is_of).collect()
    }

    /// The label of the next request of a tenant.
    pub(super) fn label(&self, who: usize) -> Cow<'static, str> {
        if self.of(who).iter().any(|it| matches!(it, Fault::Crowd(..))) {
            self.strangers.set(self.strangers.get() + 1);
            return format!("stranger-{}", self.strangers.get()).into();
        }
        TENANTS[who].0.into()
    }

    /// Sends the requests of a tenant, each a task of its own.
    pub(super) async fn send(self: Rc<Self>, who: usize, mut random: Rng) {
        while !self.is_over.get() {
            let (mut rate, work) = self.tenants[who];
            rate *= self.wave.get();
            let mut work = Duration::from_secs_f64(-work * random.f64().max(1e-9).ln() / 1e3);
            let class = ["list", "report"][random.usize(..2)];
            let (mut patience, mut never) = (Duration::from_secs(2), false);
            let mut comes = true;
            for fault in self.of(who) {
                match fault {
                    Fault::Leak(_, one_in) => never = random.u32(..one_in) == 0,
                    Fault::Slow(_, factor) | Fault::Host(factor) => work *= factor,
                    Fault::Class(factor) if class == "report" => work *= factor,
                    Fault::Storm(_, factor) | Fault::Crowd(_, factor) | Fault::Typo(_, factor) => {
                        rate *= f64::from(factor)
                    }
                    Fault::Burst(_, factor) if self.began.elapsed().as_secs().is_multiple_of(10) => {
                        rate *= f64::from(factor)
                    }
                    Fault::Impatient(_) => patience = work / 2,
                    Fault::Gone(_) => comes = false,
                    _ => {}
                }
            }
            sleep(Duration::from_secs_f64(-random.f64().max(1e-9).ln() / rate)).await;
            if comes {
                tokio::task::spawn_local(Rc::clone(&self).request((who, class), work, patience, never));
            }
        }
    }

    pub(super) async fn request(
        self: Rc<Self>,
        (who, class): (usize, &'static str),
        work: Duration,
        patience: Duration,
        never: bool,
    ) {
        let label = self.label(who);
        let is_misspelt = self.of(who).iter().any(|it| matches!(it, Fault::Typo(..)));
        let partition = if is_misspelt { "typo" } else { TENANTS[who].1 };
        let begin = Instant::now();
        let served = async {
            let permit = self
                .admission
                .admit(Ticket::new().label(label).partition(partition).class(class))
                .await
                .map_err(drop)?;
            if never {
                std::future::pending::<()>().await;
            }
            sleep(work).await;
            permit.finish(Outcome::Success);
            Ok::<_, ()>(begin.elapsed() > work + Duration::from_millis(250))
        };
        let ended = if never { Ok(served.await) } else { timeout(patience, served).await };
        let got = &mut self.got.borrow_mut()[who];
        match ended {
            Ok(Ok(false)) => got.served += 1,
            Ok(Ok(true)) => got.late += 1,
            Ok(Err(())) => got.refused += 1,
            Err(_) => got.left += 1,
        }
    }

    pub(super) async fn cause(&self, fault: Fault) {
        self.faults.borrow_mut().push(fault);
        match fault {
            Fault::Cap(who, cap) => self.admission.reload(settings(LIMIT, Some((who, cap)))).unwrap(),
            Fault::Limit(limit) => self.admission.reload(settings(limit, None)).unwrap(),
            Fault::Freeze => advance(Duration::from_secs(8)).await,
            Fault::Drain => self.admission.drain(DrainMode::ServeWaiting),
            _ => {}
        }
    }
}

/// Runs a world in virtual time, and all that it starts.
pub(super) fn run<T>(seed: u64, story: impl AsyncFnOnce(Rc<World>) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let mut random = Rng::with_seed(seed);
        let world = World::new(&mut random);
        for who in 0..TENANTS.len() {
            tokio::task::spawn_local(Rc::clone(&world).send(who, random.fork()));
        }
        let ended = story(Rc::clone(&world)).await;
        world.is_over.set(true);
        ended
    })
}
