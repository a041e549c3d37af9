//! What is wrong with a configuration, all of it at once.

use std::fmt;

use super::value::Origin;
use tower_admission_engine::{BuildError, Problem, short_words};

/// A problem of a configuration: its origin, the setting, what was found, what is allowed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigProblem {
    origin: Origin,
    problem: Problem,
}

impl ConfigProblem {
    pub(crate) fn new(origin: &Origin, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { origin: origin.clone(), problem: Problem::new(path, message) }
    }

    /// The file, line and column, or the variable, of the problem.
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The path of the setting, such as `partitions.checkout`; empty for the file as a whole.
    pub fn path(&self) -> &str {
        self.problem.path()
    }

    /// What was found and what is allowed.
    pub fn message(&self) -> &str {
        self.problem.message()
    }

    /// Files before variables, and each file from top to bottom.
    fn order(&self) -> (u8, &str, [usize; 2]) {
        match &self.origin {
            Origin::File { name, line, column } => (0, name, [line.unwrap_or(0), column.unwrap_or(0)]),
            Origin::Variable(name) => (1, name, [0; 2]),
            Origin::Code => (2, "", [0; 2]),
            Origin::Default | Origin::Patience => (3, "", [0; 2]),
        }
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.origin != Origin::Default {
            write!(f, "{}", self.origin)?;
            if let Origin::File { column: Some(column), .. } = &self.origin {
                write!(f, ":{column}")?;
            }
            f.write_str(": ")?;
        }
        if !self.path().is_empty() {
            write!(f, "{}: ", short_words(self.path()))?;
        }
        f.write_str(&short_words(self.message()))
    }
}

/// A text shows so many problems: a reader mends the first ones first.
const SHOWN: usize = 10;

/// The error of an invalid configuration. Has every problem, not just the first; its text shows the first ten, one per line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigError {
    problems: Vec<ConfigProblem>,
}

impl ConfigError {
    /// `Err` if there is any problem.
    pub(crate) fn check(mut problems: Vec<ConfigProblem>) -> Result<(), Self> {
        if problems.is_empty() {
            return Ok(());
        }
        problems.sort_by(|one, two| one.order().cmp(&two.order()));
        problems.dedup();
        Err(Self { problems })
    }

    /// All problems, files first and each from top to bottom; never empty.
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.problems
    }
}

/// Settings that are valid as such, and can't be taken by a handle that is at work.
impl From<BuildError> for ConfigError {
    fn from(error: BuildError) -> Self {
        let problems = error.problems().iter();
        let problems = problems.map(|it| ConfigProblem::new(&Origin::Default, it.path(), it.message()));
        Self { problems: problems.collect() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration can't be used:")?;
        for problem in self.problems.iter().take(SHOWN) {
            write!(f, "\n  {problem}")?;
        }
        match self.problems.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use crate::Sources;

    #[test]
    fn of_a_long_name_a_message_shows_the_beginning() {
        let name = "ä".repeat(100_000);
        let text = format!(
            "{name} = 1\n\"{name}\" = 2\n[partitions]\n\"{name}\" = \"200%\"\n[overrides.\"{name}*\".c]\nmax_in_flight = 0"
        );
        let error = Sources::new().toml("long", text).load().unwrap_err();
        let said = error.to_string();
        assert!(said.contains("…: ") && said.chars().count() < 2_000, "{} characters", said.chars().count());
        assert!(error.problems().iter().any(|problem| problem.path().contains(&name)), "programs get all of it");
    }
}
