//! All that can be seen of an engine, as text.

use std::fmt::Write as _;

use crate::{Engine, Slot, Subject, Wanted};

/// Leaves out what is zero, empty or unknown.
fn without_nothing(mut text: String) -> String {
    for nothing in ["0", "0.0", "None", "{}", "[]", "\"\"", "false"] {
        for end in [", ", " }"] {
            while let Some(at) = text.find(&format!(": {nothing}{end}")) {
                let start = text[..at].rfind(|it: char| !it.is_alphanumeric() && it != '_').map_or(0, |it| it + 1);
                let rest = if end == ", " { at + nothing.len() + 4 } else { at + nothing.len() + 2 };
                text.replace_range(start..rest, "");
            }
        }
    }
    // Most buckets of a histogram are empty.
    while text.contains(" 0, 0, 0, 0,") {
        text = text.replace(" 0, 0, 0, 0,", " …,").replace(" …, …,", " …,");
    }
    text.replace(",  }", " }")
}

/// Shortens numbers to six decimals: what is beyond is a matter of rounding.
fn shortened(text: &str) -> String {
    let (mut short, mut decimals) = (String::new(), None);
    for c in text.chars() {
        decimals = match (c, decimals) {
            ('.', None) if short.ends_with(|it: char| it.is_ascii_digit()) => Some(0),
            (it, Some(count)) if it.is_ascii_digit() => Some(count + 1),
            _ => None,
        };
        if decimals.is_none_or(|count| count <= 6) {
            short.push(c);
        }
    }
    short
}

pub(super) fn all(engine: &Engine, slot: Option<&Slot>, told: &mut String) {
    let mut text = String::new();
    let mut line = |what: &str, it: &dyn std::fmt::Debug| writeln!(text, "  {what}: {it:?}").unwrap();
    let mut snapshot = engine.snapshot();
    line("health", &snapshot.health);
    line("limit", &snapshot.limit_state);
    line("shadow", &snapshot.shadow);
    for (partition, status) in
        std::mem::take(&mut snapshot.partitions).iter().zip(engine.partition_statuses(engine.now()))
    {
        line(status.as_str(), partition);
    }
    (snapshot.health, snapshot.limit_state, snapshot.shadow) = Default::default();
    line("available, utilisation", &(snapshot.available(), snapshot.utilisation()));
    line("whole", &snapshot);
    for label in engine.all_labels() {
        line("label", &label);
    }
    let mut rows = Vec::new();
    engine.label_rows(0, 5, &mut rows);
    line("rows", &rows);
    let of_rows: Vec<_> = rows.iter().map(|it| engine.label_of_row(it).map(|it| it.name)).collect();
    let in_all = engine.label_in_all_classes(&Subject::new("ns", "a", None));
    line("of rows, and of a in all classes", &(of_rows, in_all.iter().map(|it| &*it.class).collect::<Vec<_>>()));
    for label in ["a", "b"] {
        if let Some((waiters, count)) = engine.waiters_of(&Subject::new("ns", label, None), 1, 3) {
            line("waiters", &(label, waiters, count));
        }
    }
    for entry in engine.journal_since(engine.journal_before(6, Wanted::All), 6, Wanted::All) {
        line("entry", &entry);
    }
    for metrics in engine.label_metrics(0, 5) {
        line("series", &(metrics.available(), metrics.utilisation(), metrics));
    }
    line("sample", &engine.sample());
    line("unmet", &engine.unmet());
    line("slot", &slot.map(|it| engine.describe_slot(it)));
    line("workers", &engine.describe_workers());
    let waiters: Vec<_> = engine.describe_waiters().into_iter().map(|it| it.2).take(3).collect();
    line("described", &waiters);
    line("fresh, quiet, saturated", &(engine.is_fresh(), engine.is_quiet(), engine.is_saturated()));
    *told += &shortened(&without_nothing(text));
}
