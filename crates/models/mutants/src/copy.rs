//! The copy of the repository, with all mutants, and its test programs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    ops::Range,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::mutate::{Mutant, mutate};

/// What decides, and is worth a mutant. Configuration and introspection read and show.
const ROOMS: [&str; 4] = ["crates/store/src/", "src/admission/", "crates/engine/src/", "src/runtime/"];

/// A program of tests, or a part of it.
#[derive(Clone, Debug)]
pub struct Suite {
    pub name: &'static str,
    pub program: PathBuf,
    /// What the names of its tests begin with.
    pub tests: &'static str,
    pub folder: PathBuf,
    /// Beginning of the files whose mutants it is asked about.
    pub rooms: &'static str,
}

/// Where a suite is, by its name: the package, the target, what its tests' names begin with, and the rooms whose mutants it
/// is asked about.
type Place = (&'static str, &'static str, &'static str, &'static str, &'static str);

/// All suites. Cheap ones come first.
pub const SUITES: [Place; 9] = [
    ("engine", "tower-admission-engine", "lib", "", "crates/engine/"),
    ("store", "tower-admission-store", "lib", "", "crates/store/"),
    ("lib", "tower-admission", "lib", "", ""),
    ("handle", "tower-admission", "all", "handle::", ""),
    ("capture", "admission-simulator", "capture", "", ""),
    ("scenarios", "admission-simulator", "scenarios", "", ""),
    ("fleet", "admission-simulator", "fleet", "", ""),
    ("servers", "tower-admission", "all", "servers::", ""),
    ("redis", "admission-e2e", "e2e", "redis::", "crates/store/"),
];

pub struct Copy {
    pub mutants: Vec<Mutant>,
    pub dropped: BTreeSet<u32>,
    pub constant: usize,
    pub suites: Vec<Suite>,
}

fn is_mutated(file: &str) -> bool {
    let is_test = |part: &str| part == "tests" || part.ends_with("_tests") || part.ends_with("tests.rs");
    file.ends_with(".rs") && ROOMS.iter().any(|it| file.starts_with(it)) && !file.split('/').any(is_test)
}

/// A file is written only where it changed, so that Cargo builds what is new.
fn write(path: &Path, content: &[u8]) {
    if fs::read(path).is_ok_and(|old| old == content) {
        return;
    }
    fs::create_dir_all(path.parent().expect("files are in folders")).expect("a folder for the copy");
    fs::write(path, content).expect("a file of the copy");
}

fn files(repository: &Path) -> Vec<String> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(repository)
        .output()
        .expect("git lists the files");
    let mut files: Vec<String> = String::from_utf8_lossy(&listed.stdout).lines().map(str::to_owned).collect();
    files.sort();
    files.dedup();
    files.retain(|it| repository.join(it).is_file());
    files
}

/// What a root of a crate has in the copy besides.
fn more(file: &str) -> &'static str {
    match file {
        "crates/engine/src/lib.rs" => "\npub mod mutants;\n",
        "crates/store/src/lib.rs" | "src/lib.rs" => "\nuse tower_admission_engine::mutants;\n",
        _ => "",
    }
}

/// Writes the copy, and its text by file.
fn write_copy(
    repository: &Path,
    copy: &Path,
    dropped: &BTreeSet<u32>,
) -> (Vec<Mutant>, usize, BTreeMap<String, String>) {
    let (mut mutants, mut constant, mut texts) = (Vec::new(), 0, BTreeMap::new());
    for file in files(repository) {
        let content = fs::read(repository.join(&file)).expect("a file of the repository");
        if is_mutated(&file) {
            let text = String::from_utf8(content).expect("sources are UTF-8");
            let mutated = mutate(&file, &text, mutants.len() as u32 + 1, dropped);
            mutants.extend(mutated.mutants);
            constant += mutated.constant;
            write(&copy.join(&file), (mutated.text.clone() + more(&file)).as_bytes());
            texts.insert(file, mutated.text);
        } else {
            write(&copy.join(&file), &[&content[..], more(&file).as_bytes()].concat());
        }
    }
    write(&copy.join("crates/engine/src/mutants.rs"), include_bytes!("switch.rs"));
    (mutants, constant, texts)
}

/// All marked ranges of a text, with their mutants; inner ones before outer ones.
fn marks(text: &str) -> Vec<(Range<usize>, Vec<u32>)> {
    let (mut open, mut found, mut at) = (Vec::new(), Vec::new(), 0);
    while let Some(next) = text[at..].find("/*").map(|it| at + it) {
        at = next + 2;
        if text[at..].starts_with(">*/") {
            let (start, ids) = open.pop().expect("each mark that ends has begun");
            found.push((start..at, ids));
        } else if let Some(ids) = text[at..].strip_prefix('<').and_then(|it| it.split_once("*/")) {
            let ids: Result<Vec<u32>, _> = ids.0.split(',').map(str::parse).collect();
            if let Ok(ids) = ids {
                open.push((next, ids));
            }
        }
    }
    found
}

