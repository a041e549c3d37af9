//! `admission status`: the state of the server in a line, and what to do.

use tower_admission::{
    introspection::Overview,
    snapshot::{Foremost, HealthSnapshot},
};

use crate::{
    args::StatusArgs,
    client::{Client, block_on},
    failure::{End, Failure},
    partitions,
    table::{Cell, Table},
    text::{self, Look, Paint, safe, seconds},
    words,
};

pub(crate) fn run(args: &StatusArgs) -> Result<End, Failure> {
    let client = Client::new(&args.server)?;
    let (json, now) = block_on(client.get_dated("?limit=1"))?;
    let overview: Overview = client.read(json.clone())?;
    if args.json {
        let all = serde_json::json!({
            "name": json["name"], "identity": json["identity"], "health": json["health"], "limit": json["limit"], "limit_state": json["limit_state"],
            "reserved": json["reserved"], "foremost": json["foremost"], "warnings": json["warnings"],
        });
        text::print(&text::json(&all))?;
    } else {
        text::print(&human(&overview, now))?;
    }
    Ok(End::wrong_if(args.exit_code && !is_well(&overview, now)))
}

/// Whether requests are answered: all slots may be taken, but by requests that end, as the advice says otherwise, and whose callers
/// stay, but for one in ten or a handful.
fn is_well(overview: &Overview, now: f64) -> bool {
    let health = &overview.snapshot.health;
    let recent = overview.partitions.iter().map(|it| &it.snapshot.recent);
    let most = 4.5 / health.window_seconds.min(now).max(0.001);
    let leave = || recent.clone().any(|it| it.left_per_second >= (0.1 * it.admitted_per_second).max(most));
    match &*health.state {
        "fine" => true,
        "busy" => health.stuck_slots * 2 < overview.snapshot.limit.max(1) && !leave(),
        _ => false,
    }
}

/// The look of a health.
pub(crate) fn look(health: &HealthSnapshot) -> Look {
    match &*health.state {
        "fine" => Look::Good,
        "busy" | "throttled" | "store_slow" | "store_quiet" | "not_enforcing" => Look::Busy,
        _ => Look::Bad,
    }
}

/// The state in a line, and since when. A server of an earlier version tells none.
pub(crate) fn headline(health: &HealthSnapshot, now: f64) -> String {
    if health.headline.is_empty() {
        return "the server is of a version that tells no health".to_owned();
    }
    format!("{}, since {}", safe(&health.headline), seconds((now - health.at_seconds).max(0.0).round()))
}

/// What to do, if anything is.
pub(crate) fn advice(health: &HealthSnapshot) -> Option<String> {
    (health.state != "fine" && !health.advice.is_empty()).then(|| format!("Now: {}", safe(&health.advice)))
}

/// The name of the handle, what runs there, and for how long.
fn subject(overview: &Overview, now: f64) -> String {
    let name = safe(&overview.snapshot.name);
    let Some(identity) = &overview.identity else { return name.into_owned() };
    let version = if identity.version.is_empty() { String::new() } else { format!(" {}", safe(&identity.version)) };
    format!("{name}{version} (tower-admission {}, up {})", safe(&identity.library), seconds(now.floor()))
}

fn human(overview: &Overview, now: f64) -> String {
    let (paint, snapshot) = (Paint::for_stdout(), &overview.snapshot);
    let health = &snapshot.health;
    let rates = format!(
        "in the last {} {:.1}/s admitted, {:.1}/s refused",
        seconds(health.window_seconds.min(now.floor())),
        health.admitted_per_second,
        health.rejected_per_second
    );
    let headline = headline(health, now);
    let first = advice(health).map_or_else(|| headline.clone(), |advice| format!("{headline}. {advice}"));
    let mut lines = vec![
        paint.paint(look(health), &first),
        format!("{}: {rates}", subject(overview, now)),
        safe(&snapshot.limit_state.sentence).into_owned(),
    ];
    if snapshot.reserved > 0 {
        lines.push(format!(
            "{} slots are held back for requests that were rejected below their share",
            snapshot.reserved
        ));
    }
    if let Some(capture) = overview.capture.as_ref().filter(|capture| capture.running) {
        let (span, kib) = (seconds(capture.span_seconds.round()), capture.bytes / 1_024);
        lines.push(format!("a capture of the last {span} is there, {kib} KiB: `admission capture` fetches it"));
    }
    lines.extend(snapshot.warnings.iter().map(|warning| format!("warning: {}", safe(warning))));
    if health.state != "fine" {
        lines.push(format!("what to do: {}", safe(&health.runbook)));
    }
    if health.state != "fine" && !overview.foremost.is_empty() {
        lines.push(String::new());
        lines.extend(foremost(&overview.foremost).lines(paint));
    }
    if overview.partitions.len() > 1 {
        lines.push(String::new());
        lines.extend(partitions::table(&overview.partitions).lines(paint));
    }
    lines.join("\n") + "\n"
}

/// The labels and partitions that suffer or hold most.
fn foremost(rows: &[Foremost]) -> Table<7> {
    let mut table = Table::new([
        "SUFFERS OR HOLDS MOST",
        ">RUNNING",
        ">EACH FOR",
        ">WAITING",
        ">OLDEST FOR",
        ">REFUSED/S",
        ">LEFT/S",
    ]);
    for it in rows {
        let name = if it.namespace.is_empty() { it.name.clone() } else { format!("{}:{}", it.namespace, it.name) };
        let name = if it.kind == "partition" { format!("partition {name}") } else { name };
        let time = |time: f64| if time > 0.0 { seconds(time) } else { String::new() };
        table.row([
            Cell::name(&name).with(Look::Bold),
            Cell::number(it.in_flight),
            Cell::from(time(it.held_seconds)),
            Cell::number(it.waiting),
            Cell::from(time(it.oldest_wait_seconds)),
            Cell::from(words::per_second(it.rejected_per_second)),
            Cell::from(words::per_second(it.left_per_second)),
        ]);
    }
    table
}
