//! What a URL says: percent-encoded text and parameters.

use std::{borrow::Cow, fmt, str::FromStr, time::Duration};

use super::reply::Problem;
use crate::{
    Reason,
    admission::percent_decoded,
    engine::{DecisionEntry, DecisionKind, JournalEntry, JournalEvent, LabelStatus, SampledName, Wanted},
};

/// Labels on a page: unless asked for, and at most.
const PAGE: usize = 100;
const MOST: usize = 1_000;

/// Which labels are wanted, and in which order.
#[derive(Debug)]
pub(in crate::introspect) struct LabelQuery {
    pub(in crate::introspect) offset: usize,
    pub(in crate::introspect) limit: usize,
    pub(in crate::introspect) namespace: Option<String>,
    pub(in crate::introspect) prefix: String,
    pub(in crate::introspect) contains: String,
    pub(in crate::introspect) status: Option<LabelStatus>,
    pub(in crate::introspect) sort: LabelSort,
    pub(in crate::introspect) descending: bool,
}

/// Which entries of the journal are wanted.
#[derive(Debug)]
pub(in crate::introspect) struct JournalQuery {
    /// Entries after this number, the oldest first; the newest entries, if it is not given.
    pub(in crate::introspect) since: Option<u64>,
    pub(in crate::introspect) limit: usize,
    pub(in crate::introspect) wanted: Wanted,
    /// Which decisions are wanted, if not all.
    pub(in crate::introspect) filter: Option<Box<DecisionFilter>>,
}

/// What decisions have to have in common.
#[derive(Debug, Default)]
pub(in crate::introspect) struct DecisionFilter {
    partition: Option<String>,
    namespace: Option<String>,
    label: Option<String>,
    rule: Option<String>,
    reason: Option<Reason>,
    decision: Option<DecisionKind>,
}

impl DecisionFilter {
    fn set(&mut self, key: &str, value: String) -> Result<(), Problem> {
        match key {
            "partition" => self.partition = Some(value),
            "namespace" => self.namespace = Some(value),
            "label" => self.label = Some(value),
            "rule" => self.rule = Some(value),
            "reason" => {
                self.reason = Some(word(key, &value, &Reason::ALL.map(|reason| (reason.as_str(), reason)))?);
            }
            "decision" => {
                self.decision = Some(word(key, &value, &DecisionKind::ALL.map(|it| (it.as_str(), it)))?);
            }
            _ => return Err(unknown(key)),
        }
        Ok(())
    }

    fn keeps(&self, it: &DecisionEntry) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
        is(&self.partition, &it.partition)
            && is(&self.namespace, &it.namespace)
            && is(&self.label, &it.label)
            && is(&self.rule, it.rule.as_deref().unwrap_or_default())
            && self.reason.is_none_or(|reason| it.reason == Some(reason))
            && self.decision.is_none_or(|decision| it.decision == decision)
    }
}

impl JournalQuery {
    /// Whether an entry is wanted. A filter is about decisions.
    pub(in crate::introspect) fn keeps(&self, entry: &JournalEntry) -> bool {
        let Some(filter) = &self.filter else { return true };
        matches!(&entry.event, JournalEvent::Decision(decision) if filter.keeps(decision))
    }

    pub(super) fn parse(query: Option<&str>) -> Result<Self, Problem> {
        let mut this = Self { since: None, limit: PAGE, wanted: Wanted::All, filter: None };
        for (key, value) in parameters(query)? {
            match key.as_str() {
                "since" => this.since = Some(number(&key, &value, 0, u64::MAX)?),
                "limit" => this.limit = number(&key, &value, 1, MOST)?,
                "kind" => {
                    let kinds = [("decision", Wanted::Decisions), ("change", Wanted::Changes)];
                    this.wanted = word(&key, &value, &kinds)?;
                }
                // Nothing chosen is no filter: that is what an HTML form sends.
                "partition" | "namespace" | "label" | "rule" | "reason" | "decision" if value.is_empty() => {}
                _ => this.filter.get_or_insert_default().set(&key, value)?,
            }
        }
        Ok(this)
    }
}

