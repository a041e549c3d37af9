//! The verbs of the engine, one door each. Only verbs combine its rooms: the return value of a room says what its
//! change means for another room, and the verb hands that on.

mod admin;
mod arrive;
mod blocker;
mod dispatch;
mod dry_run;
mod observe;
mod reject;
mod release;
mod reload;
mod remote;
mod tick;
mod wait;
mod workers;

pub(crate) use self::remote::NoRoom;
use crate::{
    engine::{
        Engine,
        extras::Extras,
        ids::LabelId,
        quota::Throttle,
        telemetry::{ChangeEvent, Event, Gauges, Named},
        tokens::{Ask, Holder, RequestRef, Slot, Subject},
    },
    time::Timestamp,
};

impl Engine {
    /// Moves the time on, and returns it. It never runs backwards, whatever the clock does, and never reaches "never".
    #[inline]
    pub(super) fn advance(&mut self, now: Timestamp) -> Timestamp {
        self.now = self.now.max(now).min(Timestamp::LATEST);
        self.now
    }

    /// Looks again at what a request is asked for, after settings or the mode changed.
    pub(super) fn find_extras(&mut self) {
        self.extras = Extras::of([
            (Extras::MODE, !self.lifecycle.enforces() || self.lifecycle.is_draining()),
            (Extras::RULES, self.quotas.has_rules() || self.quotas.has_shared_rules()),
            (Extras::OBSERVING, self.capacity.any_observes()),
            (Extras::SHADOW_LAW, self.controller.has_shadow()),
            (Extras::SERIES, self.telemetry.has_series()),
            (Extras::SLOT_TTL, self.slot_ttl.time_to_live().is_some()),
        ]);
    }

    #[inline]
    const fn gauges(&self) -> Gauges {
        Gauges { limit: self.capacity.limit(), in_flight: self.capacity.running(), waiting: self.queue.len() }
    }

    /// Records what became of a request.
    #[inline]
    fn record(&mut self, now: Timestamp, request: RequestRef, event: Event) {
        self.telemetry.record(now, request, event, self.gauges());
    }

    /// Records that something changed.
    fn note_change(&mut self, now: Timestamp, event: ChangeEvent) {
        self.telemetry.change(now, event, self.gauges());
    }

    /// Returns the reference of a request that has just come, with its job.
    fn request_of(&self, now: Timestamp, ask: &Ask<'_>, label: LabelId) -> RequestRef {
        let request = RequestRef::new(now, ask.partition, label);
        match ask.subject.and_then(|subject| Some((subject.namespace, subject.run?))) {
            Some((namespace, run)) => RequestRef { job: self.queue.find_job(namespace, run), ..request },
            None => request,
        }
    }

    /// Returns the label of this name. From now on, counts and journal entries of its number are about this label.
    fn intern(&mut self, now: Timestamp, class: u8, subject: &Subject<'_>) -> LabelId {
        let (id, is_new) = self.quotas.intern(now, class, subject);
        if is_new {
            self.telemetry.name(id, name_of(&self.quotas, id), self.quotas.plans());
        }
        id
    }

    /// Opens the series of the labels that settings name.
    pub(super) fn open_series(&mut self) {
        let Self { quotas, telemetry, .. } = self;
        telemetry.open_series(quotas.plans(), quotas.ids().map(|id| (id, name_of(quotas, id))));
    }

    /// Stops the turns of a label, or lets it have them again, as what changed says.
    #[inline]
    fn throttle(&mut self, label: LabelId, throttle: Throttle) {
        if let Throttle::Changed(is_throttled) = throttle {
            self.queue.throttle(label, is_throttled);
        }
    }

    /// Lets a label have its turns again, unless it is at its cap.
    fn unthrottle(&mut self, label: LabelId) {
        if !self.quotas.is_full(label) {
            self.queue.throttle(label, false);
        }
    }

    /// Returns the token of a slot that was taken.
    #[inline]
    fn slot(&mut self, now: Timestamp, class: u8, holder: Holder, in_flight: u32) -> Slot {
        let telemetry = &self.telemetry;
        let ttl = self.slot_ttl.issue(now, holder, || telemetry.series_of(holder.label));
        Slot::counted(now, in_flight, holder, class, ttl)
    }
}

fn name_of(quotas: &crate::engine::quota::Quotas, id: LabelId) -> Named<'_> {
    let label = quotas.label(id);
    if quotas.is_overflow(id) {
        Named::Overflow
    } else if label.name().is_empty() {
        Named::Nobody
    } else {
        Named::Label { class: label.class(), namespace: label.namespace(), label: label.name() }
    }
}
