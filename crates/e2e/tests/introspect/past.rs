//! The history: what the server answers, and where the page draws nothing.

use std::time::Duration;

use http::{Request, StatusCode};
use serde_json::Value;
use tower_admission::{Mode, Ticket};

use super::{
    browser::Browser,
    stage::{Stage, shop},
    support::Site,
};

/// The history, as soon as it has what is waited for.
async fn wait_for(site: &Site, has: impl Fn(&Value) -> bool) -> Value {
    let history = async {
        loop {
            let page = site.json("/admission/history?last=5m&labels=top").await;
            if has(&page) {
                return page;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), history).await.expect("the history has it within 20 s")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_adds_up_and_a_poller_gets_what_is_new() {
    let admission = shop();
    let site = Site::start(&admission).await;
    let (capped, calm) = ([("x-tenant", "web"), ("x-label", "capped")], [("x-tenant", "batch"), ("x-label", "calm")]);
    let held = admission.try_admit(Ticket::new().partition("web").label("capped")).unwrap();
    for _ in 0..8 {
        for _ in 0..25 {
            assert_eq!(site.work("/quick", &capped).await, StatusCode::TOO_MANY_REQUESTS);
        }
        site.quick(10, &calm).await;
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    admission.set_mode(Mode::Observe);
    let is_marked = |it: &Value| it["change"] == "mode" && it["to"] == "observe";
    let page = wait_for(&site, |page| {
        // A mark is there at once, and the frame of its time up to a second later.
        let is_past = |it: &Value| it["at_seconds"].as_f64() <= page["until_seconds"].as_f64();
        let marks = page["marks"].as_array().unwrap();
        page["frames"].as_array().unwrap().len() >= 6 && marks.iter().any(|it| is_marked(it) && is_past(it))
    })
    .await;
    let frames = page["frames"].as_array().unwrap();
    let sum = |field: &dyn Fn(&Value) -> u64| frames.iter().map(field).sum::<u64>();
    let of = |frame: &Value, table: &str, name: &str| {
        frame[table].as_array().into_iter().flatten().find(|it| it["name"] == name).cloned().unwrap_or_default()
    };
    assert_eq!(sum(&|it| it["whole"]["rejected"].as_u64().unwrap()), 200);
    assert_eq!(sum(&|it| it["whole"]["admitted"].as_u64().unwrap()), 81);
    let by_cap = |row: &Value| {
        let all = row["rejected_by"].as_array().cloned().unwrap_or_default();
        let caps = all.iter().filter(|it| it["reason"] == "label_cap" && it["rule"] == "label_cap");
        caps.map(|it| it["count"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(sum(&|it| by_cap(&of(it, "partitions", "web"))), 200);
    assert_eq!(sum(&|it| by_cap(&of(it, "partitions", "batch"))), 0, "control: not of another partition");
    let followed = sum(&|it| by_cap(&of(it, "labels", "capped")));
    assert!((25..=200).contains(&followed), "from the second on in which it was found: {followed}");
    assert!(frames.windows(2).all(|pair| pair[0]["to_seconds"] == pair[1]["from_seconds"]));

    // The next question is answered with what is new, or not at all.
    let since = page["until_seconds"].as_f64().unwrap();
    let next = site.json(&format!("/admission/history?since={since}")).await;
    assert!(next["frames"].as_array().unwrap().iter().all(|it| it["from_seconds"].as_f64().unwrap() >= since - 0.001));
    let path = "/admission/history?last=1s&since=1000000";
    let tag = site.get(path).await.headers()["etag"].clone();
    let again = Request::get(path).header("if-none-match", tag).body(String::new()).unwrap();
    assert_eq!(site.ask(again).await.0, StatusCode::NOT_MODIFIED);
    let one = site.json("/admission/history?partition=web&label=capped").await;
    let one = &one["frames"][2];
    assert!(one["partitions"].as_array().unwrap().iter().all(|it| it["name"] == "web"));
    assert!(one.get("others").is_none());
    for bad in ["last=2h", "last=0", "since=-1", "labels=all", "what=1"] {
        assert_eq!(site.get(&format!("/admission/history?{bad}")).await.status(), StatusCode::BAD_REQUEST, "{bad}");
    }
    drop(held);
}

const FRAMES: &str = "past.frames.length";
/// How often a curve begins: once, and once more after each gap.
const RUNS: &str = "Number(document.querySelector('#load svg path[data-runs]').dataset.runs)";
const GAPS: &str = "document.querySelectorAll('#load svg .gap').length";
const MARKS: &str = "[...document.querySelectorAll('#load svg .mark title')].map(it => it.textContent.slice(9)).join()";

/// A process that ends, and one that takes its place seconds later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curves_go_on_after_a_restart_with_a_gap_and_a_mark() {
    for mistake in [None, Some(("frames[at].gap || at > 0", "at < 0"))] {
        let first = shop();
        let stage = Stage::new(&first);
        if let Some((from, to)) = mistake {
            stage.make(from, to);
        }
        let url = stage.clone().serve().await;
        let browser = Browser::start().await;
        browser.open(&url).await;
        browser.until(&format!("{FRAMES} >= 4")).await;
        assert_eq!(browser.value(RUNS).await, 1, "control: no gap so far");
        first.set_mode(Mode::Observe);
        browser.until(&format!("({MARKS}).includes('mode enforce → observe')")).await;
        // No process answers: what is asked of it hangs.
        browser.value("paused = true").await;
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        *stage.admission.lock().unwrap() = shop();
        browser.value("paused = false; ask()").await;
        browser.until("new Set(past.frames.map(it => it.run)).size === 2").await;
        browser.until(&format!("({MARKS}).split('the process started').length === 3")).await;
        let (runs, gaps) = (browser.value(RUNS).await, browser.value(GAPS).await);
        if mistake.is_some() {
            assert_eq!(runs, 1, "control: a page that draws through gaps is found out");
            continue;
        }
        assert!(runs == 2 && gaps == 2, "{runs} runs, {gaps} gaps: before the first process, and between");
        assert!(
            browser.value("past.marks.some(it => it.text.includes('observe'))").await == true,
            "what was before stays"
        );
    }
}
