//! Settings that are allowed and likely to be a mistake.

use std::{collections::HashSet, time::Duration};

use super::idle::idle;
use crate::{Share, settings::layer::AdmissionConfig};
use tower_admission_engine::plan::matching::has_star;
use tower_admission_engine::{
    named,
    plan::{Bound, LabelPlan, PartitionPlan, Places, Plan},
    rules::{ClassPlan, LimitsPlan, Resolved, Target},
    shares::allocate,
};

/// The longest wait at a full gate that makes sense.
const LONG_ADMISSION: Duration = Duration::from_secs(5);

/// Everything about a plan that looks like a mistake, given what it was made of and what else is known.
pub(crate) fn warnings(plan: &Plan, values: &AdmissionConfig, largest: Option<usize>) -> Vec<String> {
    let limit = plan.law.limit();
    let single = [
        values.patience.and_then(|patience| impatient(&plan.line, plan.queue.is_some(), patience)),
        endless(&plan.line, plan.queue, values.patience),
        values.max_concurrent_streams.and_then(|streams| few_streams(limit, plan.queue, streams)),
        plan.queue.and_then(|_| long_admission(&plan.gate)),
        few_series(plan),
        few_entries(&plan.labels),
        plan.time_to_live.zip(values.patience).and_then(|(time, patience)| short_lived(time, patience)),
    ];
    let mut warnings = idle(plan, values);
    warnings.extend(single.into_iter().flatten());
    warnings.extend(empty_partitions(limit, &plan.partitions));
    warnings.extend(largest.map(|largest| high_caps(largest, &plan.labels)).into_iter().flatten());
    for class in &plan.rules.classes {
        warnings.extend(idle_rules(class, largest));
    }
    warnings
}

/// Shares below one percent, which may have been meant as parts of one.
pub(crate) fn small_shares(partitions: &[(String, Share)]) -> Vec<String> {
    let doubtful = partitions.iter().filter(|(_, share)| share.percent > 0.0 && share.percent < 1.0);
    let warning = |(name, share): &(String, Share)| {
        let percent = share.percent;
        // 0.29 times 100 is 28.999999999999996.
        let meant = (percent * 1e11).round() / 1e9;
        format!(
            "partitions.{name} is {percent} % of the limit: if {meant} % is meant, write percent({meant}), or \"{meant}%\" in a file"
        )
    };
    doubtful.map(warning).collect()
}

fn impatient(line: &Bound, queue: bool, patience: Duration) -> Option<String> {
    let places = !matches!(line.places, Places::Exactly(0));
    if !places || line.wait.is_some_and(|wait| wait < patience) {
        return None;
    }
    let wait = line.wait.map_or_else(|| "without a bound".to_owned(), |wait| format!("for up to {wait:?}"));
    let setting = if queue { "max_wait" } else { "wait_timeout" };
    Some(format!(
        "requests wait {wait} and their clients for {patience:?} (patience): after a spike each slot goes to a \
         request whose client has just left; set {setting} below that, by at least the time that a request takes"
    ))
}

/// A queue that keeps requests for ever serves none in time after a spike.
fn endless(line: &Bound, queue: Option<usize>, patience: Option<Duration>) -> Option<String> {
    let places = queue.filter(|&places| places > 0 && line.wait.is_none() && patience.is_none())?;
    Some(format!(
        "{places} requests may wait without a bound in time (queue): after a spike each slot goes to a request whose \
         client has just left, unless clients send deadlines; set patience to how long they wait, or max_wait"
    ))
}

fn few_streams(limit: usize, queue: Option<usize>, streams: usize) -> Option<String> {
    let needed = limit.saturating_add(queue.unwrap_or(0));
    (streams < needed).then(|| {
        format!(
            "the server accepts {streams} requests at once (max_concurrent_streams), but limit and queue together take \
             {needed}: the rest is refused or held back before admission can count it; allow at least {needed}"
        )
    })
}

fn few_entries(labels: &LabelPlan) -> Option<String> {
    let (most, named) = (labels.max_labels, labels.named.iter().collect::<HashSet<_>>().len());
    (most < named).then(|| {
        format!(
            "labels.max_labels is {most}, and caps and weights name {named} labels: while all entries are in use, further \
             labels share one cap, one weight and one queue; allow more than {named}"
        )
    })
}

