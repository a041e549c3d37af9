//! What holds for every answer: methods, tags, headers, problems, and names that try to be more than text.

use http::{
    Method, Request, StatusCode,
    header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, WWW_AUTHENTICATE},
};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tower_admission::{Admission, ClassLimits, Rules, Ticket, limit::Fixed};

use super::support::{Site, TOKEN};

fn admission() -> Admission {
    Admission::builder().limit(Fixed::new(10)).rules(Rules::new().class("job", ClassLimits::new())).build().unwrap()
}

fn request(method: Method, path: &str, headers: &[(&str, &str)]) -> Request<String> {
    let request = Request::builder().method(method).uri(path);
    headers.iter().fold(request, |it, (key, value)| it.header(*key, *value)).body(String::new()).unwrap()
}

#[tokio::test]
async fn bodies_have_tags_and_are_not_sent_twice() {
    let site = Site::start(&admission()).await;
    let paths = [
        "/admission",
        "/admission/",
        "/admission/labels",
        "/admission/partitions",
        "/admission/partitions/default",
        "/admission/journal",
    ];
    for path in paths.into_iter().chain(["/admission/ready", "/admission/openapi.json", "/admission/ui"]) {
        let response = site.get(path).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store", "{path}");
        assert_eq!(response.headers()["x-content-type-options"], "nosniff", "{path}");
        let tag = response.headers()[ETAG].to_str().unwrap().to_owned();
        for list in [tag.clone(), format!("\"x\", W/{tag}"), "*".to_owned()] {
            let (status, headers, body) = site.ask(request(Method::GET, path, &[("if-none-match", &list)])).await;
            assert_eq!((status, body.len()), (StatusCode::NOT_MODIFIED, 0), "{path} with {list}");
            assert_eq!(headers[ETAG], tag);
        }
        let (status, headers, body) = site.ask(request(Method::HEAD, path, &[])).await;
        assert_eq!((status, body.len()), (StatusCode::OK, 0), "{path}");
        assert_eq!(headers[CONTENT_LENGTH], response.body().len().to_string(), "{path}");
        let (status, ..) = site.ask(request(Method::GET, path, &[("if-none-match", "\"other\"")])).await;
        assert_eq!(status, StatusCode::OK, "{path}");
    }
    let before = site.get("/admission/labels").await.headers()[ETAG].clone();
    site.quick(1, &[("x-label", "new")]).await;
    assert_ne!(site.get("/admission/labels").await.headers()[ETAG], before, "another body has another tag");
}

#[tokio::test]
async fn what_is_not_there_is_a_problem() {
    let site = Site::start(&admission()).await;
    for (method, path, status) in [
        (Method::GET, "/", 404),
        (Method::GET, "/admissions", 404),
        (Method::GET, "/admission/label", 404),
        (Method::GET, "/admission/labels/a", 404),
        (Method::GET, "/admission/labels/a/b", 404),
        (Method::GET, "/admission/partitions/x", 404),
        (Method::GET, "/admission/labels/%ff", 400),
        (Method::GET, "/admission/labels?limit=1001", 400),
        (Method::GET, "/admission/labels?colour=red", 400),
        (Method::GET, "/admission?sort=colour", 400),
        (Method::GET, "/admission/journal?since=-1", 400),
        (Method::GET, "/admission/journal?kind=limit", 400),
        (Method::GET, "/admission/journal?offset=1", 400),
        (Method::GET, "/admission/journal/1", 404),
        (Method::POST, "/admission", 405),
        (Method::DELETE, "/admission/labels", 405),
        (Method::GET, "/admission/workers", 405),
    ] {
        let (found, headers, body) = site.ask(request(method.clone(), path, &[])).await;
        assert_eq!(found.as_u16(), status, "{method} {path}");
        assert_eq!(headers[CONTENT_TYPE], "application/problem+json", "{path}");
        assert_eq!(headers.contains_key(ALLOW), status == 405, "{path}");
        let problem: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(problem["status"], status);
        assert!(!problem["detail"].as_str().unwrap().is_empty() && problem["title"].is_string(), "{problem}");
    }
}

#[tokio::test]
async fn names_are_text_whatever_they_look_like() {
    let admission = admission();
    let site = Site::start(&admission).await;
    let name = "</script><img src=x onerror=alert(1)>/../%2F:ü?&";
    drop(admission.try_admit(Ticket::new().namespace("n/1").label(name)).unwrap());
    let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let label = site.json(&format!("/admission/labels/{encoded}?namespace=n%2F1")).await;
    assert_eq!((&label["label"], &label["namespace"]), (&json!(name), &json!("n/1")));
    let list = site.get("/admission/labels").await;
    assert_eq!(list.headers()[CONTENT_TYPE], "application/json");
}

