//! The values of a file or a variable before they are read as settings. Each knows its origin.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde::Serialize;

/// Where a value came from.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Origin {
    /// No source sets the value.
    #[default]
    Default,
    /// A file or a text.
    File {
        /// Its name.
        name: Arc<str>,
        /// The line, counted from 1, where it is known.
        line: Option<usize>,
        /// The character in it, counted from 1, where it is known.
        column: Option<usize>,
    },
    /// An environment variable.
    Variable(Arc<str>),
    /// The program itself.
    Code,
    /// How long callers wait, since no other setting is given.
    Patience,
}

impl Origin {
    /// A file or a text as a whole.
    pub(crate) fn file(name: &str) -> Self {
        Self::File { name: name.into(), line: None, column: None }
    }
}

/// Where the lines of a text end, and how many characters come before each of its blocks: long texts are asked often, and may be
/// one line.
#[derive(Debug)]
pub(crate) struct Lines<'t> {
    text: &'t str,
    ends: Vec<usize>,
    before: Vec<usize>,
}

impl<'t> Lines<'t> {
    const BLOCK: usize = 1_024;

    pub(crate) fn of(text: &'t str) -> Self {
        let mut before = vec![0];
        let mut count = 0;
        before.extend(text.as_bytes().chunks(Self::BLOCK).map(|block| {
            count += characters(block);
            count
        }));
        Self { text, ends: text.match_indices('\n').map(|(end, _)| end).collect(), before }
    }

    /// What begins after so many bytes.
    pub(crate) fn place(&self, name: &Arc<str>, offset: usize) -> Origin {
        let line = self.ends.partition_point(|&end| end < offset);
        let start = line.checked_sub(1).map_or(0, |before| self.ends[before] + 1);
        let column = self.characters_before(offset) - self.characters_before(start);
        Origin::File { name: Arc::clone(name), line: Some(line + 1), column: Some(column + 1) }
    }

    /// The text from so many bytes on.
    pub(crate) fn rest(&self, offset: usize) -> &'t str {
        self.text.get(offset..).unwrap_or_default()
    }

    pub(crate) fn byte(&self, offset: usize) -> Option<u8> {
        self.text.as_bytes().get(offset).copied()
    }

    fn characters_before(&self, offset: usize) -> usize {
        let offset = offset.min(self.text.len());
        let block = offset / Self::BLOCK;
        self.before[block] + characters(&self.text.as_bytes()[block * Self::BLOCK..offset])
    }
}

/// How many characters of UTF-8 begin in these bytes.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { name, line: Some(line), .. } => write!(f, "{name}:{line}"),
            Self::File { name, line: None, .. } => f.write_str(name),
            Self::Variable(name) => f.write_str(name),
            Self::Code => f.write_str("code"),
            Self::Patience => f.write_str("patience"),
        }
    }
}

/// A value and where it came from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub(crate) struct Node {
    pub(crate) value: Value,
    #[serde(skip)]
    pub(crate) origin: Origin,
}

/// What TOML, JSON and the environment have in common.
#[derive(Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Value {
    Flag(bool),
    Integer(i64),
    Number(f64),
    Text(String),
    List(Vec<Node>),
    Table(Table),
    /// What no setting is: a date, `null`, a number beyond all bounds. As it was written.
    Foreign(String),
}

pub(crate) type Table = BTreeMap<String, Node>;

impl Value {
    pub(crate) fn at(self, origin: &Origin) -> Node {
        Node { value: self, origin: origin.clone() }
    }

    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A count. What is beyond 63 bits can't be written in TOML, and means no bound anyway.
    pub(crate) fn count(count: impl TryInto<i64>) -> Self {
        Self::Integer(count.try_into().unwrap_or(i64::MAX))
    }

    pub(crate) fn table(fields: impl IntoIterator<Item = (impl Into<String>, Self)>) -> Self {
        Self::Table(fields.into_iter().map(|(key, value)| (key.into(), value.at(&Origin::Default))).collect())
    }

    pub(crate) fn list(values: impl IntoIterator<Item = Self>) -> Self {
        Self::List(values.into_iter().map(|value| value.at(&Origin::Default)).collect())
    }

    pub(crate) const fn as_table(&self) -> Option<&Table> {
        if let Self::Table(table) = self { Some(table) } else { None }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The value of a field of a table.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.as_table()?.get(key)
    }

    /// The same table with further fields.
    pub(crate) fn with<'k>(mut self, fields: impl IntoIterator<Item = (&'k str, Self)>) -> Self {
        if let Self::Table(table) = &mut self {
            table.extend(fields.into_iter().map(|(key, value)| (key.to_owned(), value.at(&Origin::Default))));
        }
        self
    }
}

