//! `watch` without a terminal.

use tokio::io::{AsyncBufReadExt, BufReader};
use tower_admission::{Admission, Ticket, limit::Fixed};

use crate::support::{BINARY, Site, bounded, command, serve_again};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_many_lines_are_printed_as_asked_for() {
    let site = Site::busy().await;
    let out = site.run(&["watch", "--count", "2", "--interval", "100ms"]).await.with(0);
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines.len(), 2, "{out}");
    for line in lines {
        assert!(line.contains(" limit=100 in_flight=13 waiting=5 at_gate=0 "), "{line}");
        assert!(line.contains(" health=busy headline=\"busy: 13 of 100 slots in use, 5 waiting"), "{line}");
    }
    assert!(!out.contains('\x1b'));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_json_each_update_is_an_object_on_a_line() {
    let admission = Admission::builder().limit(Fixed::new(2)).wait_timeout(std::time::Duration::ZERO).build().unwrap();
    let mut site = Site::start(admission).await;
    site.hold(2, &Ticket::new().label("acme"));
    let refuse = async {
        loop {
            site.admission.try_admit(Ticket::new().label("acme")).unwrap_err();
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let watched = site.run(&["watch", "--json", "--count", "3", "--interval", "200ms"]);
    let out = tokio::select! { out = watched => out.with(0), () = refuse => unreachable!() };
    let updates: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(updates.len(), 3, "{out}");
    for update in &updates {
        assert_eq!((&update["limit"], &update["in_flight"]), (&2.into(), &2.into()), "{update:#}");
        assert_eq!(update["foremost"][0]["in_flight"], 2, "{update:#}");
        assert!(update["health"]["headline"].is_string() && update["health"]["advice"].is_string(), "{update:#}");
    }
    assert_eq!(updates[0]["rejected_per_second"], serde_json::json!({}), "nothing happened before the first look");
    assert!(updates[2]["rejected_per_second"]["limit"].as_f64().unwrap() > 1.0, "{out}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejections_are_told_by_reason() {
    let admission = Admission::builder().limit(Fixed::new(2)).wait_timeout(std::time::Duration::ZERO).build().unwrap();
    let mut site = Site::start(admission).await;
    site.hold(2, &Ticket::new());
    let mut watch = command(BINARY, &[("ADMISSION_URL", &site.url)]);
    let mut watch = watch.args(["watch", "--interval", "100ms"]).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let first = bounded("the first line", lines.next_line()).await.unwrap().unwrap();
    assert!(first.contains("rejected_per_s=0"), "{first}");
    for _ in 0..50 {
        site.admission.try_admit(Ticket::new()).unwrap_err();
    }
    let told = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains("rejected_per_s=limit:") {
                return;
            }
        }
        panic!("it ended without a word");
    };
    bounded("the line with the rejections", told).await;
    watch.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_goes_away_is_told_and_waited_for() {
    let site = Site::busy().await;
    let mut watch = command(BINARY, &[("ADMISSION_URL", &site.url)]);
    let mut watch = watch.args(["watch", "--interval", "50ms"]).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut complaints = BufReader::new(watch.stderr.take().unwrap()).lines();
    bounded("the first line", lines.next_line()).await.unwrap().unwrap();
    let address = site.url.trim_start_matches("http://").to_owned();
    let admission = site.admission.clone();
    drop(site);
    let complaint = bounded("the complaint", complaints.next_line()).await.unwrap().unwrap();
    assert!(complaint.starts_with("admission: http://"), "{complaint}");
    // The same server, started anew.
    let server = serve_again(&address, &admission).await;
    bounded("the line after that", lines.next_line()).await.unwrap().unwrap();
    watch.kill().await.unwrap();
    server.abort();
}
