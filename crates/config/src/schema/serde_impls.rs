//! [`AdmissionConfig`] as a part of another configuration.

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeSeed, Error},
};

use super::{
    limits::spell_out,
    setting::{At, Problems, Setting},
};
use crate::{
    AdmissionConfig,
    load::{ConfigError, json_text::NodeSeed, value::Origin},
};

impl Serialize for AdmissionConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.write().serialize(serializer)
    }
}

/// All problems are in the message of the one error. Formats have to say what they contain, as TOML, JSON and YAML do.
impl<'de> Deserialize<'de> for AdmissionConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let problems = Problems::default();
        let seed = NodeSeed { origin: &Origin::Default, read: None, path: String::new(), problems: &problems };
        let mut node = seed.deserialize(deserializer)?;
        spell_out(&mut node, &problems);
        let config = Self::read(&At::root(&node, &problems));
        ConfigError::check(problems.into_inner()).map_err(Error::custom)?;
        config.ok_or_else(|| Error::custom("no configuration"))
    }
}
