//! Writes src/docs/verification.md from what was run.
//!
//! ```text
//! cargo run --manifest-path crates/models/Cargo.toml -p admission-verification -- [--partial] FILE...
//! ```
//!
//! Each file is the output of a run: `cargo test`, the models with `--nocapture`, a fuzz target, or the `outcomes.json` of
//! `admission-mutants`. No number comes from elsewhere. It is an error if a promise has no test, if a test that is named does not
//! exist or failed, and, without `--partial`, if it was not run.

#[path = "../../../../tests/tidy/promises.rs"]
mod promises;
mod results;

use std::{collections::BTreeMap, env, fmt::Write, fs, path::Path, process::Command};

use promises::{Promise, circles, promises, unheld};
use results::{Ran, Results};

/// What stands in the place of a test that was not run.
const NOT_RUN: &str = "not run here";

fn told(command: &str, arguments: &[&str]) -> String {
    let ran = Command::new(command).args(arguments).output();
    ran.map(|it| String::from_utf8_lossy(&it.stdout).trim().to_owned()).unwrap_or_default()
}

/// What is wrong with the tests of the promises, given what was run.
fn problems(promises: &[Promise], results: &Results, circles: &BTreeMap<String, u8>, is_partial: bool) -> Vec<String> {
    let mut wrong = unheld(promises, circles);
    for Promise { number, tests, .. } in promises {
        for test in tests.iter().filter(|it| circles.contains_key(*it)) {
            match results.test(test) {
                Some(Ran::Failed) => wrong.push(format!("promise {number}: {test} failed")),
                None if !is_partial => wrong.push(format!("promise {number}: {test} was not run")),
                _ => {}
            }
        }
    }
    wrong.extend(results.failed().map(|test| format!("{test} failed")));
    wrong
}

