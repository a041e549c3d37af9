//! Decisions that don't bind: those of partitions and rules that observe, and those of a shadow law.
//!
//! What such a decision would have turned away, or would have made wait, runs all the same. It is counted by reason, and is
//! then left out of what the next of these decisions are judged by: it would not have been there. So where the time that a
//! request takes does not depend on what else runs, and nobody would have waited, these decisions are exactly those that
//! would have been made. How long somebody would have waited isn't known: it is taken as one who came and went.
//!
//! Two marks on a slot say where it doesn't count: *beyond* observing rules, and *outside* the limit, where its partition
//! observes. What binds counts it in any case.

use super::{
    Arrival, Ask, Engine, Slot,
    journal::Party,
    labels::LabelId,
    limit::{Fixed, LimitAlgorithm, Sample},
    plan::Mode,
    rules::{Full, Rules, WhenFull, Which},
    slot::{BEYOND, IN_SHADOW, OUTSIDE},
    tenure::Holder,
    waiters::Key,
    would::Would,
};
use crate::{rejection::Reason, time::Timestamp};

/// A law beside the one that decides, and what it would have done.
#[derive(Debug, Default)]
pub(super) struct ShadowLaw {
    law: Option<Box<dyn LimitAlgorithm>>,
    limit: usize,
    /// How many of those that run would run under its limit.
    running: usize,
    would_queue: u64,
    would_reject: u64,
    would_admit: u64,
    panics: u64,
}

/// What a shadow law would have done. See [`AdmissionBuilder::shadow_limit`](crate::AdmissionBuilder::shadow_limit).
#[derive(Clone, Debug)]
#[cfg_attr(feature = "introspect", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ShadowSnapshot {
    /// The limit that it would have set.
    pub limit: usize,
    /// How many of those that run would run under that limit.
    pub in_flight: usize,
    /// How many would have found its limit full, where requests may wait.
    pub would_queue: u64,
    /// How many would have found its limit full, where nobody waits. Those that were rejected anyway are included.
    pub would_reject: u64,
    /// How many were rejected for want of a slot that would have found one. How long these would have run isn't known, so
    /// they are not counted as running, and this is the most that it can be.
    pub would_admit: u64,
    /// Whether the figures are about a world that was not seen: a law that learns learned from times that were met under
    /// another limit. Between fixed limits they are exact, as far as times don't depend on load and nobody waits.
    pub counterfactual: bool,
    /// How often the law panicked. Its limit then stays what it was.
    pub law_panics: u64,
}

impl ShadowLaw {
    /// Takes another law, or none. One of the same kind goes on where the last one was.
    pub(super) fn replace(&mut self, law: Option<Box<dyn LimitAlgorithm>>) {
        self.law = law;
        let limit = self.limit;
        if let Some(law) = &mut self.law {
            if limit > 0 {
                law.adopt(limit);
            }
            self.limit = law.limit().max(1);
        }
    }

    pub(super) fn kind(&self) -> Option<&'static str> {
        self.law.as_ref().map(|law| law.kind())
    }

    pub(super) const fn is_on(&self) -> bool {
        self.law.is_some()
    }

    /// Somebody gets a slot; answers the mark of those who would have got one here.
    pub(super) fn enter(&mut self, waits: bool) -> u8 {
        if self.running < self.limit {
            self.running += 1;
            return IN_SHADOW;
        }
        *(if waits { &mut self.would_queue } else { &mut self.would_reject }) += 1;
        0
    }

    pub(super) fn leave(&mut self) {
        self.running -= 1;
    }

    /// Somebody was turned away.
    pub(super) fn refused(&mut self, reason: Reason) {
        use Reason::{GateFull, GateTimeout, Limit, QueueFull, QueueTimeout};
        if self.is_on() && matches!(reason, Limit | QueueFull | QueueTimeout | GateFull | GateTimeout) {
            let full = self.running >= self.limit;
            *(if full { &mut self.would_reject } else { &mut self.would_admit }) += 1;
        }
    }

    /// Learns from the same samples as the law that decides.
    pub(super) fn learn(&mut self, sample: &Sample) {
        let Some(law) = &mut self.law else { return };
        match super::learn::step(&mut **law, sample, self.limit) {
            Some((limit, _)) => self.limit = limit.max(1),
            None => self.panics += 1,
        }
    }

    pub(super) fn snapshot(&self, decides: &dyn LimitAlgorithm) -> Option<ShadowSnapshot> {
        let fixed = std::any::type_name::<Fixed>();
        Some(ShadowSnapshot {
            counterfactual: self.kind()? != fixed || decides.kind() != fixed,
            limit: self.limit,
            in_flight: self.running,
            would_queue: self.would_queue,
            would_reject: self.would_reject,
            would_admit: self.would_admit,
            law_panics: self.panics,
        })
    }
}

