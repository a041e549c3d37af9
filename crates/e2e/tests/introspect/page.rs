//! The live page in a real browser. Pictures of it are left under `target`.

use std::{fs, sync::Arc, time::Duration};

use admission_testkit::{Mood, Moody};
use http::header::CONTENT_SECURITY_POLICY;
use serde_json::Value;
use tokio::task::JoinSet;
use tower_admission::{
    Admission, Labels, Mode, Ticket,
    limit::Fixed,
    percent,
    store::{Keys, Leases},
};

use super::{browser::Browser, npm, support::Site};

/// Clients that ask again and again, rejected or not, until they are dropped.
fn load(site: &Arc<Site>, clients: usize, pause: Duration, headers: [(&'static str, &'static str); 2]) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let site = Arc::clone(site);
        tasks.spawn(async move {
            loop {
                let status = site.work("/slow", &headers).await;
                tokio::time::sleep(if status.is_success() { pause } else { Duration::from_millis(100) }).await;
            }
        });
    }
    tasks
}

fn shop(store: &Moody) -> Admission {
    Admission::builder()
        .name("checkout")
        .limit(Fixed::new(20))
        .queue(30)
        .max_waiting(0)
        .partition("web", percent(50))
        .partition("batch", percent(20).hard_cap())
        .labels(Labels::new().label_cap("reports", 2))
        .shared(Leases::builder().build(Arc::new(store.clone())), Keys::new("shop").unwrap())
        .build()
        .unwrap()
}

const WEB: [(&str, &str); 2] = [("x-tenant", "web"), ("x-label", "shop-7")];
const BATCH: [(&str, &str); 2] = [("x-tenant", "batch"), ("x-label", "nightly")];
const REPORTS: [(&str, &str); 2] = [("x-tenant", "web"), ("x-label", "reports")];

/// What is said in a cell of the first row whose first cell says `name`.
fn cell(table: &str, name: &str, column: usize) -> String {
    format!(
        "[...document.querySelectorAll('#{table} tbody tr')].find(row => row.cells[0].textContent === '{name}')\
         ?.cells[{column}].textContent ?? ''"
    )
}

/// What is said of the newest decision about `label` that is shown.
fn first_decision(label: &str, column: usize) -> String {
    format!(
        "[...document.querySelectorAll('#decisions tbody tr')].find(row => row.cells[4].textContent === '{label}' && row.cells[3].textContent !== '–')\
         ?.cells[{column}].textContent ?? ''"
    )
}

