//! Settings that are likely to be a mistake: seen when they are read, or when requests don't meet them.

use std::{sync::Arc, time::Duration};

use tokio::time::advance;
use tower_admission::{
    Admission, AdmissionBuilder, Cap, ClassLimits, Labels, Mode, Outcome, Rules, Ticket,
    journal::{ChangeEntry, JournalEntry, JournalEvent},
    limit::Fixed,
    percent,
    store::{Keys, Leases, MemoryStore},
};

/// So many requests with this ticket come and are served.
fn serve(admission: &Admission, requests: usize, ticket: &Ticket<'_>) {
    for _ in 0..requests {
        admission.try_admit(ticket.clone()).unwrap().finish(Outcome::Success);
    }
}

fn warning(admission: &Admission) -> String {
    let warnings = admission.warnings();
    assert!(warnings.len() <= 1, "{warnings:?}");
    assert_eq!(admission.snapshot().warnings, warnings);
    warnings.concat()
}

#[test]
fn partitions_that_no_request_names_are_warned_about() {
    let partitions = || Admission::builder().partition("gold", percent(50)).partition("batch", percent(10));
    let admission = partitions().build().unwrap();
    serve(&admission, 999, &Ticket::new());
    assert_eq!(warning(&admission), "", "too early to tell");
    serve(&admission, 1, &Ticket::new().partition("Gold"));
    let forgotten = warning(&admission);
    assert!(
        forgotten.contains("batch, gold") && forgotten.contains("1000") && forgotten.contains("classify"),
        "{forgotten}"
    );
    serve(&admission, 1, &Ticket::new().partition("gold"));
    let batch = warning(&admission);
    assert!(batch.contains("batch") && !batch.contains("gold"), "{batch}");
    serve(&admission, 1, &Ticket::new().partition("batch"));
    assert_eq!(warning(&admission), "", "all of them have come");

    admission.reload(partitions().partition("new", percent(1))).unwrap();
    assert_eq!(warning(&admission), "", "too early to tell of the new one");
    serve(&admission, 1_000, &Ticket::new());
    assert!(warning(&admission).contains("new"));
    admission.reload(partitions()).unwrap();
    assert_eq!(warning(&admission), "", "nothing is expected of the one that is gone");
}

/// The control: without partitions nothing is amiss, and a handle that is off looks at no request.
#[test]
fn nothing_is_said_where_there_is_nothing_to_meet() {
    let plain = Admission::builder().build().unwrap();
    serve(&plain, 2_000, &Ticket::new());
    assert_eq!(warning(&plain), "");
    let off = Admission::builder().partition("gold", percent(50)).mode(Mode::Off).build().unwrap();
    serve(&off, 2_000, &Ticket::new());
    assert_eq!(warning(&off), "");
}

#[test]
fn classes_that_no_request_has_are_warned_about() {
    const WATCH: &str = "grpc.health.v1.Health/Watch";
    let rules = || Rules::new().class(format!("/{WATCH}"), ClassLimits::new().max_in_flight(5));
    let admission =
        Admission::builder().rules(rules().class("reports", ClassLimits::new().max_in_flight(5))).build().unwrap();
    serve(&admission, 999, &Ticket::new().class(WATCH));
    assert_eq!(warning(&admission), "", "too early to tell");
    serve(&admission, 1, &Ticket::new().class("reports"));
    let absent = warning(&admission);
    assert!(absent.contains(&format!("\"/{WATCH}\"")) && !absent.contains("reports"), "{absent}");
    assert!(absent.contains(&format!("\"{WATCH}\" does")), "{absent}");
    serve(&admission, 1, &Ticket::new().class(format!("/{WATCH}")).label("any"));
    assert_eq!(warning(&admission), "");

    admission.reload(Admission::builder().rules(rules().class("late", ClassLimits::new().max_in_flight(5)))).unwrap();
    serve(&admission, 1_000, &Ticket::new());
    assert!(warning(&admission).contains("\"late\""), "those that came before are known to come");
    admission.reload(Admission::builder()).unwrap();
    serve(&admission, 1_000, &Ticket::new());
    assert_eq!(warning(&admission), "");
}

#[test]
fn of_class_names_without_rules_that_of_most_requests_is_named() {
    let rules = Rules::new().class("reports", ClassLimits::new().max_in_flight(5));
    let admission = Admission::builder().rules(rules).build().unwrap();
    serve(&admission, 1_000, &Ticket::new());
    assert!(warning(&admission).ends_with("do classifier and settings agree on the name?"), "{}", warning(&admission));
    serve(&admission, 2, &Ticket::new().class("search"));
    serve(&admission, 9, &Ticket::new().class("report"));
    assert!(warning(&admission).ends_with("most requests without rules are of \"report\""), "{}", warning(&admission));
}

#[test]
fn percentages_that_are_written_as_parts_of_one_are_warned_about() {
    let warnings = |share| Admission::builder().partition("gold", share).build().unwrap().warnings();
    let part = warnings(percent(0.6)).concat();
    assert!(part.contains("partitions.gold") && part.contains("0.6 %") && part.contains("percent(60)"), "{part}");
    assert_eq!(warnings(percent(0.29).hard_cap()).len(), 1);
    for clear in [percent(1), percent(60), percent(12.5)] {
        assert_eq!(warnings(clear), [""; 0], "{clear:?}");
    }
}

