//! `admission describe`: one label.

use tower_admission::{
    introspection::{Label, Section, WaiterPage},
    snapshot::{LabelSnapshot, LabelStatus, RuleSnapshot},
};

use crate::{
    args::DescribeArgs,
    client::{Client, block_on, encode},
    failure::{End, Failure},
    list,
    nearest::nearest,
    partitions,
    table::{Cell, Table},
    text::{self, Look, Paint, look_of, safe, seconds},
    words,
};

/// The number of waiters that are shown.
const WAITERS: usize = 5;

pub(crate) fn run(args: &DescribeArgs) -> Result<End, Failure> {
    if let Some(partition) = &args.partition {
        return partitions::describe(&args.server, partition, args.json, args.exit_code);
    }
    let client = Client::new(&args.server)?;
    let wanted = args.label.as_deref().unwrap_or_default();
    if wanted.trim().is_empty() {
        return Err(Failure::Usage("the label is missing: an empty name is none".to_owned()));
    }
    let (name, namespace) = (encode(wanted), encode(&args.namespace));
    let (json, label, waiters) = block_on(async {
        let Some(json) = client.find(&format!("/labels/{name}?namespace={namespace}")).await? else {
            return Err(unknown(&client, wanted, &args.namespace).await?);
        };
        let label: Label = client.read(json.clone())?;
        let mut waiters = None;
        if !args.json && label.admission.values().any(|section| section.snapshot.waiting > 0) {
            let path = format!("/labels/{name}/waiters?namespace={namespace}&limit={WAITERS}");
            waiters = client.find(&path).await?.map(|json| client.read::<WaiterPage>(json)).transpose()?;
        }
        Ok((json, label, waiters))
    })?;
    text::print(&if args.json { text::json(&json) } else { human(&label, waiters.as_ref()) })?;
    Ok(End::wrong_if(args.exit_code && label.status != LabelStatus::Accepting))
}

/// Why a label isn't known, and which one may have been meant.
async fn unknown(client: &Client, label: &str, namespace: &str) -> Result<Failure, Failure> {
    let known = list::all(client, "").await?.0.labels;
    let mut why = format!("there is no label {:?}", safe(label));
    if !namespace.is_empty() {
        why.push_str(&format!(" in namespace {:?}", safe(namespace)));
    }
    let of_namespace = known.iter().filter(|it| it.namespace == namespace);
    let near = nearest(label, of_namespace.map(|it| it.label.as_str()));
    let elsewhere = known.iter().find(|it| it.label == label);
    let anywhere = nearest(label, known.iter().map(|it| it.label.as_str()));
    let anywhere = anywhere.and_then(|near| known.iter().find(|it| it.label == near));
    why.push_str(&match (elsewhere, near, anywhere) {
        (Some(it), ..) if it.namespace.is_empty() => "; the label exists without a namespace".to_owned(),
        (Some(it), ..) => {
            format!("; the label exists in a namespace: --namespace {:?}", safe(&it.namespace))
        }
        (None, Some(near), _) => format!("; did you mean {:?}?", safe(near)),
        (None, None, Some(it)) => {
            format!("; did you mean {:?} --namespace {:?}?", safe(&it.label), safe(&it.namespace))
        }
        _ => "; a label without requests is forgotten, `admission list` shows the known labels".to_owned(),
    });
    Ok(Failure::Missing(why))
}

fn human(label: &Label, waiters: Option<&WaiterPage>) -> String {
    let paint = Paint::for_stdout();
    let mut lines = vec![format!(
        "{}{}: {}",
        paint.paint(Look::Bold, &safe(words::name(label))),
        if label.namespace.is_empty() { String::new() } else { format!(" in {}", safe(&label.namespace)) },
        paint.paint(look_of(label.status.as_str()), label.status.as_str())
    )];
    for (class, section) in &label.admission {
        lines.push(String::new());
        let class = if class == "*" { "* (classes without rules of their own)".into() } else { safe(class) };
        lines.push(format!(
            "{}: {}",
            paint.paint(Look::Bold, &class),
            paint.paint(look_of(section.snapshot.status.as_str()), &safe(&words::status(&section.snapshot)))
        ));
        lines.extend(of_class(label, section).into_iter().map(|line| format!("  {line}")));
        lines.extend(rules(label, &section.snapshot, paint).into_iter().map(|line| format!("  {line}")));
    }
    // Meanwhile they may all have been served.
    if let Some(page) = waiters.filter(|page| !page.waiters.is_empty()) {
        lines.push(String::new());
        let shown = page.waiters.len();
        lines.push(match page.total {
            total if total > shown => format!("{total} wait, the first {shown} of them:"),
            total => format!("{total} wait:"),
        });
        lines.extend(of_waiters(page, paint).into_iter().map(|line| format!("  {line}")));
    }
    lines.join("\n") + "\n"
}

