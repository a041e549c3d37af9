//! The label that an incident is about: its row lies within the first screen, at any number of labels.

use std::{sync::Arc, time::Duration};

use tokio::{task::JoinSet, time::timeout};
use tower_admission::{Admission, Labels, Outcome, Ticket, limit::Fixed};

use super::{browser::Browser, support::Site};

const CULPRIT: &str = "payments-eu-central-1";
const HEADERS: [(&str, &str); 1] = [("x-label", CULPRIT)];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Incident {
    /// Slots do not come back.
    Leak,
    /// Far more requests than its cap lets through.
    Noise,
    /// Callers leave before the answer.
    Leave,
}

impl Incident {
    /// What the row of the label has to say, in a condition about its `cells`.
    fn tells(self) -> &'static str {
        match self {
            Self::Leak => "cells[1].startsWith('36 of 40, each for ')",
            Self::Noise => "parseFloat(cells[3]) > 5 && parseFloat(cells[4]) < 5",
            Self::Leave => "parseFloat(cells[4]) > 5 && parseFloat(cells[3]) < 5",
        }
    }

    /// A server with this incident, and the callers of so many labels.
    async fn stage(self, labels: usize) -> (Arc<Site>, JoinSet<()>) {
        let admission = Admission::builder().name("checkout").limit(Fixed::new(40)).shed();
        let admission = admission.labels(Labels::new().label_cap(CULPRIT, if self == Self::Noise { 1 } else { 36 }));
        let admission = admission.build().unwrap();
        let mut site = Site::start(&admission).await;
        site.backend_takes(60_000);
        if self == Self::Leak {
            site.hold(36, &HEADERS);
        }
        let (site, mut callers) = (Arc::new(site), JoinSet::new());
        for _ in 0..if self == Self::Leak { 0 } else { 4 } {
            let site = Arc::clone(&site);
            callers.spawn(async move {
                loop {
                    let request = site.work(if self == Self::Noise { "/slow" } else { "/backend" }, &HEADERS);
                    let _ = timeout(Duration::from_millis(100), request).await;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            });
        }
        callers.spawn(async move {
            for number in (1..labels).cycle() {
                let ticket = Ticket::new().namespace("shop").label(format!("tenant-{number:04}"));
                // Callers of each tenth label leave, so that the table is full.
                if let Ok(permit) = admission.try_admit(ticket)
                    && number % 10 > 0
                {
                    permit.finish(Outcome::Success);
                }
                if number % 100 == 0 || number + 1 == labels {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        });
        (site, callers)
    }
}

/// The number of cells of the label's row in this table that lie within the first screen.
fn seen(table: &str) -> String {
    format!(
        "scrollTo(0, 0), [...document.querySelectorAll('#{table} tbody tr')]\
         .filter(row => row.cells[0].textContent.startsWith('{CULPRIT}'))\
         .flatMap(row => [...row.cells].map(cell => cell.getBoundingClientRect()))\
         .filter(it => it.width > 0 && it.height > 0 && it.left >= 0 && it.top >= 0 && it.right <= innerWidth && it.bottom <= innerHeight)\
         .length"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_label_that_an_incident_is_about_is_on_the_first_screen() {
    let mut stages = Vec::new();
    for incident in [Incident::Leak, Incident::Noise, Incident::Leave] {
        for labels in [1, 50, 2_000] {
            stages.push((incident, labels, incident.stage(labels).await));
        }
    }
    let browser = Browser::start().await;
    for (incident, labels, (site, _callers)) in &stages {
        browser.size(1_280, 800, false).await;
        browser.open(&format!("{}/admission/ui", site.admin)).await;
        let tells = incident.tells();
        browser
            .until(&format!(
                "[...document.querySelectorAll('#foremost tbody tr')].map(row => [...row.cells].map(it => it.textContent))\
                 .some(cells => cells[0] === '{CULPRIT} label' && {tells})"
            ))
            .await;
        browser
            .until(&format!("document.getElementById('range').textContent.includes(' of {}')", comma(*labels)))
            .await;
        let rows = if *labels == 1 { 1 } else { 5 };
        browser.until(&format!("document.querySelectorAll('#foremost tbody tr').length === {rows}")).await;
        let holds = format!(
            "[...document.querySelectorAll('#holders .legend bdi')].some(it => it.textContent === '{CULPRIT}')"
        );
        browser.until(&holds).await;
        // Trouble is recorded although no setting asks for it.
        let command = format!("admission what-if --url {}/admission", site.admin);
        browser.until(&format!("document.getElementById('what-if').innerText === '{command}'")).await;
        for (width, height, is_phone) in [(1_280, 800, false), (390, 844, true)] {
            for scheme in ["light", "dark"] {
                browser.size(width, height, is_phone).await;
                browser.scheme(scheme).await;
                let what = format!("{incident:?}-{labels}-{width}-{scheme}").to_lowercase();
                browser.picture(&what).await;
                assert_eq!(browser.value(&seen("foremost")).await, 5, "{what}");
                // The control: in the list of all labels it is not.
                browser.until("document.querySelectorAll('#labels tbody tr').length > 0").await;
                assert_eq!(browser.value(&seen("labels")).await, 0, "{what}");
            }
        }
    }
    assert_eq!(browser.complaints(), [""; 0]);
}

/// As the page writes a number.
fn comma(number: usize) -> String {
    if number < 1_000 { number.to_string() } else { format!("{},{:03}", number / 1_000, number % 1_000) }
}
