use std::{borrow::Cow, time::Duration};

use super::{DecisionEntry, DecisionKind, Gauges, Journal, JournalEvent, Wanted};
use crate::{
    Arrival, Ask, ChangeEntry, ClassId, Criticality, Engine, JournalEntry, Outcome, PartitionId, Reason, Subject,
    Timestamp,
    ids::{LabelId, RunId},
    limit::{Aimd, Fixed, Limit},
    plan::{Bound, LabelPlan, Mode, PartitionPlan, Places, Plan},
    shares::WHOLE,
    telemetry::Blocker,
    tests::at,
    tokens::RequestRef,
};

fn plan(limit: impl Into<Limit>, places: usize, labels: usize) -> Plan {
    let whole = PartitionPlan::burst("default", WHOLE);
    let bound = |places| Bound { places: Places::Exactly(places), wait: Some(Duration::from_secs(9)) };
    let labels = LabelPlan { max_labels: labels, ..LabelPlan::default() };
    Plan { labels, ..Plan::plain(limit.into().into_law(), vec![whole], bound(places), bound(0)) }
}

fn engine(plan: Plan, journal: usize) -> Engine {
    Engine::new(Plan { journal, ..plan })
}

fn ask<'a>(label: &'a str, run: Option<&'a str>) -> Ask<'a> {
    let subject = Some(Subject::new("", label, run));
    Ask {
        partition: PartitionId::DEFAULT,
        class: ClassId::OTHERS,
        criticality: Criticality::Critical,
        subject,
        deadline: Timestamp::NEVER,
    }
}

/// Admits a request and ends it.
fn pass(engine: &mut Engine, now: Timestamp, label: &str) {
    let Ok(mut slot) = engine.arrive_without_waiting(now, &ask(label, None)) else { panic!("there is room") };
    engine.observe(now, &mut slot, Outcome::Ignore);
    engine.finish(now, &mut slot);
}

fn decided(entry: &JournalEntry) -> &DecisionEntry {
    match &entry.event {
        JournalEvent::Decision(decided) => decided,
        other => panic!("{other:?} is no decision"),
    }
}

fn decisions(engine: &Engine) -> Vec<DecisionEntry> {
    let all = engine.journal_since(0, usize::MAX, Wanted::All);
    all.iter().filter(|it| matches!(it.event, JournalEvent::Decision(_))).map(|it| decided(it).clone()).collect()
}

#[test]
fn every_decision_is_told_with_its_reason() {
    let told = |kind, reason, waited| {
        let mut journal = Journal::new(1);
        let request = RequestRef::new(at(0), PartitionId::DEFAULT, LabelId::DEFAULT);
        let gauges = Gauges { limit: 1, in_flight: 1, waiting: 1 };
        journal.decided(at(waited), (kind, reason), request, Blocker::NOTHING, gauges);
        let [(1, Ok(noted))] = journal.after(0, Wanted::All)[..] else { panic!("one decision was noted") };
        let entry = noted.view(DecisionEntry::default());
        (decided(&entry).decision, decided(&entry).reason)
    };
    for kind in DecisionKind::ALL {
        for reason in Reason::ALL.map(Some).into_iter().chain([None]) {
            assert_eq!(told(kind, reason, 0), (kind, reason));
            let waited = match (kind, reason) {
                (DecisionKind::Rejected, Some(Reason::Deadline)) => DecisionKind::TimedOut,
                _ => kind,
            };
            assert_eq!(told(kind, reason, 1), (waited, reason));
        }
    }
}

#[test]
fn each_step_of_a_request_is_told_with_its_numbers() {
    let mut engine = engine(plan(Fixed::new(1), 3, 10), 64);
    let Arrival::Admit(mut first) = engine.arrive(at(0), &ask("a", None)) else { panic!("a slot is free") };
    let Arrival::Wait(granted) = engine.arrive(at(10), &ask("b", Some("r-1"))) else { panic!("it waits") };
    let Arrival::Wait(late) = engine.arrive(at(20), &ask("b", Some("r-2"))) else { panic!("it waits") };
    let Arrival::Wait(leaver) = engine.arrive(at(30), &ask("c", None)) else { panic!("it waits") };
    engine.cancel(at(40), &leaver);
    engine.observe(at(50), &mut first, Outcome::Success);
    engine.finish(at(60), &mut first);
    let std::task::Poll::Ready(Ok(mut second)) = engine.claim(at(61), &granted) else { panic!("it was granted") };
    engine.tick(at(9_020));
    assert!(engine.claim(at(9_021), &late).is_ready());
    assert!(engine.arrive_without_waiting(at(9_022), &ask("d", None)).is_err());
    engine.finish(at(9_030), &mut second);

    let told: Vec<_> = decisions(&engine)
        .into_iter()
        .map(|it| (it.label, it.decision, it.reason, it.rule, it.used.zip(it.bound), it.run, it.waited_seconds))
        .collect();
    let limit = (Some("limit"), Some((1, 1)));
    let row = |label: &str, decision, reason, (rule, numbers): (Option<&'static str>, _), run: Option<&str>, waited| {
        (
            label.to_owned(),
            decision,
            reason,
            rule.map(Cow::Borrowed),
            numbers,
            run.map(str::to_owned),
            f64::from(waited),
        )
    };
    let nothing = (None, None);
    assert_eq!(
        told,
        [
            row("a", DecisionKind::Admitted, None, nothing, None, 0.0_f32),
            row("b", DecisionKind::Queued, None, limit, Some("r-1"), 0.0),
            row("b", DecisionKind::Queued, None, limit, Some("r-2"), 0.0),
            row("c", DecisionKind::Queued, None, limit, None, 0.0),
            row("c", DecisionKind::Cancelled, None, nothing, None, 0.01),
            row("b", DecisionKind::Granted, None, nothing, Some("r-1"), 0.05),
            row("b", DecisionKind::TimedOut, Some(Reason::QueueTimeout), limit, Some("r-2"), 9.0),
            row("d", DecisionKind::Rejected, Some(Reason::Limit), limit, None, 0.0),
        ]
    );
    let all = engine.journal_since(0, usize::MAX, Wanted::All);
    assert_eq!((all[3].waiting, all[3].in_flight, all[3].limit, all[3].at_seconds), (3, 1, 1, 0.03));
    assert_eq!(engine.journal_since(6, usize::MAX, Wanted::All), all[6..], "the number says where to go on");
    assert_eq!(engine.journal_since(2, 3, Wanted::All), all[2..5], "the oldest come first");
}

