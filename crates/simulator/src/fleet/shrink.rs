//! The shortest plan that still breaks the same promise: delta debugging over callers and faults.

use super::{
    ledger::Broken,
    plan::Plan,
    run::{Report, run},
};

/// Most runs that a plan is shrunk with.
const MOST_RUNS: u32 = 400;

/// One thing that may be left out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Part {
    Caller(usize),
    Fault(usize),
}

/// Returns a plan with as few callers and faults as were found to break the same promise, and what came of it.
pub fn shrink(plan: &Plan, broken: &Broken) -> (Plan, Report) {
    let callers = plan.callers.iter().map(|(number, _)| Part::Caller(*number));
    let mut parts: Vec<Part> = callers.chain(plan.faults.iter().map(|(number, _)| Part::Fault(*number))).collect();
    let (mut pieces, mut runs) = (2, 0);
    while parts.len() > 1 && runs < MOST_RUNS {
        let size = parts.len().div_ceil(pieces);
        let mut smaller = None;
        for from in (0..parts.len()).step_by(size) {
            let to = parts.len().min(from + size);
            let rest: Vec<Part> = parts[..from].iter().chain(&parts[to..]).copied().collect();
            runs += 1;
            if breaks(&with(plan, &rest), broken) {
                smaller = Some(rest);
                break;
            }
        }
        match smaller {
            Some(rest) => {
                parts = rest;
                pieces = pieces.saturating_sub(1).max(2);
            }
            None if pieces >= parts.len() => break,
            None => pieces = (2 * pieces).min(parts.len()),
        }
    }
    let plan = with(plan, &parts);
    let report = run(&plan);
    (plan, report)
}

fn breaks(plan: &Plan, broken: &Broken) -> bool {
    run(plan).broken.is_some_and(|other| other.promise == broken.promise)
}

fn with(plan: &Plan, parts: &[Part]) -> Plan {
    let mut plan = plan.clone();
    plan.callers.retain(|(number, _)| parts.contains(&Part::Caller(*number)));
    plan.faults.retain(|(number, _)| parts.contains(&Part::Fault(*number)));
    plan
}
