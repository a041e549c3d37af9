//! The state of the handle in a line, and which requests are refused.

use std::collections::BTreeMap;

use super::{LimitSnapshot, Snapshot, text};
use crate::{
    engine::{
        Engine,
        ids::PartitionId,
        telemetry::{Fares, LastSeconds, Verdict},
    },
    rejection::Reason,
    time::Timestamp,
};

/// The first thing to look at: the state of the handle, since when, which requests are refused, and what to do.
///
/// All rates are those of the last ten seconds, or of the time since the handle was made.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "introspect", derive(serde::Serialize))]
#[non_exhaustive]
pub struct VerdictSnapshot {
    /// The state in a word; see [`Verdict`].
    pub state: &'static str,
    /// The state in a line, such as `overloaded: noisy refused 99 %, limit 80 at its maximum`. The name of a label in it comes
    /// from a caller.
    pub headline: String,
    /// Time when this state began, in seconds since the handle was made.
    pub at_seconds: f64,
    /// Time for which the handle has been in this state, in seconds.
    #[cfg_attr(feature = "introspect", serde(skip))]
    pub since_seconds: f64,
    /// URL of what the state means and what to do.
    pub runbook: String,
    /// Time that the rates are about, in seconds: always 10, and less for a handle that is younger.
    pub window_seconds: f64,
    /// Requests that were admitted per second.
    pub admitted_per_second: f64,
    /// Requests that were rejected per second.
    pub refused_per_second: f64,
    /// Requests per second that ran and would have been rejected, had decisions been binding.
    pub would_refuse_per_second: f64,
    /// The partitions with rejections, the one with most of them first.
    pub refused: Vec<RefusedSnapshot>,
    /// The label that was rejected most often, if any was.
    pub label: Option<RefusedSnapshot>,
    /// What rules that instances share do without their store, while it is gone: `refuse`, `local_share`, `admit`.
    pub without_store: Vec<&'static str>,
}

/// Rejections of the last seconds, of a partition or of a label.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "introspect", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RefusedSnapshot {
    /// Name of the partition or of the label.
    pub name: String,
    /// Namespace of the label; empty if it has none, and for a partition.
    pub namespace: String,
    /// Part of the requests that were rejected, in percent.
    pub percent: f64,
    /// Requests that were rejected per second.
    pub per_second: f64,
    /// Most frequent [reason](crate::Reason), for a partition.
    pub reason: Option<&'static str>,
}

/// What became of the requests of a partition in the last ten seconds, or since the handle was made.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "introspect", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RecentSnapshot {
    /// Requests that were admitted per second.
    pub admitted_per_second: f64,
    /// Requests that were rejected per second.
    pub refused_per_second: f64,
    /// The same by reason; reasons that did not occur are left out.
    pub refused: BTreeMap<&'static str, f64>,
    /// Requests per second that ran and would have been rejected, had decisions been binding.
    pub would_refuse_per_second: f64,
    /// Whether requests were rejected for want of capacity while the partition ran fewer than its share.
    pub refused_below_share: bool,
}

/// Where the states are explained, each under a heading of its own.
const RUNBOOK: &str = "https://docs.rs/tower-admission/latest/tower_admission/docs/runbook/index.html";

impl Engine {
    /// Returns what became of the requests of a partition in the last seconds.
    pub(super) fn recent(&self, partition: PartitionId) -> LastSeconds {
        self.telemetry.last_seconds(self.now, partition, self.capacity.partition(partition).is_owed())
    }

    /// Returns the state of the handle, given what is shown of it otherwise.
    pub(super) fn verdict_snapshot(&self, whole: &Snapshot) -> VerdictSnapshot {
        let (verdict, since) = self.telemetry.verdict();
        let numbers = self.capacity.partitions().filter(|(_, it)| it.is_shown()).map(|(number, _)| number);
        let last: Vec<_> = numbers.map(|number| self.recent(number)).collect();
        let named = last.iter().zip(&whole.partitions).filter(|(last, _)| last.refused() > 0);
        let mut refused: Vec<_> = named.map(|(last, it)| refused_of(last, &it.name, verdict)).collect();
        refused.sort_by(|a, b| b.per_second.total_cmp(&a.per_second));
        let sum = |rate: fn(&LastSeconds) -> f64| last.iter().map(rate).sum();
        let mut found = VerdictSnapshot {
            state: verdict.as_str(),
            headline: String::new(),
            at_seconds: since.since(Timestamp::ZERO).as_secs_f64(),
            since_seconds: self.now.since(since).as_secs_f64(),
            runbook: format!("{RUNBOOK}#{}", verdict.as_str().replace('_', "-")),
            window_seconds: LastSeconds::WINDOW.as_secs_f64(),
            admitted_per_second: sum(|it| it.per_second(it.admitted)),
            refused_per_second: sum(|it| it.per_second(it.refused())),
            would_refuse_per_second: sum(|it| it.per_second(it.would_reject)),
            refused,
            label: self.worst_label(),
            without_store: if verdict == Verdict::StoreGone { self.quotas.without_store() } else { Vec::new() },
        };
        found.headline = headline(verdict, &found, whole);
        found
    }

