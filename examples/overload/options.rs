//! The command line.

use std::path::PathBuf;

pub(crate) const HELP: &str = "\
What an overload does to a server, without admission control and with it.

Usage: cargo run --release --example overload -- [OPTIONS]

Starts an HTTP server and a gRPC server on this machine, each before a backend of known capacity, and sends both the
same load twice: without protection, then with it. Takes less than a minute and prints a table.

Options:
      --json FILE      write the results as JSON, too
      --seed NUMBER    another random load [default: 1]
      --svg FILE       draw the answers of the gRPC server over time, too
      --trace FILE     replay the arrivals of a trace: CSV with the columns TIMESTAMP,ContextTokens,GeneratedTokens,
                       such as the Azure LLM inference traces of 2023
      --speed FACTOR   replay the trace so many times faster [default: 150, one hour in 24 s]
      --serve          only start the protected servers, on the ports 3000 to 3002, until Ctrl-C
  -h, --help           print this

Exit codes: 0 done, 1 failed, 2 wrong options.
";

const OPTIONS: [&str; 7] = ["--help", "--json", "--seed", "--serve", "--speed", "--svg", "--trace"];

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    pub(crate) help: bool,
    pub(crate) json: Option<PathBuf>,
    pub(crate) seed: Option<u64>,
    pub(crate) serve: bool,
    pub(crate) speed: Option<f64>,
    pub(crate) svg: Option<PathBuf>,
    pub(crate) trace: Option<PathBuf>,
}

impl Options {
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut options = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let (name, inline) = match argument.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (argument, None),
            };
            if inline.is_some() && matches!(&*name, "-h" | "--help" | "--serve") {
                return Err(format!("{name} takes no value"));
            }
            let mut value = |what: &str| {
                let value = inline.clone().or_else(|| arguments.next()).filter(|value| !value.is_empty());
                value.ok_or_else(|| format!("{name} needs a value: {what}"))
            };
            match &*name {
                "-h" | "--help" => options.help = true,
                "--serve" => options.serve = true,
                "--json" => options.json = Some(value("the file to write")?.into()),
                "--svg" => options.svg = Some(value("the file to write")?.into()),
                "--trace" => options.trace = Some(value("the CSV file to read")?.into()),
                "--seed" => {
                    let found = value("a number")?;
                    let seed = found.parse();
                    options.seed = Some(
                        seed.map_err(|_| format!("--seed: found {found:?}, allowed is a whole number, 0 or more"))?,
                    );
                }
                "--speed" => {
                    let found = value("a number")?;
                    let speed = found.parse().ok().filter(|speed| (0.01..=100_000.0).contains(speed));
                    options.speed =
                        Some(speed.ok_or_else(|| {
                            format!("--speed: found {found:?}, allowed is a number from 0.01 to 100000")
                        })?);
                }
                _ => return Err(unknown(&name)),
            }
        }
        options.check()
    }

    fn check(self) -> Result<Self, String> {
        if self.speed.is_some() && self.trace.is_none() {
            return Err("--speed says how fast to replay a trace: it needs --trace FILE".to_owned());
        }
        if self.seed.is_some() && self.trace.is_some() {
            return Err("--seed has no effect on a trace: leave out one of the two".to_owned());
        }
        let of_a_run = [&self.json, &self.svg, &self.trace].into_iter().any(Option::is_some) || self.seed.is_some();
        if self.serve && of_a_run {
            return Err("--serve sends no load of its own: leave out --json, --seed, --svg and --trace".to_owned());
        }
        Ok(self)
    }
}

fn unknown(name: &str) -> String {
    let nearest = OPTIONS.iter().map(|option| (distance(name, option), option)).min();
    match nearest {
        Some((distance, option)) if distance <= 2 => format!("unknown option {name:?}; did you mean {option}?"),
        _ => format!("unknown option {name:?}; there are {}", OPTIONS.join(", ")),
    }
}

/// How many letters to insert, delete or replace to make `b` of `a`: V. Levenshtein's distance (1965).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, right) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            let cost = replaced.min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], cost);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_read_in_both_forms() {
        let options = parse("--json=out.json --svg out.svg --trace t.csv --speed 60").unwrap();
        assert_eq!(options.svg.as_deref(), Some("out.svg".as_ref()));
        assert_eq!(options.json.as_deref(), Some("out.json".as_ref()));
        assert_eq!(options.trace.as_deref(), Some("t.csv".as_ref()));
        assert_eq!(options.speed, Some(60.0));
        assert_eq!(parse("").unwrap(), Options::default());
        assert!(parse("-h").unwrap().help);
    }

    #[test]
    fn errors_say_what_is_allowed() {
        let check = |line: &str, expected: &str| {
            let problem = parse(line).unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        };
        check("--jsn x", "did you mean --json?");
        check("--frobnicate", "there are --help, --json");
        check("verbose", "there are --help");
        check("--json", "needs a value");
        check("--serve=yes", "takes no value");
        check("--trace t --speed nan", "found \"nan\"");
        check("--trace t --speed 0", "found \"0\"");
        check("--seed -1", "found \"-1\"");
        check("--speed 2", "needs --trace");
        check("--serve --json x", "--serve sends no load");
        check("--serve --svg x", "--serve sends no load");
    }
}
