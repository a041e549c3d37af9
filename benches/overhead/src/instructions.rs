//! The committed table of instructions per request, and what differs from it.

use std::{fmt, fs, path::PathBuf, process::Command};

/// Instructions depend on where the linker puts things, and on the allocator, a little.
const TOLERANCE: f64 = 0.02;

/// Instructions per request, by path.
#[derive(Debug, PartialEq)]
pub(crate) struct Table {
    /// Target and toolchain. Other ones make other code.
    pub(crate) made_with: String,
    pub(crate) lines: Vec<(String, f64)>,
}

impl Table {
    /// Of the program that runs.
    pub(crate) fn new(lines: Vec<(String, f64)>) -> Self {
        let output = Command::new("rustc").arg("-vV").output().expect("rustc says its version");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let word = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("unknown").to_owned();
        Self { made_with: format!("{}, rustc {}", word("host: "), word("release: ")), lines }
    }

    pub(crate) fn file() -> PathBuf {
        [env!("CARGO_MANIFEST_DIR"), "instructions.txt"].iter().collect()
    }

    pub(crate) fn read() -> Result<Self, String> {
        let text = fs::read_to_string(Self::file())
            .map_err(|error| format!("{}: {error}; `callgrind --write` writes it", Self::file().display()))?;
        Self::parse(&text)
    }

    pub(crate) fn write(&self) -> Result<(), String> {
        fs::write(Self::file(), self.to_string()).map_err(|error| format!("{}: {error}", Self::file().display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let first = lines.next().and_then(|line| line.strip_prefix("# "));
        let made_with = first.ok_or("the first line is to be `# target, toolchain`")?.to_owned();
        let line = |line: &str| {
            let (count, path) = line.trim().split_once("  ")?;
            Some((path.to_owned(), count.parse().ok().filter(|count: &f64| count.is_finite() && *count > 0.0)?))
        };
        let lines = lines.map(|text| line(text).ok_or_else(|| format!("{text:?} is no `instructions  path`")));
        Ok(Self { made_with, lines: lines.collect::<Result<_, _>>()? })
    }

    fn get(&self, path: &str) -> Option<f64> {
        self.lines.iter().find(|(name, _)| name == path).map(|(_, count)| *count)
    }

    /// What `found` has otherwise than this table: a line each.
    pub(crate) fn differences(&self, found: &Self) -> Vec<String> {
        let mut told = Vec::new();
        for (path, expected) in &self.lines {
            match found.get(path) {
                None => told.push(format!("{path}: expected {expected:.1}, found no such path")),
                Some(count) if (count - expected).abs() > expected * TOLERANCE => {
                    let percent = (count / expected - 1.0) * 100.0;
                    told.push(format!("{path}: expected {expected:.1}, found {count:.1} ({percent:+.1} %)"));
                }
                Some(_) => {}
            }
        }
        let unknown = found.lines.iter().filter(|(path, _)| self.get(path).is_none());
        told.extend(unknown.map(|(path, count)| format!("{path}: expected nothing, found {count:.1}")));
        if !told.is_empty() && self.made_with != found.made_with {
            told.push(format!(
                "the table is of {}; this is {}, which makes other code",
                self.made_with, found.made_with
            ));
        }
        told
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# {}", self.made_with)?;
        self.lines.iter().try_for_each(|(path, count)| writeln!(f, "{count:>9.1}  {path}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(lines: &[(&str, f64)]) -> Table {
        let lines = lines.iter().map(|&(path, count)| (path.to_owned(), count)).collect();
        Table { made_with: "here, rustc 1".to_owned(), lines }
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let written = table(&[("bare", 446.0), ("bare, dropping requests", 1_974.5)]);
        assert_eq!(written.to_string(), "# here, rustc 1\n    446.0  bare\n   1974.5  bare, dropping requests\n");
        assert_eq!(Table::parse(&written.to_string()), Ok(written));
    }

    #[test]
    fn a_table_that_is_none_is_an_error() {
        for text in ["", "446.0  bare", "# here\nbare", "# here\nmany  bare", "# here\n0  bare", "# here\nNaN  bare"] {
            assert!(Table::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn two_percent_are_tolerated_either_way_and_no_more() {
        let expected = table(&[("accept", 1_000.0)]);
        for count in [980.0, 1_000.0, 1_020.0] {
            assert_eq!(expected.differences(&table(&[("accept", count)])), [""; 0], "{count}");
        }
        let more = expected.differences(&table(&[("accept", 1_021.0)]));
        assert_eq!(more, ["accept: expected 1000.0, found 1021.0 (+2.1 %)"]);
        let less = expected.differences(&table(&[("accept", 979.0)]));
        assert_eq!(less, ["accept: expected 1000.0, found 979.0 (-2.1 %)"]);
    }

    #[test]
    fn paths_that_come_or_go_are_told() {
        let told = table(&[("accept", 1.0)]).differences(&table(&[("reject", 2.0)]));
        assert_eq!(told, ["accept: expected 1.0, found no such path", "reject: expected nothing, found 2.0"]);
    }

    #[test]
    fn another_toolchain_is_named_where_something_differs() {
        let expected = Table { made_with: "here, rustc 0".to_owned(), ..table(&[("accept", 1.0)]) };
        assert_eq!(expected.differences(&table(&[("accept", 1.0)])), [""; 0]);
        let told = expected.differences(&table(&[("accept", 2.0)]));
        assert_eq!(
            told.last().map(String::as_str),
            Some("the table is of here, rustc 0; this is here, rustc 1, which makes other code")
        );
    }
}
