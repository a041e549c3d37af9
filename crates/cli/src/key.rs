//! What holds for a label under a configuration, and which source sets it. The handle itself is asked.

use std::borrow::Cow;

use serde_json::{Value, json};
use tower_admission::{
    AdmissionBuilder, Mode, Ticket,
    configuration::Loaded,
    snapshot::{LabelSnapshot, RuleSnapshot},
};

use crate::{
    failure::Failure,
    table::{Cell, Table},
    text::{Look, Paint, safe},
};

/// The class of work without limits of its own.
const OTHERS: &str = "*";

/// What holds for one label.
#[derive(Debug)]
pub(crate) struct Held {
    namespace: String,
    label: String,
    weight: u32,
    classes: Vec<Class>,
    /// What else the key was read as.
    note: Option<String>,
}

#[derive(Debug)]
struct Class {
    name: String,
    rules: Vec<Rule>,
}

/// A cap, a rate or a budget.
#[derive(Debug)]
struct Rule {
    name: String,
    bound: usize,
    when_full: Cow<'static, str>,
    /// The key of the settings under which it was found.
    key: String,
    /// The file and line, or the variable.
    origin: String,
}

impl Held {
    /// The first colon ends the namespace. Where nothing is set for such a key but for another one, that is taken: the name of a label
    /// may have colons, and so may a namespace.
    pub(crate) fn find(loaded: &Loaded, key: &str, class: Option<&str>) -> Result<Self, Failure> {
        let (namespace, label) = key.split_once(':').unwrap_or(("", key));
        let mut first = Self::of(loaded, key, (namespace, label), class)?;
        if namespace.trim().is_empty() || first.is_set(loaded) {
            return Ok(first);
        }
        let later = key.match_indices(':').skip(1).map(|(at, _)| (&key[..at], &key[at + 1..]));
        let mut tried = Vec::new();
        for split in std::iter::once(("", key)).chain(later.filter(|(_, label)| !label.trim().is_empty())) {
            let mut other = Self::of(loaded, key, split, class)?;
            tried.push(other.name());
            if other.is_set(loaded) {
                other.note = Some(format!("nothing is set for {}, so this is {}", first.name(), other.name()));
                return Ok(other);
            }
        }
        first.note = Some(format!("nothing is set for {}, nor for {}", first.name(), tried.join(", or ")));
        Ok(first)
    }

    /// The label as it was read from a key.
    fn name(&self) -> String {
        let of = if self.namespace.is_empty() {
            "without a namespace".to_owned()
        } else {
            format!("in {:?}", safe(&self.namespace))
        };
        format!("label {:?} {of}", safe(&self.label))
    }

    /// Whether a setting names it or its namespace, rather than all labels.
    fn is_set(&self, loaded: &Loaded) -> bool {
        let config = loaded.config();
        let has_cap = config.labels.caps.contains_key(&self.label) || config.labels.weights.contains_key(&self.label);
        let mut rules = self.classes.iter().flat_map(|class| &class.rules);
        has_cap
            || self.weight != config.labels.weight
            || rules.any(|rule| !["class", "labels", "*"].contains(&&*rule.key))
    }

    fn of(loaded: &Loaded, key: &str, split: (&str, &str), class: Option<&str>) -> Result<Self, Failure> {
        let (namespace, label) = (split.0.trim(), split.1.trim());
        if label.is_empty() {
            return Err(Failure::Usage(format!("--key {}: the label is missing", safe(key))));
        }
        let known = classes(loaded);
        if let Some(class) = class.filter(|class| !known.iter().any(|it| it == class)) {
            let known: Vec<_> = known.iter().map(|it| safe(it)).collect();
            return Err(Failure::Missing(format!(
                "no class {:?} has rules; known are {}",
                safe(class),
                known.join(", ")
            )));
        }
        let mut config = loaded.config().clone();
        // A rule that only observes admits all requests.
        config.mode = Mode::Observe;
        // Which bounds hold doesn't depend on where they are counted, and this command has no client of a store.
        config.store.url = None;
        let build = AdmissionBuilder::from(config).build();
        let admission = build.map_err(|error| Failure::Missing(error.to_string()))?;
        let wanted: Vec<_> = known.into_iter().filter(|it| class.is_none_or(|class| class == it)).collect();
        let mut permits = Vec::new();
        for class in &wanted {
            let ticket = Ticket::new().namespace(namespace).label(label);
            let ticket = if class == OTHERS { ticket } else { ticket.class(class.as_str()) };
            permits.push(admission.try_admit(ticket).map_err(|rejection| Failure::Missing(rejection.to_string()))?);
        }
        let labels = admission.snapshot().labels;
        drop(permits);
        let labels: Vec<_> = labels.into_iter().filter(|it| it.namespace == namespace && it.name == label).collect();
        let of_class = |name: &String| {
            let class = if name == OTHERS { "" } else { name };
            labels.iter().find(|it| it.class == class).map(|it| Class::of(name, it, loaded))
        };
        Ok(Self {
            namespace: namespace.to_owned(),
            label: label.to_owned(),
            weight: labels.first().map_or(1, |it| it.weight),
            classes: wanted.iter().filter_map(of_class).collect(),
            note: None,
        })
    }

