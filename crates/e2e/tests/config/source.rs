//! The example configuration of the task queue server that overrides come from, translated, does what its page says.

use std::{future::Future, pin::pin, sync::Arc, sync::atomic::AtomicU64, sync::atomic::Ordering, task, time::Duration};

use tower_admission::{
    Admission, AdmissionBuilder, Clock, Permit, Reason, Ticket,
    configuration::{AdmissionConfig, Sources},
    snapshot::RuleSnapshot,
};

/// As it stands on the page.
const OVERRIDES: &str = r#"{
"production:payments": {
"workflow_tasks": {
"max_active_leases_per_queue": 8,
"max_dispatches_per_minute": 120,
"dispatch_budget_group": "downstream-openai",
"max_dispatches_per_minute_per_budget_group": 600
},
"activity_tasks": {
"max_active_leases_per_queue": 12,
"max_dispatches_per_minute": 240
}
},
"production:*": {
"workflow_tasks": {
"max_active_leases_per_namespace": 300,
"max_dispatches_per_minute_per_namespace": 6000
},
"activity_tasks": {
"max_active_leases_per_namespace": 1200,
"max_dispatches_per_minute_per_namespace": 12000
}
},
"email": {
"activity_tasks": {
"max_active_leases_per_queue": 4,
"max_dispatches_per_minute": 60,
"dispatch_budget_group": "downstream-sendgrid",
"max_dispatches_per_minute_per_budget_group": 300
}
},
"*": {
"workflow_tasks": { "max_active_leases_per_queue": 50 }
}
}"#;

/// The other variables of the page, under their names here.
const VARIABLES: [(&str, &str); 10] = [
    ("TOWER_ADMISSION_CLASSES_WORKFLOW_TASKS_MAX_ACTIVE_LEASES_PER_QUEUE", "25"),
    ("TOWER_ADMISSION_CLASSES_ACTIVITY_TASKS_MAX_ACTIVE_LEASES_PER_QUEUE", "100"),
    ("TOWER_ADMISSION_CLASSES_WORKFLOW_TASKS_MAX_ACTIVE_LEASES_PER_NAMESPACE", "500"),
    ("TOWER_ADMISSION_CLASSES_ACTIVITY_TASKS_MAX_ACTIVE_LEASES_PER_NAMESPACE", "2000"),
    ("TOWER_ADMISSION_CLASSES_WORKFLOW_TASKS_MAX_DISPATCHES_PER_MINUTE", "600"),
    ("TOWER_ADMISSION_CLASSES_ACTIVITY_TASKS_MAX_DISPATCHES_PER_MINUTE", "1200"),
    ("TOWER_ADMISSION_CLASSES_WORKFLOW_TASKS_MAX_DISPATCHES_PER_MINUTE_PER_NAMESPACE", "12000"),
    ("TOWER_ADMISSION_CLASSES_ACTIVITY_TASKS_MAX_DISPATCHES_PER_MINUTE_PER_NAMESPACE", "24000"),
    ("TOWER_ADMISSION_CLASSES_QUERY_TASKS_MAX_PENDING_PER_QUEUE", "1024"),
    ("TOWER_ADMISSION_LIMIT", "5000"),
];

/// The same as a file, under the names of this crate.
pub(crate) const FILE: &str = include_str!("task-queues.toml");

fn from_environment() -> AdmissionConfig {
    let overrides = [("TOWER_ADMISSION_OVERRIDES", OVERRIDES)];
    Sources::new().variables(VARIABLES.into_iter().chain(overrides)).load().unwrap().into_config()
}

