//! A moment of the past that is picked on a chart: the page shows its sentence and its rows, and all charts the same moment.

use std::time::Duration;

use tower_admission::Ticket;

use super::{
    browser::Browser,
    stage::{Stage, shop},
};

const HEADLINE: &str = "document.getElementById('headline').textContent";
const ROWS: &str =
    "[...document.querySelectorAll('#foremost tbody tr')].map(row => [...row.cells].map(it => it.textContent))";
/// Where each chart that is seen shows the moment, in thousandths of its width, and which time each axis begins with.
const MOMENTS: &str = "[...document.querySelectorAll('section svg[role]')].filter(it => it.clientWidth)\
     .map(it => [Math.round(1000 * it.querySelector('.moment').getAttribute('x1') / it.clientWidth), it.querySelectorAll('text')[2].textContent])";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_click_on_a_chart_shows_what_was_said_then_and_of_which_labels() {
    let admission = shop();
    let stage = Stage::new(&admission);
    let url = stage.clone().serve().await;
    let browser = Browser::start().await;
    browser.open(&url).await;
    browser.until("past.frames.length >= 2").await;
    browser.until(&format!("{HEADLINE}.startsWith('fine')")).await;

    // Trouble of one label, which ends.
    let ticket = || Ticket::new().partition("web").label("capped");
    let held = admission.try_admit(ticket()).unwrap();
    let handle = admission.clone();
    let flood = tokio::spawn(async move {
        for _ in 0..3_000 {
            assert!(handle.try_admit(ticket()).is_err(), "control: its cap is used up");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    browser.until("past.frames.filter(it => it.summary.includes('capped')).length >= 5").await;
    browser.until(&format!("{ROWS}.some(row => row[0] === 'capped label')")).await;
    flood.abort();
    drop(held);
    browser.until(&format!("{HEADLINE}.startsWith('fine')")).await;

    // The middle of the third frame that tells of it. The axis moves with each answer, so it is drawn before the place is
    // calculated, and two frames on both sides leave time until the click arrives.
    let at = "(frame => (frame.from + frame.to) / 2)(past.frames.filter(it => it.summary.includes('capped'))[2])";
    let from = "Math.max(Date.now() / 1000 - 600, Math.min(past.frames[0].from, Date.now() / 1000 - 60))";
    let place = format!(
        "draw(), (box => [box.left + box.width * ({at} - {from}) / (Date.now() / 1000 - {from}), box.top + box.height / 2])\
         (document.querySelector('#load svg[role]').getBoundingClientRect())"
    );
    browser.value("document.getElementById('load').scrollIntoView()").await;
    browser.click(&place).await;
    let is_told = format!(
        "/^At \\d.*: throttled: .*capped/.test({HEADLINE}) && {ROWS}[0][0] === 'capped label' && parseFloat({ROWS}[0][3]) > 5"
    );
    browser.until(&is_told).await;
    let moments = browser.value(MOMENTS).await;
    let moments = moments.as_array().unwrap();
    assert!(moments.len() >= 7 && moments[0][0].as_u64().unwrap() > 0, "{moments:?}");
    assert!(moments.iter().all(|it| *it == moments[0]), "all charts have the same axis: {moments:?}");

    // The address is that of the moment; a page whose moment is another is found out.
    let address = browser.value("location.href").await;
    stage.make("it.to > view.at", "true");
    browser.open("about:blank").await;
    browser.open(address.as_str().unwrap()).await;
    browser.until(&format!("{HEADLINE}.startsWith('At ')")).await;
    assert_eq!(browser.value(&is_told).await, false, "control: the first frame is not that moment");
    stage.make("<title>Admission", "<title>Admission");
    browser.open("about:blank").await;
    browser.open(address.as_str().unwrap()).await;
    browser.until(&is_told).await;

    // By keyboard, until nothing is known, and back to what is now.
    browser.value("document.getElementById('earlier').focus()").await;
    browser.press("Enter").await;
    let picked = address.as_str().unwrap().rsplit_once("at=").unwrap().1;
    browser.until(&format!("Math.abs({picked} - Number(view.at) - SPANS['10m'] / 60) < 0.2")).await;
    browser.value("pick(past.frames[0].from - 5)").await;
    browser.until(&format!("{HEADLINE}.endsWith('nothing is known of this moment') && {ROWS}.length === 0")).await;
    browser.value("document.getElementById('latest').focus()").await;
    browser.press("Enter").await;
    browser.until(&format!("{HEADLINE}.startsWith('fine') && !location.hash.includes('at=')")).await;
    assert_eq!(browser.complaints(), [""; 0]);
}
