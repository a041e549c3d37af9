//! Pages that name tests name those that there are; and no package allows unsafe code.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn walk(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()) {
        if path.is_dir() && !path.ends_with("target") {
            walk(&path, extension, found);
        } else if path.extension().is_some_and(|it| it == extension) {
            found.push(path);
        }
    }
}

/// All functions of the sources, and the entries of the lists that macros make tests of.
fn functions() -> BTreeSet<String> {
    let mut files = Vec::new();
    for folder in ["crates", "src", "tests"] {
        walk(&root().join(folder), "rs", &mut files);
    }
    let mut names = BTreeSet::new();
    for text in files.iter().map(|path| fs::read_to_string(path).unwrap()) {
        for part in text.split("fn ").skip(1).chain(text.split("harness! { ").skip(1)) {
            names.insert(part.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect());
        }
    }
    names
}

/// The names of tests on a page: words of four parts at least, in backticks.
fn named(page: &str) -> Vec<&str> {
    let quoted = page.split('`').skip(1).step_by(2);
    let is_test = |it: &&str| {
        it.matches('_').count() >= 3 && it.chars().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_')
    };
    quoted.filter(is_test).collect()
}

fn missing<'a>(page: &'a str, functions: &BTreeSet<String>) -> Vec<&'a str> {
    named(page).into_iter().filter(|name| !functions.contains(*name)).collect()
}

#[test]
fn pages_name_tests_that_there_are() {
    let functions = functions();
    for (page, at_least) in [(".github/SECURITY.md", 15), ("src/docs/guarantees.md", 5)] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let named = named(&text).len();
        assert!(named >= at_least, "{page} names {named} tests");
        assert_eq!(missing(&text, &functions), [""; 0], "{page} names tests that there are not");
    }
    let renamed =
        "it is shown by `a_test_that_was_renamed_yesterday`, `max_labels` and `pages_name_tests_that_there_are`";
    assert_eq!(
        missing(renamed, &functions),
        ["a_test_that_was_renamed_yesterday"],
        "control: one that is gone is found"
    );
}

/// What of a manifest lets unsafe code in: lints of its own, or none.
fn allows_unsafe(manifest: &str) -> bool {
    let inherits = manifest.contains("[lints]\nworkspace = true");
    let forbids = manifest.contains("unsafe_code = \"forbid\"");
    !(inherits || forbids)
}

#[test]
fn there_is_no_unsafe_code() {
    for package in [
        "",
        "examples",
        "crates/cli",
        "crates/e2e",
        "crates/simulator",
        "crates/store",
        "crates/testkit",
        "crates/models",
        "crates/models/whole",
    ] {
        let manifest = fs::read_to_string(root().join(package).join("Cargo.toml")).unwrap();
        assert!(!allows_unsafe(&manifest), "{package} may have unsafe code");
    }
    assert!(fs::read_to_string(root().join("Cargo.toml")).unwrap().contains("unsafe_code = \"forbid\""));
    assert!(allows_unsafe("[package]\nname = \"x\"\n[lints.rust]\nunsafe_code = \"allow\""), "control");
    let mut files = Vec::new();
    for folder in ["src", "crates/store"] {
        walk(&root().join(folder), "rs", &mut files);
    }
    let allowing = files.iter().filter(|path| fs::read_to_string(path).unwrap().contains("allow(unsafe_code"));
    assert_eq!(allowing.count(), 0);
}
