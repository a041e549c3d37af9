//! Instructions per request, and how many of them lock memory, counted by valgrind.
//!
//! Each contestant runs twice, for 1,000 and for 6,000 requests; the difference divided by 5,000 is one request, and
//! start and end of the process drop out. Valgrind reports how often each address was executed; the disassembler says
//! which addresses hold an instruction with a `lock` prefix, or an `xchg` with memory, which locks without one.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    env, fs,
    process::{self, Command},
};

use overhead::contestants::{BARE, Contestant, find};

use crate::instructions::Table;

const SHORT: u64 = 1_000;
const LONG: u64 = 6_000;

/// How often each instruction was executed, by object and address, and the function that it belongs to.
type Executed = BTreeMap<(String, u64), (u64, String)>;

/// Per request.
struct Cost {
    instructions: f64,
    locked: f64,
}

pub(crate) fn table<'a>(contestants: impl IntoIterator<Item = &'a Contestant>) {
    let mut locking = Locking::default();
    println!("| contestant | instructions | net | locked | net |");
    println!("|---|---:|---:|---:|---:|");
    let mut costs: Vec<(&str, Cost)> = Vec::new();
    for contestant in contestants {
        let cost = locking.cost(contestant);
        let base = costs.iter().find(|(name, _)| *name == contestant.baseline);
        let (net, net_locked) =
            base.map_or((0.0, 0.0), |(_, base)| (cost.instructions - base.instructions, cost.locked - base.locked));
        println!(
            "| {} | {:.1} | {net:+.1} | {:.2} | {net_locked:+.2} |",
            contestant.name, cost.instructions, cost.locked
        );
        costs.push((contestant.name, cost));
    }
    println!("\nPer request; net of `{BARE}`, or of the one that drops requests too where requests are rejected.");
}

/// The instructions of a request, for each contestant.
pub(crate) fn instructions<'a>(contestants: impl IntoIterator<Item = &'a Contestant>) -> Table {
    let cost = |contestant: &Contestant| {
        let count: u64 = difference(contestant).into_values().map(|(count, _)| count).sum();
        eprintln!("{:>9.1}  {}", per_request(count), contestant.name);
        (contestant.name.to_owned(), per_request(count))
    };
    Table::new(contestants.into_iter().map(cost).collect())
}

#[expect(clippy::cast_precision_loss, reason = "counts of some millions")]
fn per_request(count: u64) -> f64 {
    count as f64 / (LONG - SHORT) as f64
}

/// The functions in which a contestant spends its instructions, net of its baseline.
#[expect(clippy::cast_precision_loss, reason = "counts of some millions")]
pub(crate) fn profile(name: &str) {
    let contestant = find(name).unwrap_or_else(|| panic!("nobody is called {name:?}"));
    let mut functions: HashMap<String, f64> = HashMap::new();
    let baseline = find(contestant.baseline).expect("each baseline takes part");
    for (contestant, sign) in [(contestant, 1.0), (baseline, -1.0)] {
        for (count, function) in difference(contestant).into_values() {
            *functions.entry(function).or_default() += sign * count as f64 / (LONG - SHORT) as f64;
        }
    }
    let mut functions: Vec<_> = functions.into_iter().filter(|(_, count)| count.abs() >= 0.5).collect();
    functions.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    println!("{:>9.1}  in all, net of {}", functions.iter().map(|(_, count)| count).sum::<f64>(), contestant.baseline);
    for (function, count) in functions {
        println!("{count:>9.1}  {function}");
    }
}

/// Executions of the longer run that the shorter one has not.
fn difference(contestant: &Contestant) -> Executed {
    let short = execute(contestant, SHORT);
    let mut long = execute(contestant, LONG);
    for (place, (count, _)) in &mut long {
        *count = count.saturating_sub(short.get(place).map_or(0, |(count, _)| *count));
    }
    long
}

fn execute(contestant: &Contestant, requests: u64) -> Executed {
    let program = env::current_exe().expect("this program has a path");
    let file = env::temp_dir().join(format!("overhead-{}.callgrind", process::id()));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--dump-instr=yes", "--dump-line=no"])
        .args(["--compress-strings=no", "--compress-pos=no"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(program)
        .args(["run", contestant.name, &requests.to_string()])
        .output()
        .expect("valgrind is installed");
    assert!(output.status.success(), "{}: {output:?}", contestant.name);
    let profile = fs::read_to_string(&file).expect("valgrind wrote its profile");
    let _ = fs::remove_file(file);
    parse(&profile)
}

/// Reads a profile of valgrind: lines of an address and a count, below lines that say what they belong to. The line
/// after `calls=` is the cost of what was called, which is listed there too.
fn parse(profile: &str) -> Executed {
    let mut executed = Executed::new();
    let (mut object, mut function) = (String::new(), String::new());
    let mut lines = profile.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("ob=") {
            name.clone_into(&mut object);
        } else if let Some(name) = line.strip_prefix("fn=") {
            name.clone_into(&mut function);
        } else if line.starts_with("calls=") {
            lines.next();
        } else if let Some(address) = line.strip_prefix("0x") {
            let mut words = address.split_whitespace();
            let address = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
            let count: Option<u64> = words.next_back().and_then(|word| word.parse().ok());
            let (Some(address), Some(count)) = (address, count) else { panic!("valgrind says {line:?}") };
            let entry = executed.entry((object.clone(), address)).or_insert_with(|| (0, function.clone()));
            entry.0 += count;
        }
    }
    executed
}

/// The addresses of instructions that lock memory, by object.
#[derive(Default)]
struct Locking(HashMap<String, HashSet<u64>>);

impl Locking {
    fn cost(&mut self, contestant: &Contestant) -> Cost {
        let (mut instructions, mut locked) = (0, 0);
        for ((object, address), (count, _)) in difference(contestant) {
            instructions += count;
            if count > 0 && self.locks(&object, address) {
                locked += count;
            }
        }
        Cost { instructions: per_request(instructions), locked: per_request(locked) }
    }

    fn locks(&mut self, object: &str, address: u64) -> bool {
        if !self.0.contains_key(object) {
            self.0.insert(object.to_owned(), disassemble(object));
        }
        self.0[object].contains(&address)
    }
}

/// Nothing for objects that are no files, such as what the kernel maps into each process.
fn disassemble(object: &str) -> HashSet<u64> {
    let output = Command::new("objdump").args(["-d", "--no-show-raw-insn", object]).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text)
        .lines()
        .filter_map(|line| {
            let (address, instruction) = line.split_once(":\t")?;
            let instruction = instruction.trim_start();
            let locks =
                instruction.starts_with("lock ") || (instruction.starts_with("xchg") && instruction.contains('('));
            locks.then(|| u64::from_str_radix(address.trim(), 16).ok()).flatten()
        })
        .collect()
}
