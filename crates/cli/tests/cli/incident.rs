//! An incident on a live server: recorded by the rolling capture, fetched by the command, and replayed under two
//! configurations.

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

use axum::{Router, http::StatusCode, routing::get};
use http_body_util::{BodyExt, Empty};
use hyper::{Request, body::Bytes};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use serde_json::Value;
use tokio::{sync::watch, task::JoinSet};
use tower_admission::{
    Admission, AdmissionBuilder, AdmissionLayer, classify::by_header, configuration::AdmissionConfig,
};

use crate::support::{Site, bounded, run, run_with, serve};

const TOKEN: &str = "of the operators";

/// What the server runs with at first, what it is given in the middle, and what it might have had.
const PRODUCTION: &str = "limit = 4\nwait_timeout = '0s'\ncapture_last = '1m'\n";
const RELOADED: &str = "limit = 5\nwait_timeout = '0s'\ncapture_last = '1m'\n";
const CAPPED: &str = "limit = 4\nwait_timeout = '0s'\n[labels]\ncap = 2\n";

fn builder(text: &str) -> AdmissionBuilder {
    AdmissionBuilder::from(AdmissionConfig::from_toml(text).unwrap())
}

/// What clients of each tenant were answered: served and refused.
type Answers = BTreeMap<&'static str, [u64; 2]>;

/// Thirty clients of one tenant that ask again at once, and one of another that asks 20 times a second, for as long as the flood
/// lasts; a reload in the middle.
async fn flood(admission: &Admission, lasts: Duration, reloaded: &str) -> Answers {
    let work = || async {
        // The work that is modelled.
        tokio::time::sleep(Duration::from_millis(10)).await;
        StatusCode::OK
    };
    let layer = AdmissionLayer::new(admission).classify(by_header("x-tenant").as_label());
    let (url, server) = serve(Router::new().route("/", get(work)).layer(layer)).await;
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let (stop, stopped) = watch::channel(false);
    let mut clients = JoinSet::new();
    for number in 0..31 {
        let (client, url, stopped) = (client.clone(), url.clone(), stopped.clone());
        clients.spawn(async move {
            let tenant = if number == 0 { "shop" } else { "crawler" };
            let mut answers = [0, 0];
            let pause = Duration::from_millis(if number == 0 { 50 } else { 4 });
            while !*stopped.borrow() {
                let request = Request::get(&url).header("x-tenant", tenant).body(Empty::new()).unwrap();
                let response = client.request(request).await.unwrap();
                answers[usize::from(response.status() != StatusCode::OK)] += 1;
                response.into_body().collect().await.unwrap();
                tokio::time::sleep(pause).await;
            }
            (tenant, answers)
        });
    }
    let mut half = tokio::time::interval(lasts / 2);
    half.tick().await;
    half.tick().await;
    admission.reload(builder(reloaded)).unwrap();
    half.tick().await;
    stop.send(true).unwrap();
    let mut all = Answers::new();
    while let Some(ended) = bounded("a client", clients.join_next()).await {
        let (tenant, answers) = ended.unwrap();
        let sum = all.entry(tenant).or_default();
        (sum[0], sum[1]) = (sum[0] + answers[0], sum[1] + answers[1]);
    }
    server.abort();
    all
}

/// Introspection with captures for operators.
async fn operated(admission: Admission) -> (Site, String, tokio::task::JoinHandle<()>) {
    let (url, server) = serve(Router::new().fallback_service(admission.introspection().serve_captures(TOKEN))).await;
    (Site::start(admission).await, url, server)
}