fn report(promises: &[Promise], results: &Results, circles: &BTreeMap<String, u8>) -> String {
    let mut page = String::from(
        "# What was run\n\nWritten by `admission-verification` (`crates/models/verification`) from the output of the runs; not by hand.\n\n",
    );
    let commit = told("git", &["rev-parse", "HEAD"]);
    let is_changed = !told("git", &["status", "--porcelain"]).is_empty();
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("").trim_matches([' ', '\t', ':']);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    writeln!(page, "| | |\n|---|---|").expect("a string grows");
    writeln!(page, "| written at commit | `{commit}`{} |", if is_changed { ", with changes" } else { "" })
        .expect("a string grows");
    writeln!(page, "| machine | {cores} cores, {model}, {} |", told("uname", &["-sr"])).expect("a string grows");
    writeln!(page, "| compiler | {} |\n", told("rustc", &["--version"])).expect("a string grows");

    page += "## Promises\n\nThe numbers are those of the guarantees page. \
             A test of circle 1 is run by `cargo test --all-features`, of circle 2 by `.ci/run`, of circle 3 at night.\n";
    for Promise { number, title, tests } in promises {
        writeln!(page, "\n**{number}. {title}**\n\n| test | circle | result | how far |\n|---|---|---|---|")
            .expect("a string grows");
        for test in tests {
            let result = match results.test(test) {
                Some(Ran::Passed) => "held",
                Some(Ran::Failed) => "FAILED",
                None => NOT_RUN,
            };
            let far: Vec<_> = results.explored(test).map(|it| format!("{} {}", it.executions, it.how)).collect();
            writeln!(page, "| `{test}` | {} | {result} | {} |", circles[test], far.join("; ")).expect("a string grows");
        }
    }
    page += "\n## Models\n\n| model | executions | how | s |\n|---|---|---|---|\n";
    for it in &results.models {
        writeln!(page, "| `{}` | {} | {} | {} |", it.name, it.executions, it.how, it.seconds).expect("a string grows");
    }
    page += "\n## Deliberate mistakes that a model found\n\n| mistake | how it showed |\n|---|---|\n";
    for (mistake, how) in &results.found {
        writeln!(page, "| `{mistake}` | {} |", how.replace('|', "/")).expect("a string grows");
    }
    page += "\n## Fuzzing\n\n| target | executions | s |\n|---|---|---|\n";
    for (target, executions, seconds) in &results.fuzzed {
        writeln!(page, "| `{target}` | {executions} | {seconds} |").expect("a string grows");
    }
    let mutants = &results.mutants;
    page += "\n## Mutants\n\n";
    if mutants.caught + mutants.timed_out + mutants.missed == 0 {
        writeln!(page, "{NOT_RUN}").expect("a string grows");
    } else {
        page += "| caught | timed out | missed | unviable |\n|---|---|---|---|\n";
        writeln!(page, "| {} | {} | {} | {} |", mutants.caught, mutants.timed_out, mutants.missed, mutants.unviable)
            .expect("a string grows");
    }
    let (passed, ignored) = results.counts();
    writeln!(page, "\n## Tests\n\n{passed} passed, {ignored} ignored, 0 failed.").expect("a string grows");
    page
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let is_partial = arguments.iter().any(|it| it == "--partial");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let page = fs::read_to_string(root.join("src/docs/guarantees.md")).expect("the guarantees page");
    let list = fs::read_to_string(root.join("crates/models/verification/promises.txt")).expect("the list of tests");
    let mut results = Results::default();
    for file in arguments.iter().filter(|it| !it.starts_with("--")) {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
        results.read(file, &text);
    }
    let (promises, circles) = (promises(&page, &list), circles(&root));
    let wrong = problems(&promises, &results, &circles, is_partial);
    if !wrong.is_empty() {
        eprintln!("{}", wrong.join("\n"));
        std::process::exit(1);
    }
    fs::write(root.join("src/docs/verification.md"), report(&promises, &results, &circles))
        .expect("the page is written");
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Guarantees\n\n1. **One holds.** For sure.\n2. **Two holds**, too.\n\n# Not guaranteed\n";
    const OUTPUT: &str = "test a::one_is_held ... ok\ntest two_is_held ... ok\ntwo_is_held: 7 executions (loom, 2 preemptions) in 0.1 s\n";

    fn known() -> BTreeMap<String, u8> {
        [("one_is_held", 1), ("two_is_held", 1), ("three", 2)].map(|(test, circle)| (test.to_owned(), circle)).into()
    }

    fn wrong(list: &str, output: &str, is_partial: bool) -> Vec<String> {
        let mut results = Results::default();
        results.read("log", output);
        problems(&promises(PAGE, list), &results, &known(), is_partial)
    }

    #[test]
    fn each_breach_is_an_error() {
        let list = "1 one_is_held\n2 two_is_held\n";
        assert_eq!(wrong(list, OUTPUT, false), [""; 0]);
        assert_eq!(wrong("1 one_is_held\n", OUTPUT, false), ["promise 2 (Two holds) has no test in the first circle"]);
        assert_eq!(wrong(&format!("{list}2 nowhere\n"), OUTPUT, false), ["promise 2: there is no test nowhere"]);
        assert_eq!(wrong(&format!("{list}2 three\n"), OUTPUT, false), ["promise 2: three was not run"]);
        assert_eq!(wrong(&format!("{list}2 three\n"), OUTPUT, true), [""; 0]);
        let failed = OUTPUT.replace("one_is_held ... ok", "one_is_held ... FAILED");
        assert_eq!(wrong(list, &failed, true), ["promise 1: one_is_held failed", "a::one_is_held failed"]);
    }

    #[test]
    fn numbers_come_from_the_output() {
        let mut results = Results::default();
        results.read("log", OUTPUT);
        results.read("fuzz-toml.log", "Done 4711 runs in 61 second(s)\n");
        results.read("outcomes.json", r#"{"caught": 9, "missed": 1, "timeout": 2, "unviable": 3, "success": 0}"#);
        let page = report(&promises(PAGE, "1 one_is_held\n2 two_is_held\n"), &results, &known());
        for line in [
            "| `two_is_held` | 1 | held | 7 loom, 2 preemptions |",
            "| `fuzz-toml` | 4711 | 61 |",
            "| 9 | 2 | 1 | 3 |",
            "2 passed, 0 ignored, 0 failed.",
        ] {
            assert!(page.contains(line), "{line} is not in {page}");
        }
    }
}
