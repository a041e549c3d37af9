//! A configuration from one source, and written for one.

use std::path::Path;

use super::{ConfigError, Sources, environment, json_text, toml_text};
use crate::{AdmissionConfig, schema::setting::Setting};

impl AdmissionConfig {
    /// Reads a file: JSON if its name ends with `.json`, TOML if it ends with `.toml` or has no ending.
    ///
    /// # Errors
    ///
    /// Names every problem of the file, or why it can't be read.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        Ok(Sources::new().file(path).load()?.into_config())
    }

    /// Reads TOML.
    ///
    /// # Errors
    ///
    /// Names every problem of the text.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        Ok(Sources::new().toml("text", text).load()?.into_config())
    }

    /// Reads JSON.
    ///
    /// # Errors
    ///
    /// Names every problem of the text.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        Ok(Sources::new().json("text", text).load()?.into_config())
    }

    /// All settings as TOML. Reading it gives the same configuration.
    pub fn to_toml(&self) -> String {
        toml_text::write(&self.write())
    }

    /// All settings as JSON. Reading it gives the same configuration.
    pub fn to_json(&self) -> String {
        json_text::write(&self.write())
    }

    /// All settings as environment variables. Reading them gives the same configuration.
    pub fn to_environment(&self) -> Vec<(String, String)> {
        environment::write(self.write())
    }

    /// The names of the environment variables for all settings; `<CLASS>` stands for the name of a class of work.
    pub fn variables() -> Vec<String> {
        environment::names()
    }
}
