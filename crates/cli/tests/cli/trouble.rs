//! What is said when there is no server, or another one, or the command line makes no sense.

use axum::{Json, Router, routing::get};
use serde_json::json;
use tokio::{io::AsyncWriteExt, net::TcpListener};

use crate::support::{BINARY, bounded, command, run, serve};

/// Each command that asks a server.
const COMMANDS: [&[&str]; 14] = [
    &["status"],
    &["status", "--json"],
    &["partitions"],
    &["partitions", "--json"],
    &["list"],
    &["describe", "payments"],
    &["describe", "--partition", "default"],
    &["watch", "--count", "1"],
    &["journal"],
    &["journal", "--follow"],
    &["history"],
    &["history", "--json"],
    &["capture"],
    &["what-if"],
];

async fn all_fail(url: &str, why: &str) {
    for command in COMMANDS {
        let said = run(&[command, &["--url", url, "--timeout", "1s"]].concat()).await.with(3);
        assert!(said.contains(why) && said.contains("--url or ADMISSION_URL"), "{command:?} {said}");
        assert!(said.contains(url), "{said}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_missed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    all_fail(&url, "no server listens there").await;
}

#[tokio::test]
async fn a_server_that_says_nothing_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    all_fail(&url, "no answer within 1s").await;
    drop(listener);
}

#[tokio::test]
async fn what_is_no_http_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        loop {
            let mut stream = listener.accept().await.unwrap().0;
            stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n").await.unwrap();
        }
    });
    all_fail(&url, "no answer in HTTP/1.1").await;
    server.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_server_is_told_from_an_introspection() {
    let (url, server) = serve(Router::new().route("/", get(async || "hello"))).await;
    all_fail(&url, "it answers 404 Not Found").await;
    server.abort();
    let page = get(async || axum::response::Html("<html>"));
    let (url, server) = serve(Router::new().fallback(page)).await;
    all_fail(&url, "it answers 200 OK and text/html").await;
    server.abort();
    let (url, server) = serve(Router::new().fallback(get(async || Json(json!({ "up": true }))))).await;
    all_fail(&url, "this is no introspection of tower-admission").await;
    server.abort();
}

#[tokio::test]
async fn a_url_that_is_none_is_a_mistake_of_the_command_line() {
    for url in ["https://127.0.0.1:9901", "gopher://x", "http://", "http://a b"] {
        let said = run(&["list", "--url", url]).await.with(2);
        assert!(said.contains("allowed is something like http://127.0.0.1:9901"), "{said}");
    }
    for arguments in [
        &["lst"][..],
        &[],
        &["describe"],
        &["list", "--status", "busy"],
        &["watch", "--count", "0"],
        &["check"],
        &["journal", "--kind", "rejected"],
        &["journal", "--limit", "few"],
        &["journal", "--interval", "1s"],
    ] {
        run(arguments).await.with(2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_capture_does_a_terminal_no_harm_and_may_be_left_unread() {
    let lines = "{\"label\":\"\u{9b}31m\u{202e}\x1b\"}\n".repeat(10_000) + "begun \u{9b}";
    let lines = get(async move || ([("content-type", "application/x-ndjson")], lines));
    let (url, server) = serve(Router::new().fallback(lines)).await;
    let shown = run(&["capture", "--url", &url]).await.with(0);
    let safe = "{\"label\":\"\\u009b31m\\u202e\\u001b\"}\n".repeat(10_000) + "begun \\u009b";
    assert!(shown == safe, "{}", &shown[..100]);
    let first = format!("set -o pipefail; {BINARY} capture --url {url} | head -n 1");
    let first = bounded("the first line", command("bash", &[]).args(["-c", &first]).output()).await.unwrap();
    assert!(first.status.success() && first.stderr.is_empty(), "{first:?}");
    server.abort();
}