/// Which part of the last hour is wanted.
#[derive(Debug)]
pub(in crate::introspect) struct HistoryQuery {
    /// How long ago it begins.
    pub(in crate::introspect) last: Duration,
    /// Frames that end later than this, by the clock of the handle.
    pub(in crate::introspect) since: Duration,
    pub(in crate::introspect) partition: Option<String>,
    /// Whether labels are wanted, and which one if not all.
    pub(in crate::introspect) labels: bool,
    pub(in crate::introspect) label: Option<String>,
    pub(in crate::introspect) namespace: Option<String>,
}

impl HistoryQuery {
    pub(super) fn parse(query: Option<&str>) -> Result<Self, Problem> {
        let mut this = Self {
            last: Duration::from_secs(600),
            since: Duration::ZERO,
            partition: None,
            labels: false,
            label: None,
            namespace: None,
        };
        for (key, value) in parameters(query)? {
            match key.as_str() {
                "last" => this.last = span(&key, &value)?,
                "since" => {
                    let seconds: f64 = number(&key, &value, 0.0, 1e12)?;
                    this.since = Duration::try_from_secs_f64(seconds).unwrap_or_default();
                }
                "partition" => this.partition = Some(value),
                "labels" => this.labels = word(&key, &value, &[("top", true), ("none", false)])?,
                "label" => (this.labels, this.label) = (true, Some(value)),
                "namespace" => this.namespace = Some(value),
                _ => return Err(unknown(&key)),
            }
        }
        Ok(this)
    }

    /// Whether a label of this name is wanted, if labels are.
    pub(in crate::introspect) fn wants_label(&self, it: &SampledName) -> bool {
        let Some(label) = &self.label else { return true };
        *label == it.name && self.namespace.as_deref().unwrap_or_default() == it.namespace
    }
}

/// A span such as `90`, `90s`, `10m` or `1h`: an hour at the most.
fn span(key: &str, value: &str) -> Result<Duration, Problem> {
    let units = [('s', 1), ('m', 60), ('h', 3_600)];
    let with_unit = units.into_iter().find_map(|(letter, unit)| Some((value.strip_suffix(letter)?, unit)));
    let (digits, unit) = with_unit.unwrap_or((value, 1));
    let seconds = u64::from_str(digits).ok().and_then(|count| count.checked_mul(unit));
    let seconds = seconds.filter(|seconds| (1..=3_600).contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| {
        Problem::invalid(format_args!("{key}: found {value:?}, allowed is a span from 1s to 1h, such as 90s or 10m"))
    })
}

/// How much of a capture is wanted, or how much is to be captured.
#[cfg(feature = "capture")]
#[derive(Debug, Default)]
pub(super) struct CaptureQuery {
    /// In seconds.
    pub(super) last: Option<u64>,
    pub(super) max_bytes: Option<usize>,
}

#[cfg(feature = "capture")]
impl CaptureQuery {
    pub(super) fn parse(query: Option<&str>) -> Result<Self, Problem> {
        const LONGEST: u64 = 86_400;
        let mut this = Self::default();
        for (key, value) in parameters(query)? {
            match key.as_str() {
                "last" => this.last = Some(number(&key, &value, 1, LONGEST)?),
                "max_bytes" => this.max_bytes = Some(number(&key, &value, 1_024, 1 << 30)?),
                _ => return Err(unknown(&key)),
            }
        }
        Ok(this)
    }
}

/// Which waiters of a label are wanted, and the namespace of the label.
#[derive(Debug)]
pub(in crate::introspect) struct WaiterQuery {
    pub(in crate::introspect) offset: usize,
    pub(in crate::introspect) limit: usize,
    pub(in crate::introspect) namespace: String,
    /// Instead of the name in the path.
    pub(in crate::introspect) label: Option<String>,
}