impl Engine {
    /// The rules that decide: where nothing binds, all of them.
    pub(super) fn which(&self) -> Which {
        if self.mode == Mode::Enforce { Which::Binding } else { Which::All }
    }

    /// Whether a partition may take a slot now, or takes one because its decisions don't bind.
    pub(super) fn partition_is_served(&self, partition: u16) -> bool {
        self.partitions[partition as usize].plan.observes || self.partition_may_run(partition)
    }

    /// Whether what its partition says stops nobody.
    pub(super) fn lets_all_through(&self, partition: u16) -> bool {
        self.partitions[partition as usize].plan.observes && self.mode == Mode::Enforce
    }

    /// A slot for a request that may have one, and what observing rules say to it.
    pub(super) fn start(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId, may_wait: bool) -> Arrival {
        if self.observes_rules()
            && let Some(full) = self.observed(now, label, true)
        {
            return self.start_beyond(now, ask, label, full, may_wait);
        }
        self.occupy(now, ask, label, 0)
    }

    /// A slot for a request that an observing rule has no room for.
    fn start_beyond(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId, full: Full, may_wait: bool) -> Arrival {
        let (shadow, would) = self.beyond(now, self.party(now, ask, label), full, may_wait);
        let arrival = self.occupy(now, ask, label, shadow);
        self.take_along(arrival, would)
    }

    const fn observes_rules(&self) -> bool {
        self.rules.observes && matches!(self.mode, Mode::Enforce)
    }

    /// The observing rule that has no room for one more request of a label that arrives, or whose turn it is.
    fn observed(&self, now: Timestamp, label: LabelId, arrives: bool) -> Option<Full> {
        let one = self.labels.get(label);
        let pending = if arrives { Rules::pending_full(one, Which::Observing) } else { None };
        pending.or_else(|| self.rules.full(now, one, Which::Observing))
    }

    /// Counts what an observing rule would have done; answers that, and the marks of who it would have done it to.
    fn beyond(&mut self, now: Timestamp, party: Party, full: Full, may_wait: bool) -> (u8, Would) {
        let waits = may_wait && full.when_full == WhenFull::Queue && self.line_has_room(party.partition);
        let place = if waits { Ok(()) } else { Err(full.reason) };
        self.note_shadow(now, party, place);
        let observes = self.partitions[party.partition as usize].plan.observes;
        (if observes { BEYOND | OUTSIDE } else { BEYOND }, Would::have(place, || full.reason))
    }

    fn note_shadow(&mut self, now: Timestamp, party: Party, place: Result<(), Reason>) {
        self.note_would(now, party, place.err());
        let counts = &mut self.partitions[party.partition as usize].counts;
        match place {
            Ok(()) => counts.would_queue += 1,
            Err(reason) => {
                counts.would_reject[reason.index()] += 1;
                self.labels.get_mut(party.label).would_reject += 1;
            }
        }
    }

    /// A slot outside of the limit, for a request whose partition observes and that nothing else stops.
    #[cold]
    pub(super) fn let_through(
        &mut self,
        now: Timestamp,
        ask: &Ask<'_>,
        label: LabelId,
        may_wait: bool,
    ) -> Option<Arrival> {
        let is_stopped =
            self.closed || ask.deadline <= now || self.labels.is_full(label) || self.stopped_by(now, label).is_some();
        if is_stopped || !self.lets_all_through(ask.partition) {
            return None;
        }
        if self.observes_rules()
            && let Some(full) = self.observed(now, label, true)
        {
            return Some(self.start_beyond(now, ask, label, full, may_wait));
        }
        let place = if may_wait {
            self.place_for(now, ask, label).map(drop)
        } else {
            Err(self.reason_for_not_waiting(ask.partition, label))
        };
        let would = Would::have(place, || self.reason_for_not_waiting(ask.partition, label));
        self.reserve_as_if(now, ask, label, place, may_wait);
        self.note_shadow(now, self.party(now, ask, label), place);
        let arrival = self.occupy(now, ask, label, BEYOND | OUTSIDE);
        Some(self.take_along(arrival, would))
    }

