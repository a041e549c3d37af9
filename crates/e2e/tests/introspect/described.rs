//! The description of the answers: paths, parameters and responses as they are written by hand, and schemas from the types
//! that the server writes.

use std::collections::BTreeSet;

use schemars::{
    Schema, SchemaGenerator,
    generate::SchemaSettings,
    transform::{RecursiveTransform, transform_subschemas},
};
use serde_json::{Map, Value, json};
use tower_admission::introspection::{
    HistoryPage, JournalPage, Label, LabelPage, Overview, Partition, Partitions, Readiness, WaiterPage,
};

use crate::config::snapshot;

/// A merge patch (RFC 7396) of what comes from the types.
const BY_HAND: &str = include_str!("../../../../src/introspect/http/openapi.paths.json");

const SCHEMAS: &str = "/components/schemas";

#[test]
fn the_committed_description_is_that_of_the_types() {
    let text = serde_json::to_string_pretty(&description()).unwrap();
    snapshot("../../src/introspect/http/openapi.json", &(text + "\n"));
}

fn description() -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_serialize().with_transform(RecursiveTransform(as_answered));
    settings.definitions_path = SCHEMAS.into();
    let mut types = settings.into_generator();
    let add: [fn(&mut SchemaGenerator) -> Schema; 9] = [
        SchemaGenerator::subschema_for::<Overview>,
        SchemaGenerator::subschema_for::<LabelPage>,
        SchemaGenerator::subschema_for::<Label>,
        SchemaGenerator::subschema_for::<WaiterPage>,
        SchemaGenerator::subschema_for::<Partitions>,
        SchemaGenerator::subschema_for::<Partition>,
        SchemaGenerator::subschema_for::<JournalPage>,
        SchemaGenerator::subschema_for::<HistoryPage>,
        SchemaGenerator::subschema_for::<Readiness>,
    ];
    for add in add {
        add(&mut types);
    }
    let mut schemas = types.take_definitions(true);
    let mut parts = BTreeSet::new();
    schemas.values().for_each(|schema| find_parts(schema, &mut parts));
    for (_, schema) in schemas.iter_mut().filter(|(name, _)| !parts.contains(*name)) {
        close(schema);
    }
    let mut whole = json!({"components": {"schemas": schemas}});
    merge(&mut whole, serde_json::from_str(BY_HAND).unwrap());
    prune(&mut whole);
    whole
}

/// Says of answers what holds for all of them, and leaves out what is about Rust.
fn as_answered(schema: &mut Schema) {
    let Some(schema) = schema.as_object_mut() else { return };
    // What a reader assumes where a server of another version says nothing.
    schema.remove("default");
    let is_number = |it: &Value| it == "number" || it.as_array().is_some_and(|types| types.contains(&json!("number")));
    if schema.get("type").is_some_and(|it| is_number(it) || it.to_string().contains("integer")) {
        // The width of a Rust type.
        schema.remove("format");
        // No time, rate or mean is negative.
        schema.entry("minimum").or_insert(json!(0));
    }
    if let Some(text) = schema.get("description").and_then(Value::as_str).map(plain) {
        schema.insert("description".into(), text.into());
    }
    enumerate(schema);
    let required: BTreeSet<_> = words(schema.get("required")).collect();
    for (name, property) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        let Some(property) = property.as_object_mut() else { continue };
        let is_told = required.contains(name);
        if !is_told {
            // A field that may be missing is missing rather than null.
            not_null(property);
        }
        let is_text = property.get("type").is_some_and(|it| it == "string");
        if let Some(Value::String(text)) = property.get_mut("description") {
            *text = text.replace("`None`", if is_told { "null" } else { "absent" });
            if is_text && !is_told {
                *text = text.replace("; empty", "; absent");
            }
        }
    }
}

fn words(list: Option<&Value>) -> impl Iterator<Item = String> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned)
}

/// Turns alternatives that are words into an enumeration, which more tools know. What the words mean follows the description.
fn enumerate(schema: &mut Map<String, Value>) {
    let Some(choices) = schema.get("oneOf").and_then(Value::as_array) else { return };
    let word = |it: &Value| Some((it.get("const")?.as_str()?.to_owned(), plain(it.get("description")?.as_str()?)));
    let Some(choices) = choices.iter().map(word).collect::<Option<Vec<_>>>() else { return };
    let first = |text: &str| text.split("\n\n").next().unwrap_or_default().to_owned();
    let meanings: String = choices.iter().map(|(word, text)| format!("\n- `{word}`: {}", first(text))).collect();
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text += &format!("\n{meanings}");
    }
    schema.remove("oneOf");
    schema.insert("type".into(), "string".into());
    schema.insert("enum".into(), choices.into_iter().map(|(word, _)| word).collect());
}

fn not_null(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|it| it != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            schema.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(mut choices)) = schema.remove("anyOf") {
        choices.retain(|it| *it != json!({"type": "null"}));
        match &choices[..] {
            [Value::Object(only)] => schema.extend(only.clone()),
            _ => drop(schema.insert("anyOf".into(), choices.into())),
        }
    }
}

/// A doc comment without the ends of its lines and its links, which lead into the documentation of the library.
fn plain(text: &str) -> String {
    let is_target = |it: &&str| it.starts_with('[') && it.contains("]: ");
    let paragraphs = text.split("\n\n").filter(|it| !is_target(it));
    paragraphs.map(|it| without_links(&it.replace('\n', " "))).collect::<Vec<_>>().join("\n\n")
}

fn without_links(text: &str) -> String {
    let Some((before, (name, after))) = text.split_once('[').and_then(|(a, b)| Some((a, b.split_once(']')?))) else {
        return text.to_owned();
    };
    let skip = |end: char| after.split_once(end).map_or(after, |it| it.1);
    let after = match after.chars().next() {
        Some('(') => skip(')'),
        Some('[') => skip(']'),
        _ => after,
    };
    format!("{before}{name}{}", without_links(after))
}

/// Finds the schemas that are only a part of an object, others of whose fields stand beside the reference.
fn find_parts(schema: &Value, found: &mut BTreeSet<String>) {
    let Ok(mut schema) = Schema::try_from(schema.clone()) else { return };
    let name = schema.get("$ref").and_then(Value::as_str).and_then(|it| it.rsplit('/').next());
    if let Some(name) = name.filter(|_| schema.get("properties").is_some()) {
        found.insert(name.to_owned());
    }
    transform_subschemas(&mut |it: &mut Schema| find_parts(it.as_value(), found), &mut schema);
}

/// Says that an object has no other fields.
fn close(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut().filter(|it| it.contains_key("properties")) else { return };
    let key = if schema.contains_key("oneOf") { "unevaluatedProperties" } else { "additionalProperties" };
    schema.insert(key.into(), false.into());
}

/// Applies a merge patch.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(&key).unwrap_or_else(|| panic!("there is no {key}"));
        } else {
            merge(&mut target[key], value);
        }
    }
}

/// Removes the schemas to which nothing refers.
fn prune(whole: &mut Value) {
    loop {
        let text = whole.to_string();
        let schemas = whole.pointer_mut(SCHEMAS).and_then(Value::as_object_mut).unwrap();
        let count = schemas.len();
        schemas.retain(|name, _| text.contains(&format!("\"#{SCHEMAS}/{name}\"")));
        if schemas.len() == count {
            return;
        }
    }
}
