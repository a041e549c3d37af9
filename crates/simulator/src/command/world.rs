//! `--world`: fleets of instances under faults, one for each seed.

use std::{
    fmt::Write as _,
    ops::{Range, RangeInclusive},
    process::Command,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    time::{Duration, Instant},
};

use crate::fleet::{self, Attempts, Plan, Report};

const HELP: &str = "\
Runs fleets of instances, with their network and the store that counts their shared rules, under faults and in virtual time,
and compares what is seen from outside with what is promised. Each seed is a world of its own.

  --world N        instances of each world; or A..B: drawn for each seed, from A to B
  --seeds A..B     the seeds, without B; or a single one
  --set KEY=VALUE  a setting of all worlds instead of what is drawn; --set help=1 lists them
  --keep NAMES     only these callers and faults of a world, such as c3,c7,f0
  --twice          runs each world twice, and compares the hashes
  --print          prints the plan of each world, and runs none
  --stalls-after N seconds that a world may take before it counts as one that stands still: 600 unless set
  --no-shrink      prints the first world with a broken promise as it is, rather than the shortest one that breaks it
  --trace          prints the hash of each world
  --log            prints all that is seen";

struct Options {
    instances: RangeInclusive<usize>,
    seeds: Range<u64>,
    set: Vec<(String, String)>,
    keep: Option<String>,
    is_twice: bool,
    prints: bool,
    stalls_after: Duration,
    shrinks: bool,
    traces: bool,
    tells: bool,
}

impl Options {
    fn read(arguments: &[String]) -> Result<Option<Self>, String> {
        let mut options = Self {
            instances: 3..=8,
            seeds: 1..101,
            set: Vec::new(),
            keep: None,
            is_twice: false,
            prints: false,
            stalls_after: STALLS_AFTER,
            shrinks: true,
            traces: false,
            tells: false,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument}: a value is missing"));
            match argument.as_str() {
                "-h" | "--help" => return Ok(None),
                "--world" => options.instances = instances(value()?)?,
                "--seeds" | "--seed" => options.seeds = seeds(value()?)?,
                "--set" => {
                    let text = value()?;
                    let (name, value) = text.split_once('=').ok_or_else(|| format!("{text}: allowed is KEY=VALUE"))?;
                    options.set.push((name.trim().to_owned(), value.trim().to_owned()));
                }
                "--keep" => options.keep = Some(value()?.clone()),
                "--twice" => options.is_twice = true,
                "--print" => options.prints = true,
                "--stalls-after" => options.stalls_after = stalls_after(value()?)?,
                "--no-shrink" => options.shrinks = false,
                "--trace" => options.traces = true,
                "--log" => options.tells = true,
                unknown => return Err(format!("{unknown}: unknown option; see --world 3 --help")),
            }
        }
        Ok(Some(options))
    }

    fn plan(&self, seed: u64) -> Result<Plan, String> {
        let mut plan = fleet::draw(seed, self.instances.clone());
        plan.is_told = self.tells;
        for (name, value) in &self.set {
            plan.settings.set(name, value)?;
        }
        if let Some(names) = &self.keep {
            plan.keep(names);
        }
        Ok(plan)
    }

    /// Returns the command that runs this plan again.
    fn command(&self, plan: &Plan, all: &Plan) -> String {
        let (low, high) = (self.instances.start(), self.instances.end());
        let mut text = format!("admission simulate --world {low}");
        if low != high {
            let _ = write!(text, "..{high}");
        }
        let _ = write!(text, " --seeds {}", plan.seed);
        for (name, value) in &self.set {
            let _ = write!(text, " --set {name}={value}");
        }
        if plan.callers.len() + plan.faults.len() < all.callers.len() + all.faults.len() {
            let _ = write!(text, " --keep {}", plan.names());
        }
        text
    }
}

/// `N`, or `A..B` with both.
fn instances(text: &str) -> Result<RangeInclusive<usize>, String> {
    let wrong = || format!("--world: found {text}, allowed is a number of instances, or two as in 3..8");
    let number = |text: &str| text.parse::<usize>().ok().filter(|it| (1..=10_000).contains(it)).ok_or_else(wrong);
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    let (low, high) = (number(low)?, number(high)?);
    if low > high { Err(wrong()) } else { Ok(low..=high) }
}

/// `N`, or `A..B` without the last.
fn seeds(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("--seeds: found {text}, allowed is a seed, or two as in 1..1000");
    let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
    match text.split_once("..") {
        None => number(text).map(|seed| seed..seed.saturating_add(1)),
        Some((first, end)) => {
            let (first, end) = (number(first)?, number(end)?);
            if first < end { Ok(first..end) } else { Err(wrong()) }
        }
    }
}

fn stalls_after(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (1..=86_400).contains(seconds));
    let wrong = || format!("--stalls-after: found {text}, allowed is a number of seconds from 1 to 86400");
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}

/// Ends the process where a world stands still: its tasks wake each other, and no virtual time passes.
struct Watch(Sender<String>);

