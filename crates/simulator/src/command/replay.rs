//! Runs a capture again: exactly, under its own policy, or as a closed loop under others.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::side_by_side;
use crate::{
    candidate::Candidate,
    captured::Captured,
    compare::{compare, sum},
    policy::Policy,
    replay::replay,
    what_if::{Fates, recorded, what_if, what_if_under},
};

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Whether a replay under its own policy decided the same.
pub(crate) fn run(file: &Path, policies: &[PathBuf], as_json: bool) -> Result<bool, String> {
    let text = read(file)?;
    let complain = |problem: String| format!("{}: {problem}", file.display());
    let captured = Captured::read(&text).map_err(complain)?;
    if policies.is_empty() && !captured.is_rolling {
        return exactly(&captured, &text, as_json).map_err(complain);
    }
    let candidates: Vec<(String, Candidate)> = if policies.is_empty() {
        let own = captured.policy.as_ref();
        let own = own.map_err(|what| complain(format!("the capture can't describe {what}: give --policy FILE")))?;
        vec![("its own".to_owned(), Candidate::Scenario(own.clone()))]
    } else {
        let read = |path: &PathBuf| {
            let candidate = Candidate::parse(&read(path)?);
            Ok((name(path), candidate.map_err(|problem| format!("{}: {problem}", path.display()))?))
        };
        policies.iter().map(read).collect::<Result<_, String>>()?
    };
    let then = recorded(&captured);
    let now: Vec<Fates> = candidates.iter().map(|(_, candidate)| what_if_under(&captured, candidate)).collect();
    let groups = compare(&captured, &then, &now);
    // A replay that does not even show what was is no forecast of what would have been.
    let own = captured.policy.as_ref().map(|own| what_if(&captured, own)).ok();
    let own = own.map(|own| sum(compare(&captured, &then, &[own]).iter().map(|(_, tallies)| tallies)));
    let departs = own.and_then(|own| own.last()?.departs());
    let names: Vec<&str> = candidates.iter().map(|(name, _)| name.as_str()).collect();
    if as_json {
        sayln!("{}", side_by_side::to_json(&captured, departs, &names, &groups, &then, &now));
    } else {
        say!("{}", side_by_side::table(&captured, departs, &names, &groups, &then, &now));
    }
    Ok(true)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Decides all again under the policy of the capture.
fn exactly(captured: &Captured, text: &str, as_json: bool) -> Result<bool, String> {
    let own = captured.policy.as_ref();
    let own = own.map_err(|what| format!("the capture can't describe {what}: give --policy FILE"))?;
    let reloads: Result<Vec<_>, _> = captured.reloads.iter().map(Result::as_ref).collect();
    let reloads = reloads.map_err(|what| format!("a reload: the capture can't describe {what}"))?;
    let reloads = reloads.into_iter().map(Policy::settings);
    let again = replay(own.settings(), reloads, text.as_bytes())?;
    if as_json {
        let report: Value = json!({"rows": again.rows, "differences": again.differences, "cut": again.cut});
        sayln!("{report}");
    } else {
        sayln!("{} rows, {} differences", again.rows, again.differences);
        again.first_differences.iter().for_each(|difference| sayln!("  {difference}"));
        if let Some(cut) = again.cut {
            sayln!("the capture was cut short: {cut}");
        }
    }
    Ok(again.differences == 0)
}
