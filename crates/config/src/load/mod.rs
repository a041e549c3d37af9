//! Configuration from files, texts, environment variables and code.
//!
//! Each source becomes a tree of [values](value) that know where they came from. The trees are laid over each
//! other, and what comes out is [read](super::schema::setting) setting by setting, so that everything that is wrong is found
//! at once and can be shown where it was written.

mod config;
pub(super) mod environment;
pub(super) mod json_text;
pub(super) mod nearest;
pub(super) mod problems;
mod sources;
pub(super) mod toml_text;
pub(super) mod value;

pub use self::{
    problems::{ConfigError, ConfigProblem},
    sources::{Effective, Loaded, Sources},
    value::Origin,
};