/// Time that a world may take unless it is set; the largest takes a tenth of it.
const STALLS_AFTER: Duration = Duration::from_secs(600);

impl Watch {
    fn start(patience: Duration) -> Self {
        let (sender, worlds) = mpsc::channel();
        std::thread::spawn(move || {
            let mut world: Option<String> = None;
            loop {
                match worlds.recv_timeout(patience) {
                    Ok(next) => world = Some(next),
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        let Some(world) = world.take() else { continue };
                        sayln!(
                            "a world breaks a promise, {}\n  0 ms: the world goes on: it stands still for {patience:?}\n{world}",
                            version()
                        );
                        std::process::exit(1);
                    }
                }
            }
        });
        Self(sender)
    }

    fn look_at(&self, world: String) {
        // Without the thread nothing is watched, and nothing else is wrong.
        let _ = self.0.send(world);
    }
}

/// Does what the arguments say. Answers whether all promises held.
pub(super) fn run(arguments: &[String]) -> Result<bool, String> {
    let Some(options) = Options::read(arguments)? else {
        sayln!("{HELP}");
        return Ok(true);
    };
    if options.prints {
        for seed in options.seeds.clone() {
            say!("seed {seed}\n{}", options.plan(seed)?);
        }
        return Ok(true);
    }
    #[expect(clippy::disallowed_methods, reason = "says how fast this was")]
    let began = Instant::now();
    let (mut attempts, mut time, mut instances, mut hash) = (Attempts::default(), 0, 0, 0_u64);
    let watch = Watch::start(options.stalls_after);
    for seed in options.seeds.clone() {
        let plan = options.plan(seed)?;
        watch.look_at(format!(
            "after {} seeds\n  again: {}",
            seed - options.seeds.start + 1,
            options.command(&plan, &plan)
        ));
        let report = fleet::run(&plan);
        if options.traces {
            sayln!("{seed} {:016x} {}", report.hash, report.time);
        }
        if report.broken.is_some() {
            sayln!("{}", failure(&options, &plan, &report));
            sayln!("after {} seeds", seed - options.seeds.start + 1);
            return Ok(false);
        }
        if options.is_twice {
            let again = fleet::run(&plan);
            if again.hash != report.hash {
                sayln!(
                    "seed {seed}: {:016x}, and then {:016x}: a world is not the same twice",
                    report.hash,
                    again.hash
                );
                sayln!("{}", options.command(&plan, &plan));
                return Ok(false);
            }
        }
        attempts += report.attempts;
        time += report.time;
        instances += report.time * report.instances as u64;
        hash = hash.rotate_left(7) ^ report.hash;
    }
    sayln!("{}", summary(&options, &attempts, (time, instances), began.elapsed().as_secs_f64(), hash));
    Ok(true)
}

#[expect(clippy::cast_precision_loss, reason = "to be read")]
fn summary(options: &Options, of: &Attempts, (time, instances): (u64, u64), took: f64, hash: u64) -> String {
    let seeds = options.seeds.end - options.seeds.start;
    let twice = if options.is_twice { ", each twice with equal hashes" } else { "" };
    let hours = time as f64 / 3_600_000.0;
    let of_instances = instances as f64 / 3_600_000.0;
    format!(
        "{seeds} seeds with {} to {} instances{twice}: 0 broken promises, hash {hash:016x}\n\
         tried: {} requests, {} starts under a limit, {} under a cap of all instances ({} without an allowance), \
         {} looks at a handle, {} waits, {} drains, {} lost leases, {} units back at rest, {} questions to the store, \
         {} faults\n\
         {hours:.2} hours of {:.1} instances in {took:.1} s: {:.3} simulated hours, {:.3} hours of instances, and {:.0} \
         seeds per second",
        options.instances.start(),
        options.instances.end(),
        of.requests,
        of.starts,
        of.shared,
        of.strict,
        of.looks,
        of.waits,
        of.drains,
        of.lost,
        of.returned,
        of.asked,
        of.faults,
        of_instances / hours,
        hours / took,
        of_instances / took,
        seeds as f64 / took,
    )
}

fn failure(options: &Options, plan: &Plan, report: &Report) -> String {
    let Some(broken) = &report.broken else { return String::new() };
    let mut text = format!("seed {} breaks a promise, {}\n  {broken}\n", plan.seed, version());
    let (short, again) = if options.shrinks { fleet::shrink(plan, broken) } else { (plan.clone(), report.clone()) };
    let _ = write!(text, "  again: {}\nthe shortest plan that was found:\n{short}", options.command(&short, plan));
    if let Some(broken) = again.broken {
        let _ = write!(text, "  {broken}");
    }
    text
}

/// The version, and the commit of the working directory, where there is one.
fn version() -> String {
    let commit = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output().ok();
    let commit =
        commit.filter(|it| it.status.success()).map(|it| String::from_utf8_lossy(&it.stdout).trim().to_owned());
    match commit {
        Some(commit) => format!("version {}, commit {commit}", env!("CARGO_PKG_VERSION")),
        None => format!("version {}", env!("CARGO_PKG_VERSION")),
    }
}
