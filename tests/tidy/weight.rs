//! How heavy the house is, in numbers that grow unless they are watched: a table, printed by
//!
//! ```sh
//! cargo test --test all weight -- --nocapture
//! ```
//!
//! A ceiling is what there is; a change that needs more of something says so here. It comes down where a change removes some.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use super::{
    circles::{circles, modules},
    code, is_test, sources,
};

/// What is counted, the most there may be, and where it should go.
const CEILINGS: &[(&str, usize, usize)] = &[
    ("lines of Rust, whole repository", 134_263, 92_000),
    ("lines without tests, library", 47_593, 35_000),
    ("lines without tests, engine but what it tells of itself", 14_870, 14_000),
    ("entries at the top level, not hidden", 11, 11),
    ("calls of `capacity.take`", 1, 1),
    ("functions in the verbs of the engine", 149, 120),
    ("methods of telemetry that verbs call", 3, 1),
    ("methods of rooms for others", 170, 110),
    ("methods of the widest room", 37, 25),
    ("references to inner objects that rooms hand out", 3, 0),
    ("names of fields in the snapshot and again on the wire", 29, 0),
    ("public types", 190, 190),
    ("files with an `impl TwoPoint`", 1, 1),
    ("test programs of the workspace", 12, 12),
    ("files in circles of imports, library", 0, 0),
    ("files in circles of imports, simulator", 0, 0),
];

/// The sources of all libraries that users build.
const LIBRARY: [&str; 4] = ["src", "crates/config/src", "crates/engine/src", "crates/store/src"];

/// What the engine tells of itself, and no decision reads.
const TELLS: [&str; 2] = ["crates/engine/src/telemetry", "crates/engine/src/view"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn lines(paths: &[PathBuf]) -> usize {
    paths.iter().map(|path| fs::read_to_string(path).unwrap().lines().count()).sum()
}

/// Lines up to the tests of each file that is not about tests.
fn lines_without_tests(folder: &str) -> usize {
    let files = sources(&root().join(folder)).into_iter().filter(|path| !is_test(path));
    let untested = |text: String| super::before_tests(&text).lines().count();
    files.map(|path| untested(fs::read_to_string(path).unwrap())).sum()
}

/// The code of the files below a folder of the engine, without tests.
fn engine(folder: &str) -> Vec<String> {
    let files = sources(&root().join("crates/engine/src").join(folder)).into_iter().filter(|path| !is_test(path));
    files.map(|path| code(&fs::read_to_string(path).unwrap())).collect()
}

fn ident(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// Rooms, and where each stands.
const ROOMS: [(&str, &str); 9] = [
    ("Capacity", "capacity"),
    ("Controller", "control"),
    ("Estimates", "estimate"),
    ("Lifecycle", "."),
    ("Outage", "."),
    ("Quotas", "quota"),
    ("SlotTtl", "."),
    ("Telemetry", "telemetry"),
    ("WaitQueue", "queue"),
];

/// The methods of a room that others may call, with what they return.
fn methods(room: &str, sources: &[String]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let head = format!("impl {room} {{");
    for text in sources.iter().flat_map(|text| text.split(&head).skip(1)) {
        let body = text.split("\n}\n").next().unwrap_or(text);
        for (at, word) in body.match_indices("fn ") {
            let before = body[..at].rsplit('\n').next().unwrap_or_default().trim();
            let is_for_others = before.starts_with("pub(crate)") || before.starts_with("pub ");
            let returns =
                body[at..].split(" {\n").next().and_then(|head| head.rsplit_once("-> ")).map_or("", |it| it.1);
            if is_for_others {
                found.insert(ident(&body[at + word.len()..]), returns.to_owned());
            }
        }
    }
    found
}

/// Whether a method hands out an object of its room by reference, rather than a value or a word.
fn is_inner(returns: &str) -> bool {
    let known = ["str", "Self", "Arc", "dyn", "[", "Duration"];
    let mut targets = returns.split('&').skip(1).map(|it| it.trim_start_matches("'_ ").trim_start_matches("mut "));
    targets.any(|it| !known.iter().any(|known| it.starts_with(known)) && it.starts_with(char::is_uppercase))
}

fn counts() -> Vec<usize> {
    let rooms: BTreeMap<_, _> = ROOMS.iter().map(|&(room, at)| (room, methods(room, &engine(at)))).collect();
    let handed_out = rooms.values().flat_map(BTreeMap::values).filter(|returns| is_inner(returns)).count();
    let verbs = engine("verbs");
    let called = |of: &str| -> BTreeSet<String> {
        verbs.iter().flat_map(|code| code.split(of).skip(1).map(ident).collect::<Vec<_>>()).collect()
    };
    let takes = verbs.iter().map(|code| code.matches("capacity.take(").count());
    let api = fs::read_to_string(root().join("crates/e2e/tests/public_api/api.txt")).unwrap_or_default();
    let is_type = |line: &&str| ["struct ", "enum ", "trait "].iter().any(|kind| line.starts_with(kind));
    let law = sources(&root().join("crates/engine/src/limit"));
    let law = law.iter().filter(|path| code(&fs::read_to_string(path).unwrap()).contains("impl TwoPoint {"));
    let top = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().file_name());
    let top = top.filter(|name| !name.to_string_lossy().starts_with('.') && name != "target");
    vec![
        lines(&sources(root())),
        LIBRARY.iter().map(|folder| lines_without_tests(folder)).sum(),
        lines_without_tests("crates/engine/src") - TELLS.map(lines_without_tests).iter().sum::<usize>(),
        top.count(),
        takes.sum(),
        verbs.iter().map(|code| code.matches("fn ").count()).sum(),
        called("self.telemetry.").len(),
        rooms.values().map(BTreeMap::len).sum(),
        rooms.values().map(BTreeMap::len).max().unwrap_or(0),
        handed_out,
        twice(),
        api.lines().filter(is_type).count(),
        law.count(),
        programs(),
        LIBRARY.iter().map(|folder| circles(&modules(&root().join(folder))).len()).sum(),
        circles(&modules(&root().join("crates/simulator/src"))).len(),
    ]
}

/// Fields of the types on the wire that bear the name of a field of a snapshot's.
fn twice() -> usize {
    let fields = |folder: &str| -> Vec<String> {
        let files = sources(&root().join(folder));
        let texts = files.iter().map(|path| code(&fs::read_to_string(path).unwrap()));
        let all = texts.flat_map(|text| {
            let fields = text.lines().filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(": "));
            fields.filter(|(name, _)| *name == ident(name)).map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
        });
        all.collect()
    };
    let shown: BTreeSet<_> = fields("crates/engine/src/view").into_iter().collect();
    fields("src/introspect/wire").iter().filter(|name| shown.contains(*name)).count()
}

