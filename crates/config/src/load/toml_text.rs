//! TOML as values with lines.

use std::{collections::BTreeSet, sync::Arc};

use ::toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    problems::ConfigProblem,
    value::{Lines, Node, Origin, Table, Value},
};
use crate::schema::setting::Problems;

/// Reads a text. What can't be read is noted, and the rest is read all the same.
///
/// Some mistakes make the parser give up, so lines with a mistake are blanked out and the rest is read again.
pub(crate) fn read(name: &str, text: &str, problems: &Problems) -> Node {
    /// A text with more broken lines than this is something else than TOML.
    const MOST: usize = 32;
    let mut rest = text.to_owned();
    for _ in 0..MOST {
        let reader = Reader { name: name.into(), lines: Lines::of(&rest) };
        let (table, errors) = DeTable::parse_recoverable(&rest);
        if errors.is_empty() {
            return reader.table(table.get_ref()).at(&Origin::file(name));
        }
        let mut broken = BTreeSet::new();
        for error in errors {
            let at = error.span().map_or(0, |span| span.start);
            let origin = reader.lines.place(&reader.name, at);
            let Origin::File { line: Some(line), .. } = origin else { continue };
            let problem = ConfigProblem::new(&origin, "", format!("invalid TOML: {}", error.message().trim()));
            // One mistake per line is enough to look at it.
            if broken.insert(line) {
                problems.borrow_mut().push(problem);
            }
        }
        rest = without(&rest, &broken);
    }
    Value::Table(Table::new()).at(&Origin::file(name))
}

/// The text with empty lines instead of these, counted from 1; without its header a whole section is left out.
fn without(text: &str, broken: &BTreeSet<usize>) -> String {
    let mut section_is_broken = false;
    let lines = text.split('\n').enumerate().map(|(index, line)| {
        let is_broken = broken.contains(&(index + 1));
        if line.trim_start().starts_with('[') {
            section_is_broken = is_broken;
        }
        if is_broken || section_is_broken { "" } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

struct Reader<'t> {
    name: Arc<str>,
    lines: Lines<'t>,
}

impl Reader<'_> {
    fn table(&self, table: &DeTable<'_>) -> Value {
        let fields = table.iter().map(|(key, value)| (key.get_ref().to_string(), self.node(value)));
        Value::Table(fields.collect::<Table>())
    }

    fn node(&self, value: &Spanned<DeValue<'_>>) -> Node {
        let origin = self.lines.place(&self.name, value.span().start);
        let value = match value.get_ref() {
            DeValue::String(text) => Value::text(text.as_ref()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or_else(|_| Value::Foreign(number.to_string()), Value::Integer),
            DeValue::Float(number) => {
                number.as_str().parse().map_or_else(|_| Value::Foreign(number.to_string()), Value::Number)
            }
            DeValue::Boolean(flag) => Value::Flag(*flag),
            DeValue::Datetime(date) => Value::Foreign(date.to_string()),
            DeValue::Array(values) => Value::List(values.iter().map(|value| self.node(value)).collect()),
            DeValue::Table(table) => self.table(table),
        };
        Node { value, origin }
    }
}

/// Writes a table.
pub(crate) fn write(table: &Value) -> String {
    ::toml::Table::try_from(table).map(|table| table.to_string()).unwrap_or_default()
}
