//! The state of the handle in a line, and which requests are refused.

use std::{borrow::Cow, time::Duration};

use super::{
    HealthSnapshot, RecentSnapshot, RejectedSnapshot, Snapshot,
    incident::{Holder, LongestLine},
    limit::compared,
    text,
};
use crate::{
    Engine, Reason, Timestamp,
    ids::{LabelId, PartitionId},
    telemetry::{Health, LastSeconds, Most, PartitionGauges, RejectionKind},
};

/// Where the states are explained, each under a heading of its own.
const RUNBOOK: &str = "https://docs.rs/tower-admission/latest/tower_admission/docs/runbook/index.html";

impl Engine {
    /// Returns the state of the handle in a word.
    pub const fn health(&self) -> Health {
        self.telemetry.health().0
    }

    /// Returns what became of the requests of a partition in the last seconds.
    pub(super) fn recent(&self, partition: PartitionId) -> LastSeconds {
        let it = self.capacity.partition(partition);
        let gauges = PartitionGauges { running: it.running, is_below_share: it.is_owed() };
        self.telemetry.last_seconds(self.now, partition, gauges)
    }

    /// Returns the state of the handle, given what is shown of it otherwise.
    pub(super) fn health_snapshot(&self, whole: &Snapshot) -> HealthSnapshot {
        let (health, since) = self.telemetry.health();
        let last: Vec<_> = self.shown_partitions().map(|(number, _)| self.recent(number)).collect();
        let named = last.iter().zip(&whole.partitions).filter(|(last, _)| last.rejected() > 0);
        let mut refused: Vec<_> = named.map(|(last, it)| rejected_of(last, &it.name, health)).collect();
        refused.sort_by(|a, b| b.per_second.total_cmp(&a.per_second));
        let sum = |rate: fn(&LastSeconds) -> f64| last.iter().map(rate).sum();
        let (label, cap) = self.worst_label().unzip();
        let (holders, in_line) = (self.holders(), self.longest_line());
        let (stuck_slots, are_most_stuck) = self.stuck(&holders);
        let mut found = HealthSnapshot {
            state: health.as_str().into(),
            at_seconds: since.since(Timestamp::ZERO).as_secs_f64(),
            since_seconds: self.now.since(since).as_secs_f64(),
            runbook: format!("{RUNBOOK}#{}", health.as_str().replace('_', "-")),
            window_seconds: LastSeconds::WINDOW.as_secs_f64(),
            admitted_per_second: sum(|it| it.per_second(it.admitted)),
            rejected_per_second: sum(|it| it.per_second(it.rejected())),
            would_reject_per_second: sum(|it| it.per_second(it.would_reject)),
            rejected: refused,
            label,
            stuck_slots,
            without_store: if matches!(health, Health::StoreGone | Health::StoreQuiet) {
                self.quotas.plans().1.without_store().into_iter().map(Cow::Borrowed).collect()
            } else {
                Vec::new()
            },
            ..HealthSnapshot::default()
        };
        let stuck = are_most_stuck.then(|| holders.iter().map(Holder::requests).collect::<Vec<_>>().join(" and "));
        found.advice = advice(health, &found, whole, stuck, in_line.as_ref(), holders.first());
        let unanswered = self.unanswered(&last, whole);
        found.headline = self.headline(health, &found, whole, cap.flatten(), unanswered.as_deref());
        // What is told first is not drowned by the little that is told of most requests.
        let left: f64 = last.iter().map(|it| it.per_second(it.left)).sum();
        let is_much = left * 4.0 >= found.rejected_per_second + found.would_reject_per_second;
        if is_much
            && health != Health::Abandoned
            && let Some(left) = unanswered
        {
            found.headline += &format!("; {left}");
        }
        if let Some(line) =
            in_line.filter(|it| it.rule.is_some() || whole.labels_known > 1 && it.waiting * 2 > whole.waiting)
        {
            found.headline += &format!("; {}", line.sentence());
        }
        for holder in holders.iter().filter(|it| is_worth_a_word(it, health, whole)) {
            found.headline += &format!("; {}", holder.sentence(whole.limit));
        }
        if self.lifecycle.standing().is_leaving && health != Health::Draining {
            found.headline += "; leaving: not ready any more, and drains soon";
        }
        if whole.in_flight * 2 > whole.limit && last.iter().any(LastSeconds::have_most_left) {
            found.advice += ". Work of callers that left: drive it to its end (detach), or say that it stops";
        }
        found
    }

