//! Policies that may suit an incident: the policy that was in place, with a setting or two changed.

use toml::{Table, Value};

use super::cause::{Cause, Incident, Kind};
use crate::{candidate::Candidate, captured::Captured, policy::Policy};

/// Settings in place of others.
#[derive(Debug)]
pub(super) struct Change {
    /// The settings, as a file has them.
    pub(super) name: String,
    pub(super) kind: Kind,
    /// Tables and keys, and what is put there; `None` removes.
    settings: Vec<(&'static [&'static str], String, Option<Value>)>,
}

/// What is changed: `[policy]` of a scenario, or the configuration of a server. Their keys differ in the limit alone.
#[derive(Debug)]
pub(super) struct Base {
    table: Table,
    is_server: bool,
}

impl Base {
    pub(super) fn of_policy(policy: &Policy) -> Self {
        Self { table: policy.table().clone(), is_server: false }
    }

    pub(super) fn of_file(text: &str) -> Result<Self, String> {
        match Candidate::parse(text)? {
            Candidate::Scenario(policy) => Ok(Self::of_policy(&policy)),
            Candidate::Server(_) => {
                Ok(Self { table: text.parse::<Table>().map_err(|error| error.to_string())?, is_server: true })
            }
        }
    }

    pub(super) fn candidate(&self) -> Result<Candidate, String> {
        if self.is_server {
            return Candidate::parse(&self.table.to_string());
        }
        Policy::checked(self.table.clone()).map(Candidate::Scenario)
    }

    pub(super) fn with(&self, change: &Change) -> Result<Candidate, String> {
        let mut changed = Self { table: self.table.clone(), is_server: self.is_server };
        for (path, key, value) in &change.settings {
            let mut table = &mut changed.table;
            for name in *path {
                let inner = table.entry(*name).or_insert_with(|| Value::Table(Table::new()));
                table = inner.as_table_mut().ok_or_else(|| format!("{name}: is not a table"))?;
            }
            match value {
                None => drop(table.remove(key)),
                Some(limit) if key == "limit" && !self.is_server => {
                    let law = [("kind".to_owned(), "fixed".into()), ("limit".to_owned(), limit.clone())];
                    table.insert("law".to_owned(), Value::Table(law.into_iter().collect()));
                }
                Some(value) => drop(table.insert(key.clone(), value.clone())),
            }
        }
        changed.candidate()
    }

    fn has_queue(&self) -> bool {
        self.table.get("queue").and_then(Value::as_integer).is_some_and(|queue| queue > 0)
    }

    fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }
}

/// How long requests wait, which other settings of waiting contradict.
const WAITS: [&str; 6] = ["queue", "wait_timeout", "admission_timeout", "max_wait", "discipline", "shed"];

pub(super) fn changes(captured: &Captured, incident: &Incident, base: &Base) -> Vec<Change> {
    let limit = captured.limit;
    let number = |number: usize| Value::from(i64::try_from(number).unwrap_or(i64::MAX));
    let mut changes = Vec::new();
    let mut add = |kind, settings: Vec<(&'static [&'static str], String, Option<Value>)>| {
        let shown = settings.iter().filter_map(|(path, key, value)| {
            let path: String = path.iter().map(|table| format!("{table}.")).collect();
            let is_bare = key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
            let key = if is_bare { key.clone() } else { Value::from(key.as_str()).to_string() };
            let is_new = !path.is_empty() || base.table.get(&key) != value.as_ref();
            Some(format!("{path}{key} = {}", value.as_ref().filter(|_| is_new)?))
        });
        let name = shown.collect::<Vec<_>>().join(", ");
        changes.push(Change { name, kind, settings });
    };
    let top = |key: &str, value: Value| (&[][..], key.to_owned(), Some(value));
    add(Kind::MoreAtOnce, vec![top("limit", number(limit.saturating_mul(2)))]);
    if limit > 1 {
        add(Kind::Other, vec![top("limit", number(limit / 2))]);
    }
    for label in incident.foremost.iter().filter_map(|group| group.label.as_ref()) {
        let mut sizes = vec![(limit / 2).max(1), (limit / 4).max(1), (limit / 8).max(1)];
        sizes.dedup();
        for size in sizes.into_iter().filter(|size| *size < limit) {
            add(Kind::Other, vec![(&["labels", "caps"], label.clone(), Some(number(size)))]);
        }
    }
    let wait = time(incident.patience.map_or(1_000_000_000, |patience| patience / 2));
    let unset = || WAITS.iter().map(|key| (&[][..], (*key).to_owned(), None));
    if !base.has_queue() {
        let queue =
            [top("queue", number(limit.saturating_mul(4))), top("max_wait", wait), top("discipline", "fair".into())];
        add(Kind::Other, unset().chain(queue).collect());
    } else if !base.has("max_wait") {
        add(Kind::Other, vec![top("max_wait", wait)]);
    } else {
        add(Kind::Other, vec![top("discipline", "fair".into())]);
    }
    if let Some(patience) = incident.patience {
        add(Kind::Other, unset().chain([top("patience", time(patience))]).collect());
    }
    if let Cause::Leak(..) = incident.cause {
        add(Kind::Other, vec![top("permit_time_to_live", time(incident.longest.max(1_000_000)))]);
    }
    changes
}

/// A time of one, two or five of a power of ten, or a little longer.
fn time(nanos: u64) -> Value {
    let millis = nanos.div_ceil(1_000_000).max(1);
    let mut unit = 1;
    while unit * 10 <= millis {
        unit *= 10;
    }
    let round = [1, 2, 5, 10].map(|digit| digit * unit).into_iter().find(|it| *it >= millis).unwrap_or(millis);
    Value::from(if round % 1_000 == 0 { format!("{}s", round / 1_000) } else { format!("{round}ms") })
}
