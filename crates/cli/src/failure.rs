//! How the command ends.

use std::{fmt, io, process::ExitCode};

/// It ended with an answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum End {
    /// Nothing is wrong: 0.
    Well,
    /// Something is: 1.
    Wrong,
}

/// It ended without one, and says why.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was asked for isn't there: 1.
    Missing(String),
    /// The command line can't be followed: 2.
    Usage(String),
    /// The server is not there, or is another one: 3.
    Server(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(text) | Self::Usage(text) | Self::Server(text) => f.write_str(text),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Missing(format!("can't write: {error}"))
    }
}

impl From<End> for ExitCode {
    fn from(end: End) -> Self {
        match end {
            End::Well => Self::SUCCESS,
            End::Wrong => Self::FAILURE,
        }
    }
}

impl From<Failure> for ExitCode {
    fn from(failure: Failure) -> Self {
        Self::from(match failure {
            Failure::Missing(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Server(_) => 3,
        })
    }
}

impl End {
    /// Wrong, if that was asked for.
    pub(crate) const fn wrong_if(wrong: bool) -> Self {
        if wrong { Self::Wrong } else { Self::Well }
    }
}
