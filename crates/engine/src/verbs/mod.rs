//! The verbs of the engine, one door each. Only verbs combine its rooms: the return value of a room says what its
//! change means for another room, and the verb hands that on.
//!
//! A request [arrives](arrive). What becomes of it is [decided](decide), which changes nothing, and then [applied](apply): there
//! it runs, waits or is [rejected](reject). Adding a bound touches `decide`.
//!
//! Verbs stand on each other, and never in a circle: [`questions`] ask and [`steps`] do what several verbs need; [`reject`] and
//! [`dry_run`] tell what became of a request; [`apply`] and [`dispatch`] hand out slots; the others are the doors.

mod admin;
mod apply;
mod arrive;
mod blocker;
mod decide;
mod dispatch;
mod dry_run;
mod lent;
mod observe;
mod questions;
mod reject;
mod release;
mod remote;
mod steps;

pub use self::remote::NoRoom;
use crate::{
    Engine, Timestamp,
    extras::Extras,
    telemetry::{ChangeEvent, Decided, Event, Gauges, short},
    tokens::RequestRef,
};

impl Engine {
    /// Moves the time on, and does nothing else; returns it. It never runs backwards, whatever the clock does, and never reaches
    /// "never".
    #[inline]
    pub fn advance(&mut self, now: Timestamp) -> Timestamp {
        self.now = self.now.max(now).min(Timestamp::LATEST);
        self.now
    }

    /// Looks again at what a request is asked for, after settings or the mode changed.
    pub(super) fn find_extras(&mut self) {
        let lifecycle = &self.lifecycle;
        self.extras = Extras::of([
            (Extras::MODE, !lifecycle.enforces() || lifecycle.is_draining() || lifecycle.standing().is_leaving),
            (Extras::RULES, self.quotas.has_rules().any || self.quotas.has_rules().shared),
            (Extras::OBSERVING, self.capacity.partitions().any(|(_, it)| it.plan.observes)),
            (Extras::SHADOW_LAW, self.controller.has_shadow()),
            (Extras::LABEL_METRICS, self.telemetry.wants(self.now).label_metrics),
            (Extras::SLOT_TTL, self.slot_ttl.time_to_live().is_some()),
        ]);
    }

    #[inline]
    const fn gauges(&self) -> Gauges {
        let [limit, in_flight, waiting] = [self.capacity.limit(), self.capacity.running(), self.queue.lengths().all()];
        Gauges { limit: short(limit), in_flight: short(in_flight), waiting: short(waiting) }
    }

    /// Tells what happened.
    #[inline(always)]
    fn tell(&mut self, now: Timestamp, event: Event<'_>) {
        self.telemetry.take(now, event, self.gauges());
    }

    /// Tells what became of a request.
    #[inline(always)]
    fn record(&mut self, now: Timestamp, request: RequestRef, decided: Decided) {
        self.tell(now, Event::Decided(request, decided));
    }

    /// Tells that something changed.
    fn note_change(&mut self, now: Timestamp, event: ChangeEvent) {
        self.tell(now, Event::Changed(event));
    }
}
