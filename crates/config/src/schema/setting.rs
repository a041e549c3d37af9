//! How one setting is read, written and described. Everything else is made of these.

use std::{cell::RefCell, collections::BTreeMap, fmt::Display, num::NonZeroU32, time::Duration};

use serde_json::{Value as Json, json};

use super::times::{A_TIME, parse_seconds, parse_time, write_time};
use crate::{
    Derived,
    load::{
        nearest::nearest,
        problems::ConfigProblem,
        value::{Node, Origin, Table, Value, join, word},
    },
};

/// A type that a setting can have.
pub(crate) trait Setting: Sized {
    /// Reads it. What is wrong is noted, all of it, and the answer then is `None` or the part that is right.
    fn read(at: &At<'_>) -> Option<Self>;

    /// Writes it in the one way that reads back as the same.
    fn write(&self) -> Value;

    /// The JSON Schema of all ways to write it in a file.
    fn schema() -> Json;
}

/// Everything that was found to be wrong so far.
pub(crate) type Problems = RefCell<Vec<ConfigProblem>>;

/// A value, where it stands, and where to complain about it.
#[derive(Clone, Debug)]
pub(crate) struct At<'a> {
    pub(crate) node: &'a Node,
    pub(crate) path: String,
    pub(crate) problems: &'a Problems,
}

impl<'a> At<'a> {
    pub(crate) const fn root(node: &'a Node, problems: &'a Problems) -> Self {
        Self { node, path: String::new(), problems }
    }

    pub(crate) fn problem(&self, message: impl Into<String>) {
        self.problems.borrow_mut().push(ConfigProblem::new(&self.node.origin, self.path.as_str(), message));
    }

    /// Notes that something else was found than what is allowed.
    pub(crate) fn wrong<T>(&self, allowed: impl Display) -> Option<T> {
        /// Longer values say nothing that their place doesn't say.
        const SHOWN: usize = 60;
        let found = match &self.node.value {
            Value::Table(_) => "a table".to_owned(),
            Value::List(_) => "a list".to_owned(),
            value => value.to_string(),
        };
        let found = if found.len() > SHOWN { "a longer text" } else { &found };
        self.problem(format!("found {found}, allowed is {allowed}"));
        None
    }

    /// Another value at the same place.
    pub(crate) fn over<'b>(&self, node: &'b Node) -> At<'b>
    where
        'a: 'b,
    {
        At { node, path: self.path.clone(), problems: self.problems }
    }

    /// The text of a value. In the environment everything is text, numbers included.
    pub(crate) fn text(&self) -> Option<&'a str> {
        self.node.value.as_text()
    }

    /// The same as text, if it comes from where everything is text.
    pub(crate) fn loose_text(&self) -> Option<&'a str> {
        self.text().filter(|_| matches!(self.node.origin, Origin::Variable(_))).map(str::trim)
    }

    pub(crate) const fn table(&self) -> Option<&'a Table> {
        self.node.value.as_table()
    }

    pub(crate) fn child(&self, key: &str, node: &'a Node) -> Self {
        Self { node, path: join(&self.path, key), problems: self.problems }
    }

    /// The value of a field of a table, if there is one.
    pub(crate) fn get(&self, key: &str) -> Option<Self> {
        Some(self.child(key, self.node.value.get(key)?))
    }

    /// The value of a field that a table has to have; where it has none, that is noted.
    pub(crate) fn required(&self, key: &str, allowed: impl Display) -> Option<Self> {
        let field = self.get(key);
        if field.is_none() {
            self.problem(format!("{key} is missing, allowed is {allowed}"));
        }
        field
    }

    /// Reads a field of a table, if there is one.
    pub(crate) fn field<T: Setting>(&self, key: &str) -> Option<T> {
        T::read(&self.get(key)?)
    }

    /// A table with no other fields than these.
    pub(crate) fn fields(&self, known: &[&str]) -> Option<()> {
        self.fields_or_aliases(known, &[])
    }

    /// The same, by what is known of them.
    pub(crate) fn known(&self, fields: &[Field]) -> Option<()> {
        self.fields(&fields.iter().map(|(name, ..)| *name).collect::<Vec<_>>())
    }

    /// The same, where slips in names that were once known by others are recognised too.
    pub(crate) fn fields_or_aliases(&self, known: &[&str], aliases: &[(&str, &str)]) -> Option<()> {
        let Some(table) = self.table() else { return self.wrong("a table") };
        for (key, node) in table.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
            let message = match nearest(key, known.iter().copied().chain(aliases.iter().map(|(alias, _)| *alias))) {
                Some(name) => format!("unknown setting; did you mean {name}?"),
                None => format!("unknown setting; known here are {}", known.join(", ")),
            };
            self.child(key, node).problem(message);
        }
        Some(())
    }

    /// One of several words.
    pub(crate) fn one_of<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let listed: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
        self.word_of(&names, &listed.join(", ")).map(|index| choices[index].1)
    }

    /// Which of several words it is, which a message lists like this.
    pub(crate) fn word_of(&self, words: &[&str], listed: &str) -> Option<usize> {
        let Some(found) = self.text().map(word) else { return self.wrong(listed) };
        let index = words.iter().position(|known| *known == found);
        index.or_else(|| match nearest(&found, words.iter().copied()) {
            Some(name) => self.wrong(format!("{listed}; did you mean {name:?}?")),
            None => self.wrong(listed),
        })
    }

    /// A whole number of at least `least`.
    pub(crate) fn count(&self, least: u32) -> Option<usize> {
        self.number(least).or_else(|| self.wrong(format!("a whole number, {least} or more")))
    }

    /// The same, where the caller says what is allowed.
    pub(crate) fn number(&self, least: u32) -> Option<usize> {
        let number = match &self.node.value {
            Value::Integer(number) => usize::try_from(*number).ok(),
            // Beyond 63 bits there is no TOML.
            _ => self.loose_text().and_then(|text| text.parse().ok()).filter(|&number| i64::try_from(number).is_ok()),
        };
        number.filter(|&number: &usize| number >= least as usize)
    }

    /// A whole number of at least `least`, in 32 bits.
    pub(crate) fn small(&self, least: u32) -> Option<u32> {
        let number = self.count(least)?;
        u32::try_from(number).ok().or_else(|| self.wrong(format!("a whole number from {least} to {}", u32::MAX)))
    }
}

