//! Caps, rates and budgets in files, under the names of this crate and their aliases.

use std::{collections::BTreeMap, num::NonZeroU32};

use serde_json::{Value as Json, json};

use super::{
    setting::{At, Field, NONE, Problems, Setting, any_of, field, object_schema, table_schema},
    store::{read_sharing, write_sharing},
};
use crate::OnStoreFailureConfig;
use crate::load::{
    problems::ConfigProblem,
    value::{Node, Table, Value, join, word},
};
use tower_admission_engine::{
    rules::{RateMode, WhenFull},
    settings::limits::{Cap, ClassLimits, Rate, Sharing},
};

/// An override for one label, whose name may contain colons: one `[[label_overrides]]` of a file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LabelOverride {
    /// The namespace of the label; `None` for any namespace.
    pub namespace: Option<String>,
    /// The label.
    pub label: String,
    /// The class of work; `*` for requests whose class has no rules.
    pub class: String,
    /// The rules.
    pub limits: ClassLimits,
}

impl LabelOverride {
    /// The rules of a class for a label, in one namespace or in any.
    pub fn new(
        namespace: Option<&str>,
        label: impl Into<String>,
        class: impl Into<String>,
        limits: ClassLimits,
    ) -> Self {
        Self { namespace: namespace.map(Into::into), label: label.into(), class: class.into(), limits }
    }
}

impl Setting for LabelOverride {
    fn read(at: &At<'_>) -> Option<Self> {
        if at.table().is_none() {
            return at.wrong("a table");
        }
        let name = |key: &str| String::read(&at.required(key, "a name")?);
        let (label, class) = (name("label"), name("class"));
        let namespace = at.field("namespace");
        // What is left are limits.
        let limits = ClassLimits::read(&at.over(&at.node.without(&["namespace", "label", "class"])))?;
        Some(Self { namespace, label: label?, class: class?, limits })
    }

    fn write(&self) -> Value {
        let namespace = self.namespace.as_ref().map(|namespace| ("namespace", namespace.write()));
        let names = [("label", self.label.write()), ("class", self.class.write())];
        self.limits.write().with(namespace.into_iter().chain(names))
    }

    fn schema() -> Json {
        let mut schema = ClassLimits::schema();
        schema["properties"]["namespace"] = json!({ "type": "string", "description": "Any unless set." });
        schema["properties"]["label"] = json!({ "type": "string", "minLength": 1 });
        schema["properties"]["class"] = json!({ "type": "string", "minLength": 1 });
        schema["required"] = json!(["label", "class"]);
        schema
    }
}

const GROUP: &str = "budget_group";
const GROUP_RATE: &str = "max_per_minute_per_budget_group";

const FIELDS: [Field; 7] = [
    ("max_in_flight", "How many requests of one label run at once; \"none\" lifts the cap.", Cap::schema),
    (
        "max_in_flight_per_namespace",
        "How many requests of one namespace run at once; \"none\" lifts the cap.",
        Cap::schema,
    ),
    ("max_per_minute", "How many requests of one label start per minute.", Rate::schema),
    ("max_per_minute_per_namespace", "How many requests of one namespace start per minute.", Rate::schema),
    (GROUP, "The group of labels that share a rate.", || json!({ "type": "string", "minLength": 1 })),
    (GROUP_RATE, "How many requests of the group start per minute.", Rate::schema),
    ("max_pending", "How many requests of one label are waiting or running; \"none\" lifts the bound.", Cap::schema),
];

/// Other names for the same settings, first what is written and then what is meant.
pub(crate) const ALIASES: [(&str, &str); 8] = [
    ("max_active_leases", "max_in_flight"),
    ("max_active_leases_per_queue", "max_in_flight"),
    ("max_active_leases_per_namespace", "max_in_flight_per_namespace"),
    ("max_dispatches_per_minute", "max_per_minute"),
    ("max_dispatches_per_minute_per_namespace", "max_per_minute_per_namespace"),
    ("dispatch_budget_group", GROUP),
    ("max_dispatches_per_minute_per_budget_group", GROUP_RATE),
    ("max_pending_per_queue", "max_pending"),
];

/// All names that a limit can be written under, for the environment.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FIELDS.into_iter().map(|(name, ..)| name).chain(ALIASES.into_iter().map(|(alias, _)| alias))
}

