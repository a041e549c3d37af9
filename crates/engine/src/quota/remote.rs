//! What is known of rules that are counted for all instances, label by label.

use super::{Quotas, rules::Remote};
use crate::{
    Timestamp,
    ids::LabelId,
    plan::rules::WhenFull,
    tokens::{Counted, ExhaustedRule},
};

impl Quotas {
    /// Notes that a request of a label was told that a shared rule has no room, until a time if that is known, and whether the
    /// request `waits` for it. Returns the rule, unless the rules were replaced meanwhile: nothing is known of the present ones
    /// then, and the label asks for them anew.
    pub(crate) fn deny_remote(
        &mut self,
        id: LabelId,
        counts: Counted,
        until: Option<Timestamp>,
        waits: bool,
    ) -> Option<ExhaustedRule> {
        let remote = self.labels.get_mut(id).remote_mut()?;
        let (index, rule) = remote.rules.find(counts)?;
        let full = rule.exhausted(until);
        match (full.when_full, until) {
            (WhenFull::Queue, _) if waits => remote.close(index, until.unwrap_or(Timestamp::NEVER)),
            (WhenFull::Reject | WhenFull::RespondEmpty, Some(until)) if !waits => remote.bar(index, until),
            _ => {}
        }
        Some(full)
    }

    /// Lets the next request of a label ask, if the label waits for a shared rule; returns whether it does.
    pub(crate) fn allow_probe(&mut self, id: LabelId) -> bool {
        self.labels.get_mut(id).remote_mut().is_some_and(Remote::allow_probe)
    }

    /// Like `allow_probe`, if the label waits for this kind of rule and any request of it waits.
    pub(crate) fn retry_remote(&mut self, id: LabelId, counts: Counted) -> bool {
        let label = self.labels.get_mut(id);
        let waits = label.waiting > 0;
        let Some(remote) = label.remote_mut().filter(|remote| remote.waits_for(counts)) else { return false };
        if !waits {
            remote.open();
            return false;
        }
        remote.allow_probe()
    }

    /// Notes whether the store gave a request of a label an answer: none, if it was `unanswered` at some time. Returns whether
    /// that says something about the store: a request that is admitted without it says nothing.
    pub(crate) fn note_answer(&mut self, id: LabelId, unanswered: Option<Timestamp>) -> bool {
        let Some(remote) = self.labels.get_mut(id).remote_mut() else { return false };
        let says = remote.rules.closes().is_some();
        if says {
            remote.unanswered = unanswered;
        }
        says
    }
}
