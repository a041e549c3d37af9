//! What the compiler says to a newcomer's mistakes, each beside the program as it should be.

use std::{env, fs, path::Path, process::Command};

/// A package of its own: its mistakes are binaries, so that one run of cargo judges them all.
const PACKAGE: &str = r#"
[package]
name = "mistakes"
version = "0.0.0"
edition = "2024"

[workspace]

[dependencies]
axum = { version = "0.8", default-features = false }
http = "1"
tower = { version = "0.5", features = ["util"] }
tower-admission = { path = "ROOT", default-features = false }
"#;

const HEAD: &str = "#![allow(unused)]
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_admission::{*, classify::*, generic::*, response::*};
fn admission() -> Admission { Admission::builder().limit(40).build().unwrap() }
";

/// A name, a mistake with a part of what the compiler says, and the program that is meant.
const MISTAKES: [(&str, &str, &str, &str); 9] = [
    (
        "classifier",
        "fn main() { AdmissionLayer::new(&admission()).classify(\"x-tenant\"); }",
        "`&str` is no classifier of HTTP requests",
        "fn main() { AdmissionLayer::new(&admission()).classify(by_header(\"x-tenant\")); }",
    ),
    (
        "borrowing",
        "fn main() { AdmissionLayer::new(&admission()).classify(|request, ticket| ticket.set_label(\"a\")); }",
        "write `classify_fn(|request, ticket| …)`",
        "fn main() { AdmissionLayer::new(&admission()).classify(classify_fn(|request, ticket| ticket.set_label(\"a\"))); }",
    ),
    (
        "judge",
        "fn main() { AdmissionLayer::new(&admission()).assess(503); }",
        "`{integer}` does not judge HTTP responses",
        "fn main() { AdmissionLayer::new(&admission()).assess(ByStatus::new()); }",
    ),
    (
        "names",
        "fn main() {
            let path = |request: &RequestHead<'_>, ticket: &mut Ticket<'_>| ticket.set_label(request.uri().path());
            AdmissionLayer::new(&admission()).classify(path);
        }",
        "lifetime may not live long enough",
        "fn main() {
            let path = classify_fn(|request, ticket| ticket.set_label(request.uri().path()));
            AdmissionLayer::new(&admission()).classify(path);
        }",
    ),
    (
        "job",
        "struct Job; fn main() {
            let layer = AdmissionLayer::new(&admission()).generic().classify(by_header(\"x-tenant\"));
            takes_jobs(layer.layer(service_fn(async |_: Job| Ok::<_, std::io::Error>(()))));
        }
        fn takes_jobs(_: impl Service<Job>) {}",
        "`KeyExtractor` is no classifier of requests of type `Job`",
        "struct Job; fn main() {
            let layer = AdmissionLayer::new(&admission()).generic();
            takes_jobs(layer.layer(service_fn(async |_: Job| Ok::<_, std::io::Error>(()))));
        }
        fn takes_jobs(_: impl Service<Job>) {}",
    ),
    (
        "service",
        "struct Job; fn main() {
            takes_jobs(AdmissionLayer::new(&admission()).layer(service_fn(async |_: Job| Ok::<_, std::io::Error>(()))));
        }
        fn takes_jobs(_: impl Service<Job>) {}",
        "`AdmissionService<ServiceFn<...>>: Service<...>` is not satisfied",
        "struct Job; fn main() {
            let layer = AdmissionLayer::new(&admission()).generic();
            takes_jobs(layer.layer(service_fn(async |_: Job| Ok::<_, std::io::Error>(()))));
        }
        fn takes_jobs(_: impl Service<Job>) {}",
    ),
    (
        "option",
        "fn main() {
            let layer = Some(AdmissionLayer::new(&admission()));
            let app: axum::Router = axum::Router::new().layer(tower::util::option_layer(layer));
        }",
        "expected `Response<AdmissionBody<Body>>`",
        "fn main() {
            let layer = Some(AdmissionLayer::new(&admission()));
            let layer = layer.map(|it| {
                let as_before = |answer: http::Response<_>| answer.map(axum::body::Body::new);
                tower::ServiceBuilder::new().map_response(as_before).layer(it)
            });
            let app: axum::Router = axum::Router::new().layer(tower::util::option_layer(layer));
        }",
    ),
    (
        "law",
        "fn main() { limit::Limit::per_sample(40); }",
        "`limit(…)` takes a number such as `40`",
        "fn main() { Admission::builder().limit(40).shadow_limit(limit::TwoPoint::new()); }",
    ),
    (
        "answer",
        "fn main() { AdmissionLayer::new(&admission()).respond(|_, _| Some(http::Response::new(5))); }",
        "`{integer}` can't be the body of an answer to a rejected request",
        "fn main() {
            AdmissionLayer::new(&admission()).respond(|_, _| Some(http::Response::new(\"later\")));
            AdmissionLayer::new(&admission()).respond(|_, _| Some(http::Response::new(String::new())));
        }",
    ),
];

#[test]
fn mistakes_get_the_messages_that_the_documentation_explains() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mistakes");
    let binaries = folder.join("src/bin");
    fs::create_dir_all(&binaries).unwrap();
    fs::write(folder.join("Cargo.toml"), PACKAGE.replace("ROOT", root.to_str().unwrap())).unwrap();
    // The versions that the tests have.
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    for (name, mistake, _, meant) in MISTAKES {
        fs::write(binaries.join(format!("{name}_mistaken.rs")), format!("{HEAD}{mistake}")).unwrap();
        fs::write(binaries.join(format!("{name}_meant.rs")), format!("{HEAD}{meant}")).unwrap();
    }
    let check = |suffix: &str| {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .args(["check", "--quiet", "--keep-going"])
            .env("CARGO_TARGET_DIR", folder.join("target"))
            .current_dir(&folder);
        cargo.args(MISTAKES.iter().flat_map(|(name, ..)| ["--bin".to_owned(), format!("{name}_{suffix}")]));
        let output = cargo.output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (is_good, told) = check("meant");
    assert!(is_good, "{told}");
    let (is_good, told) = check("mistaken");
    assert!(!is_good);
    let missing: Vec<_> = MISTAKES.iter().filter(|(_, _, part, _)| !told.contains(part)).collect();
    assert!(missing.is_empty(), "{missing:#?} in {told}");
}
