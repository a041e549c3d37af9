//! The waiters of a label, a page at a time.

use crate::{
    engine::{Subject, normal},
    introspect::{http::WaiterQuery, wire::WaiterPage},
    runtime::Admission,
};

/// Nothing, if the label is not known.
pub(in crate::introspect) fn waiter_page(
    admission: &Admission,
    label: &str,
    query: &WaiterQuery,
) -> Option<WaiterPage> {
    let &WaiterQuery { offset, limit, ref namespace, .. } = query;
    let subject = Subject::new(normal(namespace).unwrap_or_default(), normal(label)?, None);
    let found = admission.shared.look(|engine, _| engine.waiters_of(&subject, offset, limit));
    let (waiters, total) = found?;
    let end = offset.saturating_add(waiters.len());
    Some(WaiterPage {
        namespace: subject.namespace.to_owned(),
        label: subject.label.to_owned(),
        total,
        offset,
        limit,
        next_offset: (!waiters.is_empty() && end < total).then_some(end),
        waiters,
    })
}
