//! Rules that are counted for all instances together, and what this process knows of them.
//!
//! The engine doesn't count them, and doesn't know the store that does. It says which rules a request has to ask for,
//! and remembers what it was told: that a rule which lets its label wait has no room, or that a rate has none until
//! some time.

use std::sync::Arc;

use crate::{
    Timestamp,
    tokens::{Counted, ExhaustedRule, SharedRule, SharedRules},
};

/// What is known of the shared rules of a label.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) rules: Arc<SharedRules>,
    /// A rule that lets the label wait and has no room.
    closed: Option<Closed>,
    /// Index of a rate that rejects, and until when it has no room.
    barred: Option<(usize, Timestamp)>,
    /// Time when the store gave no answer, if that was its last word.
    pub(crate) unanswered: Option<Timestamp>,
}

/// A label whose requests wait for a shared rule: they ask again, one at a time.
#[derive(Clone, Copy, Debug)]
struct Closed {
    /// Index of the rule.
    rule: usize,
    /// Time when time alone makes room; never for a cap.
    until: Timestamp,
    /// Whether the next request may ask.
    probe_allowed: bool,
}

impl Remote {
    pub(super) fn of(rules: SharedRules) -> Box<Self> {
        Box::new(Self { rules: Arc::new(rules), closed: None, barred: None, unanswered: None })
    }

    /// Returns the shared rule that is known to have no room for one more request, and until when.
    fn known_full(&self, now: Timestamp) -> Option<(&SharedRule, Timestamp)> {
        let barred = self.barred.filter(|&(_, until)| until > now);
        let closed = self.closed.filter(|closed| !closed.probe_allowed && closed.until > now);
        let (rule, until) = barred.or_else(|| closed.map(|closed| (closed.rule, closed.until)))?;
        Some((self.rules.rules.get(rule)?, until))
    }

    /// Returns the name of that rule.
    pub(crate) fn exhausted_name(&self, now: Timestamp) -> &'static str {
        self.known_full(now).map_or("", |(rule, _)| rule.name())
    }

    /// Returns that rule as any other rule that is full.
    pub(crate) fn exhausted(&self, now: Timestamp) -> Option<ExhaustedRule> {
        let (rule, until) = self.known_full(now)?;
        let until = (until != Timestamp::NEVER).then_some(until);
        Some(rule.exhausted(until))
    }

    /// Notes that a request asks: while the label is closed, no other request does.
    pub(super) fn asks(&mut self) {
        if let Some(closed) = &mut self.closed {
            (closed.probe_allowed, closed.until) = (false, Timestamp::NEVER);
        }
    }

    /// Remembers until when a rate that rejects has no room: no request need ask until then.
    pub(in crate::quota) const fn bar(&mut self, rule: usize, until: Timestamp) {
        self.barred = Some((rule, until));
    }

    pub(in crate::quota) const fn close(&mut self, rule: usize, until: Timestamp) {
        self.closed = Some(Closed { rule, until, probe_allowed: false });
    }

    pub(in crate::quota) const fn open(&mut self) {
        self.closed = None;
    }

    /// Lets the next request ask, if the label waits; returns whether it does.
    pub(in crate::quota) const fn allow_probe(&mut self) -> bool {
        let Some(closed) = &mut self.closed else { return false };
        closed.probe_allowed = true;
        true
    }

    /// Whether the label waits for this kind of rule.
    pub(in crate::quota) fn waits_for(&self, counts: Counted) -> bool {
        self.closed.and_then(|closed| self.rules.rules.get(closed.rule)).is_some_and(|rule| rule.counts == counts)
    }
}