impl WaiterQuery {
    pub(super) fn parse(query: Option<&str>) -> Result<Self, Problem> {
        let mut this = Self { offset: 0, limit: PAGE, namespace: String::new(), label: None };
        for (key, value) in parameters(query)? {
            match key.as_str() {
                "offset" => this.offset = number(&key, &value, 0, usize::MAX)?,
                "limit" => this.limit = number(&key, &value, 1, MOST)?,
                "namespace" => this.namespace = value,
                "label" => this.label = Some(value),
                _ => return Err(unknown(&key)),
            }
        }
        Ok(this)
    }
}

/// What labels are sorted by. Labels that are equal in it are sorted by name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::introspect) enum LabelSort {
    Label,
    Status,
    Leased,
    Ready,
    OldestWait,
    Admitted,
    Rejected,
    /// By rejections per second over the last five to ten seconds.
    RejectedPerSecond,
    /// By requests that are refused or whose callers leave, per second, and those that wait.
    Harm,
}

const SORTS: [(&str, LabelSort); 9] = [
    ("label", LabelSort::Label),
    ("status", LabelSort::Status),
    ("leased", LabelSort::Leased),
    ("ready", LabelSort::Ready),
    ("oldest_wait", LabelSort::OldestWait),
    ("admitted", LabelSort::Admitted),
    ("rejected", LabelSort::Rejected),
    ("rejected_per_second", LabelSort::RejectedPerSecond),
    ("harm", LabelSort::Harm),
];

const ORDERS: [(&str, bool); 2] = [("asc", false), ("desc", true)];

impl LabelQuery {
    pub(super) fn parse(query: Option<&str>) -> Result<Self, Problem> {
        let mut this = Self {
            offset: 0,
            limit: PAGE,
            namespace: None,
            prefix: String::new(),
            contains: String::new(),
            status: None,
            sort: LabelSort::Label,
            descending: false,
        };
        for (key, value) in parameters(query)? {
            match key.as_str() {
                "offset" => this.offset = number(&key, &value, 0, usize::MAX)?,
                "limit" => this.limit = number(&key, &value, 1, MOST)?,
                "namespace" => this.namespace = Some(value),
                "prefix" => this.prefix = value,
                "contains" => this.contains = value,
                // Nothing chosen is no filter: that is what an HTML form sends.
                "status" if value.is_empty() => {}
                "status" => {
                    let statuses = LabelStatus::ALL.map(|status| (status.as_str(), status));
                    this.status = Some(word(&key, &value, &statuses)?);
                }
                "sort" => this.sort = word(&key, &value, &SORTS)?,
                "order" => this.descending = word(&key, &value, &ORDERS)?,
                _ => return Err(unknown(&key)),
            }
        }
        Ok(this)
    }

    /// Whether a label of this name is wanted.
    pub(in crate::introspect) fn wants(&self, namespace: &str, name: &str) -> bool {
        self.namespace.as_ref().is_none_or(|wanted| wanted == namespace)
            && name.starts_with(&self.prefix)
            && (name.contains(&self.contains) || namespace.contains(&self.contains))
    }
}

/// The parameters `namespace`, empty unless given, and `label`, instead of the name in the path.
pub(super) fn label(query: Option<&str>) -> Result<(String, Option<String>), Problem> {
    let mut found = (String::new(), None);
    for (key, value) in parameters(query)? {
        match key.as_str() {
            "namespace" => found.0 = value,
            "label" => found.1 = Some(value),
            _ => return Err(unknown(&key)),
        }
    }
    Ok(found)
}

/// Decodes a part of a path.
pub(super) fn segment(text: &str) -> Result<String, Problem> {
    decode(text, false)
}

fn parameters(query: Option<&str>) -> Result<Vec<(String, String)>, Problem> {
    let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(key, true)?, decode(value, true)?))
        })
        .collect()
}

