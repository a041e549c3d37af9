//! The live page over a server that is frozen, and over one that is dead: a process of its own, for this one must go on.

use std::time::Duration;

use tokio::time::Instant;

use super::{browser::Browser, process::Server};

const LINK: &str = "document.getElementById('link').textContent";
const STATE: &str = "document.getElementById('state').textContent";
/// It says so in red, with the time of the last answer, and nowhere that all is well.
const STALE: &str = "document.getElementById('link').textContent.startsWith('not answering since ') \
     && document.getElementById('link').className.includes('bad') \
     && document.getElementById('health').className === 'wide bad' \
     && document.getElementById('headline').textContent.startsWith('not answering since ') \
     && document.getElementById('state').textContent === '✕ not answering' \
     && document.getElementById('state').className === 'pill bad' && document.title.startsWith('✕ checkout')";

/// Records in the page itself when it first says that it is stale: this process may be late to look.
async fn watch(browser: &Browser) {
    browser
        .value(&format!(
            "window.stale = null; clearInterval(window.watch); window.begin = performance.now(); \
             window.watch = setInterval(() => {{ if (window.stale === null && ({STALE})) window.stale = performance.now() - window.begin; }}, 20); 0"
        ))
        .await;
}

/// How long it took from the start of the watch, in milliseconds.
async fn took(browser: &Browser) -> f64 {
    browser.until("window.stale !== null").await;
    browser.value("window.stale").await.as_f64().unwrap()
}

/// Three seconds, and what it may take on a busy machine from the watch to the signal.
const SOON: f64 = 3_500.0;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_says_soon_that_a_server_is_frozen_or_dead_and_that_it_is_back() {
    let mut server = Server::start("checkout").await;
    let browser = Browser::start().await;
    browser.open(&format!("{}/admission/ui", server.url)).await;
    browser.until(&format!("{LINK} === 'live' && {STATE} === '✓ ready'")).await;
    let calm = Instant::now();
    watch(&browser).await;
    while calm.elapsed() < Duration::from_secs(4) {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(browser.value("window.stale").await.is_null(), "control: it answers");

    let runs = "Number(document.querySelector('#load svg path[data-runs]').dataset.runs)";
    assert_eq!(browser.value(runs).await, 1, "control: curves without a gap");
    watch(&browser).await;
    server.process.signal("-STOP").await;
    let frozen = took(&browser).await;
    assert!(frozen < SOON, "frozen: {frozen} ms");
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
    let said = browser.value(LINK).await;
    // Beyond the time after which a question is asked anew.
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(browser.value(LINK).await, said, "since the last answer, not since the last try");
    assert_eq!(browser.value(STALE).await, true);
    server.process.signal("-CONT").await;
    browser.until(&format!("{LINK} === 'live' && {STATE} === '✓ ready' && !document.title.startsWith('✕')")).await;
    browser.until(&format!("{runs} === 2")).await;
    assert_eq!(
        browser.value("past.frames.filter(it => it.gap).length").await,
        1,
        "the time in which it was frozen is a gap"
    );

    watch(&browser).await;
    server.process.kill().await;
    let dead = took(&browser).await;
    assert!(dead < SOON, "dead: {dead} ms");
    println!("frozen: said after {frozen:.0} ms; dead: said after {dead:.0} ms");
}