#[test]
fn the_variables_and_the_file_say_the_same() {
    let file = AdmissionConfig::from_toml(FILE).unwrap();
    assert_eq!(from_environment(), file);
    let json = format!(r#"{{ "limit": 5000, "overrides": {OVERRIDES} }}"#);
    assert_eq!(AdmissionConfig::from_json(&json).unwrap().overrides, file.overrides);
}

#[test]
fn both_aliases_mean_what_they_stand_for() {
    let own = AdmissionConfig::from_toml(
        "[overrides.a.w]\nmax_in_flight = 3\nbudget_group = 'g'\nmax_per_minute_per_budget_group = 5",
    );
    let aliases = AdmissionConfig::from_toml(
        "[overrides.a.w]\nmax_active_leases = 3\ndispatch_budget_group = 'g'\nmax_dispatches_per_minute_per_budget_group = 5",
    );
    assert_eq!(own.unwrap(), aliases.unwrap());
}

/// Time stands still unless it is moved.
#[derive(Clone, Debug, Default)]
struct Hand(Arc<AtomicU64>);

impl Clock for Hand {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

fn handle(hand: &Hand) -> Admission {
    AdmissionBuilder::from(from_environment()).clock(hand.clone()).build().unwrap()
}

fn ticket(namespace: &'static str, label: &'static str, class: &'static str) -> Ticket<'static> {
    Ticket::new().namespace(namespace).label(label).class(class)
}

/// Starts requests, at most so many, until one doesn't run at once; answers what became of that one.
fn fill(admission: &Admission, ticket: &Ticket<'static>, most: usize) -> (Vec<Permit>, Option<Reason>) {
    let mut permits = Vec::new();
    for _ in 0..most {
        match admission.try_admit(ticket.clone()) {
            Ok(permit) => permits.push(permit),
            Err(rejection) => return (permits, Some(rejection.reason())),
        }
    }
    (permits, None)
}

#[test]
fn each_of_the_four_keys_holds_where_it_should() {
    // namespace, label, class; how many run, what stops the next one.
    const CASES: [(&str, &str, &str, usize, Reason); 8] = [
        ("production", "payments", "workflow_tasks", 8, Reason::LabelCap),
        ("production", "payments", "activity_tasks", 12, Reason::LabelCap),
        // Its own cap is that of `*`; the class has 25.
        ("production", "orders", "workflow_tasks", 50, Reason::LabelCap),
        ("staging", "payments", "workflow_tasks", 50, Reason::LabelCap),
        // `*` says nothing about activities, so the class does.
        ("production", "orders", "activity_tasks", 100, Reason::LabelCap),
        // `email` in any namespace.
        ("production", "email", "activity_tasks", 4, Reason::LabelCap),
        ("staging", "email", "activity_tasks", 4, Reason::LabelCap),
        ("staging", "email", "workflow_tasks", 50, Reason::LabelCap),
    ];
    for (namespace, label, class, most, reason) in CASES {
        let (permits, stopped) = fill(&handle(&Hand::default()), &ticket(namespace, label, class), 6_000);
        assert_eq!((permits.len(), stopped), (most, Some(reason)), "{namespace}:{label} {class}");
    }
}

#[test]
fn what_is_beyond_the_cap_of_a_label_waits_for_it() {
    let admission = handle(&Hand::default());
    let payments = ticket("production", "payments", "workflow_tasks");
    let (mut permits, _) = fill(&admission, &payments, 8);
    let mut ninth = pin!(admission.admit(payments));
    let mut context = task::Context::from_waker(task::Waker::noop());
    assert!(ninth.as_mut().poll(&mut context).is_pending());
    permits.pop();
    assert!(ninth.as_mut().poll(&mut context).is_ready());
}

#[test]
fn a_namespace_is_bounded_over_all_its_labels_by_class() {
    const LABELS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for (namespace, class, most) in [
        ("production", "workflow_tasks", 300), // 8 labels of 50 would be 400
        ("staging", "workflow_tasks", 400),    // the class has 500
    ] {
        let admission = handle(&Hand::default());
        let permits: Vec<_> =
            LABELS.iter().flat_map(|label| fill(&admission, &ticket(namespace, label, class), 60).0).collect();
        assert_eq!(permits.len(), most, "{namespace} {class}");
    }
}

#[test]
fn rates_hold_per_label_namespace_and_group() {
    // namespace, labels, class; how many start in a minute, what stops the next one.
    let cases: [(&str, &[&str], &str, usize, Reason); 5] = [
        ("production", &["payments"], "workflow_tasks", 120, Reason::Rate),
        ("production", &["payments"], "activity_tasks", 240, Reason::Rate),
        ("production", &["email"], "activity_tasks", 60, Reason::Rate),
        ("production", &["orders"], "workflow_tasks", 600, Reason::Rate),
        ("production", &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"], "workflow_tasks", 6_000, Reason::Rate),
    ];
    for (namespace, labels, class, most, reason) in cases {
        let hand = Hand::default();
        let admission = handle(&hand);
        let start = |label: &'static str| admission.try_admit(ticket(namespace, label, class)).map(drop);
        let (mut started, mut stopped) = (0, None);
        for label in labels.iter().cycle().copied().take(8_000) {
            match start(label) {
                Ok(()) => started += 1,
                Err(rejection) => stopped = Some((rejection.reason(), rejection.retry_after())),
            }
        }
        assert_eq!((started, stopped.unwrap().0), (most, reason), "{namespace}:{labels:?} {class}");
        hand.0.store(60, Ordering::Relaxed);
        assert!(start(labels[0]).is_ok(), "the next minute is a new one");
    }
}

#[test]
fn a_budget_group_spans_labels_and_classes_of_its_namespace() {
    let config = Sources::new()
        .toml("file", FILE)
        // A second label and another class share the group; the group alone bounds them.
        .toml(
            "more",
            "[overrides.'production:chat'.activity_tasks]\nbudget_group = 'downstream-openai'\n\
             max_per_minute_per_budget_group = 600\nmax_per_minute = 1000",
        )
        .load()
        .unwrap()
        .into_config();
    let admission = AdmissionBuilder::from(config).clock(Hand::default()).build().unwrap();
    let start = |namespace, label, class| admission.try_admit(ticket(namespace, label, class)).map(drop);
    for _ in 0..120 {
        start("production", "payments", "workflow_tasks").unwrap();
    }
    let chat = (0..1_000).take_while(|_| start("production", "chat", "activity_tasks").is_ok()).count();
    assert_eq!(chat, 480, "what the workflows left of 600");
    let refused = start("production", "chat", "activity_tasks").unwrap_err();
    assert_eq!(refused.reason(), Reason::Budget);
    // The group of another namespace is another group.
    assert!(start("staging", "chat", "activity_tasks").is_ok());
}

#[test]
fn a_class_that_must_fail_fast_is_bounded_while_it_is_pending() {
    let (pending, stopped) = fill(&handle(&Hand::default()), &ticket("production", "payments", "query_tasks"), 2_000);
    assert_eq!((pending.len(), stopped), (1_024, Some(Reason::PendingFull)));
}

#[test]
fn each_rule_says_which_key_it_came_from() {
    let admission = handle(&Hand::default());
    let _running = admission.try_admit(ticket("production", "payments", "workflow_tasks")).unwrap();
    let label = admission.snapshot().labels.into_iter().find(|label| label.name == "payments").unwrap();
    let found = |rule: &RuleSnapshot| (rule.rule.to_string(), rule.bound, rule.source.to_string());
    let rules: Vec<_> = label.rules.iter().map(found).collect();
    let expected = [
        ("max_in_flight", 8, "namespace:label"),
        ("max_in_flight_per_namespace", 300, "namespace:*"),
        ("max_per_minute", 120, "namespace:label"),
        ("max_per_minute_per_namespace", 6_000, "namespace:*"),
        ("budget", 600, "namespace:label"),
    ];
    assert_eq!(rules, expected.map(|(rule, bound, source)| (rule.to_owned(), bound, source.to_owned())));
}

#[test]
fn none_lifts_a_cap_and_a_label_may_contain_colons() {
    let config = AdmissionConfig::from_toml(
        "limit = 100\nclasses.w.max_in_flight = 2\noverrides.free.w.max_in_flight = 'none'\n\
         [[label_overrides]]\nnamespace = 'hub'\nlabel = 'App:Chromium:UAT'\nclass = 'w'\nmax_in_flight = 3\n",
    );
    let admission = AdmissionBuilder::from(config.unwrap()).build().unwrap();
    for (namespace, label, most) in
        [("ns", "x", 2), ("ns", "free", 100), ("hub", "App:Chromium:UAT", 3), ("other", "App:Chromium:UAT", 2)]
    {
        assert_eq!(fill(&admission, &ticket(namespace, label, "w"), 200).0.len(), most, "{label}");
    }
}
