//! What the runs say.

use std::{collections::BTreeMap, path::Path};

/// How a test ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ran {
    Passed,
    Failed,
}

/// A model that was explored.
#[derive(Debug)]
pub struct Explored {
    pub name: String,
    pub executions: u64,
    pub how: String,
    pub seconds: String,
}

/// Counts of mutants.
#[derive(Debug, Default)]
pub struct Mutants {
    pub caught: u64,
    pub timed_out: u64,
    pub missed: u64,
    pub unviable: u64,
}

/// All that was read.
#[derive(Debug, Default)]
pub struct Results {
    tests: BTreeMap<String, Option<Ran>>,
    pub models: Vec<Explored>,
    pub found: Vec<(String, String)>,
    pub fuzzed: Vec<(String, u64, u64)>,
    pub mutants: Mutants,
}

/// Reads `name: N executions (how) in S s`.
fn explored(line: &str) -> Option<Explored> {
    let (name, rest) = line.split_once(": ")?;
    let (executions, rest) = rest.split_once(" executions (")?;
    let (how, rest) = rest.split_once(") in ")?;
    let name = name.split(' ').next_back()?.to_owned();
    Some(Explored {
        name,
        executions: executions.parse().ok()?,
        how: how.to_owned(),
        seconds: rest.strip_suffix(" s")?.to_owned(),
    })
}

/// Reads a number behind a key of a JSON text; 0 if there is none.
fn number(text: &str, key: &str) -> u64 {
    let behind = text.split(&format!("\"{key}\":")).nth(1).unwrap_or_default();
    let digits: String = behind.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

impl Results {
    /// Reads the output of a run.
    pub fn read(&mut self, file: &str, text: &str) {
        if file.ends_with("outcomes.json") {
            self.mutants.caught += number(text, "caught");
            self.mutants.timed_out += number(text, "timeout");
            self.mutants.missed += number(text, "missed");
            self.mutants.unviable += number(text, "unviable");
            return;
        }
        let mut last = None;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("test ")
                && let Some((name, ended)) = rest.split_once(" ... ")
            {
                self.note(name, ended);
                last = Some(name.to_owned());
            } else if matches!(line, "ok" | "FAILED")
                && let Some(name) = &last
            {
                // What the test printed stands in between.
                self.note(name, line);
            }
            let printed = line.split(" ... ").last().unwrap_or(line);
            self.models.extend(explored(printed));
            if let Some((mistake, how)) = printed.strip_prefix("found: ").and_then(|it| it.split_once(": ")) {
                self.found.push((mistake.to_owned(), how.chars().take(100).collect()));
            }
            if let Some((runs, seconds)) = line.strip_prefix("Done ").and_then(|it| it.split_once(" runs in ")) {
                let target =
                    Path::new(file).file_stem().map_or_else(String::new, |it| it.to_string_lossy().into_owned());
                let seconds = seconds.split(' ').next().and_then(|it| it.parse().ok());
                self.fuzzed.extend(runs.parse().ok().zip(seconds).map(|(runs, seconds)| (target, runs, seconds)));
            }
        }
    }

    fn note(&mut self, name: &str, ended: &str) {
        let name = name.split(" - ").next().unwrap_or(name).trim().to_owned();
        match ended {
            "ok" => drop(self.tests.insert(name, Some(Ran::Passed))),
            "FAILED" => drop(self.tests.insert(name, Some(Ran::Failed))),
            // Tests that measure are left out of the run of all others, and have one of their own.
            _ if ended.starts_with("ignored") => drop(self.tests.entry(name).or_insert(None)),
            _ => {}
        }
    }

    /// Returns how a test ended, by the last part of its path.
    pub fn test(&self, name: &str) -> Option<Ran> {
        let mut of_this_name = self.tests.iter().filter(|(path, _)| path.rsplit("::").next() == Some(name));
        let failed = of_this_name.clone().any(|(_, ran)| *ran == Some(Ran::Failed));
        if failed { Some(Ran::Failed) } else { of_this_name.find_map(|(_, ran)| *ran) }
    }

    pub fn failed(&self) -> impl Iterator<Item = &str> {
        self.tests.iter().filter(|(_, ran)| **ran == Some(Ran::Failed)).map(|(name, _)| name.as_str())
    }

    pub fn explored(&self, name: &str) -> impl Iterator<Item = &Explored> {
        self.models.iter().filter(move |it| it.name == name)
    }

    /// Returns how many tests passed, and how many were ignored.
    pub fn counts(&self) -> (usize, usize) {
        let passed = self.tests.values().filter(|ran| **ran == Some(Ran::Passed)).count();
        (passed, self.tests.values().filter(|ran| ran.is_none()).count())
    }
}
