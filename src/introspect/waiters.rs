//! Who waits for a label, a page at a time.

use serde::Serialize;

use super::query::WaiterQuery;
use crate::{
    engine::{Subject, WaiterSnapshot},
    runtime::Admission,
    ticket::normal,
};

/// Some of those who wait for a label.
#[derive(Debug, Serialize)]
pub(super) struct WaiterPage {
    namespace: String,
    label: String,
    /// How many wait.
    total: usize,
    offset: usize,
    limit: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
    /// In the order in which they came.
    waiters: Vec<WaiterSnapshot>,
}

impl WaiterPage {
    /// Nothing, if the label is not known.
    pub(super) fn find(admission: &Admission, label: &str, query: &WaiterQuery) -> Option<Self> {
        let &WaiterQuery { offset, limit, ref namespace } = query;
        let subject = Subject { namespace: normal(namespace).unwrap_or_default(), label: normal(label)?, run: None };
        let found = admission.shared.look(|engine, _| engine.waiters_of(&subject, offset, limit));
        let (waiters, total) = found?;
        let end = offset.saturating_add(waiters.len());
        Some(Self {
            namespace: subject.namespace.to_owned(),
            label: subject.label.to_owned(),
            total,
            offset,
            limit,
            next_offset: (!waiters.is_empty() && end < total).then_some(end),
            waiters,
        })
    }
}
