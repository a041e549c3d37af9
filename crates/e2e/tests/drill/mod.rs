//! Ten incidents, each caused on a real server, and what the page, the command, the JSON and the alerts tell of each after ten
//! seconds, against what is true: what the test did, and what its clients got.
//!
//! `DRILL=FOLDER` writes pictures of the pages there, and a table of all that was told.

mod clients;
mod incidents;
mod judge;
mod prometheus;
mod report;
mod screen;
mod stories;
mod thirteen;
mod told;

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep_until};

use self::{
    incidents::Incident,
    prometheus::Prometheus,
    told::{Page, Told},
};
use crate::{
    introspect::{browser, browser::Browser, npm, process, support},
    redis::support as redis,
};

/// Time for which an incident lasts before it has to be told.
const AFTER: Duration = Duration::from_secs(10);

/// What is told of each incident now, and what its clients have got so far.
async fn look(incidents: &[Incident], prometheus: &Prometheus, browser: &Browser, caused: bool) -> Vec<Told> {
    let alerts = prometheus.alerts().await;
    let mut all = join_all(incidents.iter().map(|it| told::ask(&it.url, it.name, &alerts))).await;
    for (incident, told) in incidents.iter().zip(&mut all) {
        // The page of a server that is frozen was opened while it was well.
        let page = match &incident.browser {
            Some(own) => Page::read(own).await,
            None => {
                browser.open(&format!("{}/admission/ui", incident.url)).await;
                browser.until("document.getElementById('link').textContent === 'live'").await;
                Page::read(browser).await
            }
        };
        told.page = page;
        if caused && report::folder().is_some() {
            incident.browser.as_ref().unwrap_or(browser).picture(incident.name).await;
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: `.ci/test` runs it with nothing beside it"]
async fn ten_incidents_are_told_from_the_first_line_on() {
    support::metrics();
    let mut incidents = incidents::all().await;
    let targets: Vec<_> = incidents.iter().map(|it| it.url.clone()).collect();
    let prometheus = Prometheus::start(&targets).await;
    let browser = Browser::start().await;
    browser.size(1440, 900, false).await;

    // The same expectations of the same servers while all is well: none may be met by any of the four.
    sleep_until(Instant::now() + Duration::from_secs(6)).await;
    // The first answers of a store may be slow where ten servers and a browser begin at once.
    let settled = Instant::now() + Duration::from_secs(20);
    while !prometheus.alerts().await.is_empty() && Instant::now() < settled {
        sleep_until(Instant::now() + Duration::from_millis(250)).await;
    }
    let calm = look(&incidents, &prometheus, &browser, false).await;
    for (incident, told) in incidents.iter().zip(&calm) {
        let problems = incident.expected.problems(told, Duration::ZERO, &incident.clients.lately());
        for source in ["state", "first line", "status", "page", "alerts"] {
            let alerts_told = source != "alerts" || !incident.expected.alerts.is_empty();
            let found = problems.iter().any(|it| it.starts_with(source));
            assert!(found || !alerts_told, "control: {} tells it of a calm server: {told:#?}", incident.name);
        }
        assert_eq!(told.alerts, [""; 0], "{}: no alert of a calm server", incident.name);
        assert!(told.json["health"]["headline"].as_str().unwrap().starts_with("fine: "), "{told:#?}");
    }

    let begin = Instant::now();
    for incident in &mut incidents {
        incident.cause().await;
    }
    sleep_until(begin + AFTER).await;
    let truths: Vec<_> = incidents.iter().map(|it| it.clients.lately()).collect();
    let told = look(&incidents, &prometheus, &browser, true).await;
    report::write(&incidents, &told, &truths);
    let mut wrong = Vec::new();
    for ((incident, told), truth) in incidents.iter().zip(&told).zip(&truths) {
        let problems = incident.expected.problems(told, AFTER, truth);
        wrong.extend(problems.into_iter().map(|problem| format!("{}: {problem}", incident.name)));
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), report::table(&incidents, &told, &truths));
}
