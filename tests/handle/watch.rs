//! Settings that follow a file.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use admission_testkit::eventually;
use tokio::{sync::mpsc, time::timeout};
use tower_admission::{Admission, AdmissionBuilder, Mode, Ticket, configuration::Sources};

use super::ms;

#[tokio::test]
async fn a_file_is_followed_and_a_bad_one_changes_nothing() {
    let path = std::env::temp_dir().join(format!("tower-admission-watch-{}.toml", std::process::id()));
    // Replaced rather than written in place: a reader finds the old one or the new one.
    let write = |text: &str| {
        let new = path.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(&new, &path).unwrap();
    };
    write("limit = 7");
    let admission = Admission::builder().build().unwrap();
    let (report, mut reports) = mpsc::unbounded_channel();
    let watch = admission.watch(Sources::new().file(&path), ms(5), move |outcome| {
        let _ = report.send(outcome.map_err(|error| error.to_string()));
        panic!("the files are followed all the same");
    });
    let mut next = async || timeout(Duration::from_secs(30), reports.recv()).await.unwrap().unwrap();
    assert_eq!(next().await, Ok(()));
    assert_eq!(admission.snapshot().limit, 7);
    write("limit = 8\nqueue = \"many\"\nlimmit = 3");
    let mistake = next().await.unwrap_err();
    assert!(mistake.contains("queue") && mistake.contains("limmit"), "all of them: {mistake}");
    assert_eq!((admission.snapshot().limit, admission.snapshot().reloads), (7, 1));
    let warning = admission.warnings().concat();
    assert!(warning.starts_with("the last reload failed") && warning.contains("limmit"), "{warning}");
    assert!(!warning.contains('\n'), "{warning}");
    // As it was: there is nothing to take, and nothing to warn of.
    write("limit = 7");
    eventually("there is no warning", || admission.warnings().is_empty()).await;
    // What can't be taken is warned of again once a mistake after it has ended.
    let with_store = "limit = 8\n[store]\nurl = \"redis://127.0.0.1:1/\"";
    for text in [with_store, "limit = = 8"] {
        write(text);
        assert!(next().await.is_err());
    }
    write(with_store);
    eventually("it warns", || admission.warnings().concat().contains("store.url")).await;
    assert_eq!(admission.snapshot().limit, 7);
    write("limit = 9\nmode = \"observe\"");
    assert_eq!(next().await, Ok(()));
    assert_eq!((admission.snapshot().limit, &*admission.snapshot().mode), (9, Mode::Observe.as_str()));
    drop(watch);
    fs::remove_file(&path).unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn a_pipe_in_place_of_a_file_is_a_mistake_and_a_link_to_a_file_is_none() {
    let path = |ending| std::env::temp_dir().join(format!("tower-admission-pipe-{}.{ending}", std::process::id()));
    let [link, file, pipe] = ["toml", "file", "pipe"].map(path);
    let lead_to = |target: &std::path::Path| {
        std::os::unix::fs::symlink(target, path("new")).unwrap();
        fs::rename(path("new"), &link).unwrap();
    };
    fs::write(&file, "limit = 7").unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    lead_to(&file);
    let admission = Admission::builder().build().unwrap();
    let (report, mut reports) = mpsc::unbounded_channel();
    let watch = admission.watch(Sources::new().file(&link), ms(5), move |outcome| {
        let _ = report.send(outcome.map_err(|error| error.to_string()));
    });
    let mut next = async || timeout(Duration::from_secs(30), reports.recv()).await;
    assert_eq!(next().await.unwrap(), Some(Ok(())));
    lead_to(&pipe);
    let told = next().await;
    // Ends a read of the pipe, which would keep the runtime from its end.
    drop(fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap());
    let mistake = told.expect("nobody waits for the pipe").unwrap().unwrap_err();
    assert!(mistake.contains("can't be read: not a regular file"), "{mistake}");
    assert!(admission.warnings().concat().contains("not a regular file"));
    fs::write(&file, "limit = 8").unwrap();
    lead_to(&file);
    assert_eq!(next().await.unwrap(), Some(Ok(())));
    assert_eq!(admission.snapshot().limit, 8);
    drop(watch);
    [link, file, pipe].iter().for_each(|it| fs::remove_file(it).unwrap());
}

#[tokio::test]
async fn settings_that_a_handle_was_made_from_are_not_taken_anew() {
    let path = std::env::temp_dir().join(format!("tower-admission-start-{}.toml", std::process::id()));
    let write = |text: &str| {
        let new = path.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(&new, &path).unwrap();
    };
    write("limit = 7\nmode = \"observe\"");
    let sources = || Sources::new().file(&path);
    let admission = AdmissionBuilder::from(sources().load().unwrap().into_config()).build().unwrap();
    // What was changed by hand since stays as it is.
    admission.set_mode(Mode::Enforce);
    let (report, mut reports) = mpsc::unbounded_channel();
    let looks = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&looks);
    let watched = sources().code(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let watch = admission.watch(watched, ms(5), move |outcome| {
        let _ = report.send(outcome.map_err(|error| error.to_string()));
    });
    eventually("there were five looks", || looks.load(Ordering::Relaxed) >= 5).await;
    assert!(reports.try_recv().is_err(), "nothing has changed in five looks");
    assert_eq!((admission.snapshot().reloads, &*admission.snapshot().mode), (0, Mode::Enforce.as_str()));

    write("limit = 8\nmode = \"observe\"");
    let change = timeout(Duration::from_secs(30), reports.recv()).await.unwrap().unwrap();
    assert_eq!((change, admission.snapshot().limit), (Ok(()), 8));
    drop(watch);

    // Settings that a reload brought are known as well; others than those of the sources are not.
    let reload = |admission: &Admission, limit: &str| {
        write(limit);
        admission.reload(AdmissionBuilder::from(sources().load().unwrap().into_config())).unwrap();
    };
    reload(&admission, "limit = 9");
    write("limit = 10");
    let (report, mut reports) = mpsc::unbounded_channel();
    let watch = admission.watch(sources(), ms(5), move |outcome| {
        let _ = report.send(outcome.is_ok());
    });
    assert_eq!(timeout(Duration::from_secs(30), reports.recv()).await.unwrap(), Some(true));
    assert_eq!((admission.snapshot().limit, admission.snapshot().reloads), (10, 3));
    drop(watch);
    fs::remove_file(&path).unwrap();
}

#[test]
fn a_reload_takes_the_mode_of_a_configuration_and_leaves_it_to_settings_in_code() {
    let observing = Sources::new().toml("a file", "limit = 1\nmode = \"observe\"\nwait_timeout = \"0s\"");
    let admission = Admission::builder().limit(10).build().unwrap();
    admission.reload(AdmissionBuilder::from(observing.load().unwrap().into_config())).unwrap();
    let permits: Vec<_> = (0..3).map(|_| admission.try_admit(Ticket::new()).unwrap()).collect();
    admission.reload(Admission::builder().limit(2)).unwrap();
    assert_eq!((permits.len(), &*admission.snapshot().mode), (3, Mode::Observe.as_str()));
    let changed = AdmissionBuilder::from(observing.load().unwrap().into_config()).mode(Mode::Enforce);
    admission.reload(changed).unwrap();
    assert_eq!(admission.snapshot().mode, Mode::Enforce.as_str(), "what is set on top of a configuration");
}