fn of_class(label: &Label, section: &Section) -> Vec<String> {
    let mut lines = Vec::new();
    let slots = section.configured_slot_count.map(|slots| {
        let workers = section.active_worker_count.map(|workers| format!(" of {workers} workers")).unwrap_or_default();
        format!(" on {slots} slots{workers} ({})", safe(&section.budget_source))
    });
    let section = &section.snapshot;
    let oldest = match section.waiting {
        0 => String::new(),
        _ => format!(", the first of them for {}", seconds(section.oldest_wait_seconds)),
    };
    lines.push(format!(
        "{} running{}, {} waiting{oldest}",
        section.in_flight,
        slots.unwrap_or_default(),
        section.waiting
    ));
    lines.push(match &section.blocked_by {
        None => "the next request runs at once".to_owned(),
        Some(blocked) => {
            let room = blocked.room_in_seconds.map(|it| format!("; the rate has room in {}", seconds(it)));
            let wait = section.estimated_wait_seconds.filter(|_| blocked.when_full == "wait");
            let wait = wait.map(|it| format!("; it would wait for about {}", seconds(it)));
            safe(&(words::sentence(blocked) + &room.unwrap_or_default() + &wait.unwrap_or_default())).into_owned()
        }
    });
    let partition = if label.overflow { String::new() } else { format!("partition {}, ", safe(&section.partition)) };
    let refused = words::per_second(section.rejected_per_second);
    let refused = if refused.is_empty() { refused } else { format!(", {refused}/s of them in the last seconds") };
    lines.push(format!(
        "{partition}weight {}; {} admitted and {} rejected so far{refused}",
        section.weight, section.admitted, section.rejected
    ));
    if section.would_reject > 0 {
        lines.push(format!("{} would have been rejected by rules that observe (dry run)", section.would_reject));
    }
    lines
}

fn rules(label: &Label, section: &LabelSnapshot, paint: Paint) -> Vec<String> {
    if section.rules.is_empty() {
        return vec!["no cap, rate or budget applies".to_owned()];
    }
    let mut table = Table::new(["CAP OR RATE", ">USED", ">OF", ">LEFT", "WHEN FULL", "FROM"]);
    for rule in &section.rules {
        let look = if rule.remaining == 0 && !rule.observes { Look::Busy } else { Look::Plain };
        let name = match &rule.group {
            Some(group) => format!("{} {group}", rule.rule),
            None => rule.rule.to_string(),
        };
        table.row([
            Cell::from(name),
            Cell::number(rule.used).with(look),
            Cell::number(rule.bound),
            Cell::number(rule.remaining).with(look),
            Cell::from(if rule.observes { "dry run" } else { &*rule.when_full }),
            Cell::from(key(label, rule)),
        ]);
    }
    table.lines(paint)
}

/// The waiters, in the order of arrival.
fn of_waiters(page: &WaiterPage, paint: Paint) -> Vec<String> {
    let mut table = Table::new([">PLACE", "IN", "CLASS", "RUN", ">WAITED", ">STILL ABOUT", "IN ITS WAY"]);
    for waiter in &page.waiters {
        table.row([
            Cell::number(waiter.place),
            Cell::from(&*waiter.stage),
            Cell::name(&waiter.class),
            Cell::name(waiter.run.as_deref().unwrap_or_default()),
            Cell::from(seconds(waiter.waited_seconds)),
            Cell::from(waiter.estimated_wait_seconds.map_or_else(|| "?".to_owned(), seconds)),
            Cell::from(waiter.blocked_by.as_ref().map_or_else(|| "nothing".to_owned(), words::full)),
        ]);
    }
    table.lines(paint)
}

/// The key of the settings that a rule comes from.
fn key(label: &Label, rule: &RuleSnapshot) -> String {
    match &*rule.source {
        "namespace:label" => format!("override {}:{}", label.namespace, label.label),
        "namespace:*" => format!("override {}:*", label.namespace),
        "label" => format!("override {}", label.label),
        "*" => "override *".to_owned(),
        other => other.to_owned(),
    }
}
