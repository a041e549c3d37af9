//! Runs tests with a mutant, and without.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use crate::copy::Suite;

/// How a run of tests ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Ended {
    Passed,
    Failed(String),
    TimedOut,
}

/// What is known of a suite from a run without a mutant.
pub struct Baseline {
    pub seconds: BTreeMap<String, f64>,
    /// By mutant: the tests that reach it.
    pub reached: BTreeMap<u32, BTreeSet<String>>,
}

/// Runs a program of tests until the first failure. Each line of a test is told with the time since the last.
fn run(command: &mut Command, limit: Duration, mut tell: impl FnMut(&str, Duration)) -> Ended {
    let started = Instant::now();
    let mut child = command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a program of tests starts");
    let (send, lines) = mpsc::channel();
    let output = BufReader::new(child.stdout.take().expect("its output is read"));
    let reader = thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    let mut last = started;
    let early = loop {
        match lines.recv_timeout(limit.saturating_sub(started.elapsed())) {
            Ok(line) => {
                if let Some((name, how)) = line.strip_prefix("test ").and_then(|it| it.split_once(" ... ")) {
                    if how.ends_with("FAILED") {
                        break Some(Ended::Failed(name.to_owned()));
                    }
                    tell(name, last.elapsed());
                    last = Instant::now();
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => break Some(Ended::TimedOut),
            Err(mpsc::RecvTimeoutError::Disconnected) => break None,
        }
    };
    if early.is_some() {
        // With all that it started.
        let group = format!("-{}", child.id());
        Command::new("kill").args(["-KILL", "--", &group]).status().expect("kill is installed");
    }
    let status = child.wait().expect("a child ends");
    drop(lines);
    reader.join().expect("the reader ends with the output");
    match early {
        Some(ended) => ended,
        None if status.success() => Ended::Passed,
        None => Ended::Failed(format!("the process: {status}")),
    }
}

fn command(suite: &Suite) -> Command {
    // A mutant that grows without end meets a bound before the machine does.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 8000000; exec \"$0\" \"$@\""]).arg(&suite.program).current_dir(&suite.folder);
    command
}

/// Runs a suite without a mutant, and reads what is reached by which test.
pub fn baseline(suite: &Suite, work: &Path) -> Baseline {
    let path = work.join(format!("reached-{}.txt", suite.name));
    let times = work.join(format!("seconds-{}.txt", suite.name));
    let newer = |it: &Path| fs::metadata(it).and_then(|it| it.modified()).ok();
    if newer(&times) < newer(&suite.program) {
        _ = fs::remove_file(&path);
        let mut seconds = String::new();
        let mut command = command(suite);
        command.args(["--test-threads=1", suite.tests]).env("MUTANTS_REACHED", &path);
        let ended = run(&mut command, Duration::from_secs(1800), |name, took| {
            seconds += &format!("{} {name}\n", took.as_secs_f64());
        });
        assert_eq!(ended, Ended::Passed, "{} without a mutant", suite.name);
        fs::write(&times, seconds).expect("the times of the tests");
    }
    let mut reached: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    let mut test = String::new();
    for line in fs::read_to_string(&path).unwrap_or_default().lines() {
        if let Some(name) = line.strip_prefix("test ") {
            name.clone_into(&mut test);
        } else if let Ok(mutant) = line.parse() {
            reached.entry(mutant).or_default().insert(test.clone());
        }
    }
    let text = fs::read_to_string(&times).expect("the times of the tests");
    let seconds: BTreeMap<String, f64> = text
        .lines()
        .filter_map(|it| it.split_once(' '))
        .filter_map(|(took, name)| Some((name.to_owned(), took.parse().ok()?)))
        .collect();
    // A thread that outlived its test, or one of a name like a test's.
    for tests in reached.values_mut() {
        tests.retain(|it| seconds.contains_key(it));
    }
    println!("{}: {} tests in {:.0} s", suite.name, seconds.len(), seconds.values().sum::<f64>());
    Baseline { seconds, reached }
}

/// Runs the tests of a suite that reach a mutant, with the mutant, cheap ones first, and none beyond `slowest` seconds.
pub fn attempt(suite: &Suite, baseline: &Baseline, mutant: u32, slowest: f64) -> Ended {
    let Some(reached) = baseline.reached.get(&mutant) else { return Ended::Passed };
    let mut tests: Vec<(&String, f64)> = reached.iter().map(|it| (it, baseline.seconds[it])).collect();
    tests.retain(|it| it.1 <= slowest);
    tests.sort_by(|a, b| a.1.total_cmp(&b.1));
    // In growing portions, so that few tests are run for a mutant that any of them catches.
    let mut portion = 0.5;
    while !tests.is_empty() {
        let mut sum = 0.0;
        let count = tests.iter().take_while(|it| {
            sum += it.1;
            sum <= portion
        });
        let count = count.count().max(1);
        let now: Vec<_> = tests.drain(..count).collect();
        let expected: f64 = now.iter().map(|it| it.1).sum();
        let mut command = command(suite);
        command.args(["--exact", "--test-threads=2"]).env("MUTANT", mutant.to_string());
        command.args(now.iter().map(|it| it.0));
        let ended = run(&mut command, Duration::from_secs_f64(3.0 * expected + 10.0), |_, _| {});
        if ended != Ended::Passed {
            return ended;
        }
        portion *= 8.0;
    }
    Ended::Passed
}