    /// Returns the label that was rejected most often in the last seconds.
    fn worst_label(&self) -> Option<RefusedSnapshot> {
        let id = self.telemetry.worst_label()?;
        let (lately, label) = (self.telemetry.lately(self.now, id)?, self.quotas.label(id));
        let refused = lately.refused();
        (refused > 0 && !label.name().is_empty()).then(|| RefusedSnapshot {
            name: label.name().to_owned(),
            namespace: label.namespace().to_owned(),
            percent: percent(refused, refused + lately.admitted),
            per_second: lately.per_second(refused),
            reason: None,
        })
    }
}

impl From<&LastSeconds> for RecentSnapshot {
    fn from(last: &LastSeconds) -> Self {
        let occurred = Reason::ALL.into_iter().zip(last.rejected).filter(|&(_, count)| count > 0);
        Self {
            admitted_per_second: last.per_second(last.admitted),
            refused_per_second: last.per_second(last.refused()),
            refused: occurred.map(|(reason, count)| (reason.as_str(), last.per_second(count))).collect(),
            would_refuse_per_second: last.per_second(last.would_reject),
            refused_below_share: last.is_refused_below_share,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

/// The rejections of a partition. Its reason is the most frequent one of those that the verdict is about.
fn refused_of(last: &LastSeconds, name: &str, verdict: Verdict) -> RefusedSnapshot {
    let about = match verdict {
        Verdict::Throttled => Fares::Throttled,
        Verdict::StoreGone | Verdict::Draining => Fares::Unavailable,
        _ => Fares::Saturated,
    };
    let others = [Fares::Saturated, Fares::Throttled, Fares::Unavailable];
    let reason = [about].into_iter().chain(others).find_map(|fares| last.main_reason(fares));
    RefusedSnapshot {
        name: name.to_owned(),
        namespace: String::new(),
        percent: percent(last.refused(), last.decided()),
        per_second: last.per_second(last.refused()),
        reason: reason.map(Reason::as_str),
    }
}

fn headline(verdict: Verdict, it: &VerdictSnapshot, whole: &Snapshot) -> String {
    let limit = limit(whole.limit, &whole.limit_state);
    let waiting = whole.waiting + whole.at_gate;
    let refused = |rate: f64| if rate > 0.0 { format!(", {} refused", text::rate(rate)) } else { String::new() };
    match verdict {
        Verdict::Fine => {
            let rate = text::rate(it.admitted_per_second);
            format!("fine: {rate} admitted, none refused, {} of {} slots in use", whole.in_flight, whole.limit)
        }
        Verdict::Busy => {
            let rate = refused(it.refused_per_second);
            format!("busy: {} of {} slots in use, {waiting} waiting{rate}, {limit}", whole.in_flight, whole.limit)
        }
        Verdict::Throttled => {
            format!("throttled: {} by their own rules, the server has room", who(it, whole))
        }
        Verdict::Overloaded => format!("overloaded: {}, {limit}", who(it, whole)),
        Verdict::StoreGone => {
            let ways = it.without_store.iter().map(|way| match *way {
                "refuse" => "refuse",
                "local_share" => "admit a local share",
                _ => "admit all",
            });
            let ways = ways.collect::<Vec<_>>().join(" or ");
            format!("store gone: shared rules {ways}{}", refused(it.refused_per_second))
        }
        Verdict::NotEnforcing if whole.mode == "off" => "not enforcing: admission control is switched off".to_owned(),
        Verdict::NotEnforcing => {
            format!("not enforcing: dry run, {} would be refused", text::rate(it.would_refuse_per_second))
        }
        Verdict::Draining => format!("draining: no request is admitted, {} run and {waiting} wait", whole.in_flight),
    }
}

/// Which requests are refused, and how many of them: at most two partitions, and a label that most rejections are of.
fn who(it: &VerdictSnapshot, whole: &Snapshot) -> String {
    let is_alone = whole.partitions.len() == 1;
    let partitions = it.refused.iter().filter(|one| one.percent >= 0.5).take(2).map(|one| {
        let name = if is_alone { "requests".to_owned() } else { text::name(&one.name) };
        let why = one.reason.filter(|reason| *reason != "limit").map(|it| format!(" ({it})")).unwrap_or_default();
        format!("{name} refused {}{why}", text::percent(one.percent))
    });
    let mut parts: Vec<_> = partitions.collect();
    if parts.is_empty() {
        parts.push(format!("{} refused", text::rate(it.refused_per_second)));
    }
    if let Some(label) = it.label.as_ref().filter(|label| label.per_second * 2.0 > it.refused_per_second) {
        let namespace = if label.namespace.is_empty() { String::new() } else { text::name(&label.namespace) + ":" };
        parts.push(format!("most of them of {namespace}{}", text::name(&label.name)));
    }
    parts.join(", ")
}

fn limit(limit: usize, it: &LimitSnapshot) -> String {
    match it.at_bound {
        Some(bound) => format!("limit {limit} at its {bound}"),
        None => format!("limit {limit} {}", it.state.replace('_', " ")),
    }
}
