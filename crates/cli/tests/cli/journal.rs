//! `journal`: what it shows once, what it shows as it comes, and what it says when it can't.

use std::num::NonZeroU32;

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStderr, ChildStdout},
};
use tower_admission::{Admission, Mode, Ticket, limit::Fixed};

use crate::support::{BINARY, Site, bounded, command, serve_again};

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_entries_are_a_table() {
    let site = Site::busy().await;
    site.admission.set_mode(Mode::Observe);
    let out = site.run(&["journal", "--limit", "7"]).await.with(0);
    let lines: Vec<_> = out.lines().map(words).collect();
    assert_eq!(lines[0], ["WHEN", "WHAT", "WHY", "LABEL", "CLASS", "PARTITION", "RUNNING", "WAITING"]);
    assert_eq!(lines.len(), 8, "{out}");
    let granted = ["0", "s", "ago", "granted", "production:payments", "workflow_tasks", "default"];
    assert_eq!(lines[7][..7], granted, "those who waited are let in, since decisions don't bind: {out}");
    let change = lines.iter().find(|line| line.contains(&"mode")).unwrap();
    assert_eq!(change[3..], ["mode", "enforce", "→", "observe", "13/100", "5"], "{out}");
    assert!(!out.contains('\x1b'), "no colours where there is no terminal");

    let queued = site.run(&["journal", "--limit", "100", "--kind", "decision"]).await.with(0);
    let queued: Vec<_> = queued.lines().filter(|line| line.contains("queued")).map(words).collect();
    assert_eq!(queued.len(), 5);
    assert_eq!(queued[0][3..7], ["queued", "max_in_flight", "8/8", "production:payments"]);
    let changes = site.run(&["journal", "--kind", "change"]).await.with(0);
    assert_eq!(changes.lines().count(), 2, "{changes}");
    assert_eq!(site.run(&["journal", "-n", "0"]).await.with(0), "no entries\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_json_it_is_what_is_served_and_all_pages_of_it() {
    let admission =
        Admission::builder().limit(Fixed::new(9)).journal(5_000).time_one_in(NonZeroU32::MIN).build().unwrap();
    let site = Site::start(admission).await;
    for _ in 0..1_250 {
        drop(site.admission.try_admit(Ticket::new()).unwrap());
    }
    let numbers = |json: &Value| -> Vec<_> {
        json["entries"].as_array().unwrap().iter().map(|it| it["sequence"].as_u64().unwrap()).collect()
    };
    let few = site.run(&["journal", "--json", "--limit", "3"]).await.json();
    assert_eq!(few["entries"], site.json("/admission/journal?limit=3").await["entries"]);
    assert_eq!((&few["capacity"], &few["newest"]), (&5_000.into(), &1_250.into()));
    let most = site.run(&["journal", "--json", "--limit", "1200"]).await.json();
    assert_eq!(numbers(&most), (51..=1_250).collect::<Vec<_>>());
    let all = site.run(&["journal", "--json", "--limit", "9999"]).await.json();
    assert_eq!(numbers(&all).len(), 1_250);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_a_journal_says_so() {
    let site = Site::start(Admission::builder().journal(0).build().unwrap()).await;
    for arguments in [&["journal"][..], &["journal", "--follow"], &["journal", "--json"]] {
        let said = site.run(arguments).await.with(1);
        assert!(said.contains("keeps no journal: its setting `journal` is 0"), "{said}");
    }
}

/// The command while it follows.
struct Following {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    complaints: Lines<BufReader<ChildStderr>>,
}

impl Following {
    fn start(site: &Site, arguments: &[&str]) -> Self {
        let mut journal = command(BINARY, &[("ADMISSION_URL", &site.url)]);
        let journal = journal.args(["journal", "--follow", "--interval", "50ms"]).args(arguments);
        let mut process = journal.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let complaints = BufReader::new(process.stderr.take().unwrap()).lines();
        Self { process, lines, complaints }
    }

    async fn line(&mut self) -> String {
        bounded("a line", self.lines.next_line()).await.unwrap().expect("it goes on")
    }

    async fn complaint(&mut self) -> String {
        bounded("a complaint", self.complaints.next_line()).await.unwrap().expect("it goes on")
    }
}

fn small(journal: usize) -> Admission {
    Admission::builder().limit(Fixed::new(1)).shed().journal(journal).time_one_in(NonZeroU32::MIN).build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_is_shown_as_it_comes_each_entry_once() {
    let mut site = Site::start(small(64)).await;
    site.hold(1, &Ticket::new().label("first"));
    let mut journal = Following::start(&site, &["--limit", "9"]);
    assert_eq!(words(&journal.line().await)[..3], ["TIME", "(UTC)", "WHAT"]);
    let first = journal.line().await;
    assert_eq!(words(&first)[1..3], ["admitted", "first"]);
    let (time, _) = first.split_once(' ').unwrap();
    assert!(time.len() == 12 && time.split([':', '.']).all(|part| part.parse::<u32>().is_ok()), "{time}");
    for label in ["a", "b", "a-label-of-some-length", "c"] {
        site.admission.try_admit(Ticket::new().label(label)).unwrap_err();
        let line = journal.line().await;
        assert_eq!(words(&line)[1..5], ["rejected", "limit", "1/1", label], "{line}");
    }
    site.admission.set_mode(Mode::Observe);
    assert_eq!(words(&journal.line().await)[1..5], ["mode", "enforce", "→", "observe"]);

    let pid = journal.process.id().unwrap().to_string();
    assert!(command("kill", &[]).args(["-TERM", &pid]).status().await.unwrap().success());
    let status = bounded("its end", journal.process.wait()).await.unwrap();
    assert_eq!(status.code(), Some(0));
    assert_eq!(journal.lines.next_line().await.unwrap(), None, "nothing was told twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followed_as_json_each_entry_is_a_line_and_what_was_missed_is_told() {
    let site = Site::start(small(8)).await;
    let mut journal = Following::start(&site, &["--json", "--limit", "0"]);
    // It is there once it tells of something.
    let mut before = 0;
    let first = loop {
        site.admission.set_mode(if before % 2 == 0 { Mode::Observe } else { Mode::Enforce });
        before += 1;
        if let Ok(line) = tokio::time::timeout(std::time::Duration::from_millis(200), journal.lines.next_line()).await {
            break line.unwrap().unwrap();
        }
    };
    let first: Value = serde_json::from_str(&first).unwrap();
    assert_eq!((&first["kind"], &first["change"]), (&"change".into(), &"mode".into()));
    for _ in 0..1_000 {
        drop(site.admission.try_admit(Ticket::new()));
    }
    let complaint = journal.complaint().await;
    let (_, rest) = complaint.split_once("admission: ").unwrap();
    let lost: u64 = rest.split_whitespace().next().unwrap().parse().unwrap();
    assert!((900..=992).contains(&lost) && complaint.contains("pushed out"), "{complaint}");
    journal.process.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_starts_anew_is_waited_for_and_its_journal_is_read_from_the_beginning() {
    let site = Site::start(small(64)).await;
    for _ in 0..20 {
        drop(site.admission.try_admit(Ticket::new().label("old")));
    }
    let mut journal = Following::start(&site, &["--limit", "1"]);
    journal.line().await;
    assert!(journal.line().await.contains("old"));
    let address = site.url.trim_start_matches("http://").to_owned();
    drop(site);
    let complaint = journal.complaint().await;
    assert!(complaint.starts_with("admission: http://"), "{complaint}");
    let next = small(64);
    drop(next.try_admit(Ticket::new().label("new")));
    let server = serve_again(&address, &next).await;
    let line = journal.line().await;
    assert!(line.contains("admitted") && line.contains("new"), "{line}");
    let told = async { while !journal.complaint().await.contains("was restarted") {} };
    bounded("that it is another one", told).await;
    journal.process.kill().await.unwrap();
    server.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_ends_when_nobody_reads_on() {
    let site = Site::start(small(64)).await;
    for command_line in ["journal --follow --interval 50ms", "watch --interval 50ms"] {
        drop(site.admission.try_admit(Ticket::new()));
        let mut shell = command("sh", &[("ADMISSION_URL", &site.url)]);
        let mut shell = shell.args(["-c", &format!("{BINARY} {command_line} | head -n 1")]).spawn().unwrap();
        let ended = async {
            while shell.try_wait().unwrap().is_none() {
                drop(site.admission.try_admit(Ticket::new()));
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        bounded(command_line, ended).await;
    }
}
