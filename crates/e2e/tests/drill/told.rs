//! What an operator is told of a server: by the command, by the JSON, by the page and by the alerts.

use std::{path::PathBuf, time::Duration};

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use serde_json::Value;
use tokio::{process::Command, time::timeout};

use super::{browser::Browser, clients::Truth, prometheus::Alert};

/// What is told of one server.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// `/admission`; null without an answer.
    pub(crate) json: Value,
    /// Age of the handle, in seconds.
    now: f64,
    /// The first line of `admission status`, and how it ended.
    pub(crate) status: String,
    status_code: i32,
    pub(crate) page: Page,
    /// Alerts that wait for their time or fire, sorted.
    pub(crate) alerts: Vec<String>,
    pub(crate) alert_states: Vec<String>,
}

/// The first line of the page, and how it looks.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) first_line: String,
    look: String,
    runbook: String,
}

impl Page {
    pub(crate) async fn read(browser: &Browser) -> Self {
        let text = async |script: &str| browser.value(script).await.as_str().unwrap_or_default().to_owned();
        Self {
            first_line: text("document.querySelector('#health .headline').textContent.replace(/\\s+/g, ' ').trim()")
                .await,
            look: text("document.getElementById('health').className").await,
            runbook: text("document.getElementById('runbook').getAttribute('href')").await,
        }
    }
}

/// The command, which Cargo puts beside the folder of the tests.
fn admission() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let command = here.parent().unwrap().parent().unwrap().join("admission");
    if !command.exists() {
        let built = std::process::Command::new(env!("CARGO"))
            .args(["build", "--package", "tower-admission-cli", "--all-features", "--bin", "admission"])
            .status();
        assert!(built.unwrap().success(), "the command is needed");
    }
    command
}

pub(crate) async fn json(url: &str) -> Option<(Value, f64)> {
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let answer = client.get(format!("{url}/admission?limit=10").parse().unwrap()).await.ok()?;
    let now = answer.headers().get("admission-now")?.to_str().ok()?.parse().ok()?;
    let body = answer.into_body().collect().await.ok()?.to_bytes();
    Some((serde_json::from_slice(&body).ok()?, now))
}

/// Asks in all ways but the page.
pub(crate) async fn ask(url: &str, name: &str, alerts: &[Alert]) -> Told {
    let json = timeout(Duration::from_secs(2), json(url));
    let command = Command::new(admission()).args(["status", "--timeout", "2s", "--url", url]).output();
    let (json, output) = tokio::join!(json, command);
    let ((json, now), output) = (json.ok().flatten().unwrap_or_default(), output.unwrap());
    let said = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    let status = String::from_utf8(said).unwrap().lines().next().unwrap_or_default().to_owned();
    let of_this = || alerts.iter().filter(|it| it.limiter == name);
    let mut names: Vec<_> = of_this().map(|it| it.name.clone()).collect();
    names.sort_unstable();
    names.dedup();
    let mut alert_states: Vec<_> = of_this().map(|it| format!("{} ({})", it.name, it.state)).collect();
    alert_states.sort_unstable();
    alert_states.dedup();
    let status_code = output.status.code().unwrap();
    Told { json, now, status, status_code, page: Page::default(), alerts: names, alert_states }
}

/// What has to be told of an incident.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    /// The state in a word; empty where there is no answer.
    pub(crate) state: &'static str,
    /// Parts of the first line of all three, which say which requests are hurt, why, and what to do.
    pub(crate) which: &'static [&'static str],
    pub(crate) why: &'static [&'static str],
    pub(crate) what_now: &'static [&'static str],
    /// Parts of the JSON, by their pointers.
    pub(crate) fields: &'static [(&'static str, &'static str)],
    pub(crate) alerts: &'static [&'static str],
    /// Alerts that are right as well, and may take longer.
    pub(crate) maybe: &'static [&'static str],
}

impl Expected {
    /// What was told wrong, or not at all.
    pub(crate) fn problems(&self, told: &Told, since: Duration, truth: &Truth) -> Vec<String> {
        let mut problems = Vec::new();
        let health = &told.json["health"];
        let is_silent = self.state.is_empty();
        if health["state"].as_str().unwrap_or_default() != self.state {
            problems.push(format!("state: {} instead of {:?}", health["state"], self.state));
        }
        let advice = health["advice"].as_str().unwrap_or_default();
        let headline = format!("{}. {advice}", health["headline"].as_str().unwrap_or_default());
        let lines = [("first line", &headline), ("status", &told.status), ("page", &told.page.first_line)];
        for (source, line) in lines {
            if source == "first line" && is_silent {
                if !told.json.is_null() {
                    problems.push("first line: it answers".to_owned());
                }
                continue;
            }
            for (question, parts) in [("which", self.which), ("why", self.why), ("what now", self.what_now)] {
                // Of a server without an answer, each medium says so in words of its own.
                for part in parts.iter().filter(|part| !line.contains(**part)) {
                    problems.push(format!("{source}: {question}: no {part:?} in {line:?}"));
                }
            }
        }
        for (pointer, value) in self.fields {
            let found = told.json.pointer(pointer).map(|it| it.to_string().trim_matches('"').to_owned());
            if found.as_deref() != Some(*value) {
                problems.push(format!("state: {pointer} is {found:?}, not {value}"));
            }
        }
        let well = ["fine", "busy", "throttled", "store_slow", "store_quiet", "not_enforcing"];
        let look = match self.state {
            "fine" => "wide good",
            it if well.contains(&it) => "wide warn",
            _ => "wide bad",
        };
        if told.page.look != look {
            problems.push(format!("page: it looks {:?}, not {look:?}", told.page.look));
        }
        let anchor = if is_silent { "no-answer".to_owned() } else { self.state.replace('_', "-") };
        if !told.page.runbook.ends_with(&format!("#{anchor}")) {
            problems.push(format!("page: the runbook is {}", told.page.runbook));
        }
        if is_silent != (told.status_code == 3) {
            problems.push(format!("status: ended with {}", told.status_code));
        }
        if !is_silent && since > Duration::ZERO {
            self.judge_numbers(told, since, truth, &mut problems);
        }
        let known = |name: &String| self.alerts.iter().chain(self.maybe).any(|it| it == name);
        for name in told.alerts.iter().filter(|name| !known(name)) {
            problems.push(format!("alerts: {name} is wrong"));
        }
        for name in self.alerts.iter().filter(|name| !told.alerts.iter().any(|it| it == *name)) {
            problems.push(format!("alerts: no {name} in {:?}", told.alerts));
        }
        problems
    }

    /// The time and the rate that are told, against those that are true.
    fn judge_numbers(&self, told: &Told, since: Duration, truth: &Truth, problems: &mut Vec<String>) {
        let health = &told.json["health"];
        let age = told.now - health["at_seconds"].as_f64().unwrap();
        // A wait or a time limit comes before the first rejection.
        let since = since.as_secs_f64();
        if age > since + 2.0 || age < since - 5.0 {
            problems.push(format!("state: since {age:.1} s, and it is {since:.1} s"));
        }
        let (told, is) = (health["rejected_per_second"].as_f64().unwrap(), truth.rejected_per_second());
        if (told - is).abs() > 0.25 * is + 1.0 {
            problems.push(format!("state: {told:.1}/s refused, and callers got {is:.1}/s"));
        }
    }
}
