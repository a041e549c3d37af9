//! The last hour.

use std::time::Duration;

use super::journal::newest_kept;
use crate::{
    Timestamp,
    engine::{JournalEntry, SampledName, Wanted},
    introspect::{
        http::HistoryQuery,
        wire::{HistoryFrame, HistoryPage, HistoryRejection, HistoryRow},
    },
    runtime::{Admission, Frame, HistoryView, Row},
};

/// Marks that are told at most: the newest ones.
const MOST_MARKS: usize = 500;

/// A part of the last hour, and how long ago the handle was made, in seconds.
pub(in crate::introspect) fn history(admission: &Admission, query: &HistoryQuery) -> (HistoryPage, f64) {
    // Times are told to the millisecond: the last frame of the last answer is not told again.
    let since = Timestamp::ZERO.after(query.since).after(Duration::from_millis(u64::from(!query.since.is_zero())));
    let Some(view) = admission.shared.history(query.last, since) else { return (HistoryPage::default(), 0.0) };
    let (now, start) = (seconds(view.now), seconds(since.max(view.now.before(query.last))));
    let is_lately = |entry: &JournalEntry| entry.at_seconds >= start;
    let page = HistoryPage {
        began_seconds: seconds(view.began),
        until_seconds: view.frames.last().map_or_else(|| seconds(since), |it| seconds(it.to)),
        kept_seconds: HistoryView::RETAINED.as_secs_f64(),
        step_seconds: HistoryView::STEP.as_secs_f64(),
        older_step_seconds: HistoryView::COARSE.as_secs_f64(),
        frames: view.frames.iter().map(|it| frame(it, query)).collect(),
        marks: newest_kept(admission, Wanted::Changes, MOST_MARKS, is_lately).0,
    };
    (page, now)
}

fn frame(it: &Frame, query: &HistoryQuery) -> HistoryFrame {
    let rows = |rows: &[Row], wanted: &dyn Fn(&SampledName) -> bool| {
        rows.iter().filter(|it| wanted(&it.name)).map(row).collect::<Vec<_>>()
    };
    HistoryFrame {
        from_seconds: seconds(it.from),
        to_seconds: seconds(it.to),
        gap: it.is_gap,
        summary: it.headline.to_string(),
        limit: round(it.limit),
        limit_min: it.limits[0] as usize,
        limit_max: it.limits[1] as usize,
        whole: row(&it.whole),
        partitions: rows(&it.partitions, &|name| query.partition.as_ref().is_none_or(|wanted| *wanted == name.name)),
        labels: if query.labels { rows(&it.labels, &|name| query.wants_label(name)) } else { Vec::new() },
        others: (query.labels && query.label.is_none()).then(|| row(&it.others())),
    }
}

fn row(it: &Row) -> HistoryRow {
    let rejected_by = it.rejected.iter().map(|it| HistoryRejection {
        reason: it.reason.as_str().to_owned(),
        rule: it.by.rule().map(str::to_owned),
        count: it.count,
    });
    HistoryRow {
        name: it.name.name.clone(),
        namespace: it.name.namespace.clone(),
        class: it.name.class.clone(),
        overflow: it.name.overflow,
        share: round(it.share),
        in_flight: round(it.in_flight),
        waiting: round(it.waiting),
        admitted: it.admitted,
        rejected: it.rejections(),
        left: it.left,
        would_reject: it.would_reject,
        rejected_by: rejected_by.collect(),
        rtt_p50_seconds: it.rtt.map(|[p50, _]| round_time(p50)),
        rtt_p99_seconds: it.rtt.map(|[_, p99]| round_time(p99)),
        wait_p50_seconds: it.wait.map(|[p50, _]| round_time(p50)),
        wait_p99_seconds: it.wait.map(|[_, p99]| round_time(p99)),
    }
}

fn seconds(at: Timestamp) -> f64 {
    (Duration::from_nanos(at.as_nanos()).as_secs_f64() * 1e3).round() / 1e3
}

fn round(gauge: f32) -> f64 {
    (f64::from(gauge) * 1e2).round() / 1e2
}

/// A time to the microsecond.
fn round_time(seconds: f32) -> f64 {
    (f64::from(seconds) * 1e6).round() / 1e6
}
