//! Settings that follow a file.

use std::{fs, time::Duration};

use tokio::{sync::mpsc, time::timeout};
use tower_admission::{Admission, Mode, Sources};

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
    });
    let mut next = async || timeout(Duration::from_secs(30), reports.recv()).await.unwrap().unwrap();
    assert_eq!(next().await, Ok(()));
    assert_eq!(admission.snapshot().limit, 7);
    write("limit = 8\nqueue = \"many\"\nlimmit = 3");
    let mistake = next().await.unwrap_err();
    assert!(mistake.contains("queue") && mistake.contains("limmit"), "all of them: {mistake}");
    assert_eq!((admission.snapshot().limit, admission.snapshot().reloads), (7, 1));
    write("limit = 9\nmode = \"observe\"");
    assert_eq!(next().await, Ok(()));
    assert_eq!((admission.snapshot().limit, admission.snapshot().mode), (9, Mode::Observe.as_str()));
    drop(watch);
    fs::remove_file(&path).unwrap();
}
