//! The structure of the sources, as a test: who may import whom, and how long a file may grow.

mod circles;
mod engine;
mod links;
mod names;
mod pages;
mod promises;
mod weight;
mod words;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Each folder or file of `src`, the layer it stands in, and what it must not mention. A crate of the library is a room.
///
/// Imports go to the same layer or to a lower one.
const ROOMS: &[(&str, u8)] = &[
    ("capacity", 1),
    ("engine", 1),
    ("keys", 1),
    ("ticket", 1),
    ("rejection", 1),
    ("config", 3),
    ("clock", 3),
    ("store", 3),
    ("runtime", 4),
    ("admission", 5),
    ("adaptive", 5),
    ("introspect", 5),
];

/// The crates of the library besides the facade, by the room that each is.
const PARTS: [(&str, &str); 3] =
    [("config", "crates/config/src"), ("engine", "crates/engine/src"), ("store", "crates/store/src")];

/// What the core of the runtime must not name.
const OUTSIDE_THE_CORE: &[&str] =
    &["crate::runtime", "crate::store", "crate::config", "super::super", "    store::", "    config::"];

/// How many files a folder may hold.
const MOST_FILES: usize = 15;

/// What a layer must not mention at all.
fn forbidden(layer: u8) -> &'static [&'static str] {
    match layer {
        0 | 1 => {
            &["tokio", "http", "http_body", "hyper", "tower", "axum", "metrics", "tracing", "fastrand", "serde_json"]
        }
        2..=4 => &["http", "http_body", "hyper", "tower", "tower_layer", "tower_service", "axum", "metrics", "tracing"],
        _ => &["metrics", "tracing"],
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust sources below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    promises::files(folder, "rs")
}

/// The sources of the library.
fn library() -> Vec<PathBuf> {
    let folders = PARTS.map(|(_, folder)| folder).into_iter().chain(["src"]);
    folders.flat_map(|folder| sources(&root().join(folder))).collect()
}

/// A file up to its tests. Where they stand in a file of their own, all of it.
fn before_tests(text: &str) -> &str {
    text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(text)
}

/// The code of a file without its tests and its comments.
fn code(text: &str) -> String {
    before_tests(text).lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn room(path: &Path) -> Option<(&'static str, u8)> {
    let relative = path.strip_prefix(root()).unwrap();
    let part = PARTS.iter().find(|(_, folder)| relative.starts_with(folder)).map(|(name, _)| *name);
    let first = || relative.iter().nth(1)?.to_str().map(|it| it.trim_end_matches(".rs"));
    let name = part.or_else(first)?;
    ROOMS.iter().copied().find(|(room, _)| *room == name)
}

fn is_test(path: &Path) -> bool {
    path.with_extension("").iter().any(|part| part.to_string_lossy().ends_with("tests"))
}

/// What is wrong with one file, given its text.
fn check(path: &Path, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let lines = before_tests(text).lines().count();
    if lines > 400 {
        wrong.push(format!("{}: {lines} lines, 400 are allowed", path.display()));
    }
    let code = code(text);
    // A user's debug build doesn't panic in a request: what checks itself does so in its own tests.
    if code.contains("debug_assert") {
        wrong.push(format!("{}: asserts in a user's debug build", path.display()));
    }
    wrong.extend(engine::check(path, &code));
    let Some((name, layer)) = room(path) else { return wrong };
    for other in ROOMS.iter().filter(|(_, other)| *other > layer) {
        if code.contains(&format!("crate::{}", other.0)) || code.contains(&format!("\n    {}::", other.0)) {
            wrong.push(format!("{}: {name} (L{layer}) imports {} (L{})", path.display(), other.0, other.1));
        }
    }
    if layer < 3 && code.contains("tower_admission_store::") {
        wrong.push(format!("{}: {name} (L{layer}) imports the store", path.display()));
    }
    // Each facade is known to one file, or to the files of one folder.
    let home = |word: &str| match word {
        "metrics" => path.parent().is_some_and(|folder| folder.ends_with("runtime/background/metrics")),
        "tracing" => path.ends_with("runtime/background/trace.rs"),
        _ => false,
    };
    for word in forbidden(layer).iter().filter(|word| !home(word)) {
        let mentions = code.match_indices(&format!("{word}::")).any(|(at, _)| {
            let before = code[..at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
        });
        if mentions {
            wrong.push(format!("{}: {name} (L{layer}) mentions {word}", path.display()));
        }
    }
    wrong
}

#[test]
fn a_file_whose_tests_stand_elsewhere_is_looked_at_whole() {
    let text = "mod room;\n#[cfg(test)]\nmod tests;\n\npub struct Engine;\n";
    assert_eq!(before_tests(text), text);
    assert_eq!(before_tests("fn a() {}\n#[cfg(test)]\nmod tests {\n}\n"), "fn a() {}");
}

#[test]
fn imports_go_downward_and_files_stay_short() {
    let files = library();
    assert!(files.len() > 30, "the sources were found");
    let wrong: Vec<_> = files
        .iter()
        .filter(|path| !is_test(path))
        .flat_map(|path| check(path, &fs::read_to_string(path).unwrap()))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// How many files a folder holds, for those that hold too many for a reader to keep in mind.
fn crowded(files: &[PathBuf]) -> Vec<String> {
    let mut folders: BTreeMap<&Path, usize> = BTreeMap::new();
    for folder in files.iter().filter_map(|path| path.parent()) {
        *folders.entry(folder).or_default() += 1;
    }
    let crowded = folders.into_iter().filter(|&(_, files)| files > MOST_FILES);
    crowded.map(|(folder, files)| format!("{}: {files} files, {MOST_FILES} are allowed", folder.display())).collect()
}

#[test]
fn folders_stay_small() {
    let files = library();
    assert_eq!(crowded(&files), [""; 0]);
    let many: Vec<_> = (0..=MOST_FILES).map(|number| PathBuf::from(format!("src/x/{number}.rs"))).collect();
    assert_eq!((crowded(&many).len(), crowded(&many[1..]).len()), (1, 0), "one too many is found");
}

#[test]
fn the_core_of_the_runtime_knows_nothing_else_of_it() {
    let in_core = |path: &&PathBuf| path.parent().is_some_and(|folder| folder.ends_with("runtime/core"));
    let files = library();
    let core: Vec<_> = files.iter().filter(in_core).collect();
    assert!(core.len() > 5, "the core was found");
    for path in core {
        let code = code(&fs::read_to_string(path).unwrap()).replace("in crate::runtime)", "");
        let named: Vec<_> = OUTSIDE_THE_CORE.iter().filter(|word| code.contains(**word)).collect();
        assert!(named.is_empty(), "{}: names {named:?}", path.display());
    }
}

#[test]
fn every_room_has_a_layer() {
    for path in library() {
        let known = room(&path).is_some() || path.ends_with("src/lib.rs") || path.ends_with("src/docs.rs");
        assert!(known, "{}: add its room to the table above", path.display());
    }
}

#[test]
fn each_kind_of_violation_is_found() {
    let ticket = root().join("src/ticket.rs");
    for bad in [
        "use crate::runtime::Permit;",
        "use crate::{\n    runtime::Permit,\n};",
        "use tokio::time::Instant;",
        "fn f() { metrics::counter!(\"x\"); }",
        "fn f() { debug_assert!(true); }",
        "use tower_admission_store::Leases;",
        &"\n".repeat(401),
    ] {
        assert_eq!(check(&ticket, bad).len(), 1, "{bad:?}");
    }
    for good in ["use crate::{time::Timestamp, rejection::Reason};", "// use tokio::time::Instant;", "self.metrics()"] {
        assert_eq!(check(&ticket, good), [""; 0], "{good:?}");
    }
}
