//! Checkers from the npm registry: installed once, at the versions named here, under `target`.

use std::{
    fs,
    path::PathBuf,
    process::Command,
    sync::{Mutex, PoisonError},
};

const PACKAGES: [&str; 6] = [
    "axe-core@4.14.1",
    "@seriousme/openapi-schema-validator@2.11.0",
    "@prometheus-io/lezer-promql@0.315.0",
    "@lezer/highlight@1.2.5",
    "@lezer/lr@1.4.12",
    "yaml@2.9.1",
];

/// Where things go that tests make.
pub(crate) fn target() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("introspect");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The folder in which the checkers are installed.
pub(crate) fn checkers() -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = target().join("npm");
    let (wanted, installed) = (PACKAGES.join(" "), folder.join("installed"));
    if fs::read_to_string(&installed).is_ok_and(|found| found == wanted) {
        return folder;
    }
    let npm = Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--prefix"])
        .arg(&folder)
        .args(PACKAGES)
        .output();
    let output = npm.unwrap_or_else(|error| panic!("npm is needed for this test; .ci/test installs it: {error}"));
    assert!(output.status.success(), "npm install failed: {}", String::from_utf8_lossy(&output.stderr));
    fs::write(installed, wanted).unwrap();
    folder
}
