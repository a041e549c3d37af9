//! `list` and `describe`.

use tower_admission::{Admission, Ticket};

use crate::support::{Site, run_with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_are_listed_with_what_they_use_and_why_they_wait() {
    let site = Site::busy().await;
    let out = site.run(&["list"]).await.with(0);
    let words: Vec<Vec<_>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    let line = |start: &[&str]| words.iter().find(|words| words.starts_with(start)).unwrap_or_else(|| panic!("{out}"));
    assert_eq!(
        line(&["production", "payments", "workflow_tasks"])[3..],
        ["throttled", "8/8", "5", "8/120", "max_in_flight", "8/8:", "waits"]
    );
    assert_eq!(line(&["production", "payments", "query_tasks"])[3..], ["accepting", "1", "0"]);
    assert_eq!(
        line(&["production", "mail"])[3..],
        ["throttled", "3", "0", "3/3", "max_per_minute", "3/3:", "is", "rejected"]
    );
    assert_eq!(line(&["production", "search"])[2..], ["workflow_tasks", "accepting", "1", "0"]);
    assert_eq!(words.last().unwrap(), &["3", "labels"]);
    assert!(!out.contains('\x1b'), "no colours where there is no terminal");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_filtered_and_say_whether_all_accept() {
    let site = Site::busy().await;
    for (filter, labels) in [
        (["--prefix", "pay"], &["payments"][..]),
        (["--status", "throttled"], &["payments", "mail"]),
        (["--namespace", "production"], &["payments", "mail", "search"]),
        (["--sort", "label"], &["mail", "payments", "search"]),
        (["--sort", "leased"], &["payments", "mail", "search"]),
        (["--sort", "rejected"], &["mail", "payments", "search"]),
        (["--namespace", "staging"], &[]),
        (["--status", "no_slots"], &[]),
    ] {
        let list = site.run(&[&["list", "--json"], &filter[..]].concat()).await.json();
        let found: Vec<_> = list["labels"].as_array().unwrap().iter().map(|it| it["label"].clone()).collect();
        assert_eq!(found, labels, "{filter:?}");
        assert_eq!((&list["matched"], &list["total"]), (&labels.len().into(), &3.into()));
    }
    site.run(&["list", "--exit-code"]).await.with(1);
    site.run(&["list", "--exit-code", "--prefix", "search"]).await.with(0);
    let none = site.run(&["list", "--namespace", "staging"]).await.with(0);
    assert_eq!(none, "0 of 3 labels\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_pages_are_listed() {
    let admission = Admission::builder().build().unwrap();
    for number in 0..2_500 {
        drop(admission.try_admit(Ticket::new().label(format!("tenant-{number:04}"))).unwrap());
    }
    let site = Site::start(admission).await;
    let out = site.run(&["list"]).await.with(0);
    let mut listed: Vec<_> = out.lines().filter_map(|line| line.split_whitespace().next()).collect();
    listed.retain(|name| name.starts_with("tenant-"));
    let known: Vec<_> = (0..2_500).map(|number| format!("tenant-{number:04}")).collect();
    assert_eq!(listed, known);
    let json = site.run(&["list", "--json"]).await.json();
    assert_eq!(json["labels"].as_array().unwrap().len(), 2_500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_label_is_described_class_by_class() {
    let site = Site::busy().await;
    let out = site.run(&["describe", "payments", "--namespace", "production"]).await.with(0);
    for line in [
        "payments in production: throttled",
        "workflow_tasks: throttled",
        "  8 running on 24 slots of 3 workers (worker_registration.max_concurrent_workflow_tasks), 5 waiting, the first of them for 0 s",
        "  the next request waits: max_in_flight is full, 8 of 8",
        "  partition default, weight 1; 8 admitted and 0 rejected so far",
        "  max_in_flight                   8   8     0  wait       override production:payments",
        "  max_in_flight_per_namespace    12  300   288  reject     override production:*",
        "  budget downstream-openai        8  600   592  reject     override production:payments",
        "query_tasks: accepting",
        "  the next request runs at once",
        "5 wait:",
        "  1  line  workflow_tasks  0 s  ?  max_in_flight 8/8",
        "  5  line  workflow_tasks  0 s  ?  max_in_flight 8/8",
    ] {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert!(out.lines().any(|found| words(found) == words(line)), "{line} is missing in\n{out}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_label_is_told_as_json_as_it_is_served() {
    let site = Site::busy().await;
    let told = site.run(&["describe", "payments", "--namespace", "production", "--json"]).await.json();
    let served = site.json("/admission/labels/payments?namespace=production").await;
    assert_eq!(told, served);
    assert_eq!(told["admission"]["workflow_tasks"]["server_active_lease_count"], 8);
    site.run(&["describe", "payments", "--namespace", "production", "--exit-code"]).await.with(1);
    site.run(&["describe", "search", "--namespace", "production", "--exit-code"]).await.with(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_label_that_is_not_known_is_compared_with_those_that_are() {
    let mut site = Site::busy().await;
    site.hold(1, &Ticket::new().label("alone"));
    for (arguments, why) in [
        (&["describe", "paymnets", "--namespace", "production"][..], "did you mean \"payments\"?"),
        (&["describe", "payments"], "the label exists in a namespace: --namespace \"production\""),
        (&["describe", "paymnets"], "did you mean \"payments\" --namespace \"production\"?"),
        (&["describe", "alone", "--namespace", "production"], "the label exists without a namespace"),
        (&["describe", "nothing-like-it"], "`admission list` shows the known labels"),
    ] {
        let said = site.run(arguments).await.with(1);
        assert!(said.starts_with("admission: there is no label") && said.contains(why), "{said}");
    }
    let said = site.run(&["describe", "\x1b[31mred"]).await.with(1);
    assert!(!said.contains('\x1b'), "{said:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_do_no_harm_to_a_terminal() {
    let evil = "a\x1b[2J\u{202e}b\u{9b}31m";
    let admission = Admission::builder().build().unwrap();
    drop(admission.try_admit(Ticket::new().label(evil).namespace("x\r\ny\x07")).unwrap());
    let site = Site::start(admission).await;
    for arguments in [
        &["list"][..],
        &["list", "--json"],
        &["describe", evil, "--namespace", "x\r\ny\x07"],
        &["describe", "a"],
        &["journal"],
        &["journal", "--json"],
    ] {
        let ended = site.run(arguments).await;
        let said = ended.out + &ended.err;
        let harm = said.chars().find(|c| *c != '\n' && (c.is_control() || *c == '\u{202e}'));
        assert_eq!(harm, None, "{said:?}");
        assert!(said.contains("1b") || arguments[1] == "a", "it is shown: {said}");
    }
    let json = site.run(&["list", "--json"]).await.json();
    assert_eq!(json["labels"][0]["label"], evil, "and nothing of it is lost in JSON");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_url_may_name_the_path_and_the_option_beats_the_variable() {
    let site = Site::busy().await;
    let url = format!("{}/admission/", site.url);
    let ended = run_with(&[("ADMISSION_URL", "http://127.0.0.1:1")], &["list", "--url", &url]).await;
    assert!(ended.with(0).contains("3 labels"));
    let nested = axum::Router::new().nest_service("/ops", site.admission.introspection());
    let (nested, server) = crate::support::serve(nested).await;
    let ended = run_with(&[], &["list", "--url", &format!("{nested}/ops")]).await;
    assert!(ended.with(0).contains("3 labels"));
    server.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_who_wait_are_shown_with_their_place_and_their_obstacle() {
    let builder = Admission::builder().limit(tower_admission::limit::Fixed::new(1)).queue(6);
    let mut site = Site::start(builder.build().unwrap()).await;
    site.hold(1, &Ticket::new().label("reports"));
    let mut waiters = Vec::new();
    for number in 0..7 {
        let admit = site.admission.admit(Ticket::new().label("reports").run(format!("run-{}", number % 3)));
        waiters.push(tokio::spawn(admit));
        while site.admission.waiters("", "reports").len() <= number {
            tokio::task::yield_now().await;
        }
    }
    let out = site.run(&["describe", "reports"]).await.with(0);
    let (_, shown) = out.split_once("7 wait, the first 5 of them:\n").unwrap_or_else(|| panic!("{out}"));
    let rows: Vec<Vec<_>> = shown.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 5, "{out}");
    for (index, row) in rows.iter().enumerate() {
        assert_eq!(
            (row[0], row[1], row[2]),
            (&*(index + 1).to_string(), "line", &*format!("run-{}", index % 3)),
            "{out}"
        );
        assert_eq!(row[row.len() - 2..], ["limit", "1/1"], "{out}");
    }
    let json = site.run(&["describe", "reports", "--json"]).await.json();
    assert!(json.get("waiters").is_none(), "as JSON it is what the server says of the label");
    waiters.iter().for_each(tokio::task::JoinHandle::abort);
}
