//! Labels, of which there may be ten thousand: a page of them at a time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Section;

/// A page of the known labels.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[non_exhaustive]
pub struct LabelPage {
    /// The number of known labels.
    pub total: usize,
    /// The number of labels that match the filters.
    pub matched: usize,
    /// The number of labels by status, of all labels whose names match.
    pub by_status: BTreeMap<String, usize>,
    /// The number of labels before this page.
    #[serde(default)]
    pub offset: usize,
    /// The greatest number of labels of a page.
    #[serde(default)]
    pub limit: usize,
    /// The offset of the next page; `None` on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    /// The labels, in the requested order.
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
    /// Whether this is the entry that further labels share while the table is full.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overflow: bool,
    /// The worst status of its classes; see [`LabelStatus`](crate::snapshot::LabelStatus).
    pub status: String,
    /// The sections by class of work; `*` is for requests whose class has no rules.
    pub admission: BTreeMap<String, Section>,
}
