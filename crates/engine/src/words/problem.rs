//! What is wrong with settings, all of it at once.

use std::fmt;

/// A problem of the settings: the path, what was found, what is allowed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    path: String,
    message: String,
}

impl Problem {
    /// A problem of the setting at `path`, which is relative to the type that reports it.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }

    /// A problem unless the setting at `path` is as it may be: what was found there, and what is allowed.
    #[doc(hidden)]
    pub fn unless(
        is_allowed: bool,
        path: impl Into<String>,
        found: impl fmt::Display,
        allowed: impl fmt::Display,
    ) -> Option<Self> {
        (!is_allowed).then(|| Self::new(path, format!("found {found}, allowed is {allowed}")))
    }

    /// The path of the setting, such as `partitions.checkout`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What was found there and what is allowed.
    pub fn message(&self) -> &str {
        &self.message
    }

    #[doc(hidden)]
    pub fn under(self, parent: &str) -> Self {
        Self { path: format!("{parent}.{}", self.path), message: self.message }
    }
}

/// Shows a number in a few characters: written out, the smallest and the largest have hundreds.
pub fn short(number: f64) -> String {
    let text = number.to_string();
    if text.len() > 20 { format!("{number:e}") } else { text }
}

/// Shows a message with the beginnings of its longest words: these are names, of any length.
pub fn short_words(text: &str) -> String {
    let mut length = 0;
    let shown = text.chars().filter_map(|c| {
        length = if c == ' ' { 0 } else { length + 1 };
        match length {
            0..=100 => Some(c),
            101 => Some('…'),
            _ => None,
        }
    });
    shown.collect()
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", short_words(&self.path), short_words(&self.message))
    }
}

/// The error of invalid settings. Names every problem, not just the first.
#[derive(Clone, Eq, PartialEq)]
pub struct BuildError {
    problems: Vec<Problem>,
}

impl BuildError {
    /// `Err` if there is any problem.
    #[doc(hidden)]
    pub fn check(problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self { problems }) }
    }

    /// All problems; never empty.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

/// The same text as [`Display`](fmt::Display): a `main` that returns this error prints it so.
impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems: Vec<_> = self.problems.iter().map(Problem::to_string).collect();
        write!(f, "the admission settings can't be used: {}", problems.join("; "))
    }
}

impl std::error::Error for BuildError {}