fn unknown(key: &str) -> Problem {
    Problem::invalid(format_args!("unknown parameter {key:?} of this path"))
}

fn number<N>(key: &str, value: &str, least: N, most: N) -> Result<N, Problem>
where
    N: Copy + FromStr + PartialOrd + fmt::Display,
{
    let number = N::from_str(value).ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| Problem::invalid(format_args!("{key}: found {value:?}, allowed is {least} to {most}")))
}

fn word<T: Copy>(key: &str, value: &str, allowed: &[(&str, T)]) -> Result<T, Problem> {
    let found = allowed.iter().find(|(word, _)| *word == value).map(|&(_, meaning)| meaning);
    found.ok_or_else(|| {
        let words: Vec<_> = allowed.iter().map(|&(word, _)| word).collect();
        Problem::invalid(format_args!("{key}: found {value:?}, allowed is one of {}", words.join(", ")))
    })
}

/// Decodes a text of a URL; in forms, a plus is a space.
fn decode(text: &str, in_form: bool) -> Result<String, Problem> {
    let invalid = || Problem::invalid(format_args!("{text:?} is not percent-encoded UTF-8"));
    let written = if in_form { Cow::Owned(text.replace('+', " ")) } else { Cow::Borrowed(text) };
    percent_decoded(&written).map(Cow::into_owned).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_decoded_and_what_is_no_text_is_refused() {
        for (encoded, decoded) in
            [("a%2Fb%3Ac", "a/b:c"), ("%C3%BC+%25", "ü+%"), ("", ""), ("%3Cscript%3e", "<script>")]
        {
            assert_eq!(segment(encoded).unwrap(), decoded);
        }
        for bad in ["%", "%4", "%zz", "%ff"] {
            assert!(segment(bad).is_err(), "{bad}");
        }
        let found = label(Some("namespace=a+b%2B&label=..")).unwrap();
        assert_eq!((found.0.as_str(), found.1.as_deref()), ("a b+", Some("..")));
        assert!(label(Some("name=a")).is_err());
    }

    #[test]
    fn spans_are_bounded_and_a_label_is_one_of_its_namespace() {
        for (text, seconds) in [("90", 90), ("90s", 90), ("10m", 600), ("1h", 3_600)] {
            assert_eq!(span("last", text).unwrap(), Duration::from_secs(seconds));
        }
        for bad in ["", "0", "-1s", "61m", "2h", "1d", "1.5m", "m", "99999999999999999999h", "18446744073709551615h"] {
            assert!(span("last", bad).is_err(), "{bad}");
        }
        let query = HistoryQuery::parse(Some("label=a&namespace=n&since=12.5")).unwrap();
        let name = |namespace: &str| SampledName {
            name: "a".to_owned(),
            namespace: namespace.to_owned(),
            ..SampledName::default()
        };
        assert!(query.wants_label(&name("n")) && !query.wants_label(&name("")));
        assert_eq!(query.since, Duration::from_millis(12_500));
        for bad in ["since=NaN", "since=inf", "since=-1", "labels=all", "page=1"] {
            assert!(HistoryQuery::parse(Some(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn queries_say_what_is_allowed() {
        let query =
            LabelQuery::parse(Some("offset=10&limit=5&status=throttled&sort=ready&order=desc&contains=%3A&status="));
        let query = query.unwrap();
        assert_eq!((query.offset, query.limit, query.descending, query.sort), (10, 5, true, LabelSort::Ready));
        assert_eq!(query.status, Some(LabelStatus::Throttled));
        assert!(query.wants("", "a:b") && !query.wants("", "b"));
        for bad in ["limit=0", "limit=1001", "limit=x", "offset=-1", "status=busy", "sort=id", "order=up", "page=1"] {
            assert!(LabelQuery::parse(Some(bad)).is_err(), "{bad}");
        }
    }
}