    /// Returns the name of a label with its namespace, as a sentence has it.
    pub(super) fn full_name(&self, id: LabelId) -> String {
        let label = self.quotas.label(id);
        text::full_name(label.namespace, label.name)
    }

    /// Returns the label that was rejected most often in the last seconds, and its cap.
    fn worst_label(&self) -> Option<(RejectedSnapshot, Option<usize>)> {
        let id = self.named_labels(Most::Rejected).next()?;
        let label = self.quotas.label(id);
        let window = self.telemetry.label_window(self.now, id, label.running)?;
        let rejected = window.rejected();
        let snapshot = RejectedSnapshot {
            name: label.name.to_owned(),
            namespace: label.namespace.to_owned(),
            percent: percent(rejected, rejected + window.admitted),
            per_second: window.per_second(rejected),
            reason: None,
        };
        (rejected > 0).then(|| (snapshot, Some(label.cap).filter(|&cap| cap < usize::MAX)))
    }

    /// Says how the handle is, in its first part of a line. `cap` is that of the worst label, and `unanswered` says which requests
    /// get no answer in time.
    fn headline(
        &self,
        health: Health,
        it: &HealthSnapshot,
        whole: &Snapshot,
        cap: Option<usize>,
        unanswered: Option<&str>,
    ) -> String {
        let limit = limit(whole);
        let waiting = whole.waiting + whole.at_gate;
        let rate = and_rejected(it.rejected_per_second);
        let store = self.outage.seen(self.now);
        let seconds = |time: Option<Duration>| text::seconds(time.unwrap_or_default().as_secs_f64());
        match health {
            Health::Fine => {
                let rate = text::rate(it.admitted_per_second);
                format!("fine: {rate} admitted, none refused, {} of {} slots in use", whole.in_flight, whole.limit)
            }
            Health::Busy => {
                // Of few requests the reason is all that there is to tell.
                let why = it.rejected.first().and_then(|it| it.reason.as_deref()).filter(|it| *it != "limit");
                let why = why.map(|it| format!(" ({})", it.replace('_', " "))).unwrap_or_default();
                format!(
                    "busy: {} of {} slots in use, {waiting} waiting{rate}{why}, {limit}",
                    whole.in_flight, whole.limit
                )
            }
            Health::Abandoned => {
                let left = unanswered.unwrap_or("callers leave no more");
                format!("abandoned: {left}, {} of {} slots in use", whole.in_flight, whole.limit)
            }
            Health::Throttled => {
                format!("throttled: {} by their own rules, the server has room", who(it, whole, cap))
            }
            Health::StoreSlow => {
                let after = seconds(store.slow);
                format!("store slow: requests under shared rules wait {after} for its answers{rate}")
            }
            Health::Overloaded => {
                format!("overloaded: {}, {limit}", who(it, whole, None))
            }
            Health::StoreQuiet => {
                let after = seconds(store.quiet);
                format!("store quiet: it is back; grants begin in {after}{}", without_store(it, whole))
            }
            Health::StoreGone => format!("store gone{}", without_store(it, whole).replacen(',', ":", 1)),
            Health::NotEnforcing if whole.mode == "off" => {
                "not enforcing: admission control is switched off".to_owned()
            }
            Health::NotEnforcing => {
                format!("not enforcing: dry run, {} would be refused", text::rate(it.would_reject_per_second))
            }
            Health::Draining => {
                format!("draining: no request is admitted, {} run and {waiting} wait{rate}", whole.in_flight)
            }
        }
    }
}

