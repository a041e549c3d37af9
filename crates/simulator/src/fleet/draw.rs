//! Drawing a world from a seed.

use super::plan::{Caller, Discipline, Ends, Fault, Kind, Law, Network, OnFailure, Plan, Settings, Shared, What};
use crate::random::Stream;

/// What draws of different kinds are told apart by.
const SETTINGS: u64 = 101;
const CALLERS: u64 = 102;
const FAULTS: u64 = 103;
const NARROW: u64 = 104;

/// Labels that requests have.
pub(super) const LABELS: u64 = 3;

impl Stream {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// Both included.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub(super) fn happens(&mut self, in_a_thousand: u64) -> bool {
        self.below(1_000) < in_a_thousand
    }

    pub(super) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap_or(0)]
    }

    /// At least 1, with about this mean, and at most ten times as much.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
    pub(super) fn about(&mut self, mean: u64) -> u64 {
        ((self.exponential() * mean as f64) as u64).clamp(1, mean.saturating_mul(10).max(1))
    }
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Whether the world of a seed is one of those in which handles are hardly looked at: a look ends their quiet time.
pub(super) const fn is_rarely_seen(seed: u64) -> bool {
    seed.is_multiple_of(7)
}

/// Draws the world of `seed` with so many instances, in the range `low..=high`.
pub(super) fn plan(seed: u64, low: usize, high: usize) -> Plan {
    let rng = &mut Stream::new(seed, SETTINGS, 0);
    let instances = size(rng.between(low as u64, high as u64));
    let round = rng.of(&[1, 2, 2, 4]);
    let limit = size(rng.between(1, 10));
    let queue = rng.of(&[0, 0, 3, 10, 40]);
    let mut settings = Settings {
        instances,
        round,
        load: rng.between(1_200, 3_000),
        limit,
        law: rng.of(&[Law::Fixed, Law::Fixed, Law::Restless, Law::Aimd]),
        queue,
        admission_timeout: rng.of(&[0, 20, 200]),
        max_wait: rng.between(30, 400),
        wait_timeout: rng.of(&[0, 30, 300]),
        discipline: rng.of(&[Discipline::Fair, Discipline::Fair, Discipline::Fifo, Discipline::AdaptiveLifo]),
        partitions: rng.happens(300),
        label_cap: rng.of(&[0, 0, 1, 2, 4]),
        time_to_live: rng.happens(150).then(|| rng.between(60, 300)),
        shared: rng.happens(850).then(|| shared(rng)),
        network: network(rng, round),
        drift: rng.of(&[0, 0, 1, 10]),
    };
    let mut callers = callers(seed, &settings);
    let mut faults = faults(seed, &settings);
    if is_rarely_seen(seed) {
        narrow(&mut Stream::new(seed, NARROW, 0), &mut settings, &mut callers, &mut faults);
    }
    Plan { seed, settings, callers, faults, control: None, is_told: false }
}

/// Makes a world of what others hardly ever come to: a small cap for which all instances compete while work outlasts leases
/// and a way to the store is cut or the store has forgotten everything; or nothing but short requests that do not wait.
fn narrow(
    rng: &mut Stream,
    settings: &mut Settings,
    callers: &mut [(usize, Caller)],
    faults: &mut Vec<(usize, Fault)>,
) {
    let Some(shared) = settings.shared.as_mut().filter(|_| rng.happens(700)) else {
        settings.shared = None;
        (settings.law, settings.label_cap, settings.time_to_live) = (Law::Fixed, 0, None);
        for (_, caller) in callers {
            (caller.kind, caller.ends, caller.label, caller.work) = (Kind::TryAdmit, Ends::Well, None, 10);
        }
        faults.retain(|(_, fault)| matches!(fault.what, What::Pause { .. }));
        return;
    };
    let expiry = shared.expiry;
    (shared.cap, shared.namespace_cap, shared.rate) = (size(rng.between(1, 2)), None, None);
    (settings.limit, settings.label_cap, settings.partitions) = (10, 0, false);
    for (_, caller) in callers.iter_mut().filter(|(_, caller)| caller.kind == Kind::Shared) {
        (caller.label, caller.work) = (Some(0), rng.of(&[100, expiry, expiry * 2]));
    }
    let instance = size(rng.below(settings.instances as u64));
    let (questions, answers) = rng.of(&[(true, true), (true, false), (false, true)]);
    let what = match rng.below(3) {
        0 => What::StoreEmpty,
        _ => What::Cut { instance, questions, answers, time: expiry * 3 },
    };
    faults.push((faults.len(), Fault { at: rng.between(expiry / 2, settings.load), what }));
    settings.load += expiry * 2;
}

fn shared(rng: &mut Stream) -> Shared {
    let cap = size(rng.between(1, 12));
    Shared {
        cap,
        namespace_cap: rng.happens(250).then(|| cap + size(rng.between(0, 4))),
        rate: rng.happens(200).then(|| u32::try_from(rng.between(5, 120)).unwrap_or(5)),
        waits: rng.happens(600),
        on_store_failure: rng.of(&[
            OnFailure::Closed,
            OnFailure::Closed,
            OnFailure::Closed,
            OnFailure::Open,
            OnFailure::LocalShare,
        ]),
        expiry: rng.between(400, 1_200),
        local_shares: rng.happens(500),
    }
}