    pub(crate) fn lines(&self, paint: Paint) -> Vec<String> {
        let mut table = Table::new(["CLASS", "CAP OR RATE", ">BOUND", "WHEN FULL", "KEY", "FROM"]);
        for Class { name, rules } in &self.classes {
            for rule in rules {
                table.row([
                    Cell::from(name),
                    Cell::from(&rule.name),
                    Cell::number(rule.bound),
                    Cell::from(&*rule.when_full),
                    Cell::from(&rule.key),
                    Cell::from(&rule.origin),
                ]);
            }
            if rules.is_empty() {
                table.row([
                    name.into(),
                    Cell::from("none").with(Look::Dim),
                    "".into(),
                    "".into(),
                    "".into(),
                    "".into(),
                ]);
            }
        }
        let namespace =
            if self.namespace.is_empty() { String::new() } else { format!(" in {}", safe(&self.namespace)) };
        let head = format!("{}{namespace}, weight {}", paint.paint(Look::Bold, &safe(&self.label)), self.weight);
        [head].into_iter().chain(self.note.clone()).chain(table.lines(paint)).collect()
    }

    pub(crate) fn to_json(&self) -> Value {
        let classes = self.classes.iter().map(|Class { name, rules }| {
            let rules: Vec<_> = rules
                .iter()
                .map(|Rule { name, bound, when_full, key, origin }| {
                    json!({ "rule": name, "bound": bound, "when_full": when_full, "key": key, "origin": origin })
                })
                .collect();
            (name.clone(), json!(rules))
        });
        let classes: serde_json::Map<_, _> = classes.collect();
        json!({ "namespace": self.namespace, "label": self.label, "weight": self.weight, "note": self.note, "classes": classes })
    }
}

/// All classes that the configuration names, and all others.
fn classes(loaded: &Loaded) -> Vec<String> {
    let config = loaded.config();
    let overridden = config.overrides.values().flat_map(|classes| classes.keys());
    let named = config.classes.keys().chain(overridden).chain(config.label_overrides.iter().map(|it| &it.class));
    let mut classes: Vec<_> = named.filter(|class| *class != OTHERS).cloned().collect();
    classes.sort_unstable();
    classes.dedup();
    classes.push(OTHERS.to_owned());
    classes
}

impl Class {
    fn of(name: &str, label: &LabelSnapshot, loaded: &Loaded) -> Self {
        Self {
            name: name.to_owned(),
            rules: label.rules.iter().map(|rule| Rule::of(name, label, rule, loaded)).collect(),
        }
    }
}

impl Rule {
    fn of(class: &str, label: &LabelSnapshot, rule: &RuleSnapshot, loaded: &Loaded) -> Self {
        let setting = match &*rule.rule {
            "budget" => "max_per_minute_per_budget_group",
            other => other,
        };
        let LabelSnapshot { namespace, name, .. } = label;
        let over = |key: &str| (key.to_owned(), format!("overrides.{key}.{class}.{setting}"));
        let (key, path) = match &*rule.source {
            "namespace:label" => over(&format!("{namespace}:{name}")),
            "namespace:*" => over(&format!("{namespace}:*")),
            "label" => over(name),
            "*" => over("*"),
            "class" => ("class".to_owned(), format!("classes.{class}.{setting}")),
            "labels" => ("labels".to_owned(), format!("labels.caps.{name}")),
            other => (other.to_owned(), other.to_owned()),
        };
        // Labels with a colon in their name have a list of their own; caps of labels have patterns.
        let elsewhere = if rule.source == "labels" { "labels" } else { "label_overrides" };
        let origin = origin(loaded, &path).or_else(|| origin(loaded, elsewhere)).unwrap_or_default();
        let group = rule.group.as_ref().map(|group| format!(" {group}")).unwrap_or_default();
        Self {
            name: format!("{}{group}", rule.rule),
            bound: rule.bound,
            when_full: rule.when_full.clone(),
            key,
            origin,
        }
    }
}

/// Where a setting, or the first of those below it that is set, came from.
fn origin(loaded: &Loaded, path: &str) -> Option<String> {
    let below = |one: &str| one.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let mut found = loaded.effective().iter().filter(|one| below(&one.path)).map(|one| one.origin.to_string());
    found.find(|origin| origin != "default")
}