fn short_lived(time: Duration, patience: Duration) -> Option<String> {
    (time < patience).then(|| {
        format!(
            "permit_time_to_live is {time:?}, and clients wait for {patience:?} (patience): slots of requests that still \
             run and are waited for go to others, so more runs than the limit says; set it to more than {patience:?}"
        )
    })
}

fn few_series(plan: &Plan) -> Option<String> {
    let most = Some(plan.labels.metrics).filter(|most| *most > 0)?;
    let named = named(&plan.labels, &plan.rules).len();
    (most < named).then(|| {
        format!(
            "settings name {named} labels, counted once per class, and {most} may have metrics of their own \
             (labels.metrics): some named labels share the series of all other labels; allow at least {named}"
        )
    })
}

fn long_admission(gate: &Bound) -> Option<String> {
    let wait = gate.wait.filter(|wait| *wait > LONG_ADMISSION)?;
    Some(format!(
        "admission_timeout is {wait:?}: while all slots and the whole queue are taken, a wait longer than \
         {LONG_ADMISSION:?} only delays the rejection"
    ))
}

/// Partitions that the limit is too small for, as it is at the start.
fn empty_partitions(limit: usize, partitions: &[PartitionPlan]) -> Option<String> {
    let parts: Vec<u32> = partitions.iter().map(|partition| partition.part).collect();
    let mut shares = vec![0; parts.len()];
    allocate(limit, &parts, &mut shares);
    let empty = partitions.iter().zip(shares).filter(|(partition, share)| *share == 0 && partition.part > 0);
    let names: Vec<&str> = empty.map(|(partition, _)| &*partition.name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "at a limit of {limit} no slot is guaranteed to the partitions {}: they get idle slots only",
            names.join(", ")
        )
    })
}

fn high_caps(largest: usize, labels: &LabelPlan) -> Vec<String> {
    let mut capped: Vec<(String, usize)> = labels
        .rules
        .iter()
        .filter_map(|((namespace, label), rule)| {
            let name = namespace.as_ref().map_or_else(|| label.to_string(), |namespace| format!("{namespace}:{label}"));
            Some((format!("labels.caps.{name}"), rule.cap.filter(|cap| Some(*cap) != labels.default.cap)?))
        })
        .chain(labels.default.cap.map(|cap| ("labels.cap".to_owned(), cap)))
        .collect();
    capped.sort();
    capped.iter().filter_map(|(path, cap)| high_cap(path, *cap, largest)).collect()
}

fn high_cap(path: &str, cap: usize, largest: usize) -> Option<String> {
    (cap > largest).then(|| format!("{path} is {cap}, but the limit is never above {largest}: the cap has no effect"))
}

/// Caps above the limit, and rates above one that holds as well.
fn idle_rules(class: &ClassPlan, largest: Option<usize>) -> Vec<String> {
    let class_name = if class.name.is_empty() { "*" } else { &*class.name };
    let mut keys: Vec<&Target> = class.overrides.keys().collect();
    keys.sort();
    let mut warnings = Vec::new();
    // Keys with a * are patterns or errors, but for those of `label_overrides`.
    warnings.extend(keys.iter().filter_map(|key| literal_star(key, class_name)));
    let mut judge = |path: String, own: &LimitsPlan, resolved: &Resolved| {
        let caps = [
            ("max_in_flight", own.in_flight.flatten()),
            ("max_in_flight_per_namespace", own.in_flight_per_namespace.flatten()),
        ];
        for (name, cap) in caps {
            let cap = cap.map(|setting| setting.bound);
            warnings
                .extend(cap.zip(largest).and_then(|(cap, largest)| high_cap(&format!("{path}.{name}"), cap, largest)));
        }
        let Some(rate) = own.per_minute else { return };
        let over = [
            ("max_per_minute_per_namespace", resolved.per_minute_per_namespace),
            ("max_per_minute_per_budget_group", resolved.budget.as_ref().map(|(_, rule)| *rule)),
        ];
        for (name, other) in over {
            if let Some(other) = other.filter(|other| other.bound.max < rate.bound.max) {
                let (max, other) = (rate.bound.max, other.bound.max);
                warnings.push(format!("{path}.max_per_minute is {max} and can't be reached: {name} is {other}"));
            }
        }
    };
    judge(format!("classes.{class_name}"), &class.limits, &class.resolve("", ""));
    for key in keys {
        // No label has an empty name, so only settings for several labels are found for it.
        let resolved = match key {
            Target::Exact { namespace, label } => class.resolve(namespace, label),
            Target::Namespace(namespace) => class.resolve(namespace, ""),
            Target::Label(label) => class.resolve("", label),
            Target::Any => class.resolve("", ""),
        };
        judge(format!("overrides.{}.{class_name}", written(key)), &class.overrides[key], &resolved);
    }
    warnings
}

