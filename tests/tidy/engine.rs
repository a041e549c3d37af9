//! The rooms of the engine: each owns its state, and only the verbs combine them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use super::circles::{mentioned, used};

/// The modules of the engine, and how high each stands. A module imports from lower ones, and from itself: so no room
/// imports another room, and there is no circle.
const MODULES: &[(&str, u8)] = &[
    ("words", 0),
    ("ids", 0),
    ("extras", 0),
    ("stall", 0),
    ("shares", 0),
    ("links", 0),
    ("deadlines", 1),
    ("limit", 0),
    ("plan", 1),
    ("tokens", 2),
    ("capacity", 3),
    ("control", 3),
    ("estimate", 3),
    ("lifecycle", 3),
    ("outage", 3),
    ("queue", 3),
    ("quota", 3),
    ("settings", 2),
    ("slot_ttl", 3),
    ("telemetry", 3),
    ("verbs", 4),
    ("view", 4),
    ("lib", 5),
];

/// What stands at the root because the whole library uses it, and is a word all the same.
const WORDS: [&str; 14] = [
    "BuildError",
    "Criticality",
    "Histogram",
    "OnStoreFailure",
    "Outcome",
    "Problem",
    "Reason",
    "Timestamp",
    "codes",
    "hash_of",
    "nanos",
    "normal",
    "rules",
    "short",
];

/// The structs that are rooms, and the engine itself: all of their fields are private.
const OWNERS: [&str; 10] = [
    "Engine",
    "Lifecycle",
    "Outage",
    "Capacity",
    "WaitQueue",
    "Quotas",
    "Controller",
    "Estimates",
    "SlotTtl",
    "Telemetry",
];

/// What is wrong with a file of the engine, given its code without tests and comments.
pub(crate) fn check(path: &Path, code: &str) -> Vec<String> {
    let mut parts = path.iter().skip_while(|part| *part != "engine").skip(2);
    let Some(first) = parts.next().and_then(|part| part.to_str()) else { return Vec::new() };
    let module = first.trim_end_matches(".rs");
    let path = path.display();
    let Some(&(_, level)) = MODULES.iter().find(|(name, _)| *name == module) else {
        return vec![format!("{path}: add {module} to the modules of the engine")];
    };
    let mut wrong = Vec::new();
    for import in imports(code) {
        let level_of = MODULES.iter().find(|(name, _)| *name == import).map(|(_, level)| *level);
        // A name that is no module stands at the root, above all.
        if import != module
            && !WORDS.contains(&&*import)
            && level_of.unwrap_or(5) >= level
            && !(level == 4 && (import == "Engine" || import == "verbs"))
        {
            wrong.push(format!("{path}: {module} imports {import} of the engine"));
        }
    }
    if code.contains("impl Engine") && !["lib", "verbs", "view"].contains(&module) {
        wrong.push(format!("{path}: `impl Engine` stands in verbs and view only"));
    }
    if module == "view" && code.contains("&mut self") && code.contains("impl Engine") {
        wrong.push(format!("{path}: a view changes something"));
    }
    for owner in OWNERS {
        let fields = code.split_once(&format!("struct {owner} {{")).and_then(|(_, rest)| rest.split_once("\n}"));
        if fields.is_some_and(|(fields, _)| fields.contains("pub")) {
            wrong.push(format!("{path}: a field of {owner} is not private"));
        }
        let count =
            fields.map_or(0, |(fields, _)| fields.lines().filter(|line| line.trim_end().ends_with(',')).count());
        if owner == "Engine" && count > 12 {
            wrong.push(format!("{path}: the engine has {count} fields, 12 are allowed"));
        }
    }
    wrong
}

/// The modules and names of the crate that code imports or mentions.
fn imports(code: &str) -> BTreeSet<String> {
    let used = used(code).into_iter().map(|it| it.path);
    let paths = used.chain(mentioned(&code.replace("$crate", "crate")));
    paths.filter(|path| path[0] == "crate").filter_map(|path| path.get(1).cloned()).collect()
}

fn ident(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

#[test]
fn each_breach_of_the_rooms_is_found() {
    let breaches = [
        ("queue/mod.rs", "use crate::capacity::Capacity;"),
        ("queue/fair/mod.rs", "use crate::{\n    Reason,\n    ids::Key,\n    quota::Label,\n};"),
        ("capacity/mod.rs", "use crate::Engine;"),
        ("plan/mod.rs", "use crate::tokens::Ask;"),
        ("telemetry/mod.rs", "use crate::view::Snapshot;"),
        ("queue/mod.rs", "impl Engine {}"),
        ("view/label.rs", "impl Engine {\n    fn change(&mut self) {}\n}"),
        ("quota/mod.rs", "pub(crate) struct Quotas {\n    pub(crate) rules: Rules,\n}"),
        ("lib.rs", &format!("struct Engine {{\n{}}}\n", "    field: u8,\n".repeat(13))),
        ("another.rs", ""),
    ];
    for (file, code) in breaches {
        let path = Path::new("crates/engine/src").join(file);
        assert_eq!(check(&path, code).len(), 1, "{file}: {code}");
    }
    for (file, code) in [
        ("queue/mod.rs", "use crate::{Outcome, deadlines::Deadlines, ids::{Key, LabelId}, tokens::Ask};"),
        ("verbs/arrive.rs", "use crate::{Engine, queue::WaitQueue, quota::Label};\nimpl Engine {}"),
        ("quota/mod.rs", "pub(crate) struct Quotas {\n    rules: Rules,\n}"),
    ] {
        assert_eq!(check(&Path::new("crates/engine/src").join(file), code), [""; 0], "{code}");
    }
}

/// The files of `verbs`, by name, with their code: which of them call each other in a circle, by methods of the engine. No
/// import shows that.
fn circles(files: &BTreeMap<String, String>) -> Vec<String> {
    let mut home = BTreeMap::new();
    for (file, code) in files {
        for (at, word) in code.match_indices("fn ") {
            home.insert(ident(&code[at + word.len()..]), file);
        }
    }
    let mut calls: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
    for (file, code) in files {
        let receivers = ["self", "engine"].map(|name| code.split(name).skip(1).collect::<Vec<_>>()).concat();
        let methods = receivers.iter().filter_map(|rest| rest.trim_start().strip_prefix('.'));
        let methods = methods.filter(|rest| rest[ident(rest).len()..].starts_with('('));
        let called = methods.map(ident).filter_map(|method| home.get(&method).copied());
        calls.entry(file).or_default().extend(called.filter(|called| *called != file && *called != "mod"));
    }
    // A file that is called by none that is left, or calls none, is in no circle.
    loop {
        let before = calls.len();
        let left: BTreeSet<_> = calls.keys().copied().collect();
        calls.retain(|_, called| called.iter().any(|it| left.contains(it)));
        if calls.len() == before {
            return calls.keys().map(ToString::to_string).collect();
        }
    }
}

#[test]
fn verbs_call_each_other_in_no_circle() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/engine/src/verbs");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let mut files: BTreeMap<_, _> =
        files.map(|path| (name(&path), super::code(&fs::read_to_string(path).unwrap()))).collect();
    assert!(files.len() > 10, "the verbs were found");
    assert_eq!(circles(&files), [""; 0]);
    // Steps decide nothing; a step that dispatches would be called by what it calls.
    files.get_mut("steps").unwrap().push_str("\nfn breach() { self.dispatch(now); }");
    assert!(circles(&files).contains(&"steps".to_owned()), "control");
}