/// Replaces the short form of a law by its table, and the other names in a layer by those of this crate, so that a layer
/// above finds what it changes.
pub(crate) fn spell_out(root: &mut Node, problems: &Problems) {
    let Value::Table(root) = &mut root.value else { return };
    let is_law = |text: &str| word(text) != NONE && text.trim().parse::<f64>().is_err();
    for name in ["limit", "shadow_law"] {
        let Some(node) = root.get_mut(name) else { continue };
        if matches!(&node.value, Value::Text(text) if is_law(text)) {
            let kind = node.clone();
            node.value = Value::Table(Table::from([("kind".to_owned(), kind)]));
        }
    }
    let tables = |path: &str, node: Option<&mut Node>, rename: &mut dyn FnMut(&str, &mut Node)| {
        if let Some(Node { value: Value::Table(table), .. }) = node {
            table.iter_mut().for_each(|(key, node)| rename(&join(path, key), node));
        }
    };
    tables("classes", root.get_mut("classes"), &mut |path, limits| rename(path, limits, problems));
    tables("overrides", root.get_mut("overrides"), &mut |path, key| {
        tables(path, Some(key), &mut |path, limits| rename(path, limits, problems));
    });
    if let Some(Node { value: Value::List(overrides), .. }) = root.get_mut("label_overrides") {
        for (index, node) in overrides.iter_mut().enumerate() {
            rename(&format!("label_overrides[{index}]"), node, problems);
        }
    }
}

fn rename(path: &str, limits: &mut Node, problems: &Problems) {
    let Value::Table(table) = &mut limits.value else { return };
    let mut renamed: BTreeMap<&str, (String, Node)> = BTreeMap::new();
    let written = std::mem::take(table);
    for (key, node) in &written {
        let name = ALIASES.iter().find(|(alias, _)| alias == key).map_or(key.as_str(), |(_, name)| name);
        if let Some((other, _)) = renamed.insert(name, (key.clone(), node.clone())) {
            let message = format!("found as {other} and as {key}, which are two names of the same setting");
            problems.borrow_mut().push(ConfigProblem::new(&node.origin, join(path, name), message));
        }
    }
    *table = renamed.into_iter().map(|(name, (_, node))| (name.to_owned(), node)).collect();
}

impl Setting for ClassLimits {
    fn read(at: &At<'_>) -> Option<Self> {
        at.fields_or_aliases(&FIELDS.map(|(name, ..)| name), &ALIASES)?;
        let budget = match (at.get(GROUP), at.get(GROUP_RATE)) {
            (Some(_), Some(_)) => at.field(GROUP).zip(at.field(GROUP_RATE)),
            (None, None) => None,
            (Some(group), None) => {
                group.problem(format!("found a group without its maximum, allowed is one with {GROUP_RATE} beside it"));
                None
            }
            (None, Some(rate)) => {
                rate.problem(format!("found the maximum of no group, allowed is one with {GROUP} beside it"));
                None
            }
        };
        Some(Self {
            in_flight: at.field("max_in_flight"),
            in_flight_per_namespace: at.field("max_in_flight_per_namespace"),
            per_minute: at.field("max_per_minute"),
            per_minute_per_namespace: at.field("max_per_minute_per_namespace"),
            budget,
            pending: at.field("max_pending"),
        })
    }

    fn write(&self) -> Value {
        let fields = [
            field("max_in_flight", self.in_flight),
            field("max_in_flight_per_namespace", self.in_flight_per_namespace),
            field("max_per_minute", self.per_minute),
            field("max_per_minute_per_namespace", self.per_minute_per_namespace),
            field(GROUP, self.budget.as_ref().map(|(group, _)| group.clone())),
            field(GROUP_RATE, self.budget.as_ref().map(|(_, rate)| *rate)),
            field("max_pending", self.pending),
        ];
        Value::table(fields.into_iter().flatten())
    }

    fn schema() -> Json {
        let named = |written, name| {
            let (_, about, schema) = FIELDS.into_iter().find(|(known, ..)| *known == name)?;
            Some((written, about, schema()))
        };
        let own = FIELDS.into_iter().filter_map(|(name, ..)| named(name, name));
        object_schema(own.chain(ALIASES.into_iter().filter_map(|(alias, name)| named(alias, name))))
    }
}

const A_CAP: &str = "a whole number, 1 or more, or \"none\" for no bound";

/// A cap, or the word for none. 0 would let a request through where it is meant to block, so it is neither.
fn read_cap(at: &At<'_>) -> Option<Cap> {
    if at.text().is_some_and(|text| word(text) == NONE) {
        return Some(Cap::unlimited());
    }
    at.number(1).map(Cap::from).or_else(|| at.wrong(A_CAP))
}