#[test]
fn decisions_do_not_push_changes_out() {
    let mut engine = engine(plan(Limit::per_sample(Aimd::new(Duration::from_millis(100)).initial(4)), 0, 10), 8);
    let Ok(mut slow) = engine.arrive_without_waiting(at(0), &ask("a", None)) else { panic!("there is room") };
    engine.observe(at(250), &mut slow, Outcome::Success);
    engine.finish(at(250), &mut slow);
    engine.set_mode(at(251), Mode::Observe);
    engine.set_mode(at(252), Mode::Enforce);
    engine.set_mode(at(252), Mode::Enforce);
    (0..100).for_each(|i| pass(&mut engine, at(300 + i), "a"));
    engine.close(at(500), false);
    engine.close(at(501), false);

    let entries = engine.journal_since(0, usize::MAX, Wanted::All);
    assert!(entries.is_sorted_by(|a, b| a.sequence < b.sequence));
    assert_eq!(decisions(&engine).len(), 8);
    let changes = entries.iter().filter_map(|it| match &it.event {
        JournalEvent::Change(change) => Some((it.limit, change.clone())),
        _ => None,
    });
    let changes: Vec<_> = changes.collect();
    let learned = ChangeEntry::Limit { from: 4, rtt_seconds: Some(0.25), reference_seconds: Some(0.1), ratio: None };
    let mode = |from: &'static str, to: &'static str| ChangeEntry::Mode { from: from.into(), to: to.into() };
    let expected =
        [learned, mode("enforce", "observe"), mode("observe", "enforce"), ChangeEntry::Drain].map(|change| (3, change));
    assert_eq!(changes, expected);
}

#[test]
fn a_number_that_another_label_has_now_is_told_without_a_name() {
    let mut engine = engine(plan(Fixed::new(9), 0, 2), 64);
    for (millis, label) in [(0, "a"), (1, "b"), (1, "c"), (1, "a"), (1, "a")] {
        pass(&mut engine, at(millis), label);
    }
    let told: Vec<_> = decisions(&engine).into_iter().map(|it| (it.label, it.forgotten)).collect();
    // There is room for two: `c` took the entry of `a`, and `a` that of `b`, all in the same moment.
    let told: Vec<_> = told.iter().map(|(label, forgotten)| (label.as_str(), *forgotten)).collect();
    assert_eq!(told, [("", true), ("", true), ("c", false), ("a", false), ("a", false)]);
}

#[test]
fn the_name_of_a_run_is_kept_as_long_as_an_entry_asks_for_it() {
    let mut engine = engine(plan(Fixed::new(1), 9, 9), 4);
    let Arrival::Admit(_slot) = engine.arrive(at(0), &ask("a", None)) else { panic!("a slot is free") };
    for i in 0..50_u64 {
        let run = format!("run-{i}");
        let Arrival::Wait(place) = engine.arrive(at(i), &ask("b", Some(&run))) else { panic!("it waits") };
        engine.cancel(at(i), &place);
        for it in decisions(&engine).iter().rev().take(2) {
            assert_eq!(it.run.as_ref(), Some(&run));
        }
        let earlier = i.checked_sub(1).map(|i| format!("run-{i}"));
        assert_eq!(decisions(&engine).iter().rev().nth(2).and_then(|it| it.run.clone()), earlier);
    }
    assert!(engine.queue.is_clean() && engine.queue.run_name(RunId::from_index(6)).is_none(), "and no longer");
}

#[test]
fn it_can_be_off_and_takes_another_size() {
    let mut engine = engine(plan(Fixed::new(9), 0, 9), 0);
    pass(&mut engine, at(0), "a");
    engine.set_mode(at(1), Mode::Observe);
    engine.set_mode(at(1), Mode::Enforce);
    assert_eq!(engine.journal_since(0, usize::MAX, Wanted::All), []);
    engine.reload(at(2), Plan { journal: 6, ..plan(Fixed::new(9), 0, 9) });
    (0..10).for_each(|_| pass(&mut engine, at(3), "a"));
    let before = engine.journal_since(0, usize::MAX, Wanted::All);
    assert_eq!(before.len(), 7);
    engine.reload(at(4), Plan { journal: 2, ..plan(Fixed::new(3), 0, 9) });
    let after = engine.journal_since(0, usize::MAX, Wanted::All);
    assert_eq!(after[..3], [before[0].clone(), before[5].clone(), before[6].clone()], "the newest stay");
    assert_eq!((after.len(), &after[3].event), (4, &JournalEvent::Change(ChangeEntry::Reload { from: 9 })));
}
