//! What a world is: its settings, its callers and its faults. All of it follows from a seed, and can be printed.

use std::fmt;

/// Everything that a run depends on.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub settings: Settings,
    /// Each with its number, which its own draws depend on: so the others stay what they are if some are left out.
    pub callers: Vec<(usize, Caller)>,
    pub faults: Vec<(usize, Fault)>,
    /// A mistake that the ledger must find.
    pub control: Option<Control>,
    /// Whether everything that is seen is printed.
    pub is_told: bool,
}

/// A mistake of the world around the library: a control of the ledger.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Control {
    /// Every second instance asks a store of its own.
    TwoStores,
    /// Some handlers keep their permit for ever.
    KeepsPermits,
}

/// The settings of all instances, of their network and of the store. Times are in milliseconds.
#[derive(Clone, Debug)]
pub struct Settings {
    pub instances: usize,
    /// No message is faster, and all instances are stepped by this much.
    pub round: u64,
    /// Callers call for this long.
    pub load: u64,
    pub limit: usize,
    pub law: Law,
    /// Places in line; 0 is none.
    pub queue: usize,
    pub admission_timeout: u64,
    pub max_wait: u64,
    pub wait_timeout: u64,
    pub discipline: Discipline,
    /// Whether there is a partition of 30 % with a hard cap and one of 30 % that lends.
    pub partitions: bool,
    /// Requests of a label that may run in an instance; 0 is no bound.
    pub label_cap: usize,
    pub time_to_live: Option<u64>,
    pub shared: Option<Shared>,
    pub network: Network,
    /// How far the clocks of the instances are fast or slow at most, in percent.
    pub drift: u64,
}

/// Rules that all instances share.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Requests of a label that may run in all instances together.
    pub cap: usize,
    /// Requests of all labels together, if bounded.
    pub namespace_cap: Option<usize>,
    /// Requests of a label that may start in a minute of the store's clock, if bounded.
    pub rate: Option<u32>,
    /// Whether a request waits where the cap is full.
    pub waits: bool,
    pub on_store_failure: OnFailure,
    pub expiry: u64,
    pub local_shares: bool,
}

