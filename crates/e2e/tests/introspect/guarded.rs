//! A listener that asks for a token and serves some hosts alone: every path, over real connections, and in a browser.

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{Method, Request, StatusCode, header::WWW_AUTHENTICATE};
use serde_json::Value;
use tower_admission::{Admission, introspection::Introspection, limit::Fixed};

use super::{
    browser::Browser,
    support::{Site, TOKEN},
};

const PATHS: [&str; 16] = [
    "/admission",
    "/admission/",
    "/admission/labels",
    "/admission/labels/a",
    "/admission/labels/a/waiters",
    "/admission/partitions",
    "/admission/partitions/default",
    "/admission/journal",
    "/admission/history",
    "/admission/ready",
    "/admission/ui",
    "/admission/openapi.json",
    "/admission/capture",
    "/admission/workers",
    "/admission/no-such-thing",
    "/elsewhere",
];
const METHODS: [Method; 5] = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::DELETE];

fn admission() -> Admission {
    Admission::builder().name("checkout").limit(Fixed::new(10)).build().unwrap()
}

async fn ask(site: &Site, method: &Method, path: &str, headers: &[(&str, &str)]) -> (StatusCode, String) {
    let request = Request::builder().method(method.clone()).uri(path);
    let request = headers.iter().fold(request, |it, (name, value)| it.header(*name, *value));
    let (status, headers, _) = site.ask(request.body(String::new()).unwrap()).await;
    let challenges: Vec<_> = headers.get_all(WWW_AUTHENTICATE).iter().map(|it| it.to_str().unwrap()).collect();
    (status, challenges.join(" or "))
}

async fn site(admission: &Admission, guard: impl FnOnce(Introspection) -> Introspection) -> Site {
    Site::start_with(admission, guard(admission.introspection())).await
}

#[tokio::test]
async fn every_path_asks_for_the_token() {
    let admission = admission();
    let guarded = site(&admission, |it| it.require_token(TOKEN)).await;
    // The control: without it, each of them answers something else.
    let open = site(&admission, |it| it).await;
    let basic = format!("Basic {}", STANDARD.encode(format!("operator:{TOKEN}")));
    let (mut asked, bearer) = (0, format!("Bearer {TOKEN}"));
    for path in PATHS {
        for method in &METHODS {
            for wrong in [None, Some("Bearer another"), Some("Basic bWU6eW91"), Some("Bearer")] {
                let headers: Vec<_> = wrong.map(|it| ("authorization", it)).into_iter().collect();
                let (status, challenge) = ask(&guarded, method, path, &headers).await;
                assert_eq!(status, 401, "{method} {path} {wrong:?}");
                assert!(challenge.starts_with("Basic realm=") && challenge.ends_with(" or Bearer"), "{challenge}");
                asked += 1;
            }
            let (expected, _) = ask(&open, method, path, &[]).await;
            assert_ne!(expected, 401, "{method} {path}");
            for right in [&bearer, &basic] {
                let (status, _) = ask(&guarded, method, path, &[("authorization", right)]).await;
                assert_eq!(status, expected, "{method} {path}");
            }
        }
    }
    println!("{asked} requests without the token were refused");
}

/// An empty token is a token that was forgotten.
#[tokio::test]
async fn an_empty_token_lets_no_request_in() {
    let site = site(&admission(), |it| it.require_token("")).await;
    for value in ["", "Bearer ", "Basic Og=="] {
        assert_eq!(ask(&site, &Method::GET, "/admission", &[("authorization", value)]).await.0, 401, "{value:?}");
    }
}

/// Heartbeats have a token of their own, which opens nothing else.
#[tokio::test]
async fn a_token_of_a_route_is_that_of_the_route() {
    let site =
        site(&admission(), |it| it.require_token(TOKEN).accept_workers("workers").serve_captures("captures")).await;
    for (method, path, token, status) in [
        (Method::POST, "/admission/workers", "workers", 400),
        (Method::POST, "/admission/workers", TOKEN, 401),
        (Method::GET, "/admission/capture", "captures", 404),
        (Method::GET, "/admission/capture", TOKEN, 401),
        (Method::GET, "/admission", "workers", 401),
        (Method::GET, "/admission", TOKEN, 200),
    ] {
        let (found, _) = ask(&site, &method, path, &[("authorization", &format!("Bearer {token}"))]).await;
        assert_eq!(found.as_u16(), status, "{method} {path} {token}");
    }
}

#[tokio::test]
async fn a_name_that_is_not_served_is_refused_at_every_path() {
    let admission = admission();
    let guarded = site(&admission, |it| it.allow_hosts(["127.0.0.1", "admin.internal"])).await;
    for path in PATHS {
        for method in &METHODS {
            let (status, _) = ask(&guarded, method, path, &[("host", "rebound.example:9901")]).await;
            assert_eq!(status, 421, "{method} {path}");
            let (status, _) = ask(&guarded, method, path, &[("host", "Admin.internal:9901")]).await;
            assert_ne!(status, 421, "{method} {path}");
        }
    }
}

/// A browser brings the token with each question of the page, and the page says what runs there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_shows_a_guarded_page_of_a_program_with_a_version() {
    let guard = |it: Introspection| it.require_token(TOKEN).allow_hosts(["127.0.0.1"]).version("1.4.2 <b>(3fa9c1)</b>");
    let site = site(&admission(), guard).await;
    let browser = Browser::start().await;
    browser.open(&format!("{}/admission/ui", site.admin)).await;
    assert_eq!(browser.value("document.querySelector('#health')").await, Value::Null, "control: no token, no page");
    // As if the operator had been asked: the browser keeps it for this server.
    let (scheme, rest) = site.admin.split_once("://").unwrap();
    browser.open(&format!("{scheme}://operator:{}@{rest}/admission/ready", TOKEN.replace(' ', "%20"))).await;
    browser.open(&format!("{}/admission/ui", site.admin)).await;
    browser.until("document.querySelector('#link').textContent === 'live'").await;
    let identity = browser.value("document.querySelector('#identity').textContent").await;
    assert!(identity.as_str().unwrap().starts_with("1.4.2 <b>(3fa9c1)</b>, up since "), "{identity}");
    assert!(browser.value("document.querySelector('#identity b')").await.is_null(), "it is text");
}
