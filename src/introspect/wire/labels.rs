//! Labels, of which there may be ten thousand: a page of them at a time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Section;

/// Some of the labels that are known.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[non_exhaustive]
pub struct LabelPage {
    /// How many are known.
    pub total: usize,
    /// How many of them are wanted.
    pub matched: usize,
    /// How many of those whose names are wanted have which status, whatever status is wanted.
    pub by_status: BTreeMap<String, usize>,
    /// How many labels come before these.
    #[serde(default)]
    pub offset: usize,
    /// How many labels were asked for.
    #[serde(default)]
    pub limit: usize,
    /// Where the next page starts; there is none, if this is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    /// The labels, in the order that was asked for.
    pub labels: Vec<Label>,
}

/// One label, with a section for each class of work that it has.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Label {
    /// The namespace; empty if it has none.
    pub namespace: String,
    /// The label.
    pub label: String,
    /// Whether labels share it for which there is no room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overflow: bool,
    /// The worst of its classes; see [`LabelStatus`](crate::snapshot::LabelStatus).
    pub status: String,
    /// By class of work; `*` is for work whose class has no rules of its own.
    pub admission: BTreeMap<String, Section>,
}