/// Programs that the full run of the tests builds, without those of examples.
fn programs() -> usize {
    let manifest = |package: &str| fs::read_to_string(root().join(package).join("Cargo.toml")).unwrap();
    let workspace = manifest("");
    let members = workspace.split("members = [").nth(1).and_then(|it| it.split(']').next()).unwrap();
    let members = members.split('"').skip(1).step_by(2).filter(|it| *it != "examples");
    let is_suite = |path: PathBuf| path.extension().is_some_and(|it| it == "rs") || path.join("main.rs").exists();
    let programs = members.chain([""]).map(|package| {
        let suites = fs::read_dir(root().join(package).join("tests")).into_iter().flatten();
        let suites = suites.filter(|entry| is_suite(entry.as_ref().unwrap().path())).count();
        suites + usize::from(!manifest(package).contains("[lib]\ntest = false"))
    });
    programs.sum()
}

#[test]
fn weight() {
    if !root().join("crates/e2e").exists() {
        // The published package has the library only.
        return;
    }
    let mut heavy = Vec::new();
    for (&(what, most, target), count) in CEILINGS.iter().zip(counts()) {
        println!("{count:>7} of {most:>7}, target {target:>6}: {what}");
        if count > most {
            heavy.push(format!("{what}: {count}, {most} are allowed"));
        }
    }
    assert!(heavy.is_empty(), "{}", heavy.join("\n"));
}

#[test]
fn rooms_and_what_they_hand_out_are_counted() {
    let code = "impl Room {\n    pub(crate) fn a(&self) -> &Inner {\n    }\n    fn own(&self) {\n    }\n    \
                pub(crate) const fn b(\n        &mut self,\n    ) -> usize {\n    }\n}\nimpl Other {\n    pub(crate) fn c() {\n}\n";
    let found = methods("Room", &[code.to_owned()]);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert!(is_inner(&found["a"]) && !is_inner(&found["b"]));
    for (returns, inner) in [
        ("Option<&Label>", true),
        ("&mut Outage", true),
        ("impl Iterator<Item = (Key, &Waiter)>", true),
        ("&str", false),
        ("&Arc<str>", false),
        ("Option<usize>", false),
    ] {
        assert_eq!(is_inner(returns), inner, "{returns}");
    }
}
