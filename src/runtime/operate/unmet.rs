//! Settings that no request has met, and shares that are too small for how long requests take, in words.

use std::sync::Arc;

use crate::engine::{Unmet, text};
use crate::runtime::shared::Shared;

impl Shared {
    /// Returns the names in the settings that no request has had, once enough requests have come to tell, and shares that are too
    /// small.
    pub(in crate::runtime) fn unmet(&self) -> Vec<String> {
        let (unmet, slow) = self.with_engine(|state, _| (state.engine.unmet(), state.engine.slow_shares()));
        let slow = slow.into_iter().map(|(name, share, hold)| {
            format!(
                "the share of the partition {name} is {share} slots, each held for {hold:.0?}: where others use it, a third \
                 request comes too late for its caller (patience); give it a larger share, or lend less of it (`lend`)"
            )
        });
        let unmet = unmet.as_ref().map_or_else(Vec::new, |unmet| in_words(unmet, &self.partitions.unknown()));
        unmet.into_iter().chain(slow).collect()
    }

    /// Returns the warnings about partitions whose callers leave.
    pub(in crate::runtime) fn left(&self) -> Vec<String> {
        let left = self.with_engine(|state, _| state.engine.left());
        let words = |name: Arc<str>| {
            format!(
                "most requests of the partition {name} that ran were given up before the answer while all slots were taken: \
                 drive their work to its end (AdmissionLayer::detach), or, if it stops with its request, say Abandoned::Stops; \
                 where your code holds permits, report how each ended (Permit::finish)"
            )
        };
        left.into_iter().map(words).collect()
    }
}

fn in_words(unmet: &Unmet, unknown: &[String]) -> Vec<String> {
    let requests = unmet.requests;
    let unknown: Vec<_> = unknown.iter().take(3).map(|name| text::name(name)).collect();
    let do_come = if unknown.is_empty() {
        String::new()
    } else {
        format!(" Requests of {} come, which no setting knows.", unknown.join(", "))
    };
    let partitions = (!unmet.partitions.is_empty()).then(|| {
        let names = unmet.partitions.join(", ");
        let question = if unmet.are_all_partitions {
            "has the layer a classifier (AdmissionLayer::classify), and does it give these names?"
        } else {
            "do classifier and settings agree on the names?"
        };
        format!("none of {requests} requests was of the partitions {names}: {question}{do_come}")
    });
    let classes = unmet.classes.iter().map(|(class, twin)| {
        let hint = match twin {
            Some(twin) if twin.trim_matches('/') == class.trim_matches('/') => format!("the class {twin:?} does come"),
            Some(other) => format!("most requests without rules are of {other:?}"),
            None => "do classifier and settings agree on the name?".to_owned(),
        };
        format!("none of {requests} requests was of the class {class:?} that has rules: {hint}")
    });
    let labels = match unmet.labels.iter().take(3).map(|name| text::name(name)).collect::<Vec<_>>().join(", ") {
        _ if unmet.is_unlabelled => Some(format!(
            "none of {requests} requests had a label, so that rules by label count all of them together: does the classifier give \
             labels (`as_label`), and does it find its key?"
        )),
        names if names.is_empty() => None,
        names => Some(format!(
            "none of {requests} requests had the label {names} that settings name: do classifier and settings agree on it?"
        )),
    };
    partitions.into_iter().chain(classes).chain(labels).collect()
}
