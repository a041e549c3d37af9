//! Tests that need a process of their own, since resident memory is that of a process.

use std::{env, fs, process::Command};

/// Starts this program again for an ignored test, with a variable that tells it its case. Answers what it reports: the rest of the
/// line after `report: `.
pub(crate) fn report_of(test: &str, variable: &str, case: &str) -> String {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", test, "--nocapture"])
        .env(variable, case)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{case}: {text}{}", String::from_utf8_lossy(&output.stderr));
    let report = text.lines().find_map(|line| line.split_once("report: "));
    report.unwrap_or_else(|| panic!("{case} reports nothing: {text}")).1.to_owned()
}

/// The resident memory of this process in MiB.
pub(crate) fn resident() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<f64>().unwrap() / 1_024.0
}
