//! Modes, draining, and what is told of the store.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::{
    Engine, Reason, Timestamp,
    ids::RuleClassId,
    plan::{Mode, Plan},
    telemetry::{ChangeEvent, Event, short},
    tokens::{StoreChange, StoreState, Subject},
    verbs::decide::Obstacle,
};

impl Engine {
    /// Returns the deadline of requests that have none, from when they come.
    pub const fn default_deadline(&self) -> Option<Duration> {
        self.queue.plan().default_deadline
    }

    /// Sets the mode. Waiters are admitted at once when decisions stop binding.
    pub fn set_mode(&mut self, now: Timestamp, mode: Mode) {
        let now = self.advance(now);
        let from = self.lifecycle.set_mode(mode);
        self.find_extras();
        if from != mode {
            self.capacity.clear_reserved();
            self.note_change(now, ChangeEvent::Mode { from, to: mode });
        }
        self.dispatch(now);
    }

    /// Begins to leave: requests are decided about as ever, each in a turn of its own.
    pub fn begin_to_leave(&mut self, now: Timestamp) {
        let now = self.advance(now);
        if self.lifecycle.leave() {
            self.find_extras();
            self.note_change(now, ChangeEvent::Leave);
        }
    }

    /// Begins to drain: no request is admitted any more. Waiters are rejected, unless they are to be served.
    pub fn close(&mut self, now: Timestamp, serves_waiting: bool) {
        let now = self.advance(now);
        let was_open = self.lifecycle.drain(serves_waiting);
        self.find_extras();
        if was_open {
            self.capacity.clear_reserved();
            self.note_change(now, ChangeEvent::Drain);
        }
        if !serves_waiting {
            while let Some(key) = self.queue.anyone() {
                self.end_wait(now, key, &Obstacle::new(Reason::Draining));
            }
        }
        self.dispatch(now);
    }

    /// Whether the handle drains and no request is left.
    pub const fn is_drained(&self) -> bool {
        self.lifecycle.is_draining()
            && self.capacity.running() + self.capacity.slots().over_limit == 0
            && self.queue.lengths().all() == 0
    }

    #[doc(hidden)]
    pub const fn is_closed(&self) -> bool {
        self.lifecycle.is_draining()
    }

    /// Takes note of the state of the store and, if it is down, for how long, if it is quiet, for how long it will be; returns
    /// how that differs from before. The engine asks no store itself.
    pub fn tell_store(&mut self, now: Timestamp, to: StoreState, lasts: Duration) -> Option<StoreChange> {
        if self.outage.seen(now).state == to {
            return None;
        }
        let now = self.advance(now);
        let change = self.outage.change(now, to, lasts);
        self.note_change(now, ChangeEvent::Store(change));
        Some(change)
    }

    /// Takes note of what a history says: whether requests wait far longer than in the hour before, and for how long the process
    /// stood still until now, if it did. What it was before says nothing of what it is now.
    pub fn note_past(&mut self, now: Timestamp, are_waits_longer: bool, stood_still: Option<Duration>) {
        let now = self.advance(now);
        self.tell(now, Event::Waits { are_longer: are_waits_longer });
        if let Some(lasted) = stood_still {
            self.note_change(now, ChangeEvent::Stall(lasted));
        }
    }

    /// Returns how many partitions there would be with these settings, those included that are gone.
    pub fn partitions_with(&self, plan: &Plan) -> usize {
        let known: BTreeSet<&str> = self.capacity.partitions().map(|(_, known)| &*known.plan.name).collect();
        known.len() + plan.partitions.iter().filter(|it| !known.contains(&*it.name)).count()
    }

    /// Takes new settings. Returns the names of the partitions that are new, in the order of their numbers.
    pub fn reload(&mut self, now: Timestamp, plan: Plan) -> Vec<Arc<str>> {
        let now = self.advance(now);
        let queue = plan.queue();
        let Plan { law, shadow, time_one_in, partitions, labels, rules, time_to_live, journal, .. } = plan;
        let from = short(self.capacity.limit());
        self.controller.replace(law, shadow, time_one_in, queue.default_deadline);
        let added = self.capacity.replace(partitions);
        self.refit();
        self.capacity.resize(self.controller.limit(self.capacity.limit()));
        self.queue.replace(self.capacity.partitions().count(), queue);
        self.slot_ttl.replace(time_to_live);
        let controller = &mut self.controller;
        self.quotas.replace(now, labels, rules, |name| controller.class(name));
        for label in self.quotas.ids() {
            self.queue.weigh(label, self.quotas.label(label).rule.weight);
            self.queue.throttle(label, self.quotas.label(label).is_full);
        }
        self.tell(now, Event::Settings { partitions: self.capacity.partitions().count(), decisions: journal });
        self.open_label_metrics();
        self.find_extras();
        self.note_change(now, ChangeEvent::Reload { from });
        self.dispatch(now);
        added
    }

    /// Notes how many requests of a label a worker can take and for how long, or removes a worker that says goodbye. Returns
    /// whether there was room to note it.
    pub fn report_worker(
        &mut self,
        now: Timestamp,
        class: Option<&str>,
        subject: &Subject<'_>,
        worker: &str,
        report: Option<(usize, Duration)>,
    ) -> bool {
        let now = self.advance(now);
        let class = self.rule_class(class);
        let known =
            if report.is_some() { Some(self.intern(now, class, subject)) } else { self.quotas.find(class, subject) };
        let Some(label) = known else { return false };
        let report = report.map(|(slots, valid)| (slots, now.after(valid)));
        let (noted, throttle) = self.quotas.report_worker(label, worker, report);
        self.throttle(label, throttle);
        self.dispatch(now);
        noted
    }

    /// Counts rejections by reason and rule from now on, for a history.
    pub fn begin_sampling(&mut self) {
        self.tell(self.now, Event::SamplingBegins);
    }

    /// Returns the number of the class whose rules hold for work of this name.
    pub(crate) fn rule_class(&self, class: Option<&str>) -> RuleClassId {
        class.map_or(RuleClassId::OTHERS, |name| self.quotas.class_of(self.controller.find_class(name)))
    }
}
