//! Load reports for load balancers that weigh servers by them: Open Request Cost Aggregation (ORCA).
//!
//! A report is an `xds.data.orca.v3.OrcaLoadReport`. HTTP carries it in a header, as text or JSON, in the forms that Envoy's
//! `orca_parser` reads. gRPC carries it in trailers, as a binary message (gRFC A51), and makes weights of it (gRFC A58).

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;

use crate::{
    Reason,
    engine::{PartitionSnapshot, Snapshot},
    runtime::Admission,
};

static REPORT: HeaderName = HeaderName::from_static("endpoint-load-metrics");
static REPORT_BINARY: HeaderName = HeaderName::from_static("endpoint-load-metrics-bin");
static ASKED: HeaderName = HeaderName::from_static("endpoint-load-metrics-format");

/// For so long a report is sent again: to make one takes the lock of the handle.
const FRESH: Duration = Duration::from_millis(100);

/// The form of a report.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::admission) enum Format {
    Text,
    Json,
    Binary,
}

/// Whether a request asks for JSON, as in servers of models; Envoy asks for nothing, and reads both.
pub(in crate::admission) fn asks_for_json(headers: &HeaderMap) -> bool {
    headers.get(&ASKED).is_some_and(|format| format.as_bytes().eq_ignore_ascii_case(b"json"))
}

/// Makes the reports of a layer.
pub(in crate::admission) struct LoadReports {
    admission: Admission,
    last: Mutex<Option<Report>>,
}

/// A report, and what the next one needs of it.
struct Report {
    made: Instant,
    /// In each form.
    values: [HeaderValue; 3],
    /// Requests that were admitted until then, and those that were rejected for want of capacity.
    counted: (Instant, [u64; 2]),
    /// The same per second.
    rates: [f64; 2],
}

impl LoadReports {
    pub(in crate::admission) fn new(admission: Admission) -> Self {
        Self { admission, last: Mutex::default() }
    }

    /// Adds a report to a head or to trailers, unless the service has added one of its own.
    #[cold]
    pub(in crate::admission) fn add(&self, headers: &mut HeaderMap, format: Format) {
        let name = if format == Format::Binary { &REPORT_BINARY } else { &REPORT };
        headers.entry(name).or_insert_with(|| self.value(format));
    }

    fn value(&self, format: Format) -> HeaderValue {
        let (now, last) = (Instant::now(), || self.last.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(report) = &*last()
            && now.saturating_duration_since(report.made) < FRESH
        {
            return report.values[format as usize].clone();
        }
        // Outside of the lock, since a turn of the engine may wake tasks.
        let seen = self.admission.shared.look(|engine, _| engine.snapshot());
        let mut last = last();
        let report = Report::after(last.as_ref(), now, &seen);
        last.insert(report).values[format as usize].clone()
    }
}

impl Report {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn after(last: Option<&Self>, now: Instant, seen: &Snapshot) -> Self {
        // Bounds of a caller are the same on each server.
        let reasons = || Reason::ALL.iter().filter(|reason| !reason.is_caller_limit());
        let rejected =
            |it: &PartitionSnapshot| reasons().filter_map(|reason| it.rejected.get(reason.as_str())).sum::<u64>();
        let counts = [seen.admitted(), seen.partitions.iter().map(rejected).sum()];
        let (mut counted, mut rates) = last.map_or(((now, counts), [0.0; 2]), |last| (last.counted, last.rates));
        let seconds = now.saturating_duration_since(counted.0).as_secs_f64();
        if seconds >= 1.0 {
            rates = std::array::from_fn(|at| counts[at].saturating_sub(counted.1[at]) as f64 / seconds);
            counted = (now, counts);
        }
        let used = (seen.in_flight + seen.waiting + seen.at_gate) as f64 / seen.limit.max(1) as f64;
        let fields = [("application_utilization", 9, used), ("rps_fractional", 6, rates[0]), ("eps", 7, rates[1])];
        let fields: Vec<_> = fields.into_iter().filter(|&(_, field, value)| field == 9 || value > 0.0).collect();
        let list = |pair: fn(&(&str, u8, f64)) -> String| fields.iter().map(pair).collect::<Vec<_>>().join(",");
        let text = format!("TEXT {}", list(|(name, _, value)| format!("{name}:{value}")));
        let json = format!("JSON {{{}}}", list(|(name, _, value)| format!(r#""{name}":{value}"#)));
        // Each field is a double: its number with the wire type 1, and eight bytes.
        let double = |&(_, field, value): &(_, u8, f64)| [&[field << 3 | 1], &value.to_le_bytes()[..]].concat();
        let binary = STANDARD_NO_PAD.encode(fields.iter().flat_map(double).collect::<Vec<u8>>());
        let values = [text, json, binary];
        let values = values.map(|it| HeaderValue::try_from(it).unwrap_or_else(|_| HeaderValue::from_static("")));
        Self { made: now, values, counted, rates }
    }
}
