//! Incidents drawn from a grammar, in virtual time: what the first line says of each, beside what was done and what callers got.
//!
//! `INCIDENTS=FROM..TO` draws those of these seeds, and has a calm day last for 24 hours; all that is wrong is printed.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    env,
    rc::Rc,
    time::Duration,
};

use fastrand::Rng;
use tokio::{
    task::LocalSet,
    time::{Instant, advance, sleep, sleep_until, timeout},
};

use crate::{Admission, AdmissionBuilder, DrainMode, Labels, Outcome, Ticket, limit::Fixed, percent};

const TENANTS: [(&str, &str); 6] =
    [("web", "front"), ("shop", "front"), ("vip", "front"), ("batch", "back"), ("feed", "back"), ("acme", "back")];
const LIMIT: usize = 40;
const CALM: Duration = Duration::from_secs(90);
/// From an incident until it has to be told.
const AFTER: Duration = Duration::from_secs(15);

/// What is done, and to which tenant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
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
    Drain,
}

impl Fault {
    const KINDS: u32 = 13;

    fn draw(kind: u32, random: &mut Rng) -> Self {
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
            _ => Self::Drain,
        }
    }

    const fn who(self) -> Option<usize> {
        match self {
            Self::Leak(who, _) | Self::Slow(who, _) | Self::Storm(who, _) | Self::Cap(who, _) => Some(who),
            Self::Impatient(who) | Self::Gone(who) | Self::Crowd(who, _) | Self::Typo(who, _) => Some(who),
            Self::Nothing | Self::Limit(_) | Self::Freeze | Self::Host(_) | Self::Class(_) | Self::Drain => None,
        }
    }
}

/// What callers of a tenant got.
#[derive(Clone, Copy, Debug, Default)]
struct Got {
    served: u32,
    refused: u32,
    left: u32,
    late: u32,
}

impl Got {
    const fn harmed(&self) -> u32 {
        self.refused + self.left + self.late
    }

    /// Whether one request in twenty was not served as it should be.
    const fn is_hurt(&self) -> bool {
        self.harmed() * 20 >= self.served + self.harmed() && self.harmed() >= 5
    }
}

struct World {
    admission: Admission,
    faults: RefCell<Vec<Fault>>,
    /// Requests per second and milliseconds of work of each tenant.
    tenants: [(f64, f64); TENANTS.len()],
    got: RefCell<[Got; TENANTS.len()]>,
    is_over: Cell<bool>,
    strangers: Cell<u32>,
    /// The load as a part of the usual one.
    wave: Cell<f64>,
}

