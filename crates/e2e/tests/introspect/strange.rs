//! The live page over labels whose names are steps of a path, and over errors of HTTP.

use tower_admission::{Admission, Ticket, limit::Fixed};

use super::{browser::Browser, support::Site};

const LINK: &str = "document.getElementById('link').textContent";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_label_of_any_name_has_its_page() {
    let admission = Admission::builder().name("shop").limit(Fixed::new(50)).queue(50).build().unwrap();
    let names = ["plain", "..", ".", "%2e%2e", "a/../b", "-", "?label=plain"];
    let held: Vec<_> = (1..)
        .zip(names)
        .flat_map(|(count, name)| (0..count).map(move |_| Ticket::new().namespace("n").label(name)))
        .map(|ticket| admission.try_admit(ticket).unwrap())
        .collect();
    let site = Site::start(&admission).await;
    let browser = Browser::start().await;
    for (count, name) in (1..).zip(names) {
        let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        browser.open("about:blank").await;
        browser.open(&format!("{}/admission/ui#label={encoded}&namespace=n", site.admin)).await;
        browser.until(&format!("document.getElementById('view-name').textContent === 'n: {name}'")).await;
        browser.until(&format!("{LINK} !== ''")).await;
        let in_flight = "[...document.querySelectorAll('#view-tiles dt')].find(it => it.textContent === 'In flight')\
             ?.nextElementSibling.textContent";
        browser.until(&format!("{in_flight} === '{count}' || {LINK}.includes('not answering')")).await;
        assert_eq!(browser.value(in_flight).await, count.to_string(), "{name}");
        assert_eq!(browser.value(LINK).await, "live", "{name}");
        assert_eq!(site.json(&format!("/admission/labels/-?namespace=n&label={encoded}")).await["label"], name);
    }
    drop(held);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_is_an_error_and_not_a_server_that_does_not_answer() {
    let admission = Admission::builder().name("shop").limit(Fixed::new(50)).build().unwrap();
    let site = Site::start(&admission).await;
    let browser = Browser::start().await;
    browser.open(&format!("{}/admission/ui", site.admin)).await;
    browser.until(&format!("{LINK} === 'live'")).await;
    browser.value("window.asks = window.fetch; 0").await;
    for status in [401, 404, 421, 500, 503] {
        browser.value(&format!("window.fetch = async () => new Response('', {{ status: {status} }}); 0")).await;
        browser.until(&format!("{LINK}.startsWith('error {status} since ') || {LINK}.includes('not answering')")).await;
        // Longer than the time after which a server without an answer is said to hang.
        tokio::time::sleep(std::time::Duration::from_millis(2_500)).await;
        let said = browser.value("document.body.innerText + document.title").await;
        let said = said.as_str().unwrap();
        assert!(!said.contains("not answering") && !said.contains("out of the load balancer"), "{said}");
        assert_eq!(browser.value("document.getElementById('state').textContent").await, format!("✕ error {status}"));
        assert_eq!(browser.value("document.getElementById('health').className").await, "wide bad");
    }
    // A page that a proxy puts in the place of an answer, and an answer that this page does not understand.
    for (body, kind, said) in [("<html>", "text/html", "200 without JSON"), ("{}", "application/json", "")] {
        let answer = format!("new Response('{body}', {{ headers: {{ 'content-type': '{kind}' }} }})");
        browser.value(&format!("window.fetch = async () => {answer}; 0")).await;
        browser.until(&format!("{LINK}.startsWith('error {said}') && !{LINK}.startsWith('error 503')")).await;
    }
    browser.value("window.fetch = window.asks; 0").await;
    browser.until(&format!("{LINK} === 'live' && !document.title.startsWith('✕')")).await;
    // The control: no answer at all.
    browser.value("window.fetch = async () => { throw new TypeError('no route'); }; 0").await;
    browser.until(&format!("{LINK}.startsWith('not answering since ')")).await;
}
