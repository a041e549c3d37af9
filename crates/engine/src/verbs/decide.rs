//! What becomes of a request that arrives, and of a waiter whose turn it is: looked up. Nothing has happened yet, and
//! [`apply`](Engine::apply) and [`dispatch`](Engine::dispatch) are where it does.

use crate::{
    Engine, Reason, Timestamp,
    ids::{Key, LabelId},
    plan::rules::WhenFull,
    tokens::{Ask, Claim, ExhaustedRule, Spot, Stage},
};

/// What becomes of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Decision {
    /// It runs: on a slot of the limit, or over the limit, because its partition observes.
    Run { over_limit: bool },
    /// It runs and is not counted, because no decision binds.
    RunUncounted,
    /// It waits there.
    Wait(Spot),
    /// It is rejected.
    Reject(Obstacle),
}

/// What becomes of a waiter whose turn it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum TurnDecision {
    /// It runs.
    Run,
    /// It goes on waiting, and so does its label, until the rule has room.
    AwaitRoom(ExhaustedRule),
    /// It is rejected.
    Reject(Obstacle),
}

/// What stops a request: the first bound in the order in which they are checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Obstacle {
    pub(super) reason: Reason,
    /// The rule, where it is one.
    pub(super) rule: Option<ExhaustedRule>,
    /// The places of a label or a run that are taken, and how many there are, where these are the bound.
    pub(super) places: Option<(usize, usize)>,
    /// Whether the request has waited for as long as it may.
    pub(super) timed_out: bool,
}

impl Obstacle {
    pub(super) const fn new(reason: Reason) -> Self {
        Self { reason, rule: None, places: None, timed_out: false }
    }

    /// Whether the request met a bound of its own, or one that is no matter of slots: nothing is to be held back for it.
    pub(super) const fn is_its_own(&self) -> bool {
        use Reason::{Deadline, Draining, LabelCap, LabelQueueFull, RunCap};
        self.rule.is_some() || matches!(self.reason, Deadline | Draining | LabelCap | LabelQueueFull | RunCap)
    }
}

impl From<ExhaustedRule> for Obstacle {
    fn from(rule: ExhaustedRule) -> Self {
        Self { rule: Some(rule), ..Self::new(rule.reason) }
    }
}

impl Engine {
    /// Decides about a request that arrives. `PLAIN` is for requests that are asked for nothing but a slot and the cap of their
    /// label: where nothing is held back besides, the answers to all other questions are known.
    #[inline(always)]
    pub(super) fn decide<const PLAIN: bool>(
        &self,
        now: Timestamp,
        ask: &Ask<'_>,
        label: LabelId,
        may_wait: bool,
    ) -> Decision {
        if PLAIN && !self.capacity.has_reserved() && ask.deadline > now {
            let is_label_free = || label == LabelId::DEFAULT || !self.quotas.label(label).is_full;
            if self.capacity.may_run(ask.partition, Ask::COST) && is_label_free() {
                return Decision::Run { over_limit: false };
            }
            if may_wait {
                return self.place_for(now, ask, label).map_or_else(Decision::Reject, Decision::Wait);
            }
        }
        self.decide_by_all(now, ask, label, may_wait)
    }

    /// The order of all bounds.
    #[inline(never)]
    fn decide_by_all(&self, now: Timestamp, ask: &Ask<'_>, label: LabelId, may_wait: bool) -> Decision {
        if self.lifecycle.is_draining() {
            return Decision::Reject(Obstacle::new(Reason::Draining));
        }
        let enforces = self.lifecycle.enforces();
        let is_late = enforces && ask.deadline <= now;
        let rule = if is_late { None } else { self.blocking_rule(now, label) };
        if !is_late && rule.is_none() {
            let waits_for_its_start =
                may_wait && self.capacity.slots().is_spaced_out && enforces && !self.lets_all_through(ask.partition);
            if !waits_for_its_start && self.may_run(ask, label) {
                return Decision::Run { over_limit: false };
            }
            if self.lets_all_through(ask.partition) && !self.quotas.label(label).is_full {
                return Decision::Run { over_limit: true };
            }
        }
        if !enforces {
            return Decision::RunUncounted;
        }
        if may_wait {
            return self.place_for(now, ask, label).map_or_else(Decision::Reject, Decision::Wait);
        }
        Decision::Reject(match rule {
            _ if is_late => Obstacle::new(Reason::Deadline),
            Some(rule) => rule.into(),
            None => Obstacle::new(self.own_cap(ask.partition, label).unwrap_or(Reason::Limit)),
        })
    }

