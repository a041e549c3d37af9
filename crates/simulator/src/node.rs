//! Reads a TOML table field by field and notes everything that is wrong with it, each problem with its path.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    fmt::{Debug, Display},
    ops::{Bound, RangeBounds},
    sync::LazyLock,
    time::Duration,
};

use toml::{Table, Value};
use tower_admission::configuration;

/// What is wrong with a scenario, all of it.
#[derive(Debug, Default)]
pub struct Problems {
    found: RefCell<Vec<String>>,
    /// The names of all fields that were asked for, to see that they are documented.
    asked: RefCell<BTreeSet<String>>,
}

impl Problems {
    pub fn add(&self, path: &str, what: impl Display) {
        self.found.borrow_mut().push(format!("{path}: {what}"));
    }

    #[allow(dead_code, reason = "for a test")]
    pub fn asked(&self) -> BTreeSet<String> {
        self.asked.borrow().clone()
    }

    /// `value` if there is nothing wrong.
    pub fn check<T>(self, value: T) -> Result<T, String> {
        let problems = self.found.into_inner();
        if problems.is_empty() { Ok(value) } else { Err(problems.join("\n")) }
    }
}

/// One table of a scenario. What was asked for is what it knows; [`Node::finish`] reports the rest.
#[derive(Debug)]
pub struct Node<'a> {
    path: String,
    table: &'a Table,
    known: RefCell<BTreeSet<String>>,
    problems: &'a Problems,
}

static EMPTY: LazyLock<Table> = LazyLock::new(Table::new);

impl<'a> Node<'a> {
    pub fn new(path: impl Into<String>, table: &'a Table, problems: &'a Problems) -> Self {
        Self { path: path.into(), table, known: RefCell::default(), problems }
    }

    pub fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    pub fn problem(&self, key: &str, what: impl Display) {
        self.problems.add(&self.path(key), what);
    }