impl Setting for usize {
    fn read(at: &At<'_>) -> Option<Self> {
        at.count(0)
    }

    fn write(&self) -> Value {
        Value::count(*self)
    }

    fn schema() -> Json {
        json!({ "type": "integer", "minimum": 0 })
    }
}

impl Setting for u32 {
    fn read(at: &At<'_>) -> Option<Self> {
        at.small(0)
    }

    fn write(&self) -> Value {
        Value::count(*self)
    }

    fn schema() -> Json {
        json!({ "type": "integer", "minimum": 0, "maximum": Self::MAX })
    }
}

impl Setting for NonZeroU32 {
    fn read(at: &At<'_>) -> Option<Self> {
        Self::new(at.small(1)?)
    }

    fn write(&self) -> Value {
        Value::count(self.get())
    }

    fn schema() -> Json {
        json!({ "type": "integer", "minimum": 1, "maximum": u32::MAX })
    }
}

impl Setting for f64 {
    #[expect(clippy::cast_precision_loss, reason = "settings don't reach 2^53")]
    fn read(at: &At<'_>) -> Option<Self> {
        let number = match &at.node.value {
            Value::Number(number) => Some(*number),
            Value::Integer(number) => Some(*number as Self),
            _ => at.loose_text().and_then(|text| text.parse().ok()),
        };
        number.filter(|number| number.is_finite()).or_else(|| at.wrong("a number"))
    }

    fn write(&self) -> Value {
        Value::Number(*self)
    }

    fn schema() -> Json {
        json!({ "type": "number" })
    }
}

impl Setting for bool {
    fn read(at: &At<'_>) -> Option<Self> {
        let loose = || match at.loose_text()?.to_ascii_lowercase().as_str() {
            "true" | "1" | "on" | "yes" => Some(true),
            "false" | "0" | "off" | "no" => Some(false),
            _ => None,
        };
        let flag = if let Value::Flag(flag) = at.node.value { Some(flag) } else { loose() };
        flag.or_else(|| at.wrong("true or false"))
    }

    fn write(&self) -> Value {
        Value::Flag(*self)
    }

    fn schema() -> Json {
        json!({ "type": "boolean" })
    }
}

impl Setting for String {
    fn read(at: &At<'_>) -> Option<Self> {
        at.text().map(Into::into).or_else(|| at.wrong("a text"))
    }

    fn write(&self) -> Value {
        Value::text(self)
    }

    fn schema() -> Json {
        json!({ "type": "string" })
    }
}

