//! The state of the handle in a line, and why its limit is what it is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::engine::{LimitSnapshot, RecentSnapshot, RefusedSnapshot, VerdictSnapshot};

/// The first thing to look at; see [`VerdictSnapshot`](crate::snapshot::VerdictSnapshot).
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are those of the snapshot")]
pub struct Verdict {
    pub state: String,
    pub headline: String,
    pub advice: String,
    pub at_seconds: f64,
    pub runbook: String,
    pub window_seconds: f64,
    pub admitted_per_second: f64,
    pub refused_per_second: f64,
    pub would_refuse_per_second: f64,
    pub refused: Vec<Refused>,
    pub label: Option<Refused>,
    pub without_store: Vec<String>,
}

/// Rejections of a partition or of a label; see [`RefusedSnapshot`](crate::snapshot::RefusedSnapshot).
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are those of the snapshot")]
pub struct Refused {
    pub name: String,
    pub namespace: String,
    pub percent: f64,
    pub per_second: f64,
    pub reason: Option<String>,
}

/// What became of requests lately; see [`RecentSnapshot`](crate::snapshot::RecentSnapshot).
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are those of the snapshot")]
pub struct Recent {
    pub admitted_per_second: f64,
    pub refused_per_second: f64,
    pub refused: BTreeMap<String, f64>,
    pub would_refuse_per_second: f64,
    pub refused_below_share: bool,
}

/// Why the limit is what it is; see [`LimitSnapshot`](crate::snapshot::LimitSnapshot).
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are those of the snapshot")]
pub struct LimitState {
    pub sentence: String,
    pub law: String,
    pub state: String,
    pub min: Option<usize>,
    pub max: Option<usize>,
    pub at_bound: Option<String>,
    pub reference: Option<String>,
    pub reference_seconds: Option<f64>,
    pub rtt_seconds: Option<f64>,
    pub ratio: Option<f64>,
    pub last_move: Option<LimitMove>,
}

/// A move of the limit; see [`LimitMove`](crate::snapshot::LimitMove).
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are those of the snapshot")]
pub struct LimitMove {
    pub at_seconds: f64,
    pub from: usize,
    pub to: usize,
    pub rtt_seconds: Option<f64>,
    pub reference_seconds: Option<f64>,
    pub ratio: Option<f64>,
}

impl From<VerdictSnapshot> for Verdict {
    fn from(it: VerdictSnapshot) -> Self {
        Self {
            state: it.state.to_owned(),
            headline: it.headline,
            advice: it.advice,
            at_seconds: it.at_seconds,
            runbook: it.runbook,
            window_seconds: it.window_seconds,
            admitted_per_second: it.admitted_per_second,
            refused_per_second: it.refused_per_second,
            would_refuse_per_second: it.would_refuse_per_second,
            refused: it.refused.into_iter().map(Refused::from).collect(),
            label: it.label.map(Refused::from),
            without_store: it.without_store.into_iter().map(str::to_owned).collect(),
        }
    }
}

impl From<RefusedSnapshot> for Refused {
    fn from(it: RefusedSnapshot) -> Self {
        Self {
            name: it.name,
            namespace: it.namespace,
            percent: it.percent,
            per_second: it.per_second,
            reason: it.reason.map(str::to_owned),
        }
    }
}

impl From<RecentSnapshot> for Recent {
    fn from(it: RecentSnapshot) -> Self {
        Self {
            admitted_per_second: it.admitted_per_second,
            refused_per_second: it.refused_per_second,
            refused: it.refused.into_iter().map(|(reason, rate)| (reason.to_owned(), rate)).collect(),
            would_refuse_per_second: it.would_refuse_per_second,
            refused_below_share: it.refused_below_share,
        }
    }
}

impl From<LimitSnapshot> for LimitState {
    fn from(it: LimitSnapshot) -> Self {
        Self {
            sentence: it.sentence,
            law: it.law,
            state: it.state.to_owned(),
            min: it.min,
            max: it.max,
            at_bound: it.at_bound.map(str::to_owned),
            reference: it.reference.map(str::to_owned),
            reference_seconds: it.reference_seconds,
            rtt_seconds: it.rtt_seconds,
            ratio: it.ratio,
            last_move: it.last_move.map(LimitMove::from),
        }
    }
}

impl From<crate::engine::LimitMove> for LimitMove {
    fn from(it: crate::engine::LimitMove) -> Self {
        let crate::engine::LimitMove { at_seconds, from, to, rtt_seconds, reference_seconds, ratio, .. } = it;
        Self { at_seconds, from, to, rtt_seconds, reference_seconds, ratio }
    }
}
