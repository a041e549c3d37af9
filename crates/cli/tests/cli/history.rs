//! `history`: rows, the changes in between, and what is not known.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep};
use tower_admission::{Admission, Clock, Labels, Mode, Ticket, limit::Fixed};

use crate::support::Site;

/// Real time, and so many seconds more: a process that was frozen sees the clock jump.
#[derive(Clone, Debug)]
struct Jumping(Instant, Arc<AtomicU64>);

impl Clock for Jumping {
    fn now(&self) -> Duration {
        self.0.elapsed() + Duration::from_secs(self.1.load(Ordering::Relaxed))
    }
}

fn builder() -> tower_admission::AdmissionBuilder {
    Admission::builder().limit(Fixed::new(4)).wait_timeout(Duration::ZERO).labels(Labels::new())
}

async fn some_seconds(site: &Site, tenths: usize) {
    for _ in 0..tenths {
        drop(site.admission.try_admit(Ticket::new().label("acme")).unwrap());
        sleep(Duration::from_millis(100)).await;
    }
}

/// A number of the last rows, in a column, added up.
fn sum(out: &str, column: &str) -> f64 {
    let mut lines = out.lines();
    let head = lines.next().unwrap();
    let end = head.find(column).unwrap() + column.len();
    let rows = lines.filter(|line| line.len() > end && line.starts_with(|c: char| c.is_ascii_digit()));
    let rows = rows.filter_map(|line| line[..end].split_whitespace().last()?.parse::<f64>().ok());
    rows.sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_seconds_are_rows_with_what_changed_in_between() {
    let clock = Jumping(Instant::now(), Arc::default());
    let mut site = Site::start(builder().clock(clock.clone()).build().unwrap()).await;
    some_seconds(&site, 25).await;
    site.hold(4, &Ticket::new().label("acme"));
    for _ in 0..50 {
        site.admission.try_admit(Ticket::new().label("acme")).unwrap_err();
    }
    site.admission.set_mode(Mode::Observe);
    sleep(Duration::from_millis(2_500)).await;
    site.admission.set_mode(Mode::Enforce);
    site.admission.reload(builder().limit(Fixed::new(9))).unwrap();
    clock.1.store(40, Ordering::Relaxed);
    some_seconds(&site, 25).await;

    let out = site.run(&["history", "--last", "1m", "--rows", "60"]).await.with(0);
    let head: Vec<_> = out.lines().next().unwrap().split("  ").map(str::trim).filter(|it| !it.is_empty()).collect();
    assert_eq!(head[..4], ["TIME (UTC)", "LIMIT", "RUNNING", "WAITING"], "{out}");
    for text in ["mode enforce → observe", "mode observe → enforce", "  reload", "the process stood still for 4"] {
        assert_eq!(out.matches(text).count(), 1, "{text:?} in {out}");
    }
    let place = |text: &str| out.find(text).unwrap();
    assert!(place("→ observe") < place("→ enforce") && place("→ observe") < place("stood still"), "{out}");
    assert!(out.lines().any(|line| line.contains(" 4.0 ") && line.contains("limit")), "{out}");
    let refused = sum(&out, "REFUSED/S");
    assert!((40.0..60.0).contains(&refused), "{refused}: {out}");
    assert!((30.0..70.0).contains(&sum(&out, "ADMITTED/S")), "{out}");
    // The control: fewer rows say the same, and no change is left out.
    let few = site.run(&["history", "--last", "1m", "--rows", "2"]).await.with(0);
    let rows = |out: &str| out.lines().filter(|line| !line.contains("→") && !line.contains("still")).count();
    assert!(rows(&few) < 6 && rows(&out) > 5 && few.contains("→ observe"), "{few}");

    let whole = site.run(&["history", "--json"]).await.json();
    assert!(whole["frames"].as_array().unwrap().iter().any(|frame| frame["gap"] == true), "{whole:#}");
    let partition = site.run(&["history", "--last", "1m", "--rows", "60", "--partition", "default"]).await.with(0);
    assert_eq!(sum(&partition, "REFUSED/S"), refused, "{partition}");
    for (unknown, word) in [(["--partition", "none"], "no such partition"), (["--label", "none"], "--labels")] {
        let said = site.run(&[&["history"], &unknown[..]].concat()).await.with(1);
        assert!(said.contains("nothing is known about \"none\"") && said.contains(word), "{said}");
    }
    // A label is followed some seconds after it came.
    let named = async {
        loop {
            some_seconds(&site, 10).await;
            let out = site.run(&["history", "--last", "1m", "--labels"]).await.with(0);
            if out.contains("acme ") {
                return site.run(&["history", "--last", "1m", "--label", "acme"]).await.with(0);
            }
        }
    };
    let of_label = crate::support::bounded("the label", named).await;
    assert!(sum(&of_label, "ADMITTED/S") > 0.0, "{of_label}");
    for bad in [&["--last", "2h"][..], &["--namespace", "n"], &["--label", "a", "--partition", "b"]] {
        assert_eq!(site.run(&[&["history"], bad].concat()).await.code, 2, "{bad:?}");
    }
}