impl From<&LastSeconds> for RecentSnapshot {
    fn from(last: &LastSeconds) -> Self {
        let occurred = Reason::ALL.into_iter().zip(last.rejected).filter(|&(_, count)| count > 0);
        Self {
            admitted_per_second: last.per_second(last.admitted),
            rejected_per_second: last.per_second(last.rejected()),
            rejected: occurred.map(|(reason, count)| (reason.as_str().into(), last.per_second(count))).collect(),
            would_reject_per_second: last.per_second(last.would_reject),
            rejected_below_share: last.is_rejected_below_share,
            left_per_second: last.per_second(last.left),
            held_seconds: last.held.each().as_secs_f64(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

/// The rejections of a partition. Its reason is the most frequent one of those that the health is about.
fn rejected_of(last: &LastSeconds, name: &str, health: Health) -> RejectedSnapshot {
    let about = match health {
        Health::Throttled => RejectionKind::Throttled,
        Health::StoreQuiet | Health::StoreGone | Health::Draining => RejectionKind::Unavailable,
        _ => RejectionKind::Saturated,
    };
    let reason = [about].into_iter().chain(RejectionKind::ALL).find_map(|kind| last.main_reason(kind));
    RejectedSnapshot {
        name: name.to_owned(),
        namespace: String::new(),
        percent: percent(last.rejected(), last.decided()),
        per_second: last.per_second(last.rejected()),
        reason: reason.map(|it| it.as_str().into()),
    }
}

fn and_rejected(rate: f64) -> String {
    if rate > 0.0 { format!(", {} refused", text::rate(rate)) } else { String::new() }
}

/// What shared rules do without their store.
fn without_store(it: &HealthSnapshot, whole: &Snapshot) -> String {
    let ways = it.without_store.iter().map(|way| match &**way {
        "refuse" => "refuse",
        "local_share" => "admit a local share",
        _ => "admit all",
    });
    let ways = ways.collect::<Vec<_>>().join(" or ");
    if it.rejected_per_second <= 0.0 {
        return format!(", shared rules {ways}");
    }
    // What else rejects is another sentence: rules that admit all would contradict it.
    let is_other =
        ways == "admit all" || it.rejected.first().and_then(|it| it.reason.as_deref()) != Some("store_unavailable");
    let and = if is_other { "; apart from that" } else { "," };
    let (rate, who) = (text::rate(it.rejected_per_second), who(it, whole, None));
    format!(", shared rules {ways}{and} {rate} refused, {who}")
}

/// Which requests are refused, and how many of them: at most two partitions, and a label that most rejections are of, whose cap
/// is told where that is the reason.
fn who(it: &HealthSnapshot, whole: &Snapshot, cap: Option<usize>) -> String {
    let is_alone = whole.partitions.len() == 1;
    /// Rejections from which on they say something of a label.
    const FEW: f64 = 3.0;
    let is_most = |label: &&RejectedSnapshot| {
        label.per_second * 2.0 > it.rejected_per_second && label.per_second * it.window_seconds >= FEW
    };
    let label = it.label.as_ref().filter(is_most);
    let cap = cap.filter(|_| label.is_some()).map(|cap| format!(" {cap}")).unwrap_or_default();
    let partitions = it.rejected.iter().filter(|one| one.percent >= 0.5).take(2).map(|one| {
        let name = if is_alone { "requests".to_owned() } else { text::name(&one.name) };
        let why = match one.reason.as_deref() {
            None | Some("limit") => String::new(),
            Some("label_cap") => format!(" (label cap{cap})"),
            Some(reason) => format!(" ({})", reason.replace('_', " ")),
        };
        format!("{name} refused {}{why}", text::percent(one.percent))
    });
    let mut parts: Vec<_> = partitions.collect();
    if parts.is_empty() {
        // The word outlives what it is about by some seconds.
        let rate = it.rejected_per_second;
        parts.push(if rate > 0.0 {
            format!("{} refused", text::rate(rate))
        } else {
            "none refused any more".to_owned()
        });
    }
    if let Some(label) = label {
        parts.push(format!("most of them of {}", text::full_name(&label.namespace, &label.name)));
    }
    parts.join(", ")
}

/// Whether it has to be told what holds the slots: they are scarce, or they are not given back.
fn is_worth_a_word(holder: &Holder, health: Health, whole: &Snapshot) -> bool {
    let is_scarce = health != Health::Fine && whole.in_flight * 2 > whole.limit;
    holder.is_stuck && (holder.has_most || holder.slots * 10 >= whole.limit)
        || is_scarce && holder.is_named() && holder.slots * 2 > whole.in_flight
}

/// Where the limit stands, and what its law goes by: the times that it compares, or how long slots are held
/// where it compares none.
fn limit(whole: &Snapshot) -> String {
    let (limit, it) = (whole.limit, &whole.limit_state);
    let stands = match &it.at_bound {
        Some(bound) => format!("limit {limit} at its {bound}"),
        None => format!("limit {limit} {}", it.state.replace('_', " ")),
    };
    match () {
        () if it.rtt_seconds.and(it.reference_seconds).is_some() => {
            format!("{stands}, {}", compared(it.rtt_seconds, it.reference_seconds, it.reference.as_deref()))
        }
        () if whole.mean_hold_seconds > 0.0 => {
            format!("{stands}, slots held for {}", text::seconds(whole.mean_hold_seconds))
        }
        () => stands,
    }
}

fn own_rule(label: &str) -> String {
    format!("`admission describe {label}` shows the rule: if that bound is wrong, correct it and reload")
}

/// What to do where slots are too few: it follows from the times, from the bound of the limit, and from what holds most slots.
fn advice_when_overloaded(holder: Option<&Holder>, whole: &Snapshot) -> String {
    let limit = &whole.limit_state;
    // A threshold is a bound; all other references are times of a server that is well.
    let factor = if limit.reference.as_deref() == Some("threshold") { 1.0 } else { 2.0 };
    let are_slow = limit.rtt_seconds.zip(limit.reference_seconds).is_some_and(|(rtt, usual)| rtt > usual * factor);
    let fixed = match (limit.at_bound.as_deref(), holder.filter(|it| it.is_named() && it.has_most)) {
        (bound, _) if are_slow || bound == Some("minimum") => {
            "mend what is slow, the service or what it calls: a higher limit makes it slower"
        }
        (Some("maximum"), _) => "raise the maximum, if the service has room, or add instances",
        (_, Some(holder)) => return format!("have {} send less, or give it a cap or a rate of its own", holder.name),
        _ => "see whether requests take longer than usual; if not, raise the limit or add instances",
    };
    fixed.to_owned()
}

/// What to do, in a line. `stuck` names requests that do not end, and `line` is the longest line.
fn advice(
    health: Health,
    it: &HealthSnapshot,
    whole: &Snapshot,
    stuck: Option<String>,
    line: Option<&LongestLine>,
    holder: Option<&Holder>,
) -> String {
    let fixed = match (health, stuck) {
        (Health::Fine, _) => "nothing to do",
        (Health::Busy | Health::Abandoned | Health::Overloaded, Some(name)) => {
            return format!("find out why {name} do not end; `permit_time_to_live` takes their slots back");
        }
        (Health::Busy, _) => match line.filter(|it| it.rule.is_some()) {
            Some(line) => return own_rule(&line.name),
            None => "nothing, if the waits are short",
        },
        (Health::Abandoned, _) => "mend what is slow, or have callers wait for longer than requests take",
        (Health::Overloaded, _) => return advice_when_overloaded(holder, whole),
        (Health::Throttled, _) => {
            let label = it.label.as_ref().map(|it| text::full_name(&it.namespace, &it.name));
            return own_rule(label.as_deref().unwrap_or("LABEL"));
        }
        (Health::StoreSlow, _) => "look at the store and at the way to it",
        (Health::StoreQuiet, _) => "nothing: meanwhile all instances write down again what they hold",
        (Health::StoreGone, _) => "bring the store back: the rules recover by themselves",
        (Health::NotEnforcing, _) => "set the mode to enforce, unless that is intended",
        (Health::Draining, _) => {
            "nothing, if the process is to stop; if requests keep coming, take it out of the load balancer"
        }
    };
    fixed.to_owned()
}
