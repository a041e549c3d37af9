//! Runs a capture again: exactly, under its own policy, or as a closed loop under another one.

use std::{fs, path::Path};

use serde_json::json;

use crate::{
    captured::Captured,
    policy::Policy,
    what_if::{Fates, recorded, what_if},
};

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Whether a replay under its own policy decided the same.
pub(crate) fn run(file: &Path, policy: Option<&Path>, as_json: bool) -> Result<bool, String> {
    let text = read(file)?;
    let complain = |problem: String| format!("{}: {problem}", file.display());
    let captured = Captured::read(&text).map_err(complain)?;
    let Some(path) = policy else {
        let own = captured.policy.as_ref();
        let own = own.map_err(|what| complain(format!("the capture can't describe {what}: give --policy FILE")))?;
        let reloads: Result<Vec<_>, _> = captured.reloads.iter().map(Result::as_ref).collect();
        let reloads = reloads.map_err(|what| complain(format!("a reload: the capture can't describe {what}")))?;
        let reloads = reloads.into_iter().map(Policy::settings);
        let again = own.settings().replay_with_reloads(reloads, text.as_bytes());
        let again = again.map_err(|error| complain(error.to_string()))?;
        if as_json {
            let report = json!({"rows": again.rows(), "differences": again.differences(), "cut": again.cut()});
            println!("{report}");
        } else {
            println!("{} rows, {} differences", again.rows(), again.differences());
            again.first_differences().iter().for_each(|difference| println!("  {difference}"));
            if let Some(cut) = again.cut() {
                println!("the capture was cut short: {cut}");
            }
        }
        return Ok(again.differences() == 0);
    };
    let other = Policy::parse(&read(path)?).map_err(|problem| format!("{}: {problem}", path.display()))?;
    let (then, now) = (recorded(&captured), what_if(&captured, &other));
    if as_json {
        println!("{}", json!({"recorded": to_json(&then), "replayed": to_json(&now)}));
    } else {
        print(&then, &now, captured.requests.len());
    }
    Ok(true)
}

fn to_json(fates: &Fates) -> serde_json::Value {
    json!({
        "admitted": fates.admitted, "left": fates.left, "rejected": fates.rejected,
        "wait_p50": fates.wait(50), "wait_p99": fates.wait(99),
    })
}

fn print(then: &Fates, now: &Fates, requests: usize) {
    println!("{requests} requests       recorded   replayed");
    let row = |name: &str, then: String, now: String| println!("{name:<20}{then:>10} {now:>10}");
    row("admitted", then.admitted.to_string(), now.admitted.to_string());
    row("left", then.left.to_string(), now.left.to_string());
    row("rejected", then.all_rejected().to_string(), now.all_rejected().to_string());
    let reasons: std::collections::BTreeSet<_> = then.rejected.keys().chain(now.rejected.keys()).collect();
    for reason in reasons {
        let of = |fates: &Fates| fates.rejected.get(reason).copied().unwrap_or(0).to_string();
        row(&format!("  {reason}"), of(then), of(now));
    }
    for per_cent in [50, 99] {
        let of = |fates: &Fates| format!("{:.1}", fates.wait(per_cent));
        row(&format!("wait p{per_cent}, ms"), of(then), of(now));
    }
    println!("limit at the end    {:>10} {:>10}", "", now.limit_end);
}
