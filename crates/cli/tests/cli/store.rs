//! `check` judges what a file says of the store without a client of it: the command as it is installed has none.

use serde_json::json;
use tower_admission::{AdmissionBuilder, configuration::AdmissionConfig};

use crate::{
    offline::File,
    support::{bounded, run},
};

const RULES: &str = "[classes.mail]\nmax_in_flight = { max = 4, on_store_failure = \"local_share\", instances = 3 }\n\
                     [overrides.\"hub:*\".mail]\nmax_per_minute = { max = 60, local = true }\n";

#[tokio::test]
async fn every_kind_of_address_is_accepted_and_nothing_is_connected_to() {
    // A server that would notice.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let here = listener.local_addr().unwrap();
    for url in [
        format!("redis://{here}/"),
        format!("redis://user:p%40ss@{here}/3?protocol=resp3"),
        format!("rediss://:secret@{here}/0"),
        format!("rediss://{here}/#insecure"),
        format!("valkey://{here}"),
        format!("valkeys://{here}"),
        "redis://[::1]:6379".to_owned(),
        "unix:///run/redis.sock?db=2&pass=secret".to_owned(),
    ] {
        let file = File::new("store.toml", &format!("[store]\nurl = \"{url}\"\nprefix = \"shop\"\n{RULES}"));
        let check = run(&["check", file.path(), "--deny-warnings"]).await.with(0);
        assert_eq!(check, "the configuration can be used\n", "{url}");
        let key = run(&["check", file.path(), "--key", "hub:orders", "--class", "mail", "--json"]).await.json();
        let rules = key["key"]["classes"]["mail"].as_array().unwrap();
        let bounds: Vec<_> = rules.iter().map(|rule| (&rule["rule"], &rule["bound"])).collect();
        assert_eq!(bounds, [(&json!("max_in_flight"), &json!(4)), (&json!("max_per_minute"), &json!(60))], "{url}");
    }
    let none = tokio::time::timeout(std::time::Duration::ZERO, listener.accept()).await;
    assert!(none.is_err(), "nothing came");
    let client = tokio::net::TcpStream::connect(here).await.unwrap();
    assert_eq!(bounded("control", listener.accept()).await.unwrap().1, client.local_addr().unwrap());
}

#[tokio::test]
async fn an_address_that_can_not_be_read_is_told_with_its_line_and_not_repeated() {
    for (url, part) in [
        ("http://user:planted@10.0.0.5/", "redis://"),
        ("redis://user:planted@/", "host"),
        ("redis://user:planted@10.0.0.5:70000/", "port"),
        ("rediss://user:planted@10.0.0.5/zero", "database"),
        ("planted", "redis://"),
    ] {
        let file = File::new("address.toml", &format!("queue = 5\n[store]\nurl = \"{url}\"\n"));
        let said = run(&["check", file.path()]).await.with(1);
        assert!(said.contains("address.toml:3:7: store.url: ") && said.contains(part), "{url}: {said}");
        assert!(!said.contains("planted"), "{said}");
    }
}

#[tokio::test]
async fn a_star_that_matches_nothing_is_a_problem() {
    for key in ["*:payments", "prod*", "production:pay*"] {
        let file = File::new("star.toml", &format!("[overrides.\"{key}\".mail]\nmax_in_flight = 2\n"));
        let said = run(&["check", file.path()]).await.with(1);
        let wanted = format!("star.toml:1:1: overrides.{key}.mail: found a * that matches nothing");
        assert!(said.contains(&wanted), "{said}");
    }
}

/// Tests of the whole workspace build the library with all features; the command by itself has no client of a store.
#[test]
fn a_handle_for_a_store_has_its_client_or_says_so() {
    let text = "[store]\nurl = \"rediss://127.0.0.1/\"";
    let config: AdmissionConfig = toml::from_str(text).unwrap();
    match AdmissionBuilder::from(config).build() {
        Ok(admission) => assert!(admission.snapshot().store.is_some()),
        Err(error) => {
            assert_eq!(error.problems()[0].path(), "store.url");
            assert!(error.to_string().contains("without the feature redis"), "{error}");
        }
    }
}
