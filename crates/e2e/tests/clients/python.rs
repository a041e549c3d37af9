//! Programs in Python, with packages from PyPI that are installed under `target`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
};

use serde_json::Value;

/// The folder in which the packages are installed, once, at the versions named here.
fn installed(packages: &[&str]) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let name = packages[0].split("==").next().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let (wanted, installed) = (packages.join(" "), folder.join("installed"));
    if fs::read_to_string(&installed).is_ok_and(|found| found == wanted) {
        return folder;
    }
    // What is left of another version would stay beside this one.
    drop(fs::remove_dir_all(&folder));
    let mut pip = Command::new("python3");
    let output = pip.args(["-m", "pip", "install", "--quiet", "--target"]).arg(&folder).args(packages).output();
    let output =
        output.unwrap_or_else(|error| panic!("python3 is needed for this test; .ci/test installs it: {error}"));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "pip is needed for this test, .ci/test installs it: {told}");
    fs::write(installed, wanted).unwrap();
    folder
}

/// Runs a program with these packages. Returns the JSON that it prints.
pub(super) async fn run<const N: usize>(
    packages: &'static [&'static str],
    program: &'static str,
    arguments: [String; N],
) -> Value {
    let output = tokio::task::spawn_blocking(move || {
        let mut python = Command::new("python3");
        python.args(["-c", program]).args(arguments).env("PYTHONPATH", installed(packages)).output().unwrap()
    });
    let output = output.await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}
