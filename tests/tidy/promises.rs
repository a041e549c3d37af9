//! The promises of the guarantees page, the tests that hold each of them, and which circle runs these: 1 is
//! `cargo test --all-features`, 2 is `.ci/run`, 3 is the night. `crates/models/verification` writes its page with this file.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// A promise.
#[derive(Debug)]
pub(crate) struct Promise {
    pub(crate) number: u32,
    pub(crate) title: String,
    pub(crate) tests: Vec<String>,
}

/// Reads the promises of the page, each with the tests of the list: lines of a number and the name of a test.
pub(crate) fn promises(page: &str, list: &str) -> Vec<Promise> {
    let guarantees = page.split("# Not guaranteed").next().unwrap_or_default();
    let promises = guarantees.lines().filter_map(|line| {
        let (number, text) = line.split_once(". ")?;
        let number = number.parse().ok()?;
        let title = text.strip_prefix("**").and_then(|it| it.split("**").next()).unwrap_or(text);
        let tests = list.lines().filter_map(|line| {
            let (of, test) = line.split_once(' ')?;
            (of.parse() == Ok(number)).then(|| test.trim().to_owned())
        });
        Some(Promise { number, title: title.trim_end_matches('.').to_owned(), tests: tests.collect() })
    });
    let promises: Vec<_> = promises.collect();
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let number = line.split(' ').next().and_then(|it| it.parse().ok());
        assert!(promises.iter().any(|it| Some(it.number) == number), "there is no such promise: {line}");
    }
    promises
}

/// Adds the names of the tests of a file that a circle runs: functions with an attribute that makes them tests, and the entries
/// of lists that macros make tests of.
pub(crate) fn add(text: &str, circle: u8, ignored: u8, found: &mut BTreeMap<String, u8>) {
    let mut note = |name: &str, circle: u8| {
        let earliest = found.entry(name.to_owned()).or_insert(circle);
        *earliest = circle.min(*earliest);
    };
    let ident = |text: &str| text.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect::<String>();
    let (mut is_test, mut is_ignored) = (false, false);
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            is_ignored |= line.starts_with("#[ignore");
        } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test) {
            note(&ident(rest), if is_ignored { ignored } else { circle });
            (is_test, is_ignored) = (false, false);
        }
    }
    for list in text.split("harness! { ").skip(1) {
        note(&ident(list), circle);
    }
    for list in text.split("hold! {\n").skip(1).filter_map(|it| it.split("\n}").next()) {
        list.split([' ', ':', ',', ';']).map(ident).filter(|it| !it.is_empty()).for_each(|it| note(&it, circle));
    }
}

/// All files below a folder with one of these extensions, but for what is built, downloaded or hidden.
pub(crate) fn files(folder: &Path, extensions: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_hidden = name.starts_with('.') && ![".ci", ".github"].contains(&&*name);
        if path.is_dir() && !is_hidden && !["node_modules", "target"].contains(&&*name) {
            found.extend(files(&path, extensions));
        } else if name.rsplit_once('.').is_some_and(|(_, end)| extensions.split(' ').any(|it| it == end)) {
            found.push(path);
        }
    }
    found
}

/// All tests of the repository, and the first circle that runs each.
pub(crate) fn circles(root: &Path) -> BTreeMap<String, u8> {
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap_or_default();
    let first = manifest.split("default-members = [").nth(1).and_then(|it| it.split(']').next()).unwrap_or_default();
    let first: Vec<_> = first.split('"').skip(1).step_by(2).collect();
    let packages = fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    let packages = packages.map(|it| format!("crates/{}", it.file_name().to_string_lossy()));
    let mut found = BTreeMap::new();
    for folder in packages.chain(["examples", "src", "tests"].map(str::to_owned)) {
        let is_first = ["src", "tests"].contains(&&*folder) || first.contains(&&*folder);
        // `.ci/test` runs what `e2e` leaves out at first; the rest takes long.
        let ignored = if folder == "crates/e2e" { 2 } else { 3 };
        for file in files(&root.join(&folder), "rs") {
            let text = fs::read_to_string(file).unwrap_or_default();
            add(&text, if is_first { 1 } else { 2 }, ignored, &mut found);
        }
    }
    found
}

/// What is wrong with the tests of the promises.
pub(crate) fn unheld(promises: &[Promise], circles: &BTreeMap<String, u8>) -> Vec<String> {
    let mut wrong = Vec::new();
    for Promise { number, title, tests } in promises {
        if !tests.iter().any(|it| circles.get(it) == Some(&1)) {
            wrong.push(format!("promise {number} ({title}) has no test in the first circle"));
        }
        let missing = tests.iter().filter(|it| !circles.contains_key(*it));
        wrong.extend(missing.map(|it| format!("promise {number}: there is no test {it}")));
    }
    wrong
}
