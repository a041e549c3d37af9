//! Writes the sets of scenarios behind the figures of the tuning page, each set into a folder of its own:
//!
//! ```sh
//! cargo run --release -p admission-simulator --example sets -- FOLDER [TRACE.csv]
//! cargo run --release -p admission-simulator --example simulate -- --no-search --json FOLDER/calm
//! ```
//!
//! - `calm`: 0.7 of the capacity, on 1 to 1,000 workers, for five kinds of work that stops or goes on when its caller leaves.
//! - `pools`: 1, 2 or 3 workers under 1.2 to 5 times their capacity, with deadlines of 10 to 40 times the work.
//! - `partitions`: four quarters, one of which sends ten times its share; lent, capped, and without a queue.
//! - `traces`: five invented hours of work that scatters much, and the hour of `TRACE.csv` (columns `TIMESTAMP`, `ContextTokens`,
//!   `GeneratedTokens`), each begun at five places.
//!
//! Nothing is set but the patience of callers, or that none waits. `--seed` draws others.

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use fastrand::Rng;

type Failure = Box<dyn Error>;

const LAW: &str = "law = { kind = \"two-point\" }\n";

/// One scenario: its sections, as text.
struct Scenario<'a> {
    about: &'a str,
    seconds: f64,
    warmup: u32,
    focus: &'a str,
    seeds: &'a str,
    rest: String,
}

impl Scenario<'_> {
    fn write(&self, path: PathBuf) -> Result<(), Failure> {
        let Self { about, seconds, warmup, focus, seeds, rest } = self;
        let head = format!(
            "about = \"{about}\"\nduration = \"{seconds:.3}s\"\nwarmup = \"{warmup}s\"\nfocus = \"{focus}\"\nseeds = {seeds}\n"
        );
        Ok(fs::write(path, head + rest)?)
    }
}

fn main() -> Result<(), Failure> {
    let mut seed = 1;
    let mut paths = Vec::new();
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seed" => seed = arguments.next().ok_or("--seed needs a number")?.parse()?,
            _ => paths.push(PathBuf::from(argument)),
        }
    }
    let (folder, trace) = match &paths[..] {
        [folder] => (folder, None),
        [folder, trace] => (folder, Some(trace)),
        _ => return Err("allowed: [--seed NUMBER] FOLDER [TRACE.csv]".into()),
    };
    let into = |name| {
        let folder = folder.join(name);
        fs::create_dir_all(&folder).map(|()| folder)
    };
    calm(&into("calm")?)?;
    pools(&into("pools")?, &mut Rng::with_seed(seed))?;
    partitions(&into("partitions")?)?;
    let traces = into("traces")?;
    if let Some(trace) = trace {
        let rows = read(trace)?;
        begun_at_five_places(&traces, "recorded", &rows, 6, 200)?;
    }
    invented(&traces, &mut Rng::with_seed(seed))
}

fn calm(folder: &Path) -> Result<(), Failure> {
    let works = [
        ("constant", "distribution = \"constant\"\nmean = \"50ms\""),
        ("exponential", "distribution = \"exponential\"\nmean = \"50ms\""),
        ("lognormal", "distribution = \"lognormal\"\nmean = \"50ms\"\nsigma = 1.0"),
        ("pareto", "distribution = \"pareto\"\nmean = \"50ms\"\nalpha = 1.8\nmax = \"5s\""),
        ("bimodal", "distribution = \"bimodal\"\nmean = \"20ms\"\nslow = \"320ms\"\nslow_share = 0.1"),
    ];
    for (workers, seconds) in [(1, 120.0), (2, 120.0), (3, 120.0), (16, 120.0), (200, 60.0), (1_000, 20.0)] {
        for (name, work) in works {
            for abandoned in ["stops", "runs-on"] {
                let rate = 0.7 * f64::from(workers) / 0.05;
                let rest = format!(
                    "[arrivals]\nrate = {rate}\n[service]\n{work}\n[server]\nmodel = \"pool\"\nworkers = {workers}\nabandoned = \
                     \"{abandoned}\"\n[clients]\ndeadline = \"1s\"\nsends_deadline = false\n[policy]\npatience = \"1s\"\n{LAW}"
                );
                let path = folder.join(format!("{workers:04}-{name}-{abandoned}.toml"));
                let (focus, seeds) = ("all.false_rejected", "[11, 12, 13, 14, 15]");
                Scenario { about: "calm", seconds, warmup: 0, focus, seeds, rest }.write(path)?;
            }
        }
    }
    Ok(())
}