    pub const fn problems(&self) -> &'a Problems {
        self.problems
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        self.known.borrow_mut().insert(key.to_owned());
        self.problems.asked.borrow_mut().insert(key.to_owned());
        self.table.get(key)
    }

    fn wrong(&self, key: &str, found: &Value, wanted: impl Display) {
        let found = found.to_string();
        let found = if found.len() > 60 { "something else" } else { &found };
        self.problem(key, format!("found {found}, allowed is {wanted}"));
    }

    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub fn is_table(&self, key: &str) -> bool {
        self.get(key).is_some_and(Value::is_table)
    }

    pub fn is_text(&self, key: &str) -> bool {
        self.get(key).is_some_and(Value::is_str)
    }

    pub fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.table.keys().map(String::as_str)
    }

    /// A table; an empty one where there is none.
    pub fn child(&self, key: &str) -> Self {
        let table = match self.get(key) {
            Some(Value::Table(table)) => table,
            Some(other) => {
                self.wrong(key, other, "a table");
                &EMPTY
            }
            None => &EMPTY,
        };
        Self::new(self.path(key), table, self.problems)
    }

    pub fn table(&self, key: &str) -> Table {
        self.child(key).table.clone()
    }

    /// An array of tables.
    pub fn children(&self, key: &str) -> Vec<Self> {
        let children = self.array(key).iter().enumerate().filter_map(|(index, value)| {
            let path = format!("{}[{index}]", self.path(key));
            match value {
                Value::Table(table) => Some(Self::new(path, table, self.problems)),
                _ => {
                    self.problems.add(&path, "allowed is a table");
                    None
                }
            }
        });
        children.collect()
    }

    fn array(&self, key: &str) -> &'a [Value] {
        match self.get(key) {
            Some(Value::Array(values)) => values,
            Some(other) => {
                self.wrong(key, other, "an array");
                &[]
            }
            None => &[],
        }
    }

    pub fn text(&self, key: &str) -> Option<&'a str> {
        let value = self.get(key)?;
        let text = value.as_str();
        if text.is_none() {
            self.wrong(key, value, "a string");
        }
        text
    }

    pub fn texts(&self, key: &str) -> Vec<&'a str> {
        let texts: Vec<_> = self.array(key).iter().filter_map(Value::as_str).collect();
        if texts.len() < self.array(key).len() {
            self.problem(key, "allowed are strings");
        }
        texts
    }

    pub fn flag(&self, key: &str) -> Option<bool> {
        let value = self.get(key)?;
        let flag = value.as_bool();
        if flag.is_none() {
            self.wrong(key, value, "true or false");
        }
        flag
    }

    #[expect(clippy::cast_precision_loss, reason = "nobody writes numbers of 2^53 and more")]
    pub fn number(&self, key: &str, range: impl RangeBounds<f64>) -> Option<f64> {
        let value = self.get(key)?;
        let number = value.as_float().or_else(|| value.as_integer().map(|integer| integer as f64));
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            self.wrong(key, value, format!("a number {}", describe(&range)));
        }
        number
    }

    pub fn count(&self, key: &str, range: impl RangeBounds<usize>) -> Option<usize> {
        let value = self.get(key)?;
        let count = value.as_integer().and_then(|integer| usize::try_from(integer).ok());
        let count = count.filter(|count| range.contains(count));
        if count.is_none() {
            self.wrong(key, value, format!("a whole number {}", describe(&range)));
        }
        count
    }

    pub fn counts(&self, key: &str) -> Option<Vec<u64>> {
        self.get(key)?;
        let read = |value: &Value| value.as_integer().and_then(|integer| u64::try_from(integer).ok());
        let counts: Option<Vec<u64>> = self.array(key).iter().map(read).collect();
        if counts.is_none() {
            self.problem(key, "allowed are whole numbers, 0 or more");
        }
        counts
    }

    /// A time in nanoseconds.
    pub fn time(&self, key: &str) -> Option<u64> {
        let value = self.get(key)?;
        let nanos = value.as_str().and_then(parse_time);
        if nanos.is_none() {
            self.wrong(key, value, "a time such as \"250ms\", \"1.5s\", \"10m\" or \"2h\"");
        }
        nanos
    }

    pub fn duration(&self, key: &str) -> Option<Duration> {
        self.time(key).map(Duration::from_nanos)
    }

    /// Two times, the first before the second.
    pub fn span(&self, key: &str) -> Option<(u64, u64)> {
        let value = self.get(key)?;
        let times: Option<Vec<u64>> =
            value.as_array().and_then(|times| times.iter().map(|time| time.as_str().and_then(parse_time)).collect());
        match times.as_deref() {
            Some(&[from, to]) if from < to => Some((from, to)),
            _ => {
                self.wrong(key, value, "two times, the earlier one first, such as [\"30s\", \"90s\"]");
                None
            }
        }
    }

    pub fn one_of<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Option<T> {
        let text = self.text(key)?;
        let found = choices.iter().find(|(name, _)| *name == text);
        if found.is_none() {
            let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
            self.problem(key, format!("found {text:?}, known are {}", names.join(", ")));
        }
        found.map(|&(_, value)| value)
    }

    /// Notes that a field is missing, unless it is there and only its value was wrong.
    pub fn required<T: Default>(&self, key: &str, value: Option<T>) -> T {
        if value.is_none() && !self.has(key) {
            self.problem(key, "missing");
        }
        value.unwrap_or_default()
    }

    /// Reports the fields that nobody asked for.
    pub fn finish(self) {
        let known = self.known.borrow();
        for key in self.table.keys().filter(|&key| !known.contains(key)) {
            let names: Vec<_> = known.iter().map(String::as_str).collect();
            self.problem(key, format!("unknown field; known here are {}", names.join(", ")));
        }
    }
}

/// `it` with `set` applied if there is a value.
pub(crate) fn with<L, T>(it: L, value: Option<T>, set: impl FnOnce(L, T) -> L) -> L {
    match value {
        Some(value) => set(it, value),
        None => it,
    }
}

fn describe<T: Debug>(range: &impl RangeBounds<T>) -> String {
    let low = match range.start_bound() {
        Bound::Included(low) => format!("of {low:?} or more"),
        Bound::Excluded(low) => format!("above {low:?}"),
        Bound::Unbounded => String::new(),
    };
    let high = match range.end_bound() {
        Bound::Included(high) => format!("up to {high:?}"),
        Bound::Excluded(high) => format!("below {high:?}"),
        Bound::Unbounded => String::new(),
    };
    [low, high].join(" ").trim().to_owned()
}

/// Nanoseconds, of a time as configurations write it.
pub fn parse_time(text: &str) -> Option<u64> {
    configuration::parse_time(text).and_then(|time| u64::try_from(time.as_nanos()).ok())
}
