//! Labels, of which there may be ten thousand, and their waiters: a page of them at a time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Section;
use crate::engine::{LabelStatus, WaiterSnapshot};

/// A page of the known labels.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LabelPage {
    /// The number of known labels.
    pub total: usize,
    /// The number of labels that match the filters.
    pub matched: usize,
    /// The number of labels by status, of all labels whose names match.
    #[cfg_attr(feature = "schema", schemars(extend("propertyNames" = {"$ref": "#/components/schemas/LabelStatus"})))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Label {
    /// The namespace; empty if it has none.
    pub namespace: String,
    /// The name; empty for the entry that labels share.
    pub label: String,
    /// Whether this is the entry that further labels share while the table is full.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "schema", schemars(extend("const" = true)))]
    pub overflow: bool,
    /// The worst status of its classes.
    pub status: LabelStatus,
    /// The sections by class of work; `*` is for requests whose class has no rules.
    pub admission: BTreeMap<String, Section>,
}

/// A page of the waiters of a label.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct WaiterPage {
    /// The namespace of the label; empty if it has none.
    #[serde(default)]
    pub namespace: String,
    /// The label.
    #[serde(default)]
    pub label: String,
    /// The number of waiters of the label.
    pub total: usize,
    /// The number of waiters before this page.
    #[serde(default)]
    pub offset: usize,
    /// The greatest number of waiters of a page.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub limit: usize,
    /// The offset of the next page; `None` on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    /// The waiters, in the order of arrival.
    pub waiters: Vec<WaiterSnapshot>,
}
