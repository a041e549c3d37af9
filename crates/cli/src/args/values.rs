//! What options take.

use std::time::Duration;

use clap::builder::PossibleValuesParser;
use tower_admission::{Reason, configuration::parse_time, journal::DecisionKind, snapshot::LabelStatus};

/// How a label fares.
pub(super) fn statuses() -> PossibleValuesParser {
    LabelStatus::ALL.map(LabelStatus::as_str).into()
}

/// What labels are sorted by: the largest first, but for names.
pub(super) const SORTS: [&str; 9] =
    ["label", "status", "leased", "ready", "oldest_wait", "admitted", "rejected", "rejected_per_second", "harm"];

/// The same for what has to be measured.
pub(super) fn measures() -> PossibleValuesParser {
    SORTS[1..].iter().copied().into()
}

/// What an entry of the journal is about: a request, or the handle.
pub(super) const KINDS: [&str; 2] = ["decision", "change"];

pub(super) fn reasons() -> PossibleValuesParser {
    Reason::ALL.map(Reason::as_str).into()
}

pub(super) fn decisions() -> PossibleValuesParser {
    DecisionKind::ALL.map(DecisionKind::as_str).into()
}

/// `5s`, `1m30s`, or bare seconds.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let bare_seconds = || parse_time(&format!("{}s", text.trim()));
    let allowed = "allowed is a time such as \"250ms\", \"5s\", \"1m30s\" or \"2h\"";
    parse_time(text).or_else(bare_seconds).ok_or_else(|| allowed.to_owned())
}

pub(super) fn last_hour(text: &str) -> Result<Duration, String> {
    let hour = Duration::from_secs(1)..=Duration::from_secs(3_600);
    time(text).and_then(|time| if hour.contains(&time) { Ok(time) } else { Err("allowed is 1s to 1h".to_owned()) })
}

pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let least = Duration::from_millis(50);
    time(text).and_then(|time| if time < least { Err("allowed is 50ms or more".to_owned()) } else { Ok(time) })
}

pub(super) fn times(text: &str) -> Result<(Duration, Duration), String> {
    let (shortest, longest) = text.split_once("..").unwrap_or((text, text));
    let (shortest, longest) = (time(shortest)?, time(longest.trim_start_matches('='))?);
    if longest < shortest { Err("allowed is SHORTEST..LONGEST".to_owned()) } else { Ok((shortest, longest)) }
}

pub(super) fn positive(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| "allowed is a whole number, 1 or more".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_and_without_a_unit() {
        let seconds = Duration::from_secs;
        assert_eq!(time("1m30s"), Ok(seconds(90)));
        assert_eq!(time("2"), Ok(seconds(2)));
        assert_eq!(times("229s..245s"), Ok((seconds(229), seconds(245))));
        assert_eq!(times("229s..=245s"), Ok((seconds(229), seconds(245))));
        assert_eq!(times("5"), Ok((seconds(5), seconds(5))));
        for bad in ["", "fast", "5s..1s", ".."] {
            assert!(times(bad).is_err(), "{bad}");
        }
        assert!(interval("0").is_err());
    }
}
