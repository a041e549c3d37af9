//! `admission partitions`, and one of them in detail.

use tower_admission::{
    introspection::{Partition, Partitions},
    snapshot::LabelStatus,
};

use crate::{
    args::{PartitionsArgs, ServerArgs},
    client::{Client, block_on, encode},
    failure::{End, Failure},
    nearest::nearest,
    table::{Cell, Table},
    text::{self, Look, Paint, look_of, safe},
};

pub(crate) fn run(args: &PartitionsArgs) -> Result<End, Failure> {
    let client = Client::new(&args.server)?;
    let json = block_on(client.get("/partitions"))?;
    let all: Partitions = client.read(json.clone())?;
    if args.json {
        return text::print(&text::json(&json));
    }
    let lines = table(&all.partitions).lines(Paint::for_stdout());
    text::print(&(lines.join("\n") + "\n"))
}

/// The partitions, those first of which most was refused in the last seconds.
pub(crate) fn table(partitions: &[Partition]) -> Table<9> {
    let mut table = Table::new([
        "PARTITION",
        "STATUS",
        "MODE",
        ">SHARE",
        ">RUNNING",
        ">WAITING",
        ">ADMITTED/S",
        ">REFUSED/S",
        "MOSTLY BECAUSE OF",
    ]);
    let mut sorted: Vec<_> = partitions.iter().map(|it| (&it.snapshot, it.admission.status.as_str())).collect();
    sorted.sort_by(|(a, _), (b, _)| b.recent.rejected_per_second.total_cmp(&a.recent.rejected_per_second));
    for (one, status) in sorted {
        let refused = one.recent.rejected_per_second;
        let most = one.recent.rejected.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(reason, _)| &**reason);
        let below = if one.recent.rejected_below_share { " (below its share)" } else { "" };
        let mode = if one.observes { format!("{}, dry run", one.mode) } else { one.mode.to_string() };
        table.row([
            Cell::name(&one.name).with(Look::Bold),
            Cell::from(status).with(look_of(status)),
            Cell::from(mode),
            Cell::number(one.share),
            Cell::number(one.in_flight),
            Cell::number(one.waiting + one.at_gate),
            Cell::from(format!("{:.1}", one.recent.admitted_per_second)),
            Cell::from(format!("{refused:.1}")).with(if refused > 0.0 { Look::Bad } else { Look::Plain }),
            Cell::from(most.map(|reason| format!("{reason}{below}")).unwrap_or_default()),
        ]);
    }
    table
}

/// The details of one partition.
pub(crate) fn describe(server: &ServerArgs, name: &str, is_json: bool, exit_code: bool) -> Result<End, Failure> {
    let client = Client::new(server)?;
    let found = block_on(async {
        match client.find(&format!("/partitions/{}", encode(name))).await? {
            Some(json) => Ok(json),
            None => {
                let all: Partitions = client.read(client.get("/partitions").await?)?;
                let near = nearest(name, all.partitions.iter().map(|it| it.snapshot.name.as_str()));
                let near = near.map(|near| format!("; did you mean {:?}?", safe(near))).unwrap_or_default();
                Err(Failure::Missing(format!("there is no partition {:?}{near}", safe(name))))
            }
        }
    })?;
    let one: Partition = client.read(found.clone())?;
    text::print(&if is_json { text::json(&found) } else { human(&one) })?;
    Ok(End::wrong_if(exit_code && one.admission.status != LabelStatus::Accepting))
}

fn human(one: &Partition) -> String {
    let paint = Paint::for_stdout();
    let (status, one) = (one.admission.status.as_str(), &one.snapshot);
    let mut lines = vec![
        format!("partition {}: {}", paint.paint(Look::Bold, &safe(&one.name)), paint.paint(look_of(status), status)),
        format!("  {:.1} % of the limit, {} slots, {}", one.percent, one.share, safe(&one.mode)),
        format!("  {} running, {} waiting in line, {} at the gate", one.in_flight, one.waiting, one.at_gate),
    ];
    if one.observes {
        let rate = one.recent.would_reject_per_second;
        lines.push(format!("  observes (dry run): nothing is refused, {rate:.1}/s would be"));
    }
    let recent = &one.recent;
    lines.push(format!(
        "  in the last ten seconds: {:.1}/s admitted, {:.1}/s refused{}",
        recent.admitted_per_second,
        recent.rejected_per_second,
        if recent.rejected_below_share { ", also below its share" } else { "" }
    ));
    let total: u64 = one.rejected.values().sum();
    lines.push(format!("  {} admitted and {total} rejected so far", one.admitted));
    if total > 0 {
        let mut table = Table::new(["REASON", ">REFUSED/S", ">SO FAR"]);
        let mut reasons: Vec<_> = one.rejected.iter().collect();
        reasons.sort_by(|a, b| b.1.cmp(a.1));
        for (reason, count) in reasons {
            let rate = recent.rejected.get(reason).copied().unwrap_or(0.0);
            table.row([Cell::from(&**reason), Cell::from(format!("{rate:.1}")), Cell::from(count.to_string())]);
        }
        lines.extend(table.lines(paint).into_iter().map(|line| format!("  {line}")));
    }
    lines.join("\n") + "\n"
}
