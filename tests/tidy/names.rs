//! Pages that name tests name those that there are; and no package allows unsafe code.

use std::{collections::BTreeMap, fs};

use super::{
    promises::{self, Promise},
    root, sources,
};

/// The names of tests on a page: words of four parts at least, in backticks.
fn named(page: &str) -> Vec<&str> {
    let quoted = page.split('`').skip(1).step_by(2);
    let is_test = |it: &&str| {
        it.matches('_').count() >= 3 && it.chars().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_')
    };
    quoted.filter(is_test).collect()
}

fn missing<'a>(page: &'a str, tests: &BTreeMap<String, u8>) -> Vec<&'a str> {
    named(page).into_iter().filter(|name| !tests.contains_key(*name)).collect()
}

#[test]
fn pages_name_tests_that_there_are() {
    let tests = promises::circles(root());
    for (page, at_least) in [(".github/SECURITY.md", 15), ("src/docs/guarantees.md", 5)] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let named = named(&text).len();
        assert!(named >= at_least, "{page} names {named} tests");
        assert_eq!(missing(&text, &tests), [""; 0], "{page} names tests that there are not");
    }
    let renamed =
        "it is shown by `a_test_that_was_renamed_yesterday`, `max_labels` and `pages_name_tests_that_there_are`";
    assert_eq!(missing(renamed, &tests), ["a_test_that_was_renamed_yesterday"], "control: one that is gone is found");
}

#[test]
fn a_test_is_a_function_or_an_entry_of_a_list() {
    let mut found = BTreeMap::new();
    let text = "#[test]\nfn one() {}\nfn none() {}\n// fn told\n  #[tokio::test(start_paused = true)]\n  #[ignore = \"x\"]\n  \
                async fn late() {}\nharness! { proof, unwind 4: |any| f(any) }\nhold! {\n    words: listed, last(2);\n}\n";
    promises::add(text, 1, 3, &mut found);
    promises::add("#[test]\nfn one() {}\n#[test]\nfn two() {}", 2, 3, &mut found);
    for (test, circle) in [("one", 1), ("two", 2), ("late", 3), ("proof", 1), ("listed", 1), ("last", 1)] {
        assert_eq!(found.get(test), Some(&circle), "{test}");
    }
    assert_eq!((found.get("none"), found.get("told")), (None, None));
}

/// The promises, and the circle of each test.
fn promises() -> (Vec<Promise>, BTreeMap<String, u8>) {
    let read = |file: &str| fs::read_to_string(root().join(file)).unwrap();
    let list = read("crates/models/verification/promises.txt");
    (promises::promises(&read("src/docs/guarantees.md"), &list), promises::circles(root()))
}

#[test]
fn each_promise_has_a_test_that_a_rust_toolchain_is_enough_for() {
    let (mut promises, circles) = promises();
    assert_eq!((promises.len(), promises::unheld(&promises, &circles)), (11, Vec::new()));
    let control = promises.last_mut().unwrap();
    control.tests = ["no_more_run_than_are_lent", "nowhere"].map(str::to_owned).into();
    let missing = "promise 11: there is no test nowhere";
    let title = &control.title;
    let later = format!("promise 11 ({title}) has no test in the first circle");
    assert_eq!(promises::unheld(&promises, &circles), [&*later, missing], "control");
}

/// The page of what was run names each test of each promise with its circle, and no other.
#[test]
fn the_page_of_what_was_run_tells_the_circles() {
    let (promises, circles) = promises();
    let page = fs::read_to_string(root().join("src/docs/verification.md")).unwrap();
    let rows = promises.iter().flat_map(|it| &it.tests).map(|it| format!("| `{it}` | {} |", circles[it]));
    let told = page.split("## Models").next().unwrap().lines().filter(|line| line.starts_with("| `"));
    let told = told.map(|line| line.split_inclusive('|').take(3).collect::<String>());
    assert_eq!(told.collect::<Vec<_>>(), rows.collect::<Vec<_>>());
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
        "crates/config",
        "crates/engine",
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
    let folders = ["src", "crates/config", "crates/engine", "crates/store"];
    let files = folders.iter().flat_map(|folder| sources(&root().join(folder)));
    let allowing = files.filter(|path| fs::read_to_string(path).unwrap().contains("allow(unsafe_code"));
    assert_eq!(allowing.count(), 0);
}