fn network(rng: &mut Stream, round: u64) -> Network {
    Network {
        delay: round + rng.below(3),
        jitter: rng.of(&[0, 2, 5, 15]),
        lost: rng.of(&[0, 0, 0, 5, 40]),
        repeated: rng.of(&[0, 0, 10, 50]),
        time_limit: rng.of(&[60, 80]),
    }
}

fn callers(seed: u64, settings: &Settings) -> Vec<(usize, Caller)> {
    let each = if settings.instances > 50 { 1 } else { 3 };
    let count = settings.instances * each;
    (0..count).map(|number| (number, caller(seed, settings, number))).collect()
}

fn caller(seed: u64, settings: &Settings, number: usize) -> Caller {
    let rng = &mut Stream::new(seed, CALLERS, number as u64);
    let from = rng.below(settings.load / 2);
    let every = rng.of(&[4, 8, 15, 40]);
    let most = (settings.load - from) / every + 1;
    let kinds: &[Kind] = if settings.shared.is_some() {
        &[Kind::Shared, Kind::Shared, Kind::Shared, Kind::Admit, Kind::TryAdmit, Kind::Layer]
    } else {
        &[Kind::Admit, Kind::Admit, Kind::TryAdmit, Kind::Layer]
    };
    let kind = match rng.of(kinds) {
        // The handler behind this layer is not told that its slot was taken back.
        Kind::Layer if settings.time_to_live.is_some() => Kind::Admit,
        kind => kind,
    };
    let ends = match rng.below(12) {
        0 => Ends::GivesUp(rng.between(2, 60)),
        1 => Ends::GivesUpAtPoll(u32::try_from(rng.between(1, 5)).unwrap_or(1)),
        2 => Ends::Panics,
        3 if kind == Kind::Layer => Ends::ClassifierPanics,
        4 if kind != Kind::Layer => Ends::Stuck,
        5 if kind != Kind::Layer && kind != Kind::Shared => Ends::Abandons,
        6 | 7 if kind == Kind::Shared => Ends::Stubborn,
        _ => Ends::Well,
    };
    Caller {
        instance: if settings.instances > 50 { number } else { size(rng.below(settings.instances as u64)) },
        from,
        every,
        requests: u32::try_from(rng.between(1, most.min(120))).unwrap_or(1),
        kind,
        work: rng.of(&[3, 10, 30, 100, 300]),
        label: (kind == Kind::Shared || rng.happens(400)).then(|| u8::try_from(rng.below(LABELS)).unwrap_or(0)),
        partition: u8::try_from(rng.below(3)).unwrap_or(0),
        ends,
        deadline: rng.happens(150).then(|| rng.between(20, 500)),
    }
}

fn faults(seed: u64, settings: &Settings) -> Vec<(usize, Fault)> {
    let rng = &mut Stream::new(seed, FAULTS, 0);
    let count = if rng.happens(150) { 0 } else { rng.between(1, 6) };
    (0..size(count)).map(|number| (number, fault(seed, settings, number))).collect()
}

fn fault(seed: u64, settings: &Settings, number: usize) -> Fault {
    let rng = &mut Stream::new(seed, FAULTS, 1 + number as u64);
    let instance = size(rng.below(settings.instances as u64));
    let expiry = settings.shared.as_ref().map_or(600, |shared| shared.expiry);
    let what = match rng.below(20) {
        0 | 1 => What::Crash { instance, down: rng.between(5, 400) },
        2..=4 => {
            // Of all lengths: short, about as long as is allowed, longer than a lease.
            let time = rng.of(&[expiry / 8, expiry / 2, expiry * 55 / 100, expiry * 3 / 4, expiry * 2]);
            What::Pause { instance, time: time.max(5) }
        }
        5..=7 => {
            let (questions, answers) = rng.of(&[(true, true), (true, false), (false, true)]);
            What::Cut { instance, questions, answers, time: rng.of(&[40, expiry / 2, expiry, expiry * 2]) }
        }
        8 => What::StoreGone { time: rng.of(&[60, expiry / 2, expiry * 3 / 2]) },
        9 => What::StoreSlow { time: rng.between(50, expiry), by: rng.between(5, 120) },
        10 => What::StoreEmpty,
        11 => What::FailOver { behind: rng.between(10, 300) },
        12 => What::StoreJumps { by: rng.of(&[expiry / 2, expiry * 2, 70_000]) },
        13 => {
            // A request that runs while the clock jumps by a day has taken a day, as far as the handle knows, and abandoned work
            // is waited for as long as such work takes. So seed 964 waited for a day.
            let abandons = |caller: &Caller| caller.instance == instance && caller.ends == Ends::Abandons;
            let longest = if callers(seed, settings).iter().any(|(_, it)| abandons(it)) { 1_000 } else { 86_400_000 };
            let by = i64::from(rng.of(&[30, 1_000, 86_400_000]).min(longest));
            What::ClockJumps { instance, by: if rng.happens(400) { -by.min(200) } else { by } }
        }
        14 => What::ClockStands { instance, time: rng.between(20, 500) },
        15 | 16 => What::Reload {
            instance: rng.happens(500).then_some(instance),
            limit: size(rng.between(1, 10)),
            cap: size(rng.between(1, 12)),
        },
        17 | 18 => What::Drain { instance, serves: rng.happens(500) },
        _ => What::Unbound { instance, off: rng.happens(500), time: rng.between(20, 300) },
    };
    Fault { at: rng.between(100, settings.load), what }
}