fn literal_star(key: &Target, class: &str) -> Option<String> {
    let has_star = match key {
        Target::Exact { namespace, label } => has_star(namespace) || has_star(label),
        Target::Label(label) => has_star(label),
        Target::Namespace(_) | Target::Any => false,
    };
    has_star.then(|| {
        let path = format!("label_overrides.{}.{class}", written(key));
        format!("{path} has a * that is taken literally: label_overrides has no patterns")
    })
}

fn written(key: &Target) -> String {
    match key {
        Target::Exact { namespace, label } => format!("{namespace}:{label}"),
        Target::Namespace(namespace) => format!("{namespace}:*"),
        Target::Label(label) => label.to_string(),
        Target::Any => "*".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::{ClassLimits, Derived, Labels, Rate, Rules, Settings};

    use super::*;

    /// The only warning that the settings get; empty if there is none.
    fn warning(settings: Settings) -> String {
        let warnings = settings.into_plan().unwrap().1;
        assert!(warnings.len() <= 1, "{warnings:?}");
        warnings.concat()
    }

    fn with_queue(places: usize, max_wait: Option<Duration>) -> AdmissionConfig {
        AdmissionConfig { queue: places.into(), max_wait: max_wait.into(), ..AdmissionConfig::default() }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_slot_that_is_taken_back_from_a_client_that_still_waits() {
        let settings = |time| Settings {
            values: AdmissionConfig {
                patience: Some(seconds(10)),
                permit_time_to_live: Some(time),
                ..AdmissionConfig::default()
            },
            ..Settings::default()
        };
        assert!(warning(settings(seconds(9))).starts_with("permit_time_to_live is 9s, and clients wait for 10s"));
        assert_eq!(warning(settings(seconds(10))), "");
    }

    #[test]
    fn fewer_entries_than_labels_that_are_named() {
        let labels = |most| Labels::new().label_cap("a", 1).label_weight("a", 2).label_cap("b", 1).max_labels(most);
        let settings = |most| Settings {
            values: AdmissionConfig { labels: labels(most), ..AdmissionConfig::default() },
            ..Settings::default()
        };
        assert!(warning(settings(1)).starts_with("labels.max_labels is 1, and caps and weights name 2 labels"));
        assert_eq!(warning(settings(2)), "");
    }

    #[test]
    fn a_queue_that_is_longer_than_the_patience_of_clients() {
        let settings = |max_wait| Settings {
            values: AdmissionConfig { patience: Some(seconds(60)), ..with_queue(10, max_wait) },
            ..Settings::default()
        };
        assert!(warning(settings(None)).starts_with("requests wait without a bound and their clients for 60s"));
        assert!(warning(settings(Some(seconds(60)))).starts_with("requests wait for up to 60s"));
        assert_eq!(warning(settings(Some(seconds(59)))), "");
    }

    #[test]
    fn a_queue_without_a_bound_in_time() {
        let settings = |values| Settings { values, ..Settings::default() };
        let endless = with_queue(10, None);
        assert!(warning(settings(endless.clone())).starts_with("10 requests may wait without a bound in time (queue)"));
        assert_eq!(warning(settings(with_queue(10, Some(seconds(60))))), "");
        let patient = AdmissionConfig { patience: Some(seconds(1)), max_wait: Derived::Auto, ..endless };
        assert_eq!(warning(settings(patient)), "", "the bound follows from the patience");
    }

    #[test]
    fn a_server_that_lets_in_less_than_limit_and_queue() {
        let settings = |streams| Settings {
            values: AdmissionConfig { max_concurrent_streams: Some(streams), ..with_queue(300, Some(seconds(1))) },
            limit: Some(tower_admission_engine::limit::Fixed::new(100).into()),
            ..Settings::default()
        };
        assert!(warning(settings(399)).contains("allow at least 400"));
        assert_eq!(warning(settings(400)), "");
    }

    #[test]
    fn an_admission_timeout_that_only_delays() {
        let with = |queue, timeout: Duration| Settings {
            values: AdmissionConfig { admission_timeout: timeout.into(), ..with_queue(queue, None) },
            ..Settings::default()
        };
        let settings = |timeout| {
            let mut settings = with(10, timeout);
            settings.values.max_wait = Some(seconds(1)).into();
            settings
        };
        assert!(warning(settings(Duration::from_millis(5_001))).starts_with("admission_timeout is 5.001s"));
        assert_eq!(warning(settings(seconds(5))), "");
        assert_eq!(warning(with(0, seconds(60))), "", "there is no gate");
    }

    #[test]
    fn partitions_that_round_to_nothing() {
        let settings = |limit: usize| Settings {
            limit: Some(tower_admission_engine::limit::Fixed::new(limit).into()),
            shares: [("a", 50.0), ("b", 1.0), ("c", 2.0)].map(|(name, it)| (name.into(), Share::written(it))).into(),
            ..Settings::default()
        };
        assert_eq!(
            warning(settings(3)),
            "at a limit of 3 no slot is guaranteed to the partitions b: they get idle slots only"
        );
        assert_eq!(warning(settings(4)), "");
    }

    #[test]
    fn caps_above_the_limit() {
        let settings = |labels, rules| Settings {
            values: AdmissionConfig { labels, ..AdmissionConfig::default() },
            rules,
            largest_limit: Some(100),
            ..Settings::default()
        };
        let capped = |cap| settings(Labels::new().label_cap("a:b", cap), Rules::new());
        assert_eq!(
            warning(capped(101)),
            "labels.caps.a:b is 101, but the limit is never above 100: the cap has no effect"
        );
        assert_eq!(warning(capped(100)), "");
        let default = settings(Labels::new().cap(200).label_cap("a", 3), Rules::new());
        assert!(warning(default).starts_with("labels.cap is 200"));
        let rules = Rules::new().class("w", ClassLimits::new()).override_key(
            "ns:*",
            "w",
            ClassLimits::new().max_in_flight_per_namespace(300),
        );
        let warning = warning(settings(Labels::new(), rules));
        assert!(warning.starts_with("overrides.ns:*.w.max_in_flight_per_namespace is 300"), "{warning}");
    }

    #[test]
    fn rates_that_can_never_be_reached() {
        let settings = |own: u32| {
            let class = ClassLimits::new().max_per_minute_per_namespace(600);
            let rules =
                Rules::new().class("w", class).override_key("ns:a", "w", ClassLimits::new().max_per_minute(own));
            Settings { rules, ..Settings::default() }
        };
        assert_eq!(
            warning(settings(601)),
            "overrides.ns:a.w.max_per_minute is 601 and can't be reached: max_per_minute_per_namespace is 600"
        );
        assert_eq!(warning(settings(600)), "");
        let budget = ClassLimits::new().max_per_minute(700).budget("mail", Rate::from(300));
        let rules = Rules::new().class("w", budget);
        assert_eq!(
            warning(Settings { rules, ..Settings::default() }),
            "classes.w.max_per_minute is 700 and can't be reached: max_per_minute_per_budget_group is 300"
        );
    }

    #[test]
    fn fewer_metrics_than_labels_that_are_named() {
        let settings = |most| {
            let labels = Labels::new().label_cap("a", 1).label_weight("a", 2).label_cap_in("ns", "b", 1).metrics(most);
            let over = Rules::new().class("w", ClassLimits::new()).override_key(
                "ns:c",
                "w",
                ClassLimits::new().max_in_flight(1),
            );
            Settings {
                values: AdmissionConfig { labels, ..AdmissionConfig::default() },
                rules: over.override_key("*", "w", ClassLimits::new().max_in_flight(2)),
                ..Settings::default()
            }
        };
        // Two labels in each of two classes, and one in one of them.
        assert!(warning(settings(4)).starts_with("settings name 5 labels"), "{}", warning(settings(4)));
        assert_eq!((warning(settings(5)), warning(settings(0))), (String::new(), String::new()));
    }
}
