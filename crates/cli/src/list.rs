//! `admission list`: labels, all pages of them.

use serde_json::{Value, json};
use tower_admission::{
    introspection::{Label, LabelPage},
    snapshot::{LabelSnapshot, LabelStatus, RuleSnapshot},
};

use crate::{
    args::ListArgs,
    client::{Client, block_on, encode},
    failure::{End, Failure},
    table::{Cell, Table},
    text::{self, Look, Paint, look_of},
    words,
};

/// As many as the server gives at once.
const PAGE: usize = 1_000;

pub(crate) fn run(args: &ListArgs) -> Result<End, Failure> {
    let client = Client::new(&args.server)?;
    let mut filters = String::new();
    for (name, value) in
        [("namespace", args.namespace.as_ref()), ("prefix", args.prefix.as_ref()), ("status", args.status.as_ref())]
    {
        if let Some(value) = value {
            filters.push_str(&format!("&{name}={}", encode(value)));
        }
    }
    let (mut page, mut labels) = block_on(all(&client, &filters))?;
    if args.sort != "label" {
        let mut sorted: Vec<_> = page.labels.into_iter().zip(labels).collect();
        // Stable, and the server sorts by name.
        sorted.sort_by(|(a, _), (b, _)| rank(b, &args.sort).total_cmp(&rank(a, &args.sort)));
        (page.labels, labels) = sorted.into_iter().unzip();
    }
    let accept = page.labels.iter().all(|label| label.status == LabelStatus::Accepting);
    if args.json {
        let all =
            json!({ "total": page.total, "matched": page.matched, "by_status": page.by_status, "labels": labels });
        text::print(&text::json(&all))?;
    } else {
        text::print(&human(&page))?;
    }
    Ok(End::wrong_if(args.exit_code && !accept))
}

/// All labels that `filters` let through, on one page, and as they were answered.
pub(crate) async fn all(client: &Client, filters: &str) -> Result<(LabelPage, Vec<Value>), Failure> {
    let mut answered = Vec::new();
    let mut labels = Vec::new();
    let mut offset = 0;
    loop {
        let mut json = client.get(&format!("/labels?limit={PAGE}&offset={offset}{filters}")).await?;
        let mut page: LabelPage = client.read(json.clone())?;
        if let Value::Array(labels) = json["labels"].take() {
            answered.extend(labels);
        }
        labels.append(&mut page.labels);
        match page.next_offset {
            // A server that goes round in circles is none of ours.
            Some(next) if next > offset => offset = next,
            _ => {
                page.labels = labels;
                return Ok((page, answered));
            }
        }
    }
}

/// What a label is sorted by. All pages are sorted here: the order may change while they are fetched, and a label must not be missed.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn rank(label: &Label, sort: &str) -> f64 {
    let sections = || label.admission.values().map(|section| &section.snapshot);
    let sum = |of: fn(&LabelSnapshot) -> f64| sections().map(of).sum();
    match sort {
        "status" => LabelStatus::ALL.iter().position(|it| *it == label.status).unwrap_or(0) as f64,
        "leased" => sum(|it| it.in_flight as f64),
        "ready" => sum(|it| it.waiting as f64),
        "oldest_wait" => sections().map(|it| it.oldest_wait_seconds).fold(0.0, f64::max),
        "admitted" => sum(|it| it.admitted as f64),
        "rejected" => sum(|it| it.rejected as f64),
        "rejected_per_second" => sum(|it| it.rejected_per_second),
        _ => sum(|it| it.rejected_per_second + it.left_per_second + it.waiting as f64),
    }
}

fn human(page: &LabelPage) -> String {
    let paint = Paint::for_stdout();
    let mut sections = page.labels.iter().flat_map(|label| label.admission.values());
    let leave = sections.any(|section| section.snapshot.left_per_second > 0.0);
    let mut table = Table::new([
        "NAMESPACE",
        "LABEL",
        "CLASS",
        "STATUS",
        ">RUNNING",
        ">WAITING",
        ">RATE",
        ">REFUSED/S",
        if leave { ">LEFT/S" } else { "" },
        "WHY THE NEXT ONE WAITS",
    ]);
    for label in &page.labels {
        for (class, section) in &label.admission {
            let section = &section.snapshot;
            let use_of = |rule: Option<&RuleSnapshot>| rule.map(|rule| format!("{}/{}", rule.used, rule.bound));
            let running = words::cap(section)
                .map_or_else(|| section.in_flight.to_string(), |cap| format!("{}/{}", section.in_flight, cap.bound));
            table.row([
                Cell::name(&label.namespace),
                Cell::name(words::name(label)).with(Look::Bold),
                Cell::name(class),
                Cell::from(words::status(section)).with(look_of(section.status.as_str())),
                Cell::from(running),
                Cell::number(section.waiting),
                Cell::from(use_of(words::rate(section)).unwrap_or_default()),
                Cell::from(words::per_second(section.rejected_per_second)),
                Cell::from(words::per_second(section.left_per_second)),
                Cell::from(section.blocked_by.as_ref().map(words::in_short).unwrap_or_default()),
            ]);
        }
    }
    let mut lines = if page.labels.is_empty() { Vec::new() } else { table.lines(paint) };
    lines.push(match (page.matched, page.total) {
        (_, 0) => "no label is known: no request with a label came lately".to_owned(),
        (matched, total) if matched == total => format!("{total} labels"),
        (matched, total) => format!("{matched} of {total} labels"),
    });
    lines.join("\n") + "\n"
}