impl Setting for Duration {
    fn read(at: &At<'_>) -> Option<Self> {
        let bare = matches!(at.node.origin, Origin::Variable(_));
        let time = match &at.node.value {
            Value::Text(text) => parse_time(text).or_else(|| parse_seconds(text).filter(|_| bare)),
            Value::Integer(_) | Value::Number(_) if bare => parse_seconds(&at.node.value.to_string()),
            _ => None,
        };
        time.or_else(|| at.wrong(A_TIME))
    }

    fn write(&self) -> Value {
        Value::Text(write_time(*self))
    }

    fn schema() -> Json {
        json!({ "type": "string", "pattern": r"^\s*(0|([0-9]+(\.[0-9]{1,9})?\s*(d|days?|h|hours?|m|mins?|minutes?|s|secs?|seconds?|ms|us|µs|ns)\s*)+)\s*$" })
    }
}

/// The word for a setting that isn't set, which a higher layer can say to unset what a lower one sets.
pub(crate) const NONE: &str = "none";

/// The word for a setting that follows from others.
pub(crate) const AUTO: &str = "auto";

impl<T: Setting> Setting for Option<T> {
    /// The outer `None` is for what was wrong.
    fn read(at: &At<'_>) -> Option<Self> {
        match at.text() {
            Some(text) if word(text) == NONE => Some(None),
            _ => T::read(at).map(Some),
        }
    }

    fn write(&self) -> Value {
        self.as_ref().map_or_else(|| Value::text(NONE), Setting::write)
    }

    fn schema() -> Json {
        any_of([json!({ "const": NONE }), T::schema()])
    }
}

impl<T: Setting> Setting for Derived<T> {
    fn read(at: &At<'_>) -> Option<Self> {
        match at.text() {
            Some(text) if word(text) == AUTO => Some(Self::Auto),
            _ => T::read(at).map(Self::Set),
        }
    }

    fn write(&self) -> Value {
        self.get().map_or_else(|| Value::text(AUTO), Setting::write)
    }

    fn schema() -> Json {
        any_of([json!({ "const": AUTO }), T::schema()])
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn read(at: &At<'_>) -> Option<Self> {
        let Value::List(nodes) = &at.node.value else { return at.wrong("a list") };
        let read = |(index, node)| T::read(&At { node, path: format!("{}[{index}]", at.path), problems: at.problems });
        Some(nodes.iter().enumerate().filter_map(read).collect())
    }

    fn write(&self) -> Value {
        Value::list(self.iter().map(Setting::write))
    }

    fn schema() -> Json {
        json!({ "type": "array", "items": T::schema() })
    }
}

impl<T: Setting> Setting for BTreeMap<String, T> {
    fn read(at: &At<'_>) -> Option<Self> {
        let Some(table) = at.table() else { return at.wrong("a table") };
        let read = |(key, node)| Some((String::clone(key), T::read(&at.child(key, node))?));
        Some(table.iter().filter_map(read).collect())
    }

    fn write(&self) -> Value {
        Value::table(self.iter().map(|(key, value)| (key.as_str(), value.write())))
    }

    fn schema() -> Json {
        json!({ "type": "object", "additionalProperties": T::schema() })
    }
}

/// A field of a table, if it says anything.
pub(crate) fn field<T: Setting>(name: &'static str, value: Option<T>) -> Option<(&'static str, Value)> {
    Some((name, value?.write()))
}

pub(crate) fn any_of(schemas: impl Into<Vec<Json>>) -> Json {
    json!({ "anyOf": schemas.into() })
}

/// The description of a setting: the documentation of it, line by line, up to the first empty line.
pub(crate) fn first_paragraph(lines: &[&str]) -> String {
    lines.iter().map_while(|line| (!line.is_empty()).then_some(*line)).collect::<String>().trim().to_owned()
}

/// A field of a table: its name, what it is, and its schema.
pub(crate) type Field = (&'static str, &'static str, fn() -> Json);

/// The schema of a table with no other fields than these.
pub(crate) fn table_schema(fields: &[Field]) -> Json {
    object_schema(fields.iter().map(|&(name, description, schema)| (name, description, schema())))
}

/// The same, with a description that may be made up.
pub(crate) fn object_schema<D: Into<String>>(fields: impl IntoIterator<Item = (&'static str, D, Json)>) -> Json {
    let properties: serde_json::Map<String, Json> = fields
        .into_iter()
        .map(|(name, description, mut schema)| {
            let description = description.into();
            if let Json::Object(schema) = &mut schema
                && !description.is_empty()
            {
                schema.insert("description".to_owned(), description.into());
            }
            (name.to_owned(), schema)
        })
        .collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}
