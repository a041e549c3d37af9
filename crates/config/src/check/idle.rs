//! Settings that are allowed and change nothing.

use crate::{Derived, settings::layer::AdmissionConfig};
use tower_admission_engine::plan::{Places, Plan, matching::has_wildcard};

/// Every setting that has no effect beside the others, with what it needs.
pub(super) fn idle(plan: &Plan, values: &AdmissionConfig) -> Vec<String> {
    let capture = idle_capture(values, cfg!(feature = "capture"));
    let all = [idle_wait(plan, values), capture, idle_weights(plan, values), idle_wildcards(values)];
    all.into_iter().flatten().map(str::to_owned).collect()
}

fn idle_wait(plan: &Plan, values: &AdmissionConfig) -> Option<&'static str> {
    match plan.queue {
        None if matches!(values.max_wait, Derived::Set(Some(_))) => {
            Some("max_wait has no effect without a queue: set wait_timeout instead")
        }
        Some(_) if values.wait_timeout.is_set() => {
            Some("wait_timeout has no effect with a queue: set admission_timeout and max_wait instead")
        }
        _ => None,
    }
}

fn idle_capture(values: &AdmissionConfig, has_feature: bool) -> Option<&'static str> {
    let wants_any = values.capture_last.is_some_and(|it| !it.is_zero());
    (wants_any && !has_feature)
        .then_some("capture_last has no effect: the program was built without the feature capture")
}

/// Weights are turns among waiters. Beside partitions a request may wait for a part of its share, whatever is set.
fn idle_weights(plan: &Plan, values: &AdmissionConfig) -> Option<&'static str> {
    let labels = &values.labels;
    let has_weights = !labels.weights.is_empty() || labels.only.iter().any(|only| only.weight.is_some());
    let is_idle = [&plan.line, &plan.gate].into_iter().all(|bound| matches!(bound.places, Places::Exactly(0)));
    (has_weights && is_idle && plan.partitions.len() == 1)
        .then_some("labels.weights has no effect where no request may wait: set queue or wait_timeout")
}

fn idle_wildcards(values: &AdmissionConfig) -> Option<&'static str> {
    let labels = &values.labels;
    let only = labels.only.iter().map(|only| &only.label);
    let mut names = labels.caps.keys().chain(labels.weights.keys()).chain(only);
    (labels.wildcards && !names.any(|name| has_wildcard(name)))
        .then_some("labels.wildcards has no effect: no name under caps, weights or only has a * as a segment")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Labels, Settings, percent};

    fn warnings(values: AdmissionConfig) -> Vec<String> {
        Settings { values, ..Settings::default() }.into_plan().unwrap().1
    }

    #[test]
    fn settings_without_effect() {
        let second = Duration::from_secs(1);
        let with_queue =
            AdmissionConfig { queue: 10.into(), max_wait: Some(second).into(), ..AdmissionConfig::default() };
        assert_eq!(
            warnings(AdmissionConfig { wait_timeout: second.into(), ..with_queue }),
            ["wait_timeout has no effect with a queue: set admission_timeout and max_wait instead"]
        );
        for wait in [second, Duration::ZERO] {
            let neither = AdmissionConfig { max_wait: Some(wait).into(), ..AdmissionConfig::default() };
            assert_eq!(warnings(neither), ["max_wait has no effect without a queue: set wait_timeout instead"]);
        }
        assert_eq!(warnings(AdmissionConfig::default()), [""; 0]);
    }

    #[test]
    fn captures_that_are_not_taken() {
        let captured = AdmissionConfig { capture_last: Some(Duration::from_secs(60)), ..AdmissionConfig::default() };
        let is_missed = |values: &AdmissionConfig, has_feature| idle_capture(values, has_feature).is_some();
        assert!(is_missed(&captured, false) && !is_missed(&captured, true));
        assert!(!is_missed(&AdmissionConfig::default(), false));
    }

    #[test]
    fn weights_where_no_request_waits() {
        let values = |wait| AdmissionConfig {
            labels: Labels::new().label_weight("gold", 4),
            wait_timeout: Duration::from_secs(wait).into(),
            ..AdmissionConfig::default()
        };
        assert_eq!(
            warnings(values(0)),
            ["labels.weights has no effect where no request may wait: set queue or wait_timeout"]
        );
        assert_eq!(warnings(values(1)), [""; 0]);
        let shares = vec![("a".to_owned(), percent(50))];
        let shared = Settings { values: values(0), shares, ..Settings::default() };
        assert_eq!(shared.into_plan().unwrap().1, [""; 0], "a request may wait for its share");
    }

    #[test]
    fn wildcards_without_a_pattern() {
        let values = |name| {
            let labels = Labels::new().wildcards(true).label_cap(name, 2);
            AdmissionConfig { labels, ..AdmissionConfig::default() }
        };
        assert!(warnings(values("app:uat"))[0].starts_with("labels.wildcards has no effect"));
        assert_eq!(warnings(values("app:*:uat")), [""; 0]);
    }
}