/// Between these, as evenly as their logarithms.
fn between(rng: &mut Rng, from: f64, to: f64) -> f64 {
    (from.ln() + rng.f64() * (to / from).ln()).exp()
}

fn pools(folder: &Path, rng: &mut Rng) -> Result<(), Failure> {
    for workers in [1, 2, 3] {
        for number in 0..20 {
            let mean = between(rng, 5.0, 100.0);
            let deadline = (mean * between(rng, 10.0, 40.0)).max(200.0);
            let load = 1.2 + 3.8 * rng.f64();
            let kind = ["constant", "exponential", "lognormal"][rng.usize(..3)];
            let sigma = 0.3 + 0.7 * rng.f64();
            let sigma = if kind == "lognormal" { format!("sigma = {sigma:.2}\n") } else { String::new() };
            let abandoned = ["held", "runs-on", "stops"][rng.usize(..3)];
            let capacity = f64::from(workers) / (mean / 1_000.0);
            let rest = format!(
                "[arrivals]\nrate = {:.3}\n[[changes]]\nat = \"30s\"\nload = {:.3}\n[service]\ndistribution = \"{kind}\"\nmean = \
                 \"{mean:.3}ms\"\n{sigma}[server]\nmodel = \"pool\"\nworkers = {workers}\nabandoned = \"{abandoned}\"\n[clients]\n\
                 deadline = \"{deadline:.0}ms\"\nsends_deadline = false\n[windows]\nover = [\"30s\", \"90s\"]\n[policy]\npatience = \
                 \"{deadline:.0}ms\"\n{LAW}",
                0.7 * capacity,
                load / 0.7
            );
            let path = folder.join(format!("{workers}-{number:02}.toml"));
            let (focus, seeds) = ("over.goodput", "[1, 2, 3]");
            Scenario { about: "a small pool", seconds: 90.0, warmup: 10, focus, seeds, rest }.write(path)?;
        }
    }
    Ok(())
}

fn partitions(folder: &Path) -> Result<(), Failure> {
    let tenants = (0..4).fold(String::new(), |mut all, number| {
        let rate = 80.0 * if number == 0 { 10.0 } else { 0.75 };
        let _ =
            write!(all, "[[tenants]]\nname = \"p{number}\"\narrivals = {{ process = \"poisson\", rate = {rate} }}\n");
        all
    });
    let windows = (1..4).fold("[windows]\n".to_owned(), |mut all, number| {
        let _ = writeln!(all, "q{number} = {{ span = [\"30s\", \"90s\"], tenants = [\"p{number}\"] }}");
        all
    });
    for (server, model) in [("pool", "model = \"pool\"\nworkers = 16"), ("knee", "model = \"shared\"\nknee = 32")] {
        for (name, mode, waits) in [
            ("none", None, true),
            ("lent", Some("burst"), true),
            ("capped", Some("hard_cap"), true),
            ("shed-lent", Some("burst"), false),
            ("shed-capped", Some("hard_cap"), false),
        ] {
            for abandoned in ["held", "stops", "runs-on"] {
                let quarter = |mode, number| format!("{{ name = \"p{number}\", percent = 25, mode = \"{mode}\" }}");
                let quarters = |mode| (0..4).map(|number| quarter(mode, number)).collect::<Vec<_>>().join(", ");
                let shares = mode.map_or_else(String::new, |mode| format!("partitions = [{}]\n", quarters(mode)));
                let wait = if waits { "patience = \"1s\"\n" } else { "shed = true\n" };
                let rest = format!(
                    "{tenants}[service]\ndistribution = \"lognormal\"\nmean = \"50ms\"\nsigma = 0.5\n[server]\n{model}\nabandoned = \
                     \"{abandoned}\"\n[clients]\ndeadline = \"1s\"\n[policy]\n{wait}{shares}{LAW}{windows}"
                );
                let path = folder.join(format!("{server}-{name}-{abandoned}.toml"));
                let (about, focus, seeds) = ("four quarters, a flood", "all.goodput", "[1, 2, 3, 4, 5]");
                Scenario { about, seconds: 90.0, warmup: 30, focus, seeds, rest }.write(path)?;
            }
        }
    }
    Ok(())
}

/// A request: when it comes, in seconds, and how much work it is, in milliseconds.
type Row = (f64, f64);

