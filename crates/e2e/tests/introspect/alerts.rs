//! The alert rules as Prometheus evaluates them: `alerts.test.yaml` says when each fires and when it stays silent.

use std::{fs, path::Path, process::Command};

use super::npm;

const TESTS: &str = include_str!("alerts.test.yaml");

/// The part of the file of tests that is about an alert: all of it takes seconds.
fn tests_of(alert: &str) -> String {
    let (head, tests) = TESTS.split_once("tests:\n").expect("a list of tests");
    let named = [format!("alertname: {alert}\n"), format!("alertname: {alert} }}")];
    let is_about = |test: &&str| named.iter().any(|named| test.contains(named));
    let about: String = tests.split_inclusive("\n\n").filter(is_about).collect();
    format!("{head}tests:\n{about}")
}

/// Whether the rules keep to the tests, and what promtool says.
fn judge(name: &str, rules: &str, tests: &str) -> (bool, String) {
    let folder = npm::target().join(format!("alerts-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let tests = tests.replace("../../../../examples/dashboards/", "");
    fs::write(folder.join("alerts.yaml"), rules).unwrap();
    fs::write(folder.join("alerts.test.yaml"), tests).unwrap();
    let run = |arguments: [&str; 3]| {
        let output = Command::new("promtool").args(arguments).current_dir(&folder).output();
        let output = output.unwrap_or_else(|error| panic!("promtool is needed; .ci/test installs it: {error}"));
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (output.status.success(), said)
    };
    let (checked, said) = run(["check", "rules", "alerts.yaml"]);
    assert!(checked, "{said}");
    let health = run(["test", "rules", "alerts.test.yaml"]);
    fs::remove_dir_all(&folder).unwrap();
    health
}

fn rules() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/dashboards/alerts.yaml")).unwrap()
}

#[test]
fn alerts_fire_when_they_should_and_stay_silent_when_they_should_not() {
    let (kept, said) = judge("all", &rules(), TESTS);
    assert!(kept, "{said}");
}

#[test]
fn every_part_of_the_rules_is_needed() {
    let reasons = r#"{reason=~"deadline|gate_full|gate_timeout|limit|pushed_out|queue_full|queue_timeout"}"#;
    let long_ago = "admission_mode{mode=\"enforce\"}[1h])) == 0\n        for: 1d";
    for (alert, part, instead) in [
        ("AdmissionSaturated", "for: 15m", "for: 0m"),
        ("AdmissionSaturated", "ratio[2m]) >= 0.95", "ratio[1s]) >= 0.95"),
        ("AdmissionDoesNotEnforce", long_ago, "admission_mode{mode=\"enforce\"}[1d])) == 0"),
        ("AdmissionDoesNotEnforce", "[1h]", "[1m]"),
        ("AdmissionRejects", reasons, ""),
        ("AdmissionRejects", "queue_timeout", "no_such_reason"),
        ("AdmissionRejects", "gate_timeout", "no_such_reason"),
        ("AdmissionRejects", "|limit|", "|limit|draining|"),
        (
            "AdmissionDrainsForLong",
            "min_over_time(admission_draining[2m]) == 1\n        for: 10m",
            "admission_draining == 1",
        ),
        ("AdmissionRejects", "limiter, partition)", "limiter)"),
        ("AdmissionRejects", "            > 0.1\n", ""),
        ("AdmissionRejectsMany", reasons, ""),
        ("AdmissionRejectsMany", "            > 1\n", ""),
        ("AdmissionRejectsMany", "> 0.35", "> 0.2"),
        ("AdmissionRejectsMany", "for: 30s", "for: 0s"),
        ("AdmissionSlotsDoNotComeBack", "0.25 *", "0.2 *"),
        ("AdmissionSlotsDoNotComeBack", "for: 45s", "for: 0s"),
        ("AdmissionDrainRefuses", "for: 2m", "for: 0m"),
        ("AdmissionCallersLeave", "[1m]", "[1s]"),
        ("AdmissionCallersLeave", "for: 45s", "for: 0s"),
        ("AdmissionOverloaded", "[2m]", "[1s]"),
        ("AdmissionOverloaded", "min_over_time", "max_over_time"),
        ("AdmissionOverloaded", "for: 5m", "for: 0m"),
        ("AdmissionQueueFills", "0.8 *", "0.6 *"),
        ("AdmissionQueueFills", "for: 2m", "for: 0m"),
        ("AdmissionWaitsLong", "wait_seconds_count[5m])) > 0.1", "wait_seconds_count[5m])) > 0"),
        ("AdmissionWaitsLong", "> 5\n", "> 50\n"),
        ("AdmissionLimitFell", "and count_over_time(admission_limit[30m] offset 6h) > 0", ""),
        ("AdmissionLimitFell", "0.25 *", "0.75 *"),
        ("AdmissionSlotsTakenBack", "increase(admission_expired_slots_total[15m])", "admission_expired_slots_total"),
        (
            "AdmissionLabelsOverflow",
            "increase(admission_labels_overflowed_total[15m])",
            "admission_labels_overflowed_total",
        ),
        ("AdmissionLawPanics", "increase(admission_law_panics_total[15m])", "admission_law_panics_total"),
        (
            "AdmissionLeasesLost",
            "increase(admission_store_leases_lost_total[15m])",
            "admission_store_leases_lost_total",
        ),
        ("AdmissionLabelWaitsInVain", "[5m])) > 0.1)", "[5m])) > 0)"),
        ("AdmissionLabelWaitsInVain", "{outcome=\"timeout\"}", ""),
        ("AdmissionLockContended", "[5m])) > 0.1)", "[5m])) > 0)"),
        ("AdmissionLockFails", "for: 5m", "for: 0m"),
        ("AdmissionStoreSlow", "min_over_time", "max_over_time"),
        ("AdmissionStoreSlow", "for: 5m", "for: 0m"),
        ("AdmissionThrottles", "> 0.5", "> 0.1"),
        ("AdmissionThrottles", "            > 0.1\n", ""),
        ("AdmissionThrottles", "|label_cap|", "|label_cap|limit|"),
        ("AdmissionThrottles", "for: 5m", "for: 0m"),
        ("AdmissionNoAnswer", "last_over_time(admission_limit[1h]) and on (job, instance) up", "up"),
        ("AdmissionNoAnswer", "last_over_time(admission_limit[1h])", "admission_limit"),
        ("AdmissionNoAnswer", "for: 1m", "for: 0m"),
        ("AdmissionStoreGone", "max_over_time", "min_over_time"),
        ("AdmissionStoreGone", "for: 1m", "for: 0m"),
    ] {
        let whole = rules();
        let start = whole.find(&format!("alert: {alert}\n")).unwrap();
        let end = whole[start..].find("- alert: ").map_or(whole.len(), |length| start + length);
        let rule = &whole[start..end];
        assert!(rule.contains(part), "{alert}: {part}");
        let changed = [&whole[..start], &rule.replace(part, instead), &whole[end..]].concat();
        let (kept, said) = judge(alert, &changed, &tests_of(alert));
        assert!(!kept && said.contains(alert), "{alert} without {part}: {said}");
    }
}

/// Each rule leads to a section of the page that says what to do.
#[test]
fn each_rule_has_a_section_of_the_runbook() {
    let page = include_str!("../../../../src/docs/runbook.md");
    let anchor = |heading: &str| heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    let anchors: Vec<String> = page.lines().filter(|line| line.starts_with('#')).map(anchor).collect();
    let base = "https://docs.rs/tower-admission/latest/tower_admission/docs/runbook/index.html#";
    let rules = rules();
    let parts: Vec<&str> = rules.split("- alert: ").skip(1).collect();
    for rule in &parts {
        let url = rule.lines().find_map(|line| line.trim().strip_prefix("runbook_url: ")).expect(rule);
        let anchor = url.strip_prefix(base).expect(url);
        assert!(anchors.iter().any(|known| known == anchor), "{anchor} is no section of the runbook");
    }
    assert!(parts.len() >= 19);
    // Each is tested: it fires somewhere.
    let fires = |name: &str| {
        let mut asserted = TESTS.split("alertname: ").skip(1).filter(|part| part.lines().next() == Some(name));
        asserted.any(|part| part.trim_start_matches(name).trim_start().starts_with("exp_alerts"))
    };
    for rule in &parts {
        let name = rule.lines().next().unwrap();
        assert!(fires(name), "{name} is not seen to fire");
    }
    assert!(!fires("AdmissionNoSuchAlert"));
}