fn settings(limit: usize, cap: Option<(usize, usize)>) -> AdmissionBuilder {
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
    fn new(random: &mut Rng) -> Rc<Self> {
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
        })
    }

    fn of(&self, who: usize) -> Vec<Fault> {
        let is_of = |it: &Fault| it.who() == Some(who) || matches!(it, Fault::Host(_) | Fault::Class(_));
        self.faults.borrow().iter().copied().filter(is_of).collect()
    }

    /// The label of the next request of a tenant.
    fn label(&self, who: usize) -> Cow<'static, str> {
        if self.of(who).iter().any(|it| matches!(it, Fault::Crowd(..))) {
            self.strangers.set(self.strangers.get() + 1);
            return format!("stranger-{}", self.strangers.get()).into();
        }
        TENANTS[who].0.into()
    }

    /// Sends the requests of a tenant, each a task of its own.
    async fn send(self: Rc<Self>, who: usize, mut random: Rng) {
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

    async fn request(
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

    async fn cause(&self, fault: Fault) {
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

/// What was found, and what is wrong with what was said.
struct Judged {
    line: String,
    got: [Got; TENANTS.len()],
    wrong: Vec<&'static str>,
}

/// Whether a name is in the line as a word.
fn names(line: &str, name: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric()).any(|word| word == name)
}

fn judge(world: &World, faults: &[Fault]) -> Judged {
    let snapshot = world.admission.snapshot();
    let (line, got) = (snapshot.health.headline, *world.got.borrow());
    let mut wrong = Vec::new();
    let worst = (0..TENANTS.len()).filter(|it| got[*it].is_hurt()).max_by_key(|it| got[*it].harmed());
    let drains = faults.contains(&Fault::Drain);
    match worst {
        Some(_) if line.starts_with("fine") => wrong.push("hurt"),
        Some(who)
            if !drains
                && ![TENANTS[who].0, TENANTS[who].1, "default", "requests", "callers"]
                    .iter()
                    .any(|it| names(&line, it)) =>
        {
            wrong.push("hurt");
        }
        None if ["overloaded", "throttled", "abandoned"].iter().any(|it| line.starts_with(it)) => wrong.push("hurt"),
        _ => {}
    }
    let holds = snapshot.labels.iter().max_by_key(|it| it.in_flight).map(|it| (it.name.clone(), it.in_flight));
    if let Some((name, slots)) = holds
        && slots * 2 >= snapshot.limit.max(8)
        && slots * 2 > snapshot.in_flight
        && worst.is_some()
        && !line.contains(&format!("{name} holds "))
    {
        wrong.push("holder");
    }
    for fault in faults {
        let who = fault.who().map_or("", |who| TENANTS[who].0);
        let is_told = match fault {
            // All that comes is refused.
            _ if drains => line.starts_with("draining"),
            Fault::Nothing => !line.contains("changed"),
            // What harms no request need not be told.
            Fault::Leak(..)
            | Fault::Storm(..)
            | Fault::Crowd(..)
            | Fault::Typo(..)
            | Fault::Cap(..)
            | Fault::Limit(_)
                if worst.is_none() =>
            {
                true
            }
            Fault::Leak(..) => line.contains(&format!("{who} holds ")),
            Fault::Slow(..) => line.contains(&format!("{who} takes ")) || line.contains(&format!("{who} holds ")),
            Fault::Host(_) => line.contains(" takes "),
            Fault::Class(_) => line.contains("class report takes "),
            Fault::Crowd(who, _) => line.contains(&format!("{} sends ", TENANTS[*who].1)),
            Fault::Typo(..) => line.contains("requests of typo come, a partition that no setting knows"),
            Fault::Storm(..) => line.contains(&format!("{who} sends ")),
            Fault::Cap(..) | Fault::Limit(_) => line.contains("reloaded"),
            Fault::Impatient(_) => line.contains("leave before the answer") && names(&line, who),
            Fault::Gone(_) => line.contains(&format!("{who} sends nothing")),
            Fault::Freeze => line.contains("stood still for 9"),
            Fault::Drain => false,
        };
        if !is_told {
            wrong.push("change");
        }
    }
    Judged { line, got, wrong }
}

/// Runs a world in virtual time, and all that it starts.
fn run<T>(seed: u64, story: impl AsyncFnOnce(Rc<World>) -> T) -> T {
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

/// Plays an incident with these faults, one a second after the other.
fn play(seed: u64, faults: &[Fault]) -> Judged {
    run(seed, async |world| {
        sleep(CALM).await;
        let calm = judge(&world, &[Fault::Nothing]);
        assert_eq!(calm.wrong, [""; 0], "seed {seed}, before anything happens: {}", calm.line);
        for fault in faults {
            world.cause(*fault).await;
            sleep(Duration::from_secs(1)).await;
        }
        let begin = Instant::now();
        sleep_until(begin + AFTER - Duration::from_secs(10)).await;
        *world.got.borrow_mut() = Default::default();
        sleep_until(begin + AFTER).await;
        judge(&world, faults)
    })
}

fn told(seed: u64, faults: &[Fault]) -> [u32; 3] {
    let it = play(seed, faults);
    let got = TENANTS.iter().zip(it.got).filter(|(_, got)| got.is_hurt());
    let hurt: Vec<_> = got.map(|((name, _), got)| format!("{name} {got:?}")).collect();
    if !it.wrong.is_empty() {
        println!("{seed} {faults:?}: {:?}\n  {}\n  {}", it.wrong, it.line, hurt.join(", "));
    }
    ["hurt", "holder", "change"].map(|what| u32::from(it.wrong.contains(&what)))
}

#[test]
fn the_first_line_tells_of_incidents_that_are_drawn() {
    let wanted = env::var("INCIDENTS").unwrap_or_else(|_| "0..104".to_owned());
    let (from, to) = wanted.split_once("..").expect("FROM..TO");
    let [from, to]: [u64; 2] = [from, to].map(|seed| seed.parse().expect("a seed"));
    let (mut wrong, mut played) = ([0; 3], 0);
    for seed in from..to {
        let mut random = Rng::with_seed(seed);
        let first = Fault::draw((seed % u64::from(Fault::KINDS)) as u32, &mut random);
        let mut faults = vec![first];
        if seed / u64::from(Fault::KINDS) % 2 == 1 {
            let second = Fault::draw(random.u32(..Fault::KINDS), &mut random);
            let is_other = second.who().is_none_or(|who| first.who() != Some(who));
            if is_other && first != Fault::Drain && second != first {
                faults.push(second);
            }
        }
        let found = told(seed, &faults);
        played += 1;
        wrong = std::array::from_fn(|it| wrong[it] + found[it]);
    }
    println!("{played} incidents; wrong about what is hurt, what holds, what changed: {wrong:?}");
    assert!([20, 20, 10].iter().zip(wrong).all(|(one_in, wrong)| one_in * wrong <= played), "{wrong:?} of {played}");
}

/// A day whose load goes up and down as days do: nothing is said of it. Without `INCIDENTS`, the four hours in which it rises most.
#[test]
fn a_calm_day_is_told_as_one() {
    const DAY: u32 = 24 * 60;
    let minutes = if env::var("INCIDENTS").is_ok() { 0..DAY } else { DAY / 6..DAY / 3 };
    let looks = minutes.len();
    let alarms = run(1, async |world| {
        let mut alarms = Vec::new();
        for minute in minutes {
            let part = f64::from(minute) / f64::from(DAY);
            world.wave.set(0.15 - 0.1 * (part * std::f64::consts::TAU).cos());
            sleep(Duration::from_secs(60)).await;
            let line = world.admission.snapshot().health.headline;
            if !line.starts_with("fine: ") || line.contains(';') {
                alarms.push(line);
            }
        }
        let served: u32 = world.got.borrow().iter().map(|it| it.served).sum();
        assert!(served as usize > looks * 300, "{served}");
        alarms
    });
    println!("{} of {looks} looks at a calm day are alarms", alarms.len());
    assert_eq!(alarms.first(), None);
}