/// The mutants that an error is about: those of the innermost marks around it, else those of the lines that it is on.
fn blamed(text: &str, error: &Range<usize>) -> Vec<u32> {
    let marks = marks(text);
    let around: Option<&(Range<usize>, Vec<u32>)> =
        marks.iter().filter(|it| it.0.start <= error.start && error.end <= it.0.end).min_by_key(|it| it.0.len());
    if let Some((_, ids)) = around {
        return ids.clone();
    }
    let start = text[..error.start].rfind('\n').map_or(0, |it| it + 1);
    let end = text[error.end..].find('\n').map_or(text.len(), |it| error.end + it);
    let touching = marks.iter().filter(|it| it.0.start < end && start < it.0.end);
    touching.flat_map(|it| it.1.clone()).collect()
}

/// Numbers mean what they meant only while the same mutants are found: what else was kept goes.
fn forget_others(repository: &Path, work: &Path) {
    let (mut text, mut next) = (String::new(), 1);
    for file in files(repository).into_iter().filter(|it| is_mutated(it)) {
        let source = fs::read_to_string(repository.join(&file)).expect("a file of the repository");
        let mutants = mutate(&file, &source, next, &BTreeSet::new()).mutants;
        next += mutants.len() as u32;
        for Mutant { id, function, what, .. } in mutants {
            writeln!(text, "{id} {file} {function}: {what}").expect("a string grows");
        }
    }
    let path = work.join("mutants.txt");
    if fs::read_to_string(&path).is_ok_and(|old| old != text) {
        for kept in ["dropped.txt", "outcomes.txt"] {
            _ = fs::remove_file(work.join(kept));
        }
    }
    fs::write(&path, text).expect("the list of mutants");
}

/// Builds the first test programs without those mutants that the compiler refuses.
pub fn build(repository: &Path, work: &Path, wanted: &[String]) -> Copy {
    let wanted: Vec<_> = SUITES.into_iter().filter(|it| wanted.iter().any(|name| name == it.0)).collect();
    assert!(!wanted.is_empty(), "none of the suites is known: {SUITES:?}");
    let copy = work.join("copy");
    let list = work.join("dropped.txt");
    forget_others(repository, work);
    let mut dropped: BTreeSet<u32> =
        fs::read_to_string(&list).unwrap_or_default().lines().filter_map(|it| it.parse().ok()).collect();
    loop {
        let (mutants, constant, texts) = write_copy(repository, &copy, &dropped);
        println!("{} mutants, {} dropped: building", mutants.len(), dropped.len());
        let mut command = Command::new("cargo");
        command.args(["test", "--workspace", "--all-features", "--no-run", "--lib", "--message-format=json"]);
        for target in wanted.iter().map(|it| it.2).filter(|it| *it != "lib").collect::<BTreeSet<_>>() {
            command.args(["--test", target]);
        }
        // Cargo takes the copy's artefacts for the repository's where both share a folder.
        command.env("CARGO_TARGET_DIR", work.join("target"));
        let built = command.current_dir(&copy).stderr(Stdio::inherit()).output().expect("cargo runs");
        let messages: Vec<Value> =
            String::from_utf8_lossy(&built.stdout).lines().filter_map(|it| serde_json::from_str(it).ok()).collect();
        if built.status.success() {
            return Copy { mutants, dropped, constant, suites: suites(&messages, &wanted) };
        }
        let before = dropped.len();
        for message in messages.iter().map(|it| &it["message"]).filter(|it| it["level"] == "error") {
            let mut spans: Vec<&Value> = message["spans"].as_array().into_iter().flatten().collect();
            spans.sort_by_key(|it| it["is_primary"] != true);
            let mut found = Vec::new();
            for span in spans {
                let Some(text) = span["file_name"].as_str().and_then(|it| texts.get(it)) else { continue };
                let at = |key: &str| span[key].as_u64().unwrap_or_default() as usize;
                found = blamed(text, &(at("byte_start")..at("byte_end")));
                if !found.is_empty() {
                    break;
                }
            }
            if found.is_empty() {
                println!("no mutant explains: {}", message["rendered"].as_str().unwrap_or_default());
            }
            dropped.extend(found);
        }
        let text: String = dropped.iter().map(|it| format!("{it}\n")).collect();
        fs::write(&list, text).expect("the list of what is dropped");
        assert!(dropped.len() > before, "the copy does not build, and no mutant is to blame");
    }
}

fn suites(messages: &[Value], wanted: &[Place]) -> Vec<Suite> {
    let find = |&(name, package, target, tests, rooms): &Place| {
        let library = package.replace('-', "_");
        let target = if target == "lib" { library.as_str() } else { target };
        let built = messages.iter().find(|it| {
            let manifest = it["manifest_path"].as_str().unwrap_or_default();
            let folder = package.rsplit('-').next().unwrap_or_default();
            let is_package = package == "tower-admission" || manifest.ends_with(&format!("/{folder}/Cargo.toml"));
            it["target"]["name"] == target
                && it["executable"].is_string()
                && it["profile"]["test"] == true
                && is_package
        });
        let built = built.unwrap_or_else(|| panic!("{package} {target} was not built"));
        let folder = Path::new(built["manifest_path"].as_str().expect("a manifest")).parent().expect("a folder");
        Suite {
            name,
            tests,
            rooms,
            program: built["executable"].as_str().expect("a program").into(),
            folder: folder.to_owned(),
        }
    };
    wanted.iter().map(find).collect()
}