fn file(name: &str, text: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("admission-incident-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), text).unwrap();
    folder.join(name)
}

/// What a policy did with each tenant: served, refused, gained and lost.
fn tally(report: &Value, policy: usize) -> BTreeMap<String, [u64; 4]> {
    let groups = report["policies"][policy]["groups"].as_array().unwrap().iter();
    let number = |it: &Value| it.as_u64().unwrap();
    let groups = groups.map(|it| {
        let refused = it["refused"].as_object().unwrap().values().map(number).sum();
        (
            it["label"].as_str().unwrap().to_owned(),
            [number(&it["served"]), refused, number(&it["gained"]), number(&it["lost"])],
        )
    });
    groups.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_incident_is_fetched_after_the_fact_and_replayed_under_two_configurations() {
    let admission = builder(PRODUCTION).build().unwrap();
    let (site, url, server) = operated(admission).await;
    let answers = flood(&site.admission, Duration::from_secs(4), RELOADED).await;
    println!("clients were answered (served, refused): {answers:?}");
    assert!(answers["crawler"][1] > 1_000 && answers["shop"][1] > 0, "it was an incident: {answers:?}");
    assert!(site.run(&["status"]).await.with(0).contains("a capture of the last "));
    assert_eq!(site.json("/admission").await["capture"]["missed"], 0);

    // Without the token, with another one, and where captures are not served, there is none.
    let out = file("incident.jsonl", "");
    let path = out.to_str().unwrap();
    let fetch = ["capture", "--last", "5m", "--output", path];
    let refused = run_with(&[("ADMISSION_URL", &url)], &fetch).await.with(3);
    assert!(
        refused.contains("the bearer token is missing or wrong\n--token or ADMISSION_TOKEN says what it is"),
        "{refused}"
    );
    run_with(&[("ADMISSION_URL", &url), ("ADMISSION_TOKEN", "another")], &fetch).await.with(3);
    let none = run_with(&[("ADMISSION_URL", &site.url), ("ADMISSION_TOKEN", TOKEN)], &fetch).await.with(1);
    assert!(none.contains("serve_captures"), "{none}");
    assert_eq!(fs::read_to_string(&out).unwrap(), "", "a file is replaced by a whole one only");

    let variables = [("ADMISSION_URL", url.as_str()), ("ADMISSION_TOKEN", TOKEN)];
    run_with(&variables, &fetch).await.with(0);
    let text = fs::read_to_string(&out).unwrap();
    assert!(text.lines().last().unwrap().contains(r#""do":"end""#));
    assert_eq!(text.matches(r#""do":"reload""#).count(), 1, "the reload is in it");

    // What was recorded is what clients were answered; the rest is what would have been.
    let (fair, plain) = (file("capped.toml", CAPPED), file("production.toml", PRODUCTION));
    let files = [plain.to_str().unwrap(), fair.to_str().unwrap()];
    let replay = ["simulate", "--replay", path, "--policy", files[0], "--policy", files[1]];
    println!("{}", run(&replay).await.with(0));
    let report = run(&[&replay[..], &["--json"]].concat()).await.json();
    let [recorded, production, capped] = [0, 1, 2].map(|policy| tally(&report, policy));
    for (tenant, answered) in &answers {
        assert_eq!(recorded[*tenant][..2], answered[..], "{tenant}: the capture and the clients agree");
        for it in [&production, &capped] {
            let [served, refused, gained, lost] = it[*tenant];
            assert_eq!(served + refused, answered[0] + answered[1], "{tenant}: each request has one fate");
            assert_eq!(served + lost, answered[0] + gained, "{tenant}");
        }
    }
    assert!(capped["shop"][1] * 4 < production["shop"][1], "a cap leaves room for the shop: {capped:?} {production:?}");
    assert!(capped["crawler"][1] > production["crawler"][1]);

    // What might have helped is found from the capture alone, of a file or of the server.
    let found = run_with(&variables, &["what-if", "--last", "5m"]).await.with(0);
    println!("{found}");
    assert!(found.starts_with("would have helped most: "), "{found}");
    assert!(found.contains("default / crawler asks for more than half of all work"), "{found}");
    let json = run(&["what-if", path, "--json"]).await.json();
    let policies = json["policies"].as_array().unwrap();
    let shop =
        |name: &str| policies.iter().find(|it| it["policy"] == name).unwrap()["victim"]["served"].as_u64().unwrap();
    assert_eq!((json["victim"]["label"].as_str(), shop("recorded")), (Some("shop"), answers["shop"][0]));
    // With a cap for the crawler, or in a queue in which labels take turns, the shop gets what it asks for; no limit gives it that.
    for helpful in ["labels.caps.crawler = 2", "queue = 16, max_wait = \"1s\"", json["best"].as_str().unwrap()] {
        assert!(shop(helpful) > shop("recorded") * 2, "{helpful}: {json:#}");
    }
    let helps = |name: &str| policies.iter().find(|it| it["policy"] == name).unwrap()["helps"].clone();
    assert_eq!((helps("labels.caps.crawler = 2"), helps("limit = 2")), (true.into(), false.into()));

    // The control: a capture that lacks a rejection does not agree with the clients.
    let at = text.lines().position(|line| line.contains(r#""label":"crawler""#) && line.contains(r#""gets":"limit""#));
    let less: Vec<&str> = text.lines().enumerate().filter(|(i, _)| Some(*i) != at).map(|(_, line)| line).collect();
    let less = file("less.jsonl", &less.join("\n"));
    let report = run(&["simulate", "--replay", less.to_str().unwrap(), "--policy", files[0], "--json"]).await.json();
    assert_eq!(tally(&report, 0)["crawler"][1] + 1, answers["crawler"][1]);

    // Stopped, it can be fetched; it is started again only then.
    let start = ["capture", "--start", "--last", "30s"];
    assert!(run_with(&variables, &start).await.with(3).contains("409 Conflict"));
    run_with(&variables, &["capture", "--stop"]).await.with(0);
    assert!(run_with(&variables, &["capture", "--stop"]).await.with(1).contains("no rolling capture runs or ran"));
    assert!(run_with(&variables, &["capture"]).await.with(0).contains(r#""do":"reload""#));
    run_with(&variables, &start).await.with(0);
    assert!(!run_with(&variables, &["capture"]).await.with(0).contains(r#""do":"reload""#));
    fs::remove_dir_all(out.parent().unwrap()).unwrap();
    server.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trouble_is_recorded_unasked_and_the_command_says_what_would_have_helped() {
    let [settings, reloaded] = [PRODUCTION, RELOADED].map(|it| it.replace("capture_last = '1m'\n", ""));
    let (site, url, server) = operated(builder(&settings).build().unwrap()).await;
    let variables = [("ADMISSION_URL", url.as_str()), ("ADMISSION_TOKEN", TOKEN)];
    // The control: a server that is fine has recorded nothing.
    assert!(run_with(&variables, &["what-if"]).await.with(1).contains("no rolling capture runs or ran"));
    flood(&site.admission, Duration::from_secs(6), &reloaded).await;
    let found = run_with(&variables, &["what-if"]).await.with(0);
    assert!(found.starts_with("would have helped most: "), "{found}");
    assert!(found.contains("default / crawler asks for more than half of all work"), "{found}");
    server.abort();
}
