//! Whether the page has what an incident is about on its first screen.
//!
//! `PICTURES=FOLDER` has pictures of these pages written there.

use std::{env, time::Duration};

use tokio::time::sleep;

use super::browser::Browser;

/// Width and height of the windows, and whether each is that of a phone.
const SIZES: [(u32, u32, bool); 2] = [(1_280, 800, false), (390, 844, true)];

/// Where on the first screen these names are: a row for each with all of its cells, or the sentence.
fn seen(names: &[&str]) -> String {
    format!(
        "scrollTo(0, 0), (() => {{\
            const inside = it => (it => it.width > 0 && it.left >= 0 && it.top >= 0 && it.right <= innerWidth && it.bottom <= innerHeight)\
                (it.getBoundingClientRect());\
            const names = {names:?}, rows = [...document.querySelectorAll('#foremost tbody tr')];\
            const row = name => rows.some(row => row.cells[0].textContent.startsWith(name) && [...row.cells].every(inside));\
            const line = document.querySelector('#health .headline');\
            const said = name => line.textContent.split(/[^\\w-]+/).includes(name) && inside(line);\
            return names.every(row) ? 'row' : names.every(name => row(name) || said(name)) ? 'sentence' : '';\
        }})()"
    )
}

/// Opens the page, and tells where each window has these names on its first screen: nowhere, if it has not.
pub(crate) async fn first(browser: &Browser, url: &str, story: &str, names: &[&str]) -> [String; 2] {
    if names.is_empty() {
        return ["none is harmed"; 2].map(str::to_owned);
    }
    browser.size(1_000, 700, false).await;
    browser.open(&format!("{url}/admission/ui")).await;
    browser.until("document.getElementById('link').textContent === 'live'").await;
    if env::var_os("PICTURES").is_some() {
        // Some seconds of its course.
        sleep(Duration::from_secs(5)).await;
        browser.first_screen(&story.replace(' ', "-")).await;
    }
    let mut found = [const { String::new() }; 2];
    for ((width, height, is_phone), found) in SIZES.into_iter().zip(&mut found) {
        browser.size(width, height, is_phone).await;
        for _ in 0..12 {
            *found = browser.value(&seen(names)).await.as_str().unwrap_or_default().to_owned();
            if !found.is_empty() {
                break;
            }
            sleep(Duration::from_millis(250)).await;
        }
    }
    found
}
