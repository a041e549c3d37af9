//! A real Prometheus that scrapes each second and evaluates the rules that are shipped, with a second for each of their minutes.

use std::{
    fs,
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use admission_testkit::eventually_async;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::Value;

use super::npm;

const RULES: &str = include_str!("../../../../examples/dashboards/alerts.yaml");

#[derive(Debug)]
pub(crate) struct Prometheus {
    process: Child,
    folder: PathBuf,
    url: String,
    client: Client<HttpConnector, Empty<Bytes>>,
}

/// An alert that waits for its time, or fires.
#[derive(Clone, Debug)]
pub(crate) struct Alert {
    pub(crate) limiter: String,
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) severity: String,
}

/// The rules with all of their times divided by 60: those of windows, of `offset` and of `for`. Nothing else is changed. Rules with windows
/// of a minute or less don't fire so, since a server publishes its counts once a second: `an_alert_pages` has them in real time.
fn in_seconds(rules: &str) -> String {
    let mut out = String::new();
    for line in rules.lines() {
        let is_time = line.trim_start().starts_with("for: ");
        // A description or a comment is not evaluated.
        let is_text =
            ["#", "summary:", "description:", "runbook_url:"].iter().any(|it| line.trim_start().starts_with(it));
        out += &if is_text { line.to_owned() } else { shorten(line, is_time) };
        out.push('\n');
    }
    out
}

/// A line with the times in it divided by 60: behind `[`, behind `offset `, or all of them.
fn shorten(line: &str, all: bool) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let end = rest[start..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |length| start + length);
        let (before, number, unit) = (&rest[..start], &rest[start..end], rest[end..].chars().next());
        let is_time = all || before.ends_with('[') || before.ends_with("offset ");
        out += before;
        let seconds = match unit.filter(|_| is_time) {
            Some('m') => Some(1),
            Some('h') => Some(60),
            Some('d') => Some(24 * 60),
            _ => None,
        };
        match seconds {
            Some(seconds) => {
                out += &format!("{}s", number.parse::<u64>().unwrap() * seconds);
                rest = &rest[end + 1..];
            }
            None => {
                out += number;
                rest = &rest[end..];
            }
        }
    }
    out + rest
}

#[test]
fn only_times_are_divided() {
    let line = "rate(admission_rejected_total{a=\"5m\"}[5m]) / 30 > 0.05 and x[30m] offset 6h";
    assert_eq!(shorten(line, false), "rate(admission_rejected_total{a=\"5m\"}[5s]) / 30 > 0.05 and x[30s] offset 360s");
    assert_eq!(shorten("for: 1d", true), "for: 1440s");
}

impl Prometheus {
    /// One that scrapes these listeners for operators each second, with a second for each minute of the rules.
    pub(crate) async fn start(targets: &[String]) -> Self {
        Self::start_with(targets, 1, &in_seconds(RULES)).await
    }

    /// One as a site has it: it scrapes each fifteen seconds, and the rules are those that are shipped.
    pub(crate) async fn start_unhurried(targets: &[String]) -> Self {
        Self::start_with(targets, 15, RULES).await
    }

    async fn start_with(targets: &[String], seconds: u32, rules: &str) -> Self {
        let folder = npm::target().join(format!("prometheus-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("alerts.yaml"), rules).unwrap();
        let targets: Vec<_> = targets.iter().map(|it| it.trim_start_matches("http://")).collect();
        let config = format!(
            "global: {{scrape_interval: {seconds}s, scrape_timeout: 900ms, evaluation_interval: {seconds}s}}\n\
             rule_files: [alerts.yaml]\n\
             scrape_configs: [{{job_name: drill, static_configs: [{{targets: {targets:?}}}]}}]\n"
        );
        fs::write(folder.join("prometheus.yaml"), config).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = Command::new("prometheus")
            .args(["--config.file=prometheus.yaml", "--storage.tsdb.path=data", "--log.level=warn"])
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .current_dir(&folder)
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap_or_else(|error| panic!("prometheus is needed for this test; .ci/test installs it: {error}"));
        let client = Client::builder(TokioExecutor::new()).build_http();
        let this = Self { process, folder, url: format!("http://127.0.0.1:{port}"), client };
        eventually_async("Prometheus has scraped all of them", async || {
            let answer = this.get("/api/v1/query?query=count(up%20==%201)").await;
            let up = answer.as_ref().and_then(|it| it["data"]["result"][0]["value"][1].as_str()?.parse().ok());
            up == Some(targets.len())
        })
        .await;
        this
    }

    async fn get(&self, path: &str) -> Option<Value> {
        let answer = self.client.get(format!("{}{path}", self.url).parse().unwrap()).await.ok()?;
        let body = answer.into_body().collect().await.ok()?.to_bytes();
        serde_json::from_slice(&body).ok()
    }

    /// All alerts that wait for their time or fire.
    pub(crate) async fn alerts(&self) -> Vec<Alert> {
        let answer = self.get("/api/v1/alerts").await.unwrap();
        let alerts = answer["data"]["alerts"].as_array().unwrap().iter().map(|it| {
            let label = |name: &str| it["labels"][name].as_str().unwrap_or_default().to_owned();
            let state = it["state"].as_str().unwrap().to_owned();
            Alert { limiter: label("limiter"), name: label("alertname"), severity: label("severity"), state }
        });
        alerts.collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
