//! What became of the requests of a capture, a column for each policy.

use std::{collections::BTreeSet, fmt::Write};

use serde_json::{Value, json};

use crate::{
    captured::{Captured, Group},
    compare::{Tally, sum},
    what_if::Fates,
};

/// Groups that have a table of their own; the others are added up.
const SHOWN: usize = 20;

/// A line for each number, a column for what was recorded and for each policy.
pub(crate) fn table(
    captured: &Captured,
    departs: Option<u64>,
    names: &[&str],
    groups: &[(Group, Vec<Tally>)],
    then: &Fates,
    now: &[Fates],
) -> String {
    let mut out = String::new();
    let requests: u64 = groups.iter().map(|(_, tallies)| tallies[0].offered).sum();
    let present = captured.requests.iter().filter(|request| request.is_present).count();
    put(
        &mut out,
        &format!(
            "{requests} requests in {:.1} s; {present} ran when it began, with a limit of {}",
            seconds(captured),
            captured.limit
        ),
    );
    if captured.missed > 0 {
        put(&mut out, &format!("{} turns are missing: what they decided is not known", captured.missed));
    }
    let unfinished = unfinished(captured);
    if unfinished > 0 {
        put(&mut out, &format!("{unfinished} ran yet when it ended: they hold their slots to the end"));
    }
    if let Some(departs) = departs {
        let what = "under the policy of the capture, so the columns are no forecast";
        put(&mut out, &format!("{departs} of {requests} fare otherwise than recorded {what}"));
    }
    let names: Vec<String> = std::iter::once("recorded").chain(names.iter().copied()).map(cut).collect();
    let all = sum(groups.iter().map(|(_, tallies)| tallies));
    block(&mut out, "all", &names, &all);
    for per_cent in [50, 99] {
        let waits = std::iter::once(then).chain(now).map(|fates| format!("{:.1}", fates.wait(per_cent)));
        row(&mut out, &format!("  wait p{per_cent}, ms"), waits);
    }
    let limits = std::iter::once(String::new()).chain(now.iter().map(|fates| fates.limit_end.to_string()));
    row(&mut out, "  limit at the end", limits);
    for (group, tallies) in groups.iter().take(SHOWN) {
        block(&mut out, &group.title(), &names, tallies);
    }
    if groups.len() > SHOWN {
        let others = sum(groups.iter().skip(SHOWN).map(|(_, tallies)| tallies));
        block(&mut out, &format!("{} others", groups.len() - SHOWN), &names, &others);
    }
    out
}

fn block(out: &mut String, title: &str, names: &[String], tallies: &[Tally]) {
    let Some(then) = tallies.first() else { return };
    put(out, "");
    row(out, &format!("{title}: {} offered", then.offered), names.iter().cloned());
    let mut count = |name: &str, is_always: bool, of: &dyn Fn(&Tally) -> u64| {
        if is_always || tallies.iter().any(|tally| of(tally) > 0) {
            row(out, name, tallies.iter().map(|tally| of(tally).to_string()));
        }
    };
    count("  served", true, &|tally| tally.served);
    count("    late", false, &|tally| tally.late);
    count("    not when recorded", false, &|tally| tally.gained);
    count("  refused", true, &Tally::all_refused);
    let reasons: BTreeSet<&String> = tallies.iter().flat_map(|tally| tally.refused.keys()).collect();
    for reason in reasons {
        count(&format!("    {reason}"), true, &|tally| tally.refused.get(reason).copied().unwrap_or(0));
    }
    count("  left while waiting", false, &|tally| tally.left);
    count("  waiting at the end", false, &|tally| tally.undecided);
    count("  served when recorded only", false, &|tally| tally.lost);
}

/// All numbers, for each policy.
pub(crate) fn to_json(
    captured: &Captured,
    departs: Option<u64>,
    names: &[&str],
    groups: &[(Group, Vec<Tally>)],
    then: &Fates,
    now: &[Fates],
) -> Value {
    let names: Vec<&str> = std::iter::once("recorded").chain(names.iter().copied()).collect();
    let policies = names.iter().enumerate().zip(std::iter::once(then).chain(now)).map(|((at, name), fates)| {
        let groups = groups.iter().map(|(group, tallies)| {
            let it = &tallies[at];
            json!({
                "partition": group.partition, "namespace": group.namespace, "label": group.label,
                "offered": it.offered, "served": it.served, "late": it.late, "refused": it.refused, "left": it.left,
                "waiting_at_the_end": it.undecided, "gained": it.gained, "lost": it.lost,
            })
        });
        json!({
            "policy": name, "admitted": fates.admitted, "left": fates.left, "rejected": fates.rejected,
            "wait_p50": fates.wait(50), "wait_p99": fates.wait(99), "limit_end": fates.limit_end,
            "groups": groups.collect::<Vec<_>>(),
        })
    });
    json!({
        "seconds": seconds(captured), "limit": captured.limit, "missed": captured.missed,
        "unfinished": unfinished(captured), "departs": departs,
        "policies": policies.collect::<Vec<_>>(),
    })
}

fn unfinished(captured: &Captured) -> usize {
    captured.requests.iter().filter(|request| request.is_unfinished()).count()
}

#[expect(clippy::cast_precision_loss, reason = "times of less than a hundred days")]
fn seconds(captured: &Captured) -> f64 {
    captured.duration as f64 / 1e9
}

/// A name that fits its column.
fn cut(name: &str) -> String {
    let name: String = name.chars().filter(|c| !c.is_control()).collect();
    if name.chars().count() > 16 { name.chars().take(15).chain(['…']).collect() } else { name }
}

fn row(out: &mut String, name: &str, values: impl Iterator<Item = String>) {
    let mut line = format!("{name:<36}");
    for value in values {
        // Writing to a string does not fail.
        let _ = write!(line, " {value:>16}");
    }
    put(out, line.trim_end());
}

fn put(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}
