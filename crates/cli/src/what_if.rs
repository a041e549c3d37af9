//! `admission what-if`: whether another policy would have helped in an incident.

use std::{fs, path::Path};

use admission_simulator::{
    captured::Captured,
    suggest::{Cause, Count, Suggestion, suggest},
};
use http::Method;
use serde_json::{Value, json};

use crate::{
    args::WhatIfArgs,
    capture,
    client::{Client, block_on},
    failure::{End, Failure},
    table::{Cell, Table},
    text::{self, Look, Paint, safe, seconds},
};

pub(crate) fn run(args: &WhatIfArgs) -> Result<End, Failure> {
    let text = match &args.capture {
        Some(file) => read(file)?,
        None => {
            let client = Client::new(&args.server)?;
            let mut bytes = Vec::new();
            block_on(client.fetch(&Method::GET, &capture::path(args.last, None), &mut bytes))?;
            String::from_utf8_lossy(&bytes).into_owned()
        }
    };
    let name = args.capture.as_ref().map_or_else(|| "the capture".to_owned(), |file| file.display().to_string());
    let complain = |problem: String| Failure::Missing(format!("{name}: {problem}"));
    let captured = Captured::read(&text).map_err(complain)?;
    let policies = args.policy.iter().map(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok((name, read(path)?))
    });
    let policies: Vec<_> = policies.collect::<Result<_, Failure>>()?;
    let found = suggest(&captured, &policies).map_err(Failure::Missing)?;
    text::print(&if args.json { text::json(&to_json(&captured, &found)) } else { human(&captured, &found) })
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::Missing(format!("{}: {error}", path.display())))
}

/// Why the numbers may say less than it seems.
fn notes(captured: &Captured, found: &Suggestion) -> Vec<String> {
    let mut notes = Vec::new();
    if captured.missed > 0 {
        notes.push(format!("{} turns are missing: what they decided is not known", captured.missed));
    }
    if let Some(departs) = found.departs {
        let offered = found.replayed[0].all.offered;
        let what = "fare otherwise than recorded under the policy of the capture, so the other rows are no forecast";
        notes.push(format!("{departs} of {offered} requests {what}"));
    }
    if captured.mode.as_str() != "enforce" {
        notes.push(format!("the server did not enforce ({}), and neither does a policy here", captured.mode.as_str()));
    }
    notes
}

fn human(captured: &Captured, found: &Suggestion) -> String {
    let paint = Paint::for_stdout();
    let look = if found.best.is_some() { Look::Good } else { Look::Busy };
    let mut lines = vec![paint.paint(look, &safe(&found.headline()))];
    let all = &found.replayed[0].all;
    if all.hurt() > all.unended || matches!(found.cause, Cause::Leak(..) | Cause::Hang(_)) {
        lines.push(safe(&found.cause.sentence()).into_owned());
    }
    lines.extend(notes(captured, found));
    #[expect(clippy::cast_precision_loss, reason = "times of less than a hundred days")]
    let time = captured.duration as f64 / 1e9;
    lines.push(format!(
        "{} requests in {}; from ITS SERVED on, those of {}, which was hurt most",
        all.offered,
        seconds(time),
        safe(&found.victim.title())
    ));
    lines.push(String::new());
    let unended = found.replayed.iter().any(|it| it.all.unended > 0);
    let mut table = Table::new([
        "POLICY",
        ">SERVED",
        ">LATE",
        ">REFUSED",
        ">LEFT",
        if unended { ">NO END" } else { "" },
        ">WAIT P99",
        ">ITS SERVED",
        ">LATE",
        ">REFUSED",
        ">LEFT",
        ">WAIT P99",
        "HELPS",
    ]);
    for (place, it) in found.replayed.iter().enumerate() {
        let [all, its] = [&it.all, &it.victim].map(|count| {
            let numbers = [count.served, count.late, count.refused, count.left].map(|number| number.to_string());
            (numbers.map(Cell::from), Cell::from(seconds(count.wait_p99())))
        });
        let ([served, late, refused, left], wait) = all;
        let ([its_served, its_late, its_refused, its_left], its_wait) = its;
        let helps = match (found.best == Some(place), it.helps) {
            (true, _) => "most",
            (_, true) => "yes",
            _ => "",
        };
        table.row([
            Cell::from(&it.name).with(if found.best == Some(place) { Look::Good } else { Look::Plain }),
            served,
            late,
            refused,
            left,
            Cell::from(it.all.unended.to_string()),
            wait,
            its_served,
            its_late,
            its_refused,
            its_left,
            its_wait,
            Cell::from(helps),
        ]);
    }
    lines.extend(table.lines(paint));
    lines.push(String::new());
    lines.push("what a replay can't know:".to_owned());
    lines.extend(found.unknown().into_iter().map(|it| format!("- {it}")));
    lines.join("\n") + "\n"
}

fn to_json(captured: &Captured, found: &Suggestion) -> Value {
    let count = |it: &Count| {
        json!({
            "offered": it.offered, "served": it.served, "late": it.late, "rejected": it.refused, "left": it.left,
            "unended": it.unended, "wait_p99_seconds": it.wait_p99(),
        })
    };
    let policies = found
        .replayed
        .iter()
        .map(|it| json!({ "policy": it.name, "helps": it.helps, "all": count(&it.all), "victim": count(&it.victim) }));
    let best = found.best.map(|best| &found.replayed[best].name);
    json!({
        "headline": found.headline(), "best": best, "cause": found.cause.sentence(), "notes": notes(captured, found),
        "victim": { "partition": found.victim.partition, "namespace": found.victim.namespace, "label": found.victim.label },
        "policies": policies.collect::<Vec<_>>(), "unknown": found.unknown(),
    })
}