/// A percentage means in a configuration what it means in code, and a number that may mean two things is neither.
#[cfg(feature = "config")]
#[test]
fn percentages_of_a_configuration_mean_what_they_say() {
    use tower_admission::configuration::{AdmissionConfig, Sources};
    let load = |share: &str| Sources::new().toml("file", format!("[partitions]\ngold = {share}")).load();
    let warnings = |config: &AdmissionConfig| AdmissionBuilder::from(config.clone()).build().unwrap().warnings();
    let small = load("\"0.6%\"").unwrap();
    assert_eq!(small.config().partitions["gold"], percent(0.6));
    assert_eq!((small.warnings().len(), small.warnings()), (1, &*warnings(small.config())));
    for (written, share) in
        [("0.6", percent(60)), ("\"60%\"", percent(60)), ("1.0", percent(100)), ("\"1%\"", percent(1))]
    {
        let loaded = load(written).unwrap();
        assert_eq!((loaded.config().partitions["gold"], loaded.warnings().len()), (share, 0), "{written}");
    }
    for (written, named) in [("60", "\"60%\""), ("1", "\"1%\", or for all of it \"100%\" or 1.0")] {
        let told = load(written).unwrap_err().to_string();
        assert!(told.contains(&format!("found {written}")) && told.contains(named), "{told}");
    }
}

/// Callers of one partition leave before the answer, while another's stay. Where slots are scarce, their work may go on.
#[tokio::test(start_paused = true)]
async fn callers_that_leave_before_the_answer_are_told_of() {
    for (limit, is_told) in [(4, true), (1_000, false)] {
        let partition = Admission::builder().partition("noisy", percent(50));
        let admission = partition.limit(Fixed::new(limit)).shed().build().unwrap();
        let noisy = || admission.try_admit(Ticket::new().partition("noisy")).unwrap();
        let told = || {
            let changes = admission.journal();
            let is_about = |it: &JournalEntry| matches!(it.event, JournalEvent::Change(ChangeEntry::CallersLeave));
            let headline = admission.snapshot().health.headline.contains("noisy's callers leave before the answer");
            (
                headline,
                admission.warnings().concat().contains("noisy"),
                changes.iter().filter(|it| is_about(it)).count(),
            )
        };
        assert_eq!(told(), (false, false, 0));
        for leave in [true, false] {
            for _ in 0..1_500 {
                let (calm, noisy) = (admission.try_admit(Ticket::new()).unwrap(), [noisy(), noisy(), noisy()]);
                advance(Duration::from_millis(10)).await;
                admission.tick();
                calm.finish(Outcome::Success);
                noisy.into_iter().for_each(|it| if leave { drop(it) } else { it.finish(Outcome::Success) });
            }
            assert_eq!(told(), (leave, is_told, usize::from(is_told)), "{limit} slots");
        }
        assert!(!admission.warnings().concat().contains("default"), "{:?}", admission.warnings());
    }
}

/// Answers of one partition come after the deadline, though no caller leaves.
#[tokio::test(start_paused = true)]
async fn answers_that_come_after_the_deadline_are_told_of() {
    let admission = Admission::builder().patience(Duration::from_millis(100)).limit(Fixed::new(40));
    let admission = admission.partition("slow", percent(50)).build().unwrap();
    let told = |takes: [u64; 2]| {
        let admission = admission.clone();
        async move {
            for _ in 0..400 {
                let permits = ["slow", "default"].map(|it| admission.try_admit(Ticket::new().partition(it)).unwrap());
                for (permit, takes) in permits.into_iter().zip(takes) {
                    tokio::spawn(async move {
                        tokio::time::sleep(Duration::from_millis(takes)).await;
                        permit.finish(Outcome::Success);
                    });
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
                admission.tick();
            }
            admission.snapshot().health
        }
    };
    for (takes, state, says) in [
        ([90, 20], "fine", "none refused"),
        ([150, 20], "abandoned", "100 % of slow's answers come after the deadline"),
        ([20, 20], "fine", "none refused"),
    ] {
        let health = told(takes).await;
        assert!(health.state == state && health.headline.contains(says), "{takes:?}: {}", health.headline);
    }
    assert!(
        !admission.warnings().concat().contains("slow"),
        "no work of callers that left: {:?}",
        admission.warnings()
    );
}

/// Labels that settings name and no request has; and requests without any, which rules count together.
#[test]
fn labels_that_no_request_has_are_told_of() {
    let own = ClassLimits::new().max_in_flight(Cap::from(1).reject());
    let named = || Admission::builder().rules(Rules::new().override_key("bronze", "*", own.clone()));
    let all = || Admission::builder().rules(Rules::new().default_limits(own.clone()));
    for (builder, label, says) in [
        (named(), Some("brnze"), "none of 2000 requests had the label bronze"),
        (named(), None, "none of 2000 requests had a label"),
        (all(), None, "none of 2000 requests had a label"),
        (named(), Some("bronze"), ""),
        (all(), Some("bronze"), ""),
        (Admission::builder(), None, ""),
    ] {
        let admission = builder.build().unwrap();
        let ticket = || label.map_or_else(Ticket::new, |label| Ticket::new().label(label));
        for _ in 0..1_000 {
            let _slots = [admission.try_admit(ticket()), admission.try_admit(ticket())];
        }
        let warnings = admission.warnings();
        assert!(
            warnings.concat().contains(says) && warnings.len() == usize::from(!says.is_empty()),
            "{label:?}: {warnings:?}"
        );
    }
}

#[test]
fn a_store_in_which_nothing_is_counted_is_told_of() {
    for (builder, expected) in [
        (Admission::builder().labels(Labels::new().label_cap("reports", 6)), 1),
        (Admission::builder().rules(Rules::new().default_limits(ClassLimits::new().max_in_flight(6))), 0),
    ] {
        let keys = Keys::new("shop").unwrap();
        let admission = builder.shared(Leases::builder().build(Arc::new(MemoryStore::new())), keys).build().unwrap();
        let warnings = admission.warnings();
        assert_eq!(
            warnings.iter().filter(|it| it.starts_with("a store is set, and nothing is counted")).count(),
            expected
        );
    }
}
