//! The health: what the page and the JSON say first of a server in each state, against what its requests get.

use std::{sync::Arc, time::Duration};

use admission_testkit::{Mood, Moody};
use http::StatusCode;
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::Value;
use tokio::time::Instant;
use tower_admission::{
    Admission, Cap, ClassLimits, DrainMode, Labels, Mode, Rules, Ticket, WhenFull,
    limit::Fixed,
    percent,
    snapshot::Health,
    store::{Keys, Leases},
};

use super::{browser::Browser, support::Site};

const WEB: [(&str, &str); 2] = [("x-tenant", "web"), ("x-label", "shop\u{202e}-7")];

async fn all(site: &Site, count: usize, headers: &[(&'static str, &str)], status: StatusCode) {
    for number in 0..count {
        assert_eq!(site.work("/quick", headers).await, status, "request {number} of {count}");
    }
}

/// The headline of the page, and how it looks.
const HEADLINE: &str = "document.getElementById('headline').textContent";
const LOOK: &str = "document.getElementById('health').className";

/// Waits until page, JSON and metric tell this state, all three of them the same.
async fn tells(site: &Site, browser: &Browser, state: Health, start: &str, look: &str) -> Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    let word = state.as_str();
    loop {
        let json = site.json("/admission").await;
        let health = &json["health"];
        if health["state"] == word && health["headline"].as_str().unwrap().starts_with(start) {
            browser.until(&format!("{HEADLINE}.startsWith({start:?}) && {LOOK} === 'wide {look}'")).await;
            let link = browser.value("document.getElementById('runbook').getAttribute('href')").await;
            assert_eq!(&link, &health["runbook"]);
            assert_headed(link.as_str().unwrap());
            let recorder = PrometheusBuilder::new().build_recorder();
            metrics::with_local_recorder(&recorder, || site.admission.publish_metrics());
            let scrape = recorder.handle().render();
            for other in Health::ALL {
                let line = format!("state=\"{}\"}} {}", other.as_str(), u8::from(other == state));
                let told =
                    scrape.lines().filter(|it| it.starts_with("admission_health{")).any(|it| it.ends_with(&line));
                assert!(told, "{line} in\n{scrape}");
            }
            return json;
        }
        assert!(Instant::now() < deadline, "{start} is not what it tells: {health:#}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The runbook has a heading for this link.
fn assert_headed(link: &str) {
    let (_, anchor) = link.split_once('#').unwrap();
    let headings = include_str!("../../../../src/docs/runbook.md").lines().filter_map(|line| line.strip_prefix("# "));
    let anchors: Vec<_> = headings.map(|heading| heading.to_lowercase().replace(' ', "-")).collect();
    assert!(anchors.iter().any(|it| it == anchor), "{anchor} is none of {anchors:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_json_and_metric_tell_of_overload_dry_run_and_drain_what_requests_get() {
    let admission = Admission::builder()
        .name("checkout")
        .limit(Fixed::new(2))
        .wait_timeout(Duration::ZERO)
        .partition("web", percent(50));
    let mut site = Site::start(&admission.build().unwrap()).await;
    let browser = Browser::start().await;
    browser.size(1440, 900, false).await;
    browser.open(&format!("{}/admission/ui", site.admin)).await;
    all(&site, 3, &WEB, StatusCode::OK).await;
    tells(&site, &browser, Health::Fine, "fine: ", "good").await;

    // With a label: a request without one may run on a lent slot, and is listed when it ends.
    site.hold(2, &[("x-label", "held")]);
    while site.admission.snapshot().in_flight < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    all(&site, 40, &WEB, StatusCode::SERVICE_UNAVAILABLE).await;
    // The same callers again and again, for as long as this takes.
    let handle = site.admission.clone();
    let flood = tokio::spawn(async move {
        loop {
            let ticket = Ticket::new().partition(WEB[0].1).label(WEB[1].1);
            assert!(handle.try_admit(ticket).is_err(), "control: the page is about these");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let json = tells(&site, &browser, Health::Overloaded, "overloaded: web refused ", "bad").await;
    assert_eq!(
        (&json["health"]["rejected"][0]["name"], &json["partitions"][1]["recent"]["rejected_below_share"]),
        (&"web".into(), &true.into())
    );
    browser
        .until("document.getElementById('why').textContent === 'limit 2: fixed by the settings, no law moves it'")
        .await;
    // The name of a label can't turn the line around.
    tells(&site, &browser, Health::Overloaded, "overloaded: web refused ", "bad").await;
    browser.until(&format!("{HEADLINE}.includes('most of them of shop\u{fffd}-7')")).await;
    browser.picture("health-overloaded").await;

    // Filters of the journal.
    browser.value("document.forms['of-decisions'].elements.partition.value = 'default'").await;
    browser.value("document.forms['of-decisions'].dispatchEvent(new Event('input'))").await;
    let decisions = "[...document.querySelectorAll('#decisions tbody tr')].map(row => row.cells[1].textContent)";
    browser.until(&format!("({decisions}).join() === 'admitted ×2'")).await;
    browser.value("document.forms['of-decisions'].reset(); document.forms['of-decisions'].dispatchEvent(new Event('input')); 0").await;
    browser.until(&format!("Number(({decisions})[0].split('rejected ×')[1]) > 30")).await;

    assert!(!flood.is_finished(), "not one of them was admitted");
    flood.abort();
    site.admission.set_mode(Mode::Observe);
    // Those of `web` would wait, within their share.
    all(&site, 20, &[], StatusCode::OK).await;
    let json = tells(&site, &browser, Health::NotEnforcing, "not enforcing: dry run, ", "warn").await;
    assert!(json["health"]["would_reject_per_second"].as_f64().unwrap() > 0.0, "{json:#}");
    site.admission.set_mode(Mode::Enforce);
    site.admission.drain(DrainMode::RejectWaiting);
    all(&site, 5, &WEB, StatusCode::SERVICE_UNAVAILABLE).await;
    tells(&site, &browser, Health::Draining, "draining: no request is admitted, 2 run", "bad").await;
    for (width, phone) in [(1440, false), (390, true)] {
        browser.size(width, 900, phone).await;
        let wide = browser.value("document.documentElement.scrollWidth > innerWidth").await;
        assert_eq!(wide, false, "nothing sticks out at {width} pixels");
    }
    browser.picture("health-phone").await;
    assert_eq!(browser.complaints(), [""; 0]);
    site.let_go().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_gone_is_told_from_the_first_line_on() {
    let store = Moody::new();
    let cap = Cap::from(9).when_full(WhenFull::Reject);
    let rules = Rules::new().default_limits(ClassLimits::new().max_in_flight(cap));
    let leases = Leases::builder().build(Arc::new(store.clone()));
    let admission = Admission::builder().limit(Fixed::new(100)).labels(Labels::new()).rules(rules);
    let site = Site::start(&admission.shared(leases, Keys::new("test").unwrap()).build().unwrap()).await;
    let browser = Browser::start().await;
    browser.open(&format!("{}/admission/ui", site.admin)).await;
    let label = [("x-label", "a")];
    all(&site, 2, &label, StatusCode::OK).await;
    tells(&site, &browser, Health::Fine, "fine: ", "good").await;
    store.is(Mood::Failing);
    all(&site, 12, &label, StatusCode::SERVICE_UNAVAILABLE).await;
    tells(&site, &browser, Health::StoreGone, "store gone: shared rules refuse", "bad").await;
    browser
        .until("document.querySelector('#labels tbody tr').cells[2].textContent.includes('without store: refuses')")
        .await;
    let journal = site.json("/admission/journal?rule=store&limit=3").await;
    assert_eq!(journal["entries"].as_array().unwrap().len(), 3, "{journal:#}");
    assert_eq!(journal["entries"][2]["reason"], "store_unavailable");
    store.is(Mood::Up);
    let deadline = Instant::now() + Duration::from_secs(60);
    while site.work("/quick", &label).await != StatusCode::OK {
        assert!(Instant::now() < deadline, "the store is back");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tells(&site, &browser, Health::Fine, "fine: ", "good").await;
    assert_eq!(browser.complaints(), [""; 0]);
}
