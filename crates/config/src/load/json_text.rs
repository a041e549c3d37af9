//! JSON as values, and whatever else serde can read.

use std::{cell::Cell, fmt, io};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::{
    problems::ConfigProblem,
    value::{Lines, Node, Origin, Table, Value, join},
};
use crate::schema::setting::Problems;

/// Reads a text. What can't be read is noted. `None` where nothing can.
pub(crate) fn read(origin: &Origin, path: &str, text: &str, problems: &Problems) -> Option<Node> {
    let bytes = Cell::new(0);
    let lines = Lines::of(text);
    let mut json = serde_json::Deserializer::from_reader(Counted { rest: text.as_bytes(), bytes: &bytes });
    let seed = NodeSeed { origin, read: Some((&lines, &bytes)), path: path.to_owned(), problems };
    let error = match seed.deserialize(&mut json).and_then(|node| json.end().map(|()| node)) {
        Ok(node) => return Some(node),
        Err(error) => error,
    };
    let origin = match origin {
        Origin::File { name, .. } => {
            Origin::File { name: name.clone(), line: Some(error.line()), column: Some(error.column()) }
        }
        other => other.clone(),
    };
    problems.borrow_mut().push(ConfigProblem::new(&origin, path, format!("invalid JSON: {error}")));
    None
}

/// A text that counts what was read of it, byte by byte.
struct Counted<'a> {
    rest: &'a [u8],
    bytes: &'a Cell<usize>,
}

impl io::Read for Counted<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.rest.read(into)?;
        self.bytes.set(self.bytes.get() + count);
        Ok(count)
    }
}

/// Makes a node of whatever comes; serde's own maps would hide a key that comes twice.
#[derive(Debug)]
pub(crate) struct NodeSeed<'a> {
    pub(crate) origin: &'a Origin,
    /// The text, and how much of it was read.
    pub(crate) read: Option<(&'a Lines<'a>, &'a Cell<usize>)>,
    pub(crate) path: String,
    pub(crate) problems: &'a Problems,
}

impl NodeSeed<'_> {
    fn node<E>(&self, value: Value) -> Result<Node, E> {
        Ok(value.at(self.origin))
    }

    /// Where the value begins that is read next.
    fn here(&self) -> Origin {
        let (Origin::File { name, .. }, Some((lines, bytes))) = (self.origin, self.read) else {
            return self.origin.clone();
        };
        // Of a value in a list the first byte was looked at.
        let read = bytes.get();
        let is_seen = read > 0 && lines.byte(read - 1) != Some(b':');
        let start = read - usize::from(is_seen);
        let rest = lines.rest(start);
        lines.place(name, start + rest.len() - rest.trim_start().len())
    }

    const fn inner(&self, path: String) -> NodeSeed<'_> {
        NodeSeed { origin: self.origin, read: self.read, path, problems: self.problems }
    }
}

impl<'de> DeserializeSeed<'de> for NodeSeed<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        let here = self.here();
        deserializer.deserialize_any(NodeSeed { origin: &here, ..self })
    }
}

impl<'de> Visitor<'de> for NodeSeed<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a setting")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Node, E> {
        self.node(Value::Flag(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Node, E> {
        self.node(Value::Integer(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Node, E> {
        self.node(i64::try_from(number).map_or_else(|_| Value::Foreign(number.to_string()), Value::Integer))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Node, E> {
        self.node(Value::Number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        self.node(Value::text(text))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        self.node(Value::Foreign("null".to_owned()))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        self.node(Value::Foreign("null".to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(node) = values.next_element_seed(self.inner(format!("{}[{}]", self.path, list.len())))? {
            list.push(node);
        }
        self.node(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Node, A::Error> {
        let mut table = Table::new();
        while let Some(key) = fields.next_key::<String>()? {
            let path = join(&self.path, &key);
            let node = fields.next_value_seed(self.inner(path.clone()))?;
            let origin = node.origin.clone();
            if table.insert(key, node).is_some() {
                let problem = ConfigProblem::new(&origin, path, "found twice, each name is allowed once");
                self.problems.borrow_mut().push(problem);
            }
        }
        self.node(Value::Table(table))
    }
}

/// Writes a value in one line.
pub(crate) fn write(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
