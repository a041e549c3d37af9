//! The page over hostile names and thousands of labels. Its checks are run over pages with a deliberate mistake as well, with
//! which they have to fail.

use std::time::Duration;

use serde_json::Value;
use tower_admission::{Admission, Ticket, limit::Fixed, percent};

use super::{
    browser::Browser,
    page::accessibility,
    stage::{Stage, shop},
};

const FRAMES: &str = "past.frames.length";

/// Names that callers may send.
const HOSTILE: [&str; 4] = [
    "<script>window.hurt = 1</script><img src=x onerror=window.hurt=2>",
    "\u{202e}gnp.exe \u{2067}ltr",
    "🦀👩‍👩‍👧‍👦 ñ #&?=%2F/",
    "",
];

/// The longest name that a ticket keeps.
fn hostile() -> Vec<String> {
    let long = "W".repeat(256);
    HOSTILE.into_iter().map(|name| if name.is_empty() { long.clone() } else { name.to_owned() }).collect()
}

/// What is wrong with the page as it is, as a list.
async fn wrong(browser: &Browser, width: u32) -> Vec<String> {
    let mut wrong = Vec::new();
    let found = browser
        .value(&format!(
            "[window.hurt !== undefined && 'a name ran', document.querySelectorAll('main img').length && 'a name became an element', \
              document.documentElement.scrollWidth > {width} && 'the page is wider than the window, by ' + [...document.querySelectorAll('main *')]\
                .filter(it => it.getBoundingClientRect().right > {width}).slice(0, 3).map(it => `${{it.tagName}} ${{it.id}} ${{it.className}} ${{it.textContent.slice(0, 60)}}`), \
              [...document.querySelectorAll('.scroll')].filter(it => it.clientWidth > 0 && it.scrollWidth > it.clientWidth + 1).map(it => `${{it.ariaLabel}} is ${{it.scrollWidth - it.clientWidth}} px wider than its place`).join(), \
              [...document.querySelectorAll('main table a, main table bdi, #view h2 bdi, .legend bdi')].some(it => [...it.textContent].length > 81) && 'a name is not cut', \
              [...document.querySelectorAll('#labels td:first-child, #view h2, #decisions td:nth-child(5)')]\
                .some(it => /[\\u202e\\u2067]/.test(it.textContent) && !it.querySelector('bdi')) && 'a name is not isolated' \
             ].filter(Boolean)"
        ))
        .await;
    wrong.extend(found.as_array().unwrap().iter().map(|it| format!("{width}: {}", it.as_str().unwrap())));
    wrong
}