    /// Returns where a request may wait, and which waiter has to make room for it there.
    pub(super) fn place_for(&self, now: Timestamp, ask: &Ask<'_>, label: LabelId) -> Result<Spot, Obstacle> {
        let stops = |reason| Err(Obstacle::new(reason));
        if ask.deadline <= now {
            return stops(Reason::Deadline);
        }
        if let Some(full) = self.blocking_rule(now, label).filter(|full| full.when_full != WhenFull::Queue) {
            return Err(full.into());
        }
        if let Some(subject) = ask.subject.as_ref().filter(|subject| !subject.label.is_empty()) {
            let plan = self.quotas.plans().0;
            let of_label = self.quotas.label(label);
            if plan.caps_reject && of_label.rule.cap.is_some_and(|cap| of_label.running >= cap) {
                return stops(Reason::LabelCap);
            }
            let taken = |reason, taken, most| Err(Obstacle { places: Some((taken, most)), ..Obstacle::new(reason) });
            if of_label.waiting >= plan.max_waiting {
                return taken(Reason::LabelQueueFull, of_label.waiting, plan.max_waiting);
            }
            let of_run = subject.run.map(|_| self.queue.of_run(self.queue.find_run(ask)));
            if let Some(of_run) = of_run.filter(|&of_run| of_run >= plan.max_waiting_per_run) {
                return taken(Reason::RunCap, of_run, plan.max_waiting_per_run);
            }
        }
        let at = |stage| Spot { stage, victim: None, claim: Claim::None };
        let room = self.room();
        let found = if room.in_line {
            at(Stage::Line)
        } else if let Some(victim) = self.victim_for(ask, label) {
            Spot { victim: Some(victim), ..at(Stage::Line) }
        } else if room.at_gate {
            at(Stage::Gate)
        } else if let Some(claim) = self.claim_of(now, ask, label) {
            Spot { claim, ..at(Stage::Line) }
        } else if let Some(rule) = self.exhausted_rule(now, label) {
            return Err(rule.into());
        } else {
            return stops(self.reason_for_rejecting(ask.partition, label));
        };
        if self.will_miss_deadline(now, ask, label) { stops(Reason::Deadline) } else { Ok(found) }
    }

    /// Decides about a waiter whose turn it is.
    pub(super) fn decide_turn(&self, now: Timestamp, key: Key) -> TurnDecision {
        let waiter = self.queue.get(key);
        if waiter.deadline <= now {
            return TurnDecision::Reject(self.end_of_wait(now, key, true));
        }
        let enforces = self.lifecycle.enforces();
        let may_be_late = enforces && waiter.caller_deadline != Timestamp::NEVER && self.queue.lengths().all() > 1;
        // Less time than its work is likely to take: the slot is better given to another waiter.
        let is_too_late = |work| waiter.caller_deadline.since(now) < work;
        if may_be_late && self.estimates.likely(waiter.class).is_some_and(is_too_late) {
            return TurnDecision::Reject(Obstacle::new(Reason::Deadline));
        }
        match self.exhausted_rule(now, waiter.label).filter(|_| enforces) {
            Some(full) if full.when_full == WhenFull::Queue => TurnDecision::AwaitRoom(full),
            Some(full) => TurnDecision::Reject(full.into()),
            None => TurnDecision::Run,
        }
    }

    /// Returns why a wait whose time is over ends, before its turn or at it. The rejection names the rule that was in the way,
    /// where that was not the limit.
    pub(super) fn end_of_wait(&self, now: Timestamp, key: Key, is_its_turn: bool) -> Obstacle {
        let waiter = self.queue.get(key);
        if waiter.caller_deadline <= now {
            return Obstacle::new(Reason::Deadline);
        }
        // Its label was at its cap until now, while the server had room: a waiter that nothing stops has a slot at once.
        let label = self.quotas.label(waiter.label);
        let was_full = label.running + 1 >= label.cap && self.capacity.running() + 1 < self.capacity.limit();
        let reason = match waiter.stage {
            _ if is_its_turn && was_full => Reason::LabelCap,
            Stage::Gate => Reason::GateTimeout,
            _ => Reason::QueueTimeout,
        };
        Obstacle { timed_out: true, ..self.why_it_leaves(now, key, reason) }
    }

    /// Returns why a waiter leaves without a slot: because of its own rule or cap, where that alone stops it, even if more is
    /// full.
    pub(super) fn why_it_leaves(&self, now: Timestamp, key: Key, other: Reason) -> Obstacle {
        let waiter = self.queue.get(key);
        let full = self.exhausted_rule(now, waiter.label).filter(|full| full.when_full == WhenFull::Queue);
        if let Some(full) = full.filter(|_| !self.quotas.label(waiter.label).is_full) {
            return full.into();
        }
        Obstacle::new(self.own_cap(waiter.partition, waiter.label).unwrap_or(other))
    }
}