fn cap_schema() -> Json {
    any_of([json!({ "type": "integer", "minimum": 1 }), json!({ "const": NONE })])
}

/// What caps and rates can say besides their own.
const REST: [Field; 5] = [
    ("when_full", "What happens to a further request.", WhenFull::schema),
    ("observe", "Whether it only observes (dry run): its decisions are counted, not enforced.", bool::schema),
    ("local", "Whether it is counted in this process alone, although rules are shared.", bool::schema),
    ("on_store_failure", "What it does while the store is gone.", OnStoreFailureConfig::schema),
    ("instances", "The number of instances that share it, for a local share.", NonZeroU32::schema),
];

fn read_rest(at: &At<'_>) -> (Option<WhenFull>, Sharing, bool) {
    (at.field("when_full"), read_sharing(at), at.field("observe").unwrap_or_default())
}

/// The same, where it is not what holds unless set.
fn write_rest(when_full: Option<WhenFull>, observes: bool, sharing: Sharing) -> Vec<(&'static str, Value)> {
    let own = [field("when_full", when_full), field("observe", observes.then_some(true))];
    own.into_iter().flatten().chain(write_sharing(sharing)).collect()
}

/// The schema of a cap or a rate: a number, or a table.
fn bound_schema(number: Json, own: &[Field]) -> Json {
    let mut table = table_schema(&[own, &REST].concat());
    table["required"] = json!(["max"]);
    any_of([number, table])
}

const CAP: [Field; 1] = [("max", "", cap_schema)];

impl Setting for Cap {
    fn read(at: &At<'_>) -> Option<Self> {
        if at.table().is_none() {
            return read_cap(at);
        }
        at.known(&[&CAP[..], &REST].concat())?;
        let max = at.required("max", A_CAP)?;
        let (when_full, shared, observes) = read_rest(at);
        Some(Self { when_full, shared, observes, ..read_cap(&max)? })
    }

    fn write(&self) -> Value {
        let rest = write_rest(self.when_full, self.observes, self.shared);
        if rest.is_empty() {
            self.max.write()
        } else {
            Value::table([("max", self.max.write())].into_iter().chain(rest))
        }
    }

    fn schema() -> Json {
        bound_schema(cap_schema(), &CAP)
    }
}

const RATE: [Field; 3] = [
    ("max", "", NonZeroU32::schema),
    ("mode", "By minutes of the clock, or evenly.", || json!({ "enum": ["minute", "smooth"] })),
    ("burst", "How many requests may start at once, in smooth mode.", NonZeroU32::schema),
];

const A_RATE: &str = "a whole number, 1 or more; a rate that lets nothing start is a mistake";

impl Setting for Rate {
    fn read(at: &At<'_>) -> Option<Self> {
        let max = |at: &At<'_>| NonZeroU32::new(at.small(0)?).or_else(|| at.wrong(A_RATE));
        if at.table().is_none() {
            return max(at).map(Self::per_minute);
        }
        at.known(&[&RATE[..], &REST].concat())?;
        let number = at.required("max", A_RATE)?;
        let burst = at.field("burst");
        let smooth = at.get("mode").and_then(|mode| mode.one_of(&[("minute", false), ("smooth", true)]));
        let (when_full, shared, observes) = read_rest(at);
        let rate = Self { when_full, shared, observes, ..Self::per_minute(max(&number)?) };
        if let Some(burst) = at.get("burst").filter(|_| smooth != Some(true)) {
            burst.problem("found a burst without mode = \"smooth\", allowed is one with it");
        }
        Some(match (smooth, burst) {
            (Some(true), Some(burst)) => rate.mode(RateMode::Smooth { burst }),
            (Some(true), None) => rate.smooth(),
            (Some(false), _) => rate.mode(RateMode::Window),
            (None, _) => rate,
        })
    }

    fn write(&self) -> Value {
        let rest = write_rest(self.when_full, self.observes, self.shared);
        if self.mode.is_none() && rest.is_empty() {
            return self.max.write();
        }
        let (mode, burst) = match self.mode {
            None => (None, None),
            Some(RateMode::Smooth { burst }) => (Some("smooth"), Some(burst)),
            Some(_) => (Some("minute"), None),
        };
        let mode = field("mode", mode.map(ToOwned::to_owned));
        let fields = [field("max", Some(self.max)), mode, field("burst", burst)];
        Value::table(fields.into_iter().flatten().chain(rest))
    }

    fn schema() -> Json {
        bound_schema(NonZeroU32::schema(), &RATE)
    }
}