/// Reads an hour of a trace, 150 times faster. The work follows from the tokens as in the example `overload`.
fn read(path: &Path) -> Result<Vec<Row>, Failure> {
    const SPEED: f64 = 150.0;
    let text = fs::read_to_string(path)?;
    let mut rows: Vec<Row> = Vec::new();
    for line in text.lines().skip(1) {
        let fields: Vec<_> = line.split(',').collect();
        let [at, context, generated] = fields[..] else {
            return Err(format!("three columns are allowed: {line}").into());
        };
        let clock = at.split(' ').nth(1).ok_or("a time without a day")?;
        let seconds = clock.split(':').try_fold(0.0, |all, part| part.parse::<f64>().map(|part| 60.0 * all + part))?;
        let work = 0.25 * context.trim().parse::<f64>()? + 30.0 * generated.trim().parse::<f64>()?;
        rows.push((seconds / SPEED, work / SPEED));
    }
    let first = rows.iter().map(|row| row.0).fold(f64::MAX, f64::min);
    rows.iter_mut().for_each(|row| row.0 -= first);
    Ok(rows)
}

/// Six windows of ten minutes with loads from 0.2 to 1.5 of the capacity, of work with this relative variance.
fn invented(folder: &Path, rng: &mut Rng) -> Result<(), Failure> {
    const MEAN: f64 = 6.0;
    let normal = |rng: &mut Rng| (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos();
    for (name, variance, speed, workers) in [
        ("a", 5.0, 50.0, 8),
        ("b", 10.0, 150.0, 6),
        ("c", 20.0, 300.0, 12),
        ("d", 5.0, 300.0, 16),
        ("e", 20.0, 150.0, 10),
    ] {
        let spread = f64::ln(1.0 + variance);
        let mut rows: Vec<Row> = Vec::new();
        for window in 0..6 {
            let rate = (0.2 + 1.3 * rng.f64()) * f64::from(workers) / MEAN;
            let (mut at, end) = (f64::from(window) * 600.0, f64::from(window + 1) * 600.0);
            loop {
                at -= (1.0 - rng.f64()).ln() / rate;
                if at >= end {
                    break;
                }
                let work = MEAN * (normal(rng) * spread.sqrt() - spread / 2.0).exp();
                rows.push((at / speed, 1_000.0 * work / speed));
            }
        }
        begun_at_five_places(folder, name, &rows, workers, (30_000.0 / speed).round().max(1.0) as u32)?;
    }
    Ok(())
}

fn begun_at_five_places(folder: &Path, name: &str, rows: &[Row], workers: u32, deadline: u32) -> Result<(), Failure> {
    let seconds = rows.iter().map(|row| row.0).fold(0.0, f64::max) + 0.01;
    let mean = rows.iter().map(|row| row.1).sum::<f64>() / rows.len() as f64;
    for place in 0..5 {
        let begun = seconds * f64::from(place) / 5.0;
        let mut turned: Vec<Row> = rows.iter().map(|&(at, work)| ((at - begun).rem_euclid(seconds), work)).collect();
        turned.sort_by(|one, other| one.0.total_cmp(&other.0));
        let csv = turned.iter().fold("# seconds, milliseconds of work\n".to_owned(), |mut all, (at, work)| {
            let _ = writeln!(all, "{at:.6},{work:.4}");
            all
        });
        fs::write(folder.join(format!("{name}-{place}.csv")), csv)?;
        let windows = (0..6).fold("[windows]\n".to_owned(), |mut all, window| {
            let [from, to] = [window, window + 1].map(|it| seconds * f64::from(it) / 6.0);
            let _ = writeln!(all, "w{window} = [\"{from:.3}s\", \"{to:.3}s\"]");
            all
        });
        let rest = format!(
            "[arrivals]\nprocess = \"trace\"\nfile = \"{name}-{place}.csv\"\n[service]\ndistribution = \"constant\"\nmean = \
             \"{mean:.3}ms\"\n[server]\nmodel = \"pool\"\nworkers = {workers}\nabandoned = \"runs-on\"\n[clients]\ndeadline = \
             \"{deadline}ms\"\nsends_deadline = false\n{windows}[policy]\npatience = \"{deadline}ms\"\n{LAW}"
        );
        let path = folder.join(format!("{name}-{place}.toml"));
        Scenario { about: "an hour of work", seconds, warmup: 0, focus: "all.served", seeds: "[1]", rest }
            .write(path)?;
    }
    Ok(())
}