#[tokio::test]
async fn ten_thousand_labels_come_a_page_at_a_time() {
    let admission = admission();
    for i in 0..10_000 {
        let namespace = if i % 2 == 0 { "even" } else { "odd" };
        drop(admission.try_admit(Ticket::new().namespace(namespace).label(format!("label-{i:05}"))).unwrap());
    }
    let _busy: Vec<_> = (0..3).map(|_| admission.try_admit(Ticket::new().label("label-busy")).unwrap()).collect();
    let site = Site::start(&admission).await;
    let first = site.get("/admission/labels").await;
    assert!(first.body().len() < 100_000, "{} bytes", first.body().len());
    assert!(site.get("/admission").await.body().len() < 100_000);
    let first: Value = serde_json::from_slice(first.body()).unwrap();
    assert_eq!(
        (&first["total"], &first["matched"], &first["next_offset"]),
        (&json!(10_000), &json!(10_000), &json!(100))
    );

    // All pages together are all labels, each once and in order.
    let (mut names, mut offset) = (Vec::new(), Some(0));
    while let Some(at) = offset {
        let page = site.json(&format!("/admission/labels?limit=1000&offset={at}&namespace=odd")).await;
        names.extend(page["labels"].as_array().unwrap().iter().map(|it| it["label"].as_str().unwrap().to_owned()));
        offset = page["next_offset"].as_u64();
    }
    assert_eq!(names.len(), 5_000);
    assert!(names.is_sorted() && names[0] == "label-00001");

    let busiest = site.json("/admission/labels?sort=leased&order=desc&limit=1").await;
    assert_eq!(busiest["labels"][0]["label"], "label-busy");
    let few = site.json("/admission/labels?prefix=label-0012&order=desc").await;
    assert_eq!((&few["matched"], &few["labels"][0]["label"]), (&json!(10), &json!("label-00129")));
    assert_eq!(site.json("/admission/labels?contains=busy").await["matched"], 1);
    assert_eq!(site.json("/admission/labels?status=throttled").await["matched"], 0);
    assert_eq!(few["by_status"], json!({"accepting": 10}));
}

#[tokio::test]
async fn heartbeats_are_off_unless_asked_for_and_need_the_token() {
    let admission = admission();
    let post = |token: Option<&str>, body: &str| {
        let headers = token.map(|token| ("authorization", token));
        let mut it = request(Method::POST, "/admission/workers", headers.as_slice());
        *it.body_mut() = body.to_owned();
        it
    };
    let body = r#"{"worker_id": "w", "task_queue": "a", "max_concurrent": 1}"#;
    let token = format!("Bearer {TOKEN}");
    for introspection in [admission.introspection(), admission.introspection().accept_workers("")] {
        let off = Site::start_with(&admission, introspection).await;
        assert_eq!(off.ask(post(Some(&token), body)).await.0, StatusCode::NOT_FOUND);
        assert_eq!(off.ask(post(Some("Bearer "), body)).await.0, StatusCode::NOT_FOUND);
    }
    let on = Site::start(&admission).await;
    for wrong in [None, Some("Bearer "), Some("Bearer wrong"), Some(TOKEN), Some("Basic YQ==")] {
        let (status, headers, _) = on.ask(post(wrong, body)).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{wrong:?}");
        assert_eq!(headers[WWW_AUTHENTICATE], "Bearer");
    }
    assert!(admission.label("", "a").is_none(), "nothing was noted");
    let long = format!("{body}{}", " ".repeat(20_000));
    for (wrong, status) in [
        ("", 400),
        ("[]", 400),
        (r#"{"worker_id": "w", "max_concurrent": 1}"#, 400),
        (r#"{"worker_id": "w", "task_queue": "a"}"#, 400),
        (r#"{"worker_id": "w", "task_queue": "a", "max_concurrent": -1}"#, 400),
        (r#"{"worker_id": "w", "task_queue": "a", "max_concurrent": 1, "ttl": 86401}"#, 400),
        (r#"{"worker_id": "w", "task_queue": "a", "max_concurrent_unknown": 1}"#, 400),
        (r#"{"worker_id": " ", "task_queue": "a", "max_concurrent": 1}"#, 422),
        (&long, 413),
    ] {
        assert_eq!(on.ask(post(Some(&token), wrong)).await.0.as_u16(), status, "{wrong:.80}");
    }
    assert!(admission.label("", "a").is_none(), "nothing was noted");
    assert_eq!(on.ask(post(Some(&token), body)).await.0, StatusCode::NO_CONTENT);
    assert_eq!(admission.label("", "a").unwrap().worker_slots, Some(1));
    let debug = format!("{:?}", admission.introspection().accept_workers(TOKEN));
    assert!(!debug.contains(TOKEN), "{debug}");
}

#[tokio::test]
async fn it_is_served_without_a_framework() {
    let admission = admission();
    let (ours, theirs) = tokio::io::duplex(4_096);
    let service = admission.introspection().accept_workers(TOKEN);
    let server = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(theirs), service);
    tokio::spawn(server);
    let (mut client, connection) = hyper::client::conn::http1::handshake(TokioIo::new(ours)).await.unwrap();
    tokio::spawn(connection);
    let mut post = request(Method::POST, "/admission/workers", &[("authorization", &format!("bearer {TOKEN}"))]);
    *post.body_mut() = r#"{"worker_id": "w", "task_queue": "a", "max_concurrent_job": 7}"#.to_owned();
    let answer = client.send_request(post).await.unwrap();
    assert_eq!(answer.status(), StatusCode::NO_CONTENT);
    let answer = client.send_request(request(Method::GET, "/admission/labels/a", &[])).await.unwrap();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let label: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(label["admission"]["job"]["configured_slot_count"], 7);
}
