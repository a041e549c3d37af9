//! Where a request waits that can't run at once.

use crate::{
    engine::{
        Engine,
        ids::{Key, LabelId},
        plan::Mode,
        telemetry::Event,
        tokens::{Arrival, Ask, Claim, Place, Refusal, Spot, Stage},
    },
    rejection::Reason,
    time::Timestamp,
};

impl Engine {
    /// Gives a request that can't run at once a place in line, a place at the gate, or a rejection.
    #[cold]
    pub(super) fn wait_or_reject(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId) -> Arrival {
        if self.lifecycle.mode() == Mode::Observe {
            return Arrival::Admit(self.run_uncounted(now, ask, label));
        }
        let observed = self.observe_arrival(now, label);
        let joined = self.place_for(now, ask, label).and_then(|found| self.join(now, ask, label, found));
        let arrival = match joined {
            Ok(key) => {
                let blocker = self.if_noted(|engine| engine.obstacle(now, ask.partition, label));
                self.record(now, self.request_of(now, ask, label), Event::Queued(blocker));
                observed.into_iter().for_each(|full| self.mark_over_quota(now, key, full));
                Arrival::Wait(Place::new(key))
            }
            Err(reason) => Arrival::Reject(self.reject_arrival(now, ask, label, reason)),
        };
        if matches!(arrival, Arrival::Wait(_)) && self.quotas.has_rules() {
            // The waiter's turn may have come already, with only a rule in the way: the driver has to know when that
            // ends.
            self.dispatch(now);
        }
        #[cfg(test)]
        self.check();
        arrival
    }

    fn reject_arrival(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId, reason: Reason) -> Refusal {
        let request = self.request_of(now, ask, label);
        self.record_rejected(now, request, reason, false);
        let full = self.hard_block(now, label).or_else(|| self.exhausted_rule(now, label));
        if let Some(full) = full.filter(|it| it.reason == reason) {
            return self.refusal_by_rule(now, ask.partition, label, full);
        }
        match reason {
            Reason::Deadline => self.refusal_too_late(now, ask, label),
            // The request ran into a bound of its own: nothing needs to be held back for it.
            Reason::LabelCap | Reason::LabelQueueFull | Reason::RunCap => {
                self.refusal(now, ask.partition, label, reason)
            }
            _ => {
                self.reserve(now, ask, label);
                self.refusal(now, ask.partition, label, reason)
            }
        }
    }

    fn join(
        &mut self,
        now: Timestamp,
        ask: &Ask<'_>,
        label: LabelId,
        Spot { mut stage, victim, mut claim }: Spot,
    ) -> Result<Key, Reason> {
        let range = self.telemetry.journal_range();
        let key = self.queue.join(now, ask, label, range).ok_or(Reason::QueueFull)?;
        if let Some(victim) = victim {
            self.push_out(now, victim);
        }
        // A place in a full line is for the waiter of the flow that came first, which may be at the gate.
        if (victim.is_some() || claim != Claim::None)
            && let Some(first) = self.queue.first_of_flow_at_gate(self.queue.get(key).flow_key())
        {
            self.enter_line(now, first);
            (stage, claim) = (Stage::Gate, Claim::None);
        }
        let throttle = self.quotas.waits(label);
        self.throttle(label, throttle);
        if claim == Claim::Beyond {
            self.capacity.pay(ask.partition, self.estimates.reservation_time());
        }
        self.stand(now, key, stage, claim);
        Ok(key)
    }
}