/// Nothing went wrong, and nothing was asked of anybody else.
fn assert_well_behaved(browser: &Browser, site: &Site) {
    assert_eq!(browser.complaints(), [""; 0]);
    let requests = browser.requests();
    assert!(requests.len() > 2);
    let places = ["/admission", "/nested/admission"].map(|path| format!("{}{path}", site.admin));
    for url in requests.iter().filter(|url| *url != "about:blank" && !url.starts_with("data:,")) {
        assert!(places.iter().any(|place| url.starts_with(place)), "{url}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_shows_calm_and_overload() {
    let store = Moody::new();
    let site = Arc::new(Site::start(&shop(&store)).await);
    let browser = Browser::start().await;
    browser.size(1280, 1250, false).await;
    browser.scheme("light").await;
    let page = site.get("/admission/ui").await;
    assert!(page.body().len() < 60_000, "{} bytes", page.body().len());
    assert!(page.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap().starts_with("default-src 'none'"));

    let calm = load(&site, 6, Duration::from_millis(60), WEB);
    browser.open(&format!("{}/admission/ui", site.admin)).await;
    browser.until("document.querySelectorAll('#partitions tbody tr').length === 3").await;
    browser.until(&format!("({}).includes('accepting')", cell("labels", "shop-7", 2))).await;
    browser.until("document.getElementById('no-reasons').hidden === false").await;
    browser.until("document.querySelector('#rtt b').textContent.endsWith('ms')").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    browser.picture("calm").await;

    let _web = load(&site, 90, Duration::ZERO, WEB);
    let _batch = load(&site, 30, Duration::ZERO, BATCH);
    browser.until(&format!("({}).includes('saturated')", cell("labels", "nightly", 2))).await;
    browser.until(&format!("({}).includes('partition: 4 of 4')", cell("labels", "nightly", 3))).await;
    browser.until("document.querySelectorAll('#reasons tbody tr').length > 0").await;
    browser
        .until("[...document.querySelectorAll('#reasons tbody tr')].some(row => row.cells[2].textContent > '0')")
        .await;
    let waiting = "document.querySelectorAll('#tiles dd')[3].textContent";
    browser.until(&format!("{waiting} === '30'")).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    browser.picture("overload").await;
    drop(calm);

    let _reports = load(&site, 5, Duration::ZERO, REPORTS);
    browser.until(&format!("({}).includes('throttled')", cell("labels", "reports", 2))).await;
    browser.until(&format!("({}).startsWith('label cap: 2 of 2')", cell("labels", "reports", 3))).await;
    browser.until(&format!("({}).includes('label cap: 2 of 2')", first_decision("reports", 3))).await;
    site.admission.set_mode(Mode::Observe);
    site.admission.set_mode(Mode::Enforce);
    let change = "document.querySelector('#changes tbody tr')?.cells[1].textContent";
    browser.until(&format!("{change} === 'mode observe → enforce'")).await;
    store.is(Mood::Down(tokio::time::Instant::now()));
    browser.until(&format!("{change} === 'store up → down'")).await;
    store.is(Mood::Up);
    browser.until(&format!("{change} === 'store down → up'")).await;
    browser.until("document.querySelector('#changes tbody tr').cells[2].textContent.startsWith('down for ')").await;
    browser.picture("throttled").await;
    browser.scheme("dark").await;
    browser.picture("dark").await;
    assert_accessible(&browser, "overload, dark").await;
    browser.scheme("light").await;
    assert_accessible(&browser, "overload, light").await;
    assert_well_behaved(&browser, &site);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_labels_are_sorted_filtered_and_paged_by_keyboard() {
    let admission = Admission::builder()
        .name("tasks")
        .limit(Fixed::new(50))
        .queue(50)
        .labels(Labels::new().label_cap("tenant-00042", 3))
        .build()
        .unwrap();
    for i in 0..9_999 {
        drop(admission.try_admit(Ticket::new().namespace("production").label(format!("tenant-{i:05}"))).unwrap());
    }
    let hostile = "<img src=x onerror=alert(1)>";
    drop(admission.try_admit(Ticket::new().label(hostile)).unwrap());
    let busy = Ticket::new().namespace("production").label("tenant-00042");
    let _busy: Vec<_> = (0..3).map(|_| admission.try_admit(busy.clone()).unwrap()).collect();
    assert!(admission.try_admit(busy).is_err());
    let site = Site::start(&admission).await;

    let browser = Browser::start().await;
    browser.size(1280, 1250, false).await;
    // Wherever it was mounted, it finds its way.
    browser.open(&format!("{}/nested/admission/ui", site.admin)).await;
    let rows = "document.querySelectorAll('#labels tbody tr').length";
    let first = "document.querySelector('#labels tbody tr').cells[0].textContent";
    let range = "document.getElementById('range').textContent";
    browser.until(&format!("{rows} === 50 && {range}.startsWith('1–50 of 10,000')")).await;

    // With nothing but the keyboard: to the heading of the first column, and sort by it, up and down.
    let at = "document.activeElement.closest('th')?.dataset.sort";
    tab_until(&browser, &format!("{at} === 'label'")).await;
    browser.press("Enter").await;
    browser.until(&format!("{first} === '{hostile}'")).await;
    browser.press("Space").await;
    browser.until(&format!("{first} === 'production: tenant-09998'")).await;
    assert_eq!(browser.value("document.querySelector('th[data-sort=label]').ariaSort").await, "descending");
    tab_until(&browser, &format!("{at} === 'leased'")).await;
    browser.press("Enter").await;
    browser.until(&format!("{first} === 'production: tenant-00042'")).await;
    browser.until(&format!("({}).includes('throttled')", cell("labels", "production: tenant-00042", 2))).await;
    let asked = browser.requests().len();
    browser.until(&format!("{at} === 'leased'")).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert!(browser.requests().len() > asked, "it goes on asking");
    assert_eq!(browser.value(at).await, "leased", "and leaves the focus where it is");
    browser.picture("ten-thousand-labels").await;

    browser.value("document.getElementById('next').focus()").await;
    browser.press("Enter").await;
    browser.until(&format!("{range}.startsWith('51–100 of')")).await;
    browser.value("document.getElementById('filter').focus()").await;
    browser.write("0012").await;
    browser.until(&format!("{range}.startsWith('1–11 of 11') && {rows} === 11")).await;
    browser.value("document.getElementById('filter').value = ''").await;
    browser.write("onerror").await;
    browser.until(&format!("{rows} === 1 && {first} === '{hostile}'")).await;
    assert_eq!(browser.value("document.querySelectorAll('main img').length").await, 0, "a name is text");
    browser.value("document.getElementById('filter').value = ''").await;
    browser.write("0004").await;

    browser.size(390, 844, true).await;
    browser.until(&format!("{rows} === 11")).await;
    let wide = browser.value("document.documentElement.scrollWidth > innerWidth").await;
    assert_eq!(wide, false, "nothing sticks out on a phone");
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    browser.picture("phone").await;
    assert_accessible(&browser, "phone").await;
    assert_well_behaved(&browser, &site);
}

/// Moves the focus on until it is where it should be.
async fn tab_until(browser: &Browser, condition: &str) {
    for _ in 0..30 {
        if browser.value(condition).await == true {
            return;
        }
        browser.press("Tab").await;
    }
    panic!("the keyboard doesn't lead to where {condition}");
}

/// What axe-core finds, of any weight, is too much.
async fn assert_accessible(browser: &Browser, what: &str) {
    let violations = accessibility(browser).await;
    assert_eq!(violations, Value::Array(Vec::new()), "{what}: {violations:#}");
}

/// What axe-core finds.
pub(crate) async fn accessibility(browser: &Browser) -> Value {
    let axe = fs::read_to_string(npm::checkers().join("node_modules/axe-core/axe.min.js")).unwrap();
    browser.value(&format!("{axe}; typeof axe")).await;
    let mut found = browser
        .value("axe.run().then(it => ({passes: it.passes.length, violations: it.violations.map(v => [v.impact, v.id, v.help, v.nodes.map(n => n.html + ' ' + n.failureSummary)])}))")
        .await;
    assert!(found["passes"].as_u64().unwrap() > 15, "{found:#}");
    found["violations"].take()
}
