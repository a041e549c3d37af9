//! Settings that are one of a few words, and shares.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::{
    setting::{At, Field, Setting, any_of, field, table_schema},
    times::{parse_percent, percent_of},
};
use crate::Share;
use crate::load::value::Value;
use tower_admission_engine::{
    plan::{Discipline, Mode, PartitionMode},
    rules::WhenFull,
};

/// A type whose values have names.
macro_rules! words {
    ($type:ty) => {
        impl Setting for $type {
            fn read(at: &At<'_>) -> Option<Self> {
                at.one_of(&Self::ALL.map(|it| (it.as_str(), it)))
            }

            fn write(&self) -> Value {
                Value::text(self.as_str())
            }

            fn schema() -> Json {
                json!({ "enum": Self::ALL.map(Self::as_str) })
            }
        }
    };
}

words!(Mode);
words!(PartitionMode);
words!(WhenFull);

/// The settings that only some of them have.
const TIMES: [&str; 5] = ["interval", "short_wait", "longest", "standing", "credit"];

impl Setting for Discipline {
    fn read(at: &At<'_>) -> Option<Self> {
        let known = Self::ALL.map(|it| (it.as_str(), it));
        if at.table().is_none() {
            return at.one_of(&known);
        }
        at.fields(&[&["kind"][..], &TIMES].concat())?;
        let Some(kind) = at.get("kind") else {
            at.problem("kind is missing, allowed are \"adaptive_lifo\" and \"burst_credit\"");
            return None;
        };
        let found = match kind.one_of(&known)? {
            Self::AdaptiveLifo { interval, short_wait } => {
                let interval = at.field("interval").unwrap_or(interval);
                Self::AdaptiveLifo { interval, short_wait: at.field("short_wait").unwrap_or(short_wait) }
            }
            Self::BurstCredit { longest, standing, .. } => {
                let longest = at.field("longest").unwrap_or(longest);
                let standing = at.field("standing").unwrap_or(standing);
                Self::BurstCredit { longest, standing, credit: at.field("credit").unwrap_or(longest) }
            }
            plain => plain,
        };
        let own = found.times();
        let strangers = TIMES.into_iter().filter(|time| own.iter().all(|(name, _)| name != time));
        for stranger in strangers.filter_map(|time| at.get(time)) {
            stranger.problem(format!("{} has no such setting", found.as_str()));
        }
        Some(found)
    }

    fn write(&self) -> Value {
        let (kind, times) = (Value::text(self.as_str()), self.times());
        if times.is_empty() {
            return kind;
        }
        Value::table([("kind", kind)].into_iter().chain(times.into_iter().map(|(name, time)| (name, time.write()))))
    }

    fn schema() -> Json {
        let mut credit = table_schema(&[
            ("kind", "", || json!({ "enum": ["burst_credit", "burst-credit"] })),
            ("longest", "The maximum wait.", Duration::schema),
            ("standing", "The wait that is always allowed.", Duration::schema),
            ("credit", "For how long in a row requests may wait longer than that.", Duration::schema),
        ]);
        credit["required"] = json!(["kind"]);
        let mut table = table_schema(&[
            ("kind", "", || json!({ "enum": ["adaptive_lifo", "adaptive-lifo"] })),
            ("interval", "The longest time for which a draining queue is not empty.", Duration::schema),
            ("short_wait", "The maximum wait while the queue doesn't drain.", Duration::schema),
        ]);
        table["required"] = json!(["kind"]);
        let words = ["fifo", "fair", "adaptive_lifo", "adaptive-lifo", "burst_credit", "burst-credit"];
        any_of([json!({ "enum": words }), table, credit])
    }
}

/// What a percentage looks like, for messages.
const A_PERCENTAGE: &str = "a percentage such as \"60%\", or a fraction of 1 such as 0.6";

/// A fraction of 1, in percent. A whole number may be meant as either, so it is none, but for 0.
fn parse_fraction(text: &str) -> Option<f64> {
    let is_whole = text != "0" && text.parse::<i64>().is_ok();
    let part = text.parse().ok().filter(|part| !is_whole && (0.0..=1.0).contains(part));
    part.map(percent_of)
}

/// A percentage of the limit, without a mode.
struct Percent(f64);

impl Setting for Percent {
    fn read(at: &At<'_>) -> Option<Self> {
        let percent = match &at.node.value {
            Value::Text(text) => parse_percent(text).or_else(|| parse_fraction(at.loose_text()?)),
            value => parse_fraction(&value.to_string()),
        };
        let is_one = at.node.value == Value::Integer(1) || at.loose_text() == Some("1");
        let allowed = if is_one { "\"1%\", or for all of it \"100%\" or 1.0" } else { A_PERCENTAGE };
        percent.map(Self).or_else(|| at.wrong(allowed))
    }

    fn write(&self) -> Value {
        Value::Text(format!("{}%", self.0))
    }

    fn schema() -> Json {
        let text = json!({ "type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*%$" });
        any_of([text, json!({ "type": "number", "exclusiveMinimum": 0, "maximum": 1 })])
    }
}

const SHARE: [Field; 4] = [
    ("percent", "The part of the limit.", Percent::schema),
    ("mode", "What the partition may do beyond its share.", PartitionMode::schema),
    ("observe", "Whether it only observes (dry run): its decisions are counted, not enforced.", bool::schema),
    ("lend", "The part of the share that others may use while it is idle; all of it unless set.", Percent::schema),
];

impl Setting for Share {
    fn read(at: &At<'_>) -> Option<Self> {
        if at.table().is_none() {
            return Percent::read(at).map(|it| Self::written(it.0));
        }
        at.known(&SHARE)?;
        let percent = at.required("percent", A_PERCENTAGE);
        let mode = at.field("mode").unwrap_or_default();
        let share = Self::written(Percent::read(&percent?)?.0).with_mode(mode);
        let share = at.field::<Percent>("lend").map_or(share, |lent| share.lend(lent.0));
        Some(if at.field("observe").unwrap_or_default() { share.observe() } else { share })
    }

    fn write(&self) -> Value {
        let percent = Percent(self.percent).write();
        let mode = field("mode", Some(self.mode).filter(|mode| *mode != PartitionMode::Burst));
        let observe = field("observe", self.observes.then_some(true));
        let lend = field("lend", (self.lends < 100.0).then_some(Percent(self.lends)));
        let rest: Vec<_> = [mode, observe, lend].into_iter().flatten().collect();
        if rest.is_empty() { percent } else { Value::table([("percent", percent)].into_iter().chain(rest)) }
    }

    fn schema() -> Json {
        let mut table = table_schema(&SHARE);
        table["required"] = json!(["percent"]);
        any_of([Percent::schema(), table])
    }
}
