//! The store of shared rules, as settings: what they mean, and that an address is a secret.

use tower_admission::{
    Admission, AdmissionBuilder, ClassLimits,
    configuration::{AdmissionConfig, OnStoreFailureConfig, Sources},
};

const SECRET: &str = "planted-password";

fn problems(text: &str) -> String {
    Sources::new().toml("admission.toml", text).load().unwrap_err().to_string()
}

fn loads(text: &str) -> AdmissionConfig {
    Sources::new().toml("admission.toml", text).load().unwrap().into_config()
}

#[test]
fn a_rule_says_for_itself_what_becomes_of_it() {
    let config = loads(
        "[store]\nprefix = \"shop\"\non_store_failure = \"local-share\"\ninstances = 3\n\
         [classes.run]\nmax_in_flight = { max = 2, when_full = \"reject\", on_store_failure = \"open\" }\n\
         max_per_minute = { max = 60, mode = \"smooth\", local = true }\n\
         max_per_minute_per_namespace = { max = 90, on_store_failure = \"local_share\", instances = 4 }",
    );
    assert_eq!(config.store.on_store_failure, OnStoreFailureConfig::LocalShare);
    let text = config.to_toml();
    for part in ["on_store_failure = \"open\"", "local = true", "instances = 4", "prefix = \"shop\""] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(AdmissionConfig::from_toml(&text).unwrap(), config);
    let plain = loads("[classes.run]\nmax_in_flight = 2");
    assert_eq!(plain.classes["run"], ClassLimits::new().max_in_flight(2), "control: nothing is said");
}

#[test]
fn what_is_missing_or_too_much_is_told_where_it_stands() {
    let said = problems("queue = 5\n[store]\non_store_failure = \"local_share\"\nprefix = \"a{b\"\nexpiry = \"1ms\"");
    for part in
        ["store.instances: found none", "admission.toml:4:10: store.prefix: ", "admission.toml:5:10: store.expiry: "]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = problems(
        "[classes.run]\nmax_in_flight = { max = 2, on_store_failure = \"local_share\" }\n\
         max_per_minute = { max = 2, instances = 3 }",
    );
    for part in
        ["classes.run.max_in_flight: instances is missing", "classes.run.max_per_minute.instances: found instances"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(problems("[store]\non_store_failure = \"opne\"").contains("did you mean \"open\"?"));
}

#[test]
fn an_address_is_shown_nowhere() {
    let url = format!("nonsense://user:{SECRET}@127.0.0.1:1/");
    let text = format!("[store]\nurl = \"{url}\"");
    let mut seen = problems(&text);
    assert!(seen.contains("admission.toml:2:7: store.url: "), "{seen}");
    seen += &problems(&format!("[store]\nurl = [\"{SECRET}\"]"));
    let sources = || Sources::new().variables([("TOWER_ADMISSION_STORE_URL", url.clone())]);
    seen += &sources().load().unwrap_err().to_string();
    assert!(!seen.contains(SECRET), "{seen}");
}

#[test]
fn nor_is_one_that_can_be_used() {
    let url = format!("redis://user:{SECRET}@127.0.0.1:1/");
    let loaded = Sources::new().variables([("TOWER_ADMISSION_STORE_URL", url.clone())]).load().unwrap();
    let mut seen = format!("{loaded:?}");
    let effective: Vec<_> = loaded.effective().iter().filter(|one| one.path.starts_with("store.")).collect();
    assert_eq!(effective.len(), 9, "{effective:?}");
    seen += &format!("{effective:?}{:?}", AdmissionBuilder::from(loaded.config().clone()));
    let admission = AdmissionBuilder::from(loaded.config().clone()).build().unwrap();
    seen += &format!("{admission:?}{:?}", admission.snapshot());
    assert!(admission.snapshot().store.is_some());
    assert!(!seen.contains(SECRET), "{seen}");
    assert!(loaded.config().to_toml().contains(SECRET), "control: written for good, it is there");
}

#[test]
fn a_reload_can_not_move_to_another_store() {
    let with = |port: u16, more: &str| {
        let text = format!("queue = {port}\n[store]\nurl = \"redis://127.0.0.1:{port}/\"\n{more}");
        AdmissionBuilder::from(loads(&text))
    };
    let admission = with(1, "").build().unwrap();
    admission.reload(with(1, "on_store_failure = \"open\"")).unwrap();
    let paths = |error: tower_admission::BuildError| -> Vec<String> {
        error.problems().iter().map(|problem| problem.path().to_owned()).collect()
    };
    assert_eq!(paths(admission.reload(with(2, "timeout = \"70ms\"")).unwrap_err()), ["store.url", "store.timeout"]);
    assert_eq!(admission.snapshot().queue, 1, "nothing was changed");
    assert_eq!(paths(admission.reload(AdmissionBuilder::from(loads(""))).unwrap_err()), ["store.url"], "it is gone");
    admission.reload(Admission::builder()).unwrap();

    let without = Admission::builder().build().unwrap();
    assert_eq!(paths(without.reload(with(1, "")).unwrap_err()), ["store.url"]);
}

#[tokio::test]
async fn who_follows_a_file_is_told_of_what_can_not_be_changed() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("store-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("admission.toml");
    let write = |port: u16| std::fs::write(&file, format!("[store]\nurl = \"redis://127.0.0.1:{port}/\"")).unwrap();
    write(1);
    let sources = Sources::new().file(&file);
    let admission = AdmissionBuilder::from(sources.load().unwrap().into_config()).build().unwrap();
    let (told, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let _watch = admission.watch(sources, std::time::Duration::from_millis(5), move |outcome| {
        told.send(outcome.map_err(|error| error.to_string())).unwrap();
    });
    let wait = std::time::Duration::from_secs(60);
    // What the handle was made from is no news: the first report is about the change.
    write(2);
    let outcome = tokio::time::timeout(wait, hears.recv()).await.unwrap().unwrap();
    assert!(outcome.as_ref().is_err_and(|said| said.contains("store.url: ")), "{outcome:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}