/// As JSON writes it, which is also what TOML users recognise.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Number(number) => write!(f, "{number:?}"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Foreign(text) => f.write_str(text),
            Self::List(values) => f.debug_list().entries(values.iter().map(|node| &node.value)).finish(),
            Self::Table(table) => f.debug_map().entries(table.iter().map(|(key, node)| (key, &node.value))).finish(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Node {
    pub(crate) fn empty() -> Self {
        Value::Table(Table::new()).at(&Origin::Default)
    }

    /// The same table without some of its fields.
    pub(crate) fn without(&self, keys: &[&str]) -> Self {
        let mut rest = self.clone();
        if let Value::Table(table) = &mut rest.value {
            table.retain(|key, _| !keys.contains(&key.as_str()));
        }
        rest
    }

    /// Lays `upper` over this: per setting, what is above holds. A list, and anything that is no table on either side, is
    /// replaced as a whole; so is a table that says it is of another `kind`.
    pub(crate) fn lay(&mut self, upper: Self) {
        match (&mut self.value, upper.value) {
            (Value::Table(below), Value::Table(above)) if same_kind(below, &above) => {
                if below.is_empty() {
                    self.origin = upper.origin;
                }
                for (key, node) in above {
                    match below.get_mut(&key) {
                        Some(known) => known.lay(node),
                        None => {
                            below.insert(key, node);
                        }
                    }
                }
            }
            (_, value) => *self = Self { value, origin: upper.origin },
        }
    }

    /// The value that a path of a problem is about, or the closest one around it. Names may contain dots.
    pub(crate) fn closest(&self, path: &str) -> &Self {
        let Some(table) = self.value.as_table() else { return self };
        let ends = path.match_indices(['.', '[']).map(|(end, _)| end).chain([path.len()]);
        // The longest name.
        let Some((end, node)) = ends.filter_map(|end| Some((end, table.get(&path[..end])?))).next_back() else {
            return self;
        };
        node.closest(path[end..].trim_start_matches('.'))
    }
}

/// Whether two tables are about the same kind of thing, as far as they say.
fn same_kind(below: &Table, above: &Table) -> bool {
    let kind = |table: &Table| table.get("kind").and_then(|kind| kind.value.as_text()).map(word);
    kind(below).zip(kind(above)).is_none_or(|(below, above)| below == above)
}

/// A word as it is compared: `two-point` is `two_point`.
pub(crate) fn word(text: &str) -> String {
    text.trim().to_ascii_lowercase().replace('-', "_")
}

pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(fields: &[(&str, Value)]) -> Node {
        Value::table([("limit", Value::table(fields.iter().cloned()))]).at(&Origin::Code)
    }

    #[test]
    fn a_layer_changes_what_it_names_and_nothing_else() {
        let mut below = limit(&[("kind", Value::text("aimd")), ("max", Value::Integer(50))]);
        below.lay(limit(&[("max", Value::Integer(60))]));
        assert_eq!(below.value.to_string(), r#"{"limit": {"kind": "aimd", "max": 60}}"#);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a stopwatch: ten thousand times as long would be quadratic")]
    fn what_begins_where_in_a_long_text_is_known_at_once() {
        let (name, text) = (Arc::from("long"), "ä = 1\n".repeat(100_000));
        let began = std::time::Instant::now();
        let at = |line, column| Origin::File { name: Arc::clone(&name), line: Some(line), column: Some(column) };
        let lines = Lines::of(&text);
        for line in 0..100_000 {
            assert_eq!(lines.place(&name, line * 7 + 5), at(line + 1, 5));
        }
        // The same in one line, as programs write JSON.
        let text = "ä = 1, ".repeat(1_000_000);
        let lines = Lines::of(&text);
        for value in 0..1_000_000 {
            assert_eq!(lines.place(&name, value * 8 + 5), at(1, value * 7 + 5));
        }
        assert_eq!(lines.place(&name, text.len()), at(1, 7_000_001));
        assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
    }

    #[test]
    fn another_kind_starts_afresh() {
        let mut below = limit(&[("kind", Value::text("aimd")), ("threshold", Value::text("1s"))]);
        below.lay(limit(&[("kind", Value::text("vegas"))]));
        assert_eq!(below.value.to_string(), r#"{"limit": {"kind": "vegas"}}"#);
        below.lay(Value::table([("limit", Value::Integer(8))]).at(&Origin::Code));
        assert_eq!(below.value.to_string(), r#"{"limit": 8}"#);
    }

    #[test]
    fn paths_find_the_closest_value() {
        let inner = Value::table([("a.b", Value::Integer(1)), ("a", Value::Integer(2))]);
        let node = Value::table([("caps", inner)]).at(&Origin::Default);
        assert_eq!(node.closest("caps.a.b").value, Value::Integer(1));
        assert_eq!(node.closest("caps.a.x").value, Value::Integer(2));
        assert!(matches!(node.closest("caps.c").value, Value::Table(_)));
    }
}
