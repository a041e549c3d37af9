//! What workers say about a label.

use std::time::Duration;

use crate::{
    engine::{Engine, tokens::Subject},
    time::Timestamp,
};

impl Engine {
    /// Notes how many requests of a label a worker can take, and for how long. Returns whether there was room to note
    /// it.
    pub(crate) fn report_worker(
        &mut self,
        now: Timestamp,
        class: Option<&str>,
        subject: &Subject<'_>,
        worker: &str,
        slots: usize,
        valid: Duration,
    ) -> bool {
        let now = self.advance(now);
        let class = self.rule_class(class);
        let label = self.intern(now, class, subject);
        let (noted, throttle) = self.quotas.report_worker(label, worker, slots, now.after(valid));
        self.throttle(label, throttle);
        self.dispatch(now);
        noted
    }

    /// Removes a worker that says goodbye.
    pub(crate) fn remove_worker(&mut self, now: Timestamp, class: Option<&str>, subject: &Subject<'_>, worker: &str) {
        let now = self.advance(now);
        let class = self.rule_class(class);
        let Some(label) = self.quotas.find(class, subject.namespace, subject.label) else { return };
        let throttle = self.quotas.remove_worker(label, worker);
        self.throttle(label, throttle);
        self.dispatch(now);
    }

    /// Returns the number of the class whose rules hold for work of this name.
    pub(in crate::engine) fn rule_class(&self, class: Option<&str>) -> u8 {
        class.map_or(0, |name| self.quotas.class_of(self.controller.find_class(name)))
    }
}
