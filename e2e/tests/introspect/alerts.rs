//! The alert rules as Prometheus evaluates them: `alerts.test.yaml` says when each fires and when it stays silent.

use std::{fs, path::Path, process::Command};

use crate::npm;

/// Whether the rules keep to the file of tests, and what promtool says.
fn judge(name: &str, rules: &str) -> (bool, String) {
    let folder = npm::target().join(format!("alerts-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let tests = include_str!("alerts.test.yaml").replace("../../../dashboards/", "");
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
    let verdict = run(["test", "rules", "alerts.test.yaml"]);
    fs::remove_dir_all(&folder).unwrap();
    verdict
}

fn rules() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboards/alerts.yaml")).unwrap()
}

#[test]
fn alerts_fire_when_they_should_and_stay_silent_when_they_should_not() {
    let (kept, said) = judge("all", &rules());
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
    ] {
        let whole = rules();
        let start = whole.find(&format!("alert: {alert}\n")).unwrap();
        let end = whole[start..].find("- alert: ").map_or(whole.len(), |length| start + length);
        let rule = &whole[start..end];
        assert!(rule.contains(part), "{alert}: {part}");
        let changed = [&whole[..start], &rule.replace(part, instead), &whole[end..]].concat();
        let (kept, said) = judge(alert, &changed);
        assert!(!kept && said.contains(alert), "{alert} without {part}: {said}");
    }
}