/// What the network does to messages, of which each takes `delay` and at random some of `jitter` besides.
#[derive(Clone, Debug)]
pub struct Network {
    pub delay: u64,
    pub jitter: u64,
    /// How many of a thousand questions, answers and notices are lost.
    pub lost: u64,
    /// How many of a thousand questions arrive twice.
    pub repeated: u64,
    /// The longest wait for an answer.
    pub time_limit: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Law {
    Fixed,
    /// A law that moves between half of the limit and the limit at each sample, and panics now and then.
    Restless,
    Aimd,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Discipline {
    Fair,
    Fifo,
    AdaptiveLifo,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OnFailure {
    Closed,
    Open,
    LocalShare,
}

/// A stream of requests to an instance.
#[derive(Clone, Debug)]
pub struct Caller {
    pub instance: usize,
    pub from: u64,
    /// Mean time between two requests.
    pub every: u64,
    pub requests: u32,
    pub kind: Kind,
    /// Mean time that a request works.
    pub work: u64,
    pub label: Option<u8>,
    pub partition: u8,
    pub ends: Ends,
    /// Deadline of the requests, if they have one.
    pub deadline: Option<u64>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Asks the handle, and waits.
    Admit,
    /// Asks the handle, and does not wait.
    TryAdmit,
    /// Comes through a layer.
    Layer,
    /// Asks the handle under the rules that all instances share.
    Shared,
}

/// How the requests of a caller end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ends {
    Well,
    /// The caller gives up after a time with this mean.
    GivesUp(u64),
    /// The caller gives up when the request is polled for this time: at every place where it waits.
    GivesUpAtPoll(u32),
    /// The handler panics.
    Panics,
    /// The classifier panics in a part of the requests. Only for layers.
    ClassifierPanics,
    /// The handler is stuck until the world is at rest.
    Stuck,
    /// The work goes on after the request was given up.
    Abandons,
    /// The handler ignores that it has lost its lease.
    Stubborn,
}

/// Something that goes wrong, or is done by an operator, at a time.
#[derive(Clone, Debug)]
pub struct Fault {
    pub at: u64,
    pub what: What,
}

#[derive(Clone, Debug)]
pub enum What {
    /// The process dies, and is started again after a time.
    Crash { instance: usize, down: u64 },
    /// No task of the process runs for a time, while clocks go on.
    Pause { instance: usize, time: u64 },
    /// The way to the store, or back, or both, is cut for a time.
    Cut { instance: usize, questions: bool, answers: bool, time: u64 },
    /// The store gives no answer for a time, and forgets nothing.
    StoreGone { time: u64 },
    /// Each answer of the store takes this much longer for a time.
    StoreSlow { time: u64, by: u64 },
    /// The store is started again, empty.
    StoreEmpty,
    /// A replica takes over that has not heard of what was done in the last `behind`.
    FailOver { behind: u64 },
    /// The clock of the store jumps ahead.
    StoreJumps { by: u64 },
    /// The clock of an instance jumps ahead, or back.
    ClockJumps { instance: usize, by: i64 },
    /// The clock of an instance stands still for a time.
    ClockStands { instance: usize, time: u64 },
    /// New settings: for one instance, or for all.
    Reload { instance: Option<usize>, limit: usize, cap: usize },
    /// The instance drains, and serves its waiters or not.
    Drain { instance: usize, serves: bool },
    /// Decisions don't bind for a time.
    Unbound { instance: usize, off: bool, time: u64 },
}

impl Plan {
    /// Returns the names of all callers and faults that are left, as the command line takes them.
    pub fn names(&self) -> String {
        let callers = self.callers.iter().map(|(number, _)| format!("c{number}"));
        let faults = self.faults.iter().map(|(number, _)| format!("f{number}"));
        callers.chain(faults).collect::<Vec<_>>().join(",")
    }

    /// Leaves all but these callers and faults out.
    pub fn keep(&mut self, names: &str) {
        let kept: Vec<_> = names.split(',').map(str::trim).collect();
        self.callers.retain(|(number, _)| kept.contains(&format!("c{number}").as_str()));
        self.faults.retain(|(number, _)| kept.contains(&format!("f{number}").as_str()));
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {:?}", self.settings)?;
        for (number, caller) in &self.callers {
            writeln!(f, "  c{number} {caller:?}")?;
        }
        for (number, fault) in &self.faults {
            writeln!(f, "  f{number} at {} ms: {:?}", fault.at, fault.what)?;
        }
        Ok(())
    }
}

impl Settings {
    /// The names of all settings that [`set`](Self::set) takes.
    pub const NAMES: &str = "cap, delay, drift, expiry, jitter, label_cap, law, limit, load, local_shares, lost, max_wait, \
        partitions, queue, repeated, time_limit, wait_timeout, waits, on_store_failure";

    /// Sets one of them, given as text.
    ///
    /// # Errors
    ///
    /// What is wrong with the name or the value, in words.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let number = || value.parse::<u64>().map_err(|_| format!("{name}: found {value}, allowed is a whole number"));
        let count = || number().and_then(|it| usize::try_from(it).map_err(|error| error.to_string()));
        let flag = || value.parse::<bool>().map_err(|_| format!("{name}: found {value}, allowed are true and false"));
        let more = || count().map(|it| it.max(1));
        let wrong = |words: &str| format!("{name}: found {value}, allowed are {words}");
        match name {
            "delay" => self.network.delay = number()?.max(self.round),
            "drift" => self.drift = number()?.min(90),
            "jitter" => self.network.jitter = number()?,
            "label_cap" => self.label_cap = count()?,
            "law" => {
                self.law = match value {
                    "fixed" => Law::Fixed,
                    "restless" => Law::Restless,
                    "aimd" => Law::Aimd,
                    _ => return Err(wrong("fixed, restless and aimd")),
                }
            }
            "limit" => self.limit = more()?,
            "load" => self.load = number()?,
            "lost" => self.network.lost = number()?.min(1_000),
            "max_wait" => self.max_wait = number()?,
            "partitions" => self.partitions = flag()?,
            "queue" => self.queue = count()?,
            "repeated" => self.network.repeated = number()?.min(1_000),
            "time_limit" => self.network.time_limit = number()?.max(1),
            "wait_timeout" => self.wait_timeout = number()?,
            shared => {
                let of = self.shared.get_or_insert(Shared {
                    cap: 4,
                    namespace_cap: None,
                    rate: None,
                    waits: true,
                    on_store_failure: OnFailure::Closed,
                    expiry: 1_000,
                    local_shares: false,
                });
                match shared {
                    "cap" => of.cap = more()?,
                    "expiry" => of.expiry = number()?.max(100),
                    "local_shares" => of.local_shares = flag()?,
                    "waits" => of.waits = flag()?,
                    "on_store_failure" => {
                        of.on_store_failure = match value {
                            "closed" => OnFailure::Closed,
                            "open" => OnFailure::Open,
                            "local_share" => OnFailure::LocalShare,
                            _ => return Err(wrong("closed, open and local_share")),
                        }
                    }
                    _ => return Err(format!("{name}: unknown setting; known are {}", Self::NAMES)),
                }
            }
        }
        Ok(())
    }
}
