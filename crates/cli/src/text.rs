//! Text for terminals: names that can do no harm, colours, numbers, times.

use std::{
    borrow::Cow,
    io::{self, ErrorKind, IsTerminal, Write, stdout},
};

use crate::failure::{End, Failure};

/// Prints all of it. A reader that has seen enough and left is no failure.
pub(crate) fn print(text: &str) -> Result<End, Failure> {
    show(text).map(|_| End::Well)
}

/// The same for output in parts: returns whether the output is still read.
pub(crate) fn show(text: &str) -> Result<bool, Failure> {
    let mut out = stdout().lock();
    is_read(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Whether what was written to is still read.
pub(crate) fn is_read(written: io::Result<()>) -> Result<bool, Failure> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::Missing(format!("can't write: {error}"))),
    }
}

/// Whether a character can make a terminal do something, or text look like another one.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// A name from a stranger, with control characters escaped.
pub(crate) fn safe(name: &str) -> Cow<'_, str> {
    if !name.chars().any(is_unsafe) {
        return name.into();
    }
    let escaped = name.chars().map(|c| if is_unsafe(c) { c.escape_unicode().to_string() } else { c.to_string() });
    escaped.collect::<String>().into()
}

/// A name that fits into a column: the end of a longer name is left out.
pub(crate) fn cut(name: &str) -> String {
    const LONGEST: usize = 40;
    let mut characters = name.chars();
    let cut: String = characters.by_ref().take(LONGEST).collect();
    if characters.next().is_some() { cut + "…" } else { cut }
}

/// JSON over several lines. What could harm a terminal is written as JSON can write it.
pub(crate) fn json(value: &serde_json::Value) -> String {
    escaped(&format!("{value:#}\n"))
}

/// JSON in one line, likewise.
pub(crate) fn json_line(value: &serde_json::Value) -> String {
    escaped(&format!("{value}\n"))
}

/// JSON with what could harm a terminal as JSON can write it.
pub(crate) fn escaped(text: &str) -> String {
    let mut units = [0; 2];
    let escaped = text.chars().map(|c| match c {
        c if c != '\n' && is_unsafe(c) => c.encode_utf16(&mut units).iter().map(|it| format!("\\u{it:04x}")).collect(),
        c => c.to_string(),
    });
    escaped.collect()
}

/// How a word looks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Look {
    #[default]
    Plain,
    Bold,
    Dim,
    Good,
    Busy,
    Bad,
}

/// Colours, where they are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    /// For standard output: colours on a terminal, unless `NO_COLOR` says otherwise.
    pub(crate) fn for_stdout() -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        Self { on: stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb() }
    }

    pub(crate) fn paint(self, look: Look, text: &str) -> String {
        let code = match look {
            Look::Bold => "1",
            Look::Dim => "2",
            Look::Good => "32",
            Look::Busy => "33",
            Look::Bad => "31",
            Look::Plain => return text.to_owned(),
        };
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Whether the terminal can do nothing but print.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// The look of a status.
pub(crate) fn look_of(status: &str) -> Look {
    match status {
        "accepting" => Look::Good,
        "saturated" | "throttled" | "full" => Look::Busy,
        _ => Look::Bad,
    }
}

/// Three figures and a unit: `250 ms`, `1.2 s`, `75 min`.
pub(crate) fn seconds(seconds: f64) -> String {
    let (value, unit) = match seconds {
        it if it >= 7_200.0 => (it / 3_600.0, "h"),
        it if it >= 120.0 => (it / 60.0, "min"),
        it if it >= 1.0 || it == 0.0 => (it, "s"),
        it if it >= 0.001 => (it * 1_000.0, "ms"),
        it => (it * 1_000_000.0, "µs"),
    };
    let decimals = usize::from(value < 10.0 && value.fract() > 0.0);
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_do_no_harm() {
        assert_eq!(safe("AppA:Chromium/ü 漢"), "AppA:Chromium/ü 漢");
        assert_eq!(safe("a\x1b[2Jb\n\u{9b}31m"), "a\\u{1b}[2Jb\\u{a}\\u{9b}31m");
        assert_eq!(safe("a\u{202e}gpj.exe"), "a\\u{202e}gpj.exe");
        let written = json(&serde_json::json!({ "a\u{9b}": "\u{202e}\x1b" }));
        assert_eq!(written, "{\n  \"a\\u009b\": \"\\u202e\\u001b\"\n}\n");
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(cut(&"ä".repeat(40)), "ä".repeat(40));
        assert_eq!(cut(&"ä".repeat(41)), "ä".repeat(40) + "…");
    }

    #[test]
    fn times_have_a_unit_that_suits_them() {
        for (time, text) in [
            (0.0, "0 s"),
            (0.000_02, "20 µs"),
            (0.0042, "4.2 ms"),
            (0.25, "250 ms"),
            (1.24, "1.2 s"),
            (4_500.0, "75 min"),
        ] {
            assert_eq!(seconds(time), text);
        }
    }
}