    /// For a request that is refused below its share something is held back; so it is for one that would have been.
    fn reserve_as_if(
        &mut self,
        now: Timestamp,
        ask: &Ask<'_>,
        label: LabelId,
        place: Result<(), Reason>,
        may_wait: bool,
    ) {
        use Reason::{GateFull, Limit, PartitionCap, QueueFull};
        match place {
            Err(Limit | PartitionCap | QueueFull | GateFull) if may_wait => self.reserve(now, ask, label),
            Err(Limit | PartitionCap) => self.reserve_slot(now, ask, label),
            _ => {}
        }
    }

    /// Runs a request that finds no slot, uncounted, because decisions don't bind.
    pub(super) fn run_uncounted(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId) -> Slot {
        let place = self.place_for(now, ask, label).map(drop);
        let would = Would::have(place, || {
            let rule = self.full_rule(now, label).map(|full| full.reason);
            rule.unwrap_or_else(|| self.reason_for_not_waiting(ask.partition, label))
        });
        self.reserve_as_if(now, ask, label, place, true);
        self.note_shadow(now, self.party(now, ask, label), place);
        self.partitions[ask.partition as usize].counts.admitted += 1;
        let shadow = if self.shadow.is_on() { self.shadow.enter(place.is_ok()) } else { 0 };
        Slot { would, ..Slot::uncounted(now, ask.partition, self.series.of(label), shadow) }
    }

    /// What observing rules say to somebody who has to wait for another reason: turned away, it would not have waited.
    pub(super) fn observe_arrival(&mut self, now: Timestamp, label: LabelId) -> Option<Full> {
        if !self.observes_rules() {
            return None;
        }
        self.observed(now, label, true).filter(|full| full.when_full != WhenFull::Queue)
    }

    /// Notes what was answered there, once it waits.
    pub(super) fn note_arrival(&mut self, now: Timestamp, key: Key, full: Full) {
        let party = self.waiting.get(key).party();
        self.note_shadow(now, party, Err(full.reason));
        let waiter = self.waiting.get_mut(key);
        (waiter.shadow, waiter.would) = (BEYOND, Would::have(Err(full.reason), || full.reason));
        self.labels.get_mut(party.label).beyond += 1;
    }

    /// What a waiter whose turn it is would have met: the marks of its slot.
    pub(super) fn observe_turn(&mut self, now: Timestamp, key: Key) -> u8 {
        let waiter = self.waiting.get(key);
        let (party, mut shadow) = (waiter.party(), waiter.shadow);
        let Party { partition, label, .. } = party;
        if shadow == 0
            && self.observes_rules()
            && let Some(full) = self.observed(now, label, false)
        {
            let (marks, would) = self.beyond(now, party, full, true);
            (shadow, self.waiting.get_mut(key).would) = (marks, would);
        }
        if self.lets_all_through(partition) {
            if shadow == 0 && !self.partition_may_run(partition) {
                let would = Would::have(Ok(()), || self.reason_for_not_waiting(partition, label));
                self.note_shadow(now, party, Ok(()));
                (shadow, self.waiting.get_mut(key).would) = (BEYOND, would);
            }
            if shadow != 0 {
                shadow |= OUTSIDE;
            }
        }
        shadow
    }

    /// Counts a slot that is taken where its marks say.
    pub(super) fn enter_shadow(&mut self, holder: Holder) {
        if holder.shadow & BEYOND != 0 {
            let one = self.labels.get_mut(holder.label);
            one.beyond += 1;
            one.beyond_running += 1;
        }
        if holder.shadow & OUTSIDE != 0 {
            self.outside += 1;
            self.partitions[holder.partition as usize].outside += 1;
        }
    }

    /// The same for one that is given back.
    pub(super) fn leave_shadow(&mut self, holder: Holder) {
        if holder.shadow & IN_SHADOW != 0 {
            self.shadow.leave();
        }
        if holder.shadow & BEYOND != 0 {
            let one = self.labels.get_mut(holder.label);
            one.beyond -= 1;
            one.beyond_running -= 1;
        }
        if holder.shadow & OUTSIDE != 0 {
            self.outside -= 1;
            self.partitions[holder.partition as usize].outside -= 1;
        }
    }
}
