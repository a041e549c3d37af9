//! [`AdmissionConfig`] as a part of another configuration.

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeSeed, Error},
    ser::{SerializeMap, SerializeSeq},
};

use super::{
    limits::spell_out,
    setting::{At, Problems, Setting},
};
use crate::{
    AdmissionConfig,
    load::{
        ConfigError,
        json_text::NodeSeed,
        value::{Origin, Value},
    },
};

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::Integer(number) => serializer.serialize_i64(*number),
            Self::Number(number) => serializer.serialize_f64(*number),
            Self::Text(text) | Self::Foreign(text) => serializer.serialize_str(text),
            Self::List(values) => {
                let mut list = serializer.serialize_seq(Some(values.len()))?;
                for node in values {
                    list.serialize_element(&node.value)?;
                }
                list.end()
            }
            Self::Table(table) => {
                let mut map = serializer.serialize_map(Some(table.len()))?;
                for (key, node) in table {
                    map.serialize_entry(key, &node.value)?;
                }
                map.end()
            }
        }
    }
}

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
