//! `plan`, `check`, `simulate`, `completions`: no server is needed.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::json;

use crate::support::{BINARY, bounded, command, run, run_with};

const INCIDENT: [&str; 7] = ["plan", "-n", "3704", "--within", "195s", "--task-time", "229s..245s"];

/// A file that is gone with the test.
#[derive(Debug)]
pub(crate) struct File(PathBuf);

impl File {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("admission-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn a_plan_says_what_a_burst_needs() {
    let plan = run(&[&INCIDENT[..], &["--limit", "200", "--json"]].concat()).await.json();
    assert_eq!((&plan["queue"], &plan["rejected"]), (&json!(3_504), &json!(0)));
    assert_eq!(plan["drain_time_seconds"].as_f64().unwrap() as u64 / 60, 75);
    let text = run(&[&INCIDENT[..], &["--limit", "200"]].concat()).await.with(0);
    assert!(text.contains("\nlimit = 200\nqueue = 3504\n"), "{text}");
    let file = File::new("plan.toml", &text);
    run(&["check", file.path()]).await.with(0);
}

#[tokio::test]
async fn a_plan_predicts_what_settings_do() {
    let before = [&INCIDENT[..], &["--limit", "800", "--queue", "0", "--exit-code"]].concat();
    let text = run(&before).await.with(1);
    assert!(text.contains("rejected        2904 (78.4 %)") && text.contains("is in vain: set a queue"), "{text}");
    let without_limit = run(&INCIDENT).await.with(2);
    assert!(without_limit.contains("--patience"), "{without_limit}");
    let smallest = run(&[&INCIDENT[..], &["--patience", "10m", "--json", "--exit-code"]].concat()).await.json();
    assert_eq!((&smallest["rejected"], &smallest["too_late"]), (&json!(0), &json!(0)));
    let none = run(&[&INCIDENT[..], &["--patience", "200s"]].concat()).await.with(1);
    assert!(none.contains("no limit serves them in time"), "{none}");
}

#[tokio::test]
async fn a_plan_takes_any_number_of_requests() {
    let plan = async |number| {
        run(&["plan", "-n", number, "--within", "1s", "--task-time", "1s", "--limit", "9", "--json"]).await
    };
    let most = plan("18446744073709551615").await.json();
    assert_eq!(most["queue"], json!(18_446_744_073_709_551_606_u64));
    for number in ["18446744073709551616", "-1", "many"] {
        plan(number).await.with(2);
    }
}

const GOOD: &str = r#"
limit = 200
queue = 3600
max_wait = "20m"

[labels]
caps = { "AppA:Chromium" = 4 }

[classes.workflow_tasks]
max_in_flight = 25
max_per_minute = 600

[overrides."production:payments".workflow_tasks]
max_in_flight = 8

[[label_overrides]]
label = "AppA:Chromium"
class = "workflow_tasks"
max_in_flight = 3
"#;

#[tokio::test]
async fn a_good_configuration_is_found_good() {
    let file = File::new("good.toml", GOOD);
    assert_eq!(run(&["check", file.path()]).await.with(0), "the configuration can be used\n");
    let effective = run(&["check", file.path(), "--effective", "--json"]).await.json();
    let queue = json!({ "path": "queue", "value": "3600", "origin": format!("{}:3", file.path()) });
    assert!(effective["effective"].as_array().unwrap().contains(&queue), "{effective:#}");
}

#[tokio::test]
async fn what_holds_for_a_key_is_shown_with_where_it_was_said() {
    let file = File::new("key.toml", GOOD);
    let key = async |key: &'static str, class: &'static str| {
        let held = run(&["check", file.path(), "--key", key, "--class", class, "--json"]).await.json();
        let rules = held["key"]["classes"][class].as_array().unwrap().clone();
        let rules = rules.into_iter().map(|rule| {
            let line = rule["origin"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
            format!("{} {} {} {line}", rule["rule"].as_str().unwrap(), rule["bound"], rule["key"].as_str().unwrap())
        });
        rules.collect::<Vec<_>>()
    };
    let payments = ["max_in_flight 8 production:payments 14", "max_per_minute 600 class 11"];
    assert_eq!(key("production:payments", "workflow_tasks").await, payments);
    let others = ["max_in_flight 25 class 10", "max_per_minute 600 class 11"];
    assert_eq!(key("staging:payments", "workflow_tasks").await, others);
    let colon = ["max_in_flight 3 AppA:Chromium 16", "max_per_minute 600 class 11", "label_cap 4 labels 7"];
    assert_eq!(key(":AppA:Chromium", "workflow_tasks").await, colon);
    assert_eq!(key("production:payments", "*").await, [""; 0]);
    let said = run(&["check", file.path(), "--key", "production:payments", "--class", "nothing"]).await.with(1);
    assert!(said.contains("known are workflow_tasks, *"), "{said}");
    run(&["check", file.path(), "--key", "production:"]).await.with(2);
}

#[tokio::test]
async fn a_key_with_several_colons_is_what_settings_name_and_standard_input_is_a_file() {
    let check = async |text: &str, arguments: &str| {
        let file = File::new("input", text);
        let shell = format!("{BINARY} check - {arguments} < '{}'", file.path());
        let output = bounded("the check", command("sh", &[]).args(["-c", &shell]).output()).await.unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let caps = "limit = 9\nlabels.caps = { \"AppB:Chromium:UAT\" = 2 }\n";
    let key = async |key: &str| check(caps, &format!("--json --key {key}")).await.parse::<serde_json::Value>().unwrap();
    let found = key("AppB:Chromium:UAT").await["key"].clone();
    assert_eq!((&found["namespace"], &found["label"]), (&json!(""), &json!("AppB:Chromium:UAT")), "{found:#}");
    assert_eq!(found["classes"]["*"][0]["bound"], 2);
    assert_eq!(found["classes"]["*"][0]["origin"], "standard input:2");
    let note = found["note"].as_str().unwrap();
    assert!(note.starts_with("nothing is set for label \"Chromium:UAT\" in \"AppB\", so this is "), "{note}");
    // The first colon stays what it is where nothing is set, and where a setting names that.
    let none = key("AppC:Chromium:UAT").await["key"].clone();
    assert_eq!((&none["namespace"], &none["label"]), (&json!("AppC"), &json!("Chromium:UAT")));
    assert!(none["note"].as_str().unwrap().contains("label \"UAT\" in \"AppC:Chromium\""), "{none:#}");
    let set = check(&(caps.to_owned() + "[overrides.'a:b']\n'*'.max_in_flight = 3\n"), "--key a:b").await;
    assert!(set.starts_with("b in a, weight 1\nCLASS") && set.contains("max_in_flight"), "{set}");
    assert_eq!(check("{\"limit\": 3}", "").await, "the configuration can be used\n", "JSON as well");
    assert!(check("limt = 3", "").await.starts_with("standard input:1:8: limt: unknown setting"));
}

#[tokio::test]
async fn every_problem_is_told_with_its_file_and_line() {
    let one = File::new("bad.toml", "quee = 400\nadmission_timeout = 5\n");
    let two = File::new("bad.json", "{\"limit\": -1}");
    let said = run(&["check", one.path(), two.path()]).await.with(1);
    for problem in [
        format!("{}:1:8: quee: unknown setting; did you mean queue?\n", one.path()),
        format!("{}:2:21: admission_timeout: found 5, allowed is a time", one.path()),
        format!("{}:1:11: limit: found -1", two.path()),
        "3 problems\n".to_owned(),
    ] {
        assert!(said.contains(&problem), "{problem} is missing in\n{said}");
    }
    let json = run(&["check", one.path(), "--json"]).await;
    assert_eq!(json.code, 1);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&json["ok"], &json["problems"][0]["path"]), (&json!(false), &json!("quee")));
    let missing = run(&["check", "no-such-file.toml"]).await.with(1);
    assert!(missing.contains("no-such-file.toml: can't be read"), "{missing}");
}

#[tokio::test]
async fn the_environment_counts_if_asked_for_and_warnings_if_denied() {
    let file = File::new("warned.toml", "queue = 10\nadmission_timeout = '30s'\n");
    let variables = [("TOWER_ADMISSION_QUEUE", "many")];
    run_with(&variables, &["check", file.path()]).await.with(0);
    let said = run_with(&variables, &["check", file.path(), "--env"]).await.with(1);
    assert!(said.contains("TOWER_ADMISSION_QUEUE: queue: found \"many\""), "{said}");
    let warned = run(&["check", file.path()]).await.with(0);
    assert!(warned.starts_with("warning: "), "{warned}");
    run(&["check", file.path(), "--deny-warnings"]).await.with(1);
}

const SCENARIO: &str = r#"
duration = "20s"
arrivals = { rate = 100.0 }
service = { distribution = "constant", mean = "10ms" }
server = { model = "pool", workers = 4 }
policy = { law = { kind = "fixed", limit = 4 } }
expect = { all = { goodput = { min = 50.0 } } }
"#;

#[tokio::test]
async fn scenarios_are_simulated() {
    let file = File::new("scenario.toml", SCENARIO);
    let arguments = ["simulate", "--no-search", "--json", "--seed", "7", file.path()];
    let once = run(&arguments).await.json();
    assert_eq!((&once["seeds"], &once["violations"]), (&json!([7]), &json!([])), "{once:#}");
    assert_eq!(once, run(&arguments).await.json(), "bit for bit");
    let violated = ["simulate", "--no-search", "--set", "expect.all.goodput.min=100000.0", file.path()];
    let violated = run(&violated).await.with(1);
    assert!(violated.contains("VIOLATED"), "{violated}");
    let missing = run(&["simulate", "no-such-scenario.toml"]).await.with(2);
    assert!(missing.contains("no-such-scenario.toml"), "{missing}");
    let help = run(&["simulate", "--help"]).await.with(0);
    assert!(help.contains("# What is measured"), "{help}");
    let options = run(&["simulate", "-h"]).await.with(0);
    assert!(help.starts_with(&options) && options.lines().count() < 45 && options.contains("--replay"), "{options}");
}

#[tokio::test]
async fn shells_can_read_the_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell]).await.with(0);
        for word in ["describe", "journal", "simulate", "--exit-code", "--follow"] {
            assert!(script.contains(word.trim_start_matches('-')), "{shell}: {word}");
        }
    }
    let script = run(&["completions", "bash"]).await.with(0);
    let parse = |script: &str| {
        let file = File::new("completions.bash", script);
        Command::new("bash").arg("-n").arg(&file.0).stderr(Stdio::null()).status().unwrap().success()
    };
    assert!(parse(&script));
    assert!(!parse(&(script + "\nif then")), "bash would have told");
    run(&["completions", "tcl"]).await.with(2);
}

/// `| head` has seen enough at some time. A disk that is full is a failure, and said.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_reader_that_leaves_is_no_failure_of_a_simulation() {
    let world = ["simulate", "--world", "3", "--seeds", "1..5"];
    let mut left = command(BINARY, &[]).args(world).spawn().unwrap();
    drop(left.stdout.take());
    let left = bounded("the command", left.wait_with_output()).await.unwrap();
    assert_eq!((left.status.code(), String::from_utf8(left.stderr).unwrap().as_str()), (Some(0), ""));

    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let full = command(BINARY, &[]).args(world).stdout(full).spawn().unwrap();
    let full = bounded("the command", full.wait_with_output()).await.unwrap();
    let said = String::from_utf8(full.stderr).unwrap();
    assert!(!full.status.success() && said.contains("can't write: ") && !said.contains("panicked"), "{said}");
}