/// Requests of all these names in each partition: some are admitted, most are rejected.
fn knock(admission: &Admission, names: &[String]) {
    for partition in ["web", "batch"] {
        for name in names {
            let ticket =
                || Ticket::new().partition(partition).namespace(name.as_str()).label(name.as_str()).run(name.as_str());
            let _held: Vec<_> = (0..40).map(|_| admission.try_admit(ticket())).collect();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_names_are_text_and_fit_on_desktop_and_phone_in_light_and_dark() {
    let admission = shop();
    let names = hostile();
    let stage = Stage::new(&admission);
    let url = stage.clone().serve().await;
    let worker = {
        let (admission, names) = (admission.clone(), names.clone());
        tokio::spawn(async move {
            loop {
                knock(&admission, &names);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        })
    };
    let browser = Browser::start().await;
    let mut looks = 0;
    for (width, height, is_phone) in [(1_440, 900, false), (390, 844, true)] {
        browser.size(width, height, is_phone).await;
        for scheme in ["light", "dark"] {
            browser.scheme(scheme).await;
            let views = std::iter::once(String::new()).chain(["#partition=web".to_owned()]);
            let labels = names.iter().map(|name| format!("#label={0}&namespace={0}", encoded(name)));
            for (number, hash) in views.chain(labels).enumerate() {
                browser.open("about:blank").await;
                browser.open(&format!("{url}{hash}")).await;
                browser
                    .until(&format!("{FRAMES} > 0 && document.querySelectorAll('#labels tbody tr').length >= 4"))
                    .await;
                if !hash.is_empty() {
                    browser
                        .until("!document.getElementById('view').hidden && document.querySelector('#view-tiles dd') !== null")
                        .await;
                }
                assert_eq!(wrong(&browser, width).await, [""; 0], "{scheme} {hash}");
                let violations = accessibility(&browser).await;
                assert_eq!(violations, Value::Array(Vec::new()), "{width} {scheme} {hash}: {violations:#}");
                browser.picture(&format!("hostile-{width}-{scheme}-{number}")).await;
                looks += 1;
            }
        }
    }
    assert_eq!(browser.complaints(), [""; 0]);
    assert_eq!(looks, 24, "two windows, two schemes, six views");

    // Controls: pages with mistakes.
    let mistakes = [
        ("element.textContent = text;", "element.innerHTML = text;", "a name ran"),
        ("const LONGEST = 80;", "const LONGEST = 800;", "a name is not cut"),
        ("make('a', {}, make('bdi'))", "make('a', {}, make('span'))", "a name is not isolated"),
        (".scroll { overflow-x: auto; }", "main { min-width: 600px; }", "wider than the window"),
    ];
    for (from, to, finding) in mistakes {
        stage.make(from, to);
        browser.open("about:blank").await;
        browser.open(&url).await;
        browser.until("document.querySelectorAll('#labels tbody tr').length >= 4").await;
        // The mistake may need a name that comes with a later answer.
        let found = async {
            while !wrong(&browser, 390).await.iter().any(|it| it.contains(finding)) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(20), found).await.is_ok(), "control {to}: not found out");
    }
    stage.make("<html lang=\"en\">", "<html>");
    browser.open("about:blank").await;
    browser.open(&url).await;
    browser.until(&format!("{FRAMES} > 0")).await;
    assert_ne!(accessibility(&browser).await, Value::Array(Vec::new()), "control: a page without a language");
    worker.abort();
}

/// Percent-encoded, as an address has it.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_labels_are_sorted_by_refusals_and_the_address_keeps_the_view() {
    let admission =
        Admission::builder().name("tasks").limit(Fixed::new(50)).shed().partition("web", percent(30)).build().unwrap();
    let stage = Stage::new(&admission);
    let url = stage.clone().serve().await;
    let worker = {
        let admission = admission.clone();
        tokio::spawn(async move {
            loop {
                let held: Vec<_> = (0..50).filter_map(|_| admission.try_admit(Ticket::new()).ok()).collect();
                for tenant in 0..2_000 {
                    let name = format!("tenant-{tenant:04}");
                    let times = if tenant == 1_234 { 40 } else { 1 };
                    (0..times)
                        .for_each(|_| drop(admission.try_admit(Ticket::new().partition("web").label(name.as_str()))));
                    if tenant % 200 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                drop(held);
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        })
    };
    let browser = Browser::start().await;
    let first = "document.querySelector('#labels tbody tr')?.cells[0].textContent";
    browser.size(1_440, 900, false).await;
    browser.open(&url).await;
    browser.until("document.getElementById('range').textContent.startsWith('1–50 of 2,000')").await;
    browser.until(&format!("{first} === 'tenant-1234'")).await;
    assert_eq!(wrong(&browser, 1_440).await, [""; 0]);
    browser.picture("labels-1440").await;
    let cost = browser.value("new Promise(done => { const begin = performance.now(); for (let i = 0; i < 20; i++) draw(); done((performance.now() - begin) / 20); })");
    println!(
        "one drawing of all curves: {:.1} ms over {} frames",
        cost.await.as_f64().unwrap(),
        browser.value(FRAMES).await
    );

    // The view is in the address: of the sorted and filtered list, and of one label.
    browser.value("document.querySelector('th[data-sort=label] button').click()").await;
    browser.value("document.getElementById('filter').focus()").await;
    browser.write("12").await;
    browser.until("location.hash.includes('sort=label') && location.hash.includes('contains=12')").await;
    let hash = browser.value("location.hash").await;
    browser.open("about:blank").await;
    browser.open(&format!("{url}{}", hash.as_str().unwrap())).await;
    browser.until(&format!("{first} === 'tenant-0012' && document.getElementById('filter').value === '12'")).await;
    browser.open("about:blank").await;
    browser.open(&url).await;
    browser.until(&format!("{first} === 'tenant-1234'")).await;
    browser.value("document.querySelector('#labels tbody tr a').click()").await;
    browser.until("document.getElementById('view-name').textContent === 'tenant-1234'").await;
    browser.until("document.querySelectorAll('#view-refused tbody tr').length > 0").await;
    browser.until("document.querySelector('#view-refused td').textContent === 'limit'").await;
    browser.until("document.querySelector('#refused svg path[data-runs]') !== null").await;
    browser.picture("label-1440").await;
    browser.size(390, 844, true).await;
    browser.picture("label-390").await;
    assert_eq!(wrong(&browser, 390).await, [""; 0]);
    browser.value("window.history.back()").await;
    browser.until("document.getElementById('view').hidden").await;
    assert!(rests_when_hidden(&browser).await);
    worker.abort();
    // A server with nothing new sends no body.
    browser.until("performance.getEntriesByType('resource').some(it => it.responseStatus === 304)").await;

    stage.make("document.hidden", "false");
    browser.open("about:blank").await;
    browser.open(&url).await;
    browser.until(&format!("{FRAMES} > 0")).await;
    assert!(!rests_when_hidden(&browser).await, "control: a page that goes on asking is found out");
    stage.make("sort: 'harm', order", "sort: 'ready', order");
    browser.open("about:blank").await;
    browser.open(&url).await;
    browser.until(&format!("{FRAMES} > 2")).await;
    assert_ne!(browser.value(first).await, "tenant-1234", "control: not the first one in another order");
}

/// Whether a page that is not seen asks for nothing, and for something again once it is seen.
async fn rests_when_hidden(browser: &Browser) -> bool {
    for hidden in [true, false] {
        browser
            .value(&format!(
                "Object.defineProperty(document, 'hidden', {{ configurable: true, get: () => {hidden} }}); \
                 document.dispatchEvent(new Event('visibilitychange')); 0"
            ))
            .await;
        // What was under way comes to its end.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let asked = browser.requests().len();
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        let more = browser.requests().len() - asked;
        if hidden && more > 0 {
            return false;
        }
        assert!(hidden || more >= 4, "it asks again: {more} questions");
    }
    true
}
