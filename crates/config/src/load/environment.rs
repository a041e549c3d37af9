//! Environment variables: one for each setting, and maps as JSON or as `name=value,…`.

use std::sync::Arc;

use super::{
    json_text,
    nearest::nearest,
    problems::ConfigProblem,
    value::{Node, Origin, Table, Value},
};
use crate::{
    AdmissionConfig, Labels, StoreConfig,
    schema::{LimitConfig, limits, setting::Problems},
};

/// What all variables begin with.
pub(crate) const PREFIX: &str = "TOWER_ADMISSION_";

const CLASSES: &str = "CLASSES_";

/// The names of all variables, `<CLASS>` standing for the name of a class.
pub(crate) fn names() -> Vec<String> {
    let mut names: Vec<String> = settings().map(|path| name(&path)).collect();
    names.extend(limits::names().map(|limit| format!("{PREFIX}{CLASSES}<CLASS>_{}", limit.to_uppercase())));
    names.sort();
    names.dedup();
    names
}

/// The paths of all settings that have a variable of their own, except those of classes.
fn settings() -> impl Iterator<Item = Vec<&'static str>> {
    let top = AdmissionConfig::FIELDS.iter().map(|field| vec![*field]);
    let limit = LimitConfig::parameters().map(|field| vec!["limit", field]);
    let labels = Labels::FIELDS.iter().map(|field| vec!["labels", field]);
    let store = StoreConfig::FIELDS.iter().map(|field| vec!["store", field]);
    top.chain(limit).chain(labels).chain(store)
}

fn name(path: &[&str]) -> String {
    format!("{PREFIX}{}", path.join("_").to_uppercase())
}

/// What the variables say together: whole sections first, then what is more particular.
pub(crate) fn read(variables: &[(String, String)], problems: &Problems) -> Node {
    let mut variables: Vec<_> = variables.iter().filter(|(name, _)| name.starts_with(PREFIX)).collect();
    variables.sort();
    let mut root = Node::empty();
    for (variable, text) in variables {
        let origin = Origin::Variable(Arc::from(variable.as_str()));
        let Some(path) = path_of(variable) else {
            problems.borrow_mut().push(ConfigProblem::new(&origin, "", unknown(variable)));
            continue;
        };
        // Many deployments can't unset a variable that they know, only empty it.
        if text.is_empty() {
            continue;
        }
        let Some(node) = value(&path, text, &origin, problems) else { continue };
        let around = |node, key: &String| Value::Table(Table::from([(key.clone(), node)])).at(&origin);
        root.lay(path.iter().rev().fold(node, around));
    }
    root
}

fn unknown(variable: &str) -> String {
    // The prefix is right, so it is no evidence.
    let short = |name: &str| name.trim_start_matches(PREFIX).to_owned();
    let names: Vec<String> = names().iter().map(|name| short(name)).collect();
    match nearest(&short(variable), names.iter().map(String::as_str)) {
        Some(near) => format!("unknown variable; did you mean {PREFIX}{near}?"),
        None => format!("unknown variable; a variable that begins with {PREFIX} has to be a setting"),
    }
}

fn path_of(variable: &str) -> Option<Vec<String>> {
    if let Some(path) = settings().find(|path| name(path) == variable) {
        return Some(path.into_iter().map(Into::into).collect());
    }
    let rest = variable.strip_prefix(PREFIX)?.strip_prefix(CLASSES)?.to_ascii_lowercase();
    // Some names end with another name; the longest one is meant.
    let limit = limits::names().filter(|limit| rest.ends_with(&format!("_{limit}"))).max_by_key(|limit| limit.len())?;
    let class = &rest[..rest.len() - limit.len() - 1];
    (!class.is_empty()).then(|| vec!["classes".to_owned(), class.to_owned(), limit.to_owned()])
}

/// What a variable says, as far as its form tells: the setting itself reads the text.
fn value(path: &[String], text: &str, origin: &Origin, problems: &Problems) -> Option<Node> {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let plain =
        matches!(path[..], ["name"] | ["store", "url" | "prefix"] | [.., "budget_group" | "dispatch_budget_group"]);
    if plain {
        return Some(Value::text(text).at(origin));
    }
    if text.trim_start().starts_with(['{', '[']) {
        return json_text::read(origin, &path.join("."), text, problems);
    }
    match path[..] {
        ["partitions"] | ["labels", "caps" | "weights"] => list(&path.join("."), text, origin, problems),
        _ => Some(Value::text(text).at(origin)),
    }
}

/// `name=value,…`. Names may contain `=`, values don't.
fn list(path: &str, text: &str, origin: &Origin, problems: &Problems) -> Option<Node> {
    let mut table = Table::new();
    let complain = |message| problems.borrow_mut().push(ConfigProblem::new(origin, path, message));
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let Some((name, value)) = item.rsplit_once('=') else {
            complain(format!("found {item:?}, allowed is a list such as \"a=1,b=2\", or JSON"));
            continue;
        };
        let value = Value::text(value.trim()).at(origin);
        if table.insert(name.trim().to_owned(), value).is_some() {
            complain(format!("found {name:?} twice, each name is allowed once"));
        }
    }
    Some(Value::Table(table).at(origin))
}

/// All settings as variables.
pub(crate) fn write(config: Value) -> Vec<(String, String)> {
    let Value::Table(fields) = config else { return Vec::new() };
    let mut variables = Vec::new();
    for (field, node) in fields {
        match (field.as_str(), node.value) {
            ("labels", Value::Table(labels)) => {
                variables.extend(labels.into_iter().map(|(key, node)| (name(&["labels", &key]), text(node.value))));
            }
            (field, value) => variables.push((name(&[field]), text(value))),
        }
    }
    variables
}

fn text(value: Value) -> String {
    match value {
        Value::Text(text) => text,
        value => json_text::write(&value),
    }
}
