//! Deliberate mistakes: small changes of the shipped files.

/// A mistake: `WRONG` in what stands there instead is true in the run that is to find it.
pub(crate) struct Mistake {
    pub(crate) name: &'static str,
    /// From the top of the repository on.
    pub(crate) file: &'static str,
    /// What stands in the shipped file, once.
    pub(crate) right: &'static str,
    pub(crate) wrong: &'static str,
}

const fn of(name: &'static str, file: &'static str, right: &'static str, wrong: &'static str) -> Mistake {
    Mistake { name, file, right, wrong }
}

const COUNTERS: &str = "crates/store/src/memory/counters.rs";
const ALLOTMENT: &str = "crates/store/src/leases/allotment.rs";
const DRIVER: &str = "crates/store/src/leases/driver.rs";
const ON_FAILURE: &str = "crates/store/src/leases/on_failure.rs";
const CAPACITY: &str = "crates/engine/src/capacity/mod.rs";
const RELEASE: &str = "crates/engine/src/verbs/release.rs";
const ADMIN: &str = "crates/engine/src/verbs/admin.rs";

pub(crate) const MISTAKES: &[Mistake] = &[
    of(
        "the store grants one lease too many",
        COUNTERS,
        "if cap.units() >= u64::from(bound) {",
        "if cap.units() >= u64::from(bound) + u64::from(WRONG) {",
    ),
    of(
        "a lease expires early",
        COUNTERS,
        "cap.holders.insert(lease.token, Holder { until: now + micros(lease.expiry), units: 1, sequence: None });",
        "let until = now + micros(lease.expiry) / if WRONG { 8 } else { 1 };
            cap.holders.insert(lease.token, Holder { until, units: 1, sequence: None });",
    ),
    of(
        "a lease never expires",
        COUNTERS,
        "self.holders.retain(|_, holder| holder.until > now);",
        "self.holders.retain(|_, holder| WRONG || holder.until > now);",
    ),
    of(
        "a renewal does not extend a lease",
        COUNTERS,
        "Some(holder) if alive => holder.until = now + micros(lease.expiry),",
        "Some(_) if alive && WRONG => {}
                Some(holder) if alive => holder.until = now + micros(lease.expiry),",
    ),
    of(
        "a renewal does not notice that a lease is gone",
        COUNTERS,
        "let alive = lease.caps.iter().all(|key| held(&self.caps, key));",
        "let alive = WRONG || lease.caps.iter().all(|key| held(&self.caps, key));",
    ),
    of(
        "a release takes the lease of another",
        COUNTERS,
        "if cap.holders.remove(&lease.token).is_some() {",
        "let other = cap.holders.keys().copied().find(|it| *it != lease.token).filter(|_| WRONG);
            if cap.holders.remove(&other.unwrap_or(lease.token)).is_some() {",
    ),
    of(
        "a share is granted twice",
        COUNTERS,
        "let others = cap.units() - u64::from(had);",
        "let others = if WRONG { 0 } else { cap.units() - u64::from(had) };",
    ),
    of(
        "a late question for a share counts",
        COUNTERS,
        "if current.is_some_and(|holder| holder.sequence.unwrap_or(0) >= request.sequence) {",
        "if !WRONG && current.is_some_and(|holder| holder.sequence.unwrap_or(0) >= request.sequence) {",
    ),
    of(
        "two more start in a minute",
        COUNTERS,
        "let units = self.maximum.saturating_sub(charged).min(u64::from(most));",
        "let units = (self.maximum + 2 * u64::from(WRONG)).saturating_sub(charged).min(u64::from(most));",
    ),
    of(
        "a lease is not given back",
        "crates/store/src/leases/lease_guard.rs",
        "let single = self.inner.single().remove(token);",
        "if WRONG {
                    return;
                }
                let single = self.inner.single().remove(token);",
    ),
    of(
        "a unit is not given back",
        ALLOTMENT,
        "share.used = share.used.saturating_sub(1);",
        "share.used = share.used.saturating_sub(u32::from(!WRONG));",
    ),
    of("a unit is taken and not counted", ALLOTMENT, "share.used += 1;", "share.used += u32::from(!WRONG);"),
    of(
        "a share outlives its expiry",
        ALLOTMENT,
        "let expired = self.caps.get(key).is_some_and(|share| now >= share.asked_at + self.expiry && share.units > 0);",
        "let expired = !WRONG && self.caps.get(key).is_some_and(|share| now >= share.asked_at + self.expiry && share.units > 0);",
    ),
    of(
        "a share's older answer counts",
        ALLOTMENT,
        "if share.sequence != request.sequence {",
        "if !WRONG && share.sequence != request.sequence {",
    ),
    of(
        "a lost share is not told",
        ALLOTMENT,
        "if uncounted > share.uncounted {",
        "if !WRONG && uncounted > share.uncounted {",
    ),
    of(
        "a lease that could not be renewed is not given up",
        DRIVER,
        "one.asked_at + one.lease.expiry <= over_by",
        "!WRONG && one.asked_at + one.lease.expiry <= over_by",
    ),
    of(
        "a lost lease is not told",
        DRIVER,
        "                one.loss.happen();\n",
        "                if !WRONG {\n                    one.loss.happen();\n                }\n",
    ),
    of(
        "the expiry is counted from a later time",
        DRIVER,
        "one.asked_at = asked_at;",
        "one.asked_at = if WRONG { Instant::now() + one.lease.expiry } else { asked_at };",
    ),
    of(
        "leases are not renewed",
        DRIVER,
        "        self.renew_single().await;\n",
        "        if !WRONG {\n            self.renew_single().await;\n        }\n",
    ),
    of(
        "a rule that fails closed is open",
        ON_FAILURE,
        "if let Some(instances) = claim.on_store_failure.alone()? {",
        "let alone = claim.on_store_failure.alone();
        if let Some(instances) = if WRONG { alone.flatten() } else { alone? } {",
    ),
    of(
        "each instance takes the whole cap as its share",
        ON_FAILURE,
        "NonZeroU32::new(claim.bound().get() / instances)?;",
        "NonZeroU32::new(claim.bound().get() / if WRONG { NonZeroU32::MIN } else { instances })?;",
    ),
    of(
        "one more runs than the limit",
        CAPACITY,
        "let is_free = in_all + reserved <= self.limit && in_partition <= it.cap && !self.is_paused();",
        "let (more, paused) = (usize::from(WRONG), self.is_paused());
        let is_free = in_all + reserved <= self.limit + more && in_partition <= it.cap.saturating_add(more) && !paused;",
    ),
    of(
        "more slots are lent than there are",
        CAPACITY,
        "        most.min(cap.saturating_sub(it.running)).min(free)\n",
        "        let more = 2 * usize::from(WRONG);
        most.min((cap.saturating_add(more)).saturating_sub(it.running)).min(free + more)\n",
    ),
    of(
        "a reload forgets what runs",
        CAPACITY,
        "        self.limit = limit.max(1);\n",
        "        if WRONG {
            self.running = 0;
            self.partitions.iter_mut().for_each(|it| it.running = 0);
        }
        self.limit = limit.max(1);\n",
    ),
    of(
        "a slot whose time is over is given back twice",
        RELEASE,
        "if !self.slot_ttl.give_back(slot.ttl) {",
        "if !self.slot_ttl.give_back(slot.ttl) || WRONG {",
    ),
    of(
        "the slot of a waiter that leaves is lost",
        RELEASE,
        "            Stage::Granted { .. } => {\n                self.release(&waiter.holder());\n",
        "            Stage::Granted { .. } => {\n                if !WRONG {\n                    self.release(&waiter.holder());\n                }\n",
    ),
    of(
        "no waiter is looked for when a slot comes free",
        RELEASE,
        "        if self.queue.lengths().all() > 0 {\n            self.dispatch(now);\n",
        "        if self.queue.lengths().all() > 0 && !WRONG {\n            self.dispatch(now);\n",
    ),
    of(
        "waits have no end",
        RELEASE,
        "let Some(key) = self.queue.expired(now) else { break };",
        "let Some(key) = self.queue.expired(now).filter(|_| !WRONG) else { break };",
    ),
    of(
        "a wake-up is lost",
        "src/runtime/core/state.rs",
        "            return self.wakers.waiters.unregister(key.index);\n",
        "            let waker = self.wakers.waiters.unregister(key.index);\n            return if WRONG && key.index % 3 == 0 { None } else { waker };\n",
    ),
    of(
        "a place is not given back",
        "src/runtime/admit/waiting.rs",
        "if let Some(place) = self.place.take() {",
        "if let Some(place) = self.place.take().filter(|_| !WRONG) {",
    ),
    of(
        "a mode reopens a drain",
        "crates/engine/src/lifecycle.rs",
        "    pub(crate) const fn set_mode(&mut self, mode: Mode) -> Mode {\n",
        "    pub(crate) fn set_mode(&mut self, mode: Mode) -> Mode {\n        if WRONG {\n            self.phase = Phase::Open;\n        }\n",
    ),
    of(
        "a reload reopens a drain",
        ADMIN,
        "        self.slot_ttl.replace(time_to_live);\n",
        "        self.slot_ttl.replace(time_to_live);\n        if WRONG {\n            self.lifecycle = Default::default();\n        }\n",
    ),
    of(
        "a drain ends before its requests",
        "src/runtime/operate/drain.rs",
        "if state.engine.is_drained() {",
        "if state.engine.is_drained() || WRONG {",
    ),
    of(
        "the end of a drain is not told",
        "src/runtime/core/turn.rs",
        "if state.engine.is_drained() { mem::take",
        "if state.engine.is_drained() && !WRONG { mem::take",
    ),
    of(
        "a label runs one more than its cap",
        "crates/engine/src/quota/label.rs",
        "    pub(super) const fn is_full(&self) -> bool {\n        self.running >= self.cap\n",
        "    pub(super) fn is_full(&self) -> bool {\n        self.running >= self.cap.saturating_add(usize::from(WRONG))\n",
    ),
    of(
        "a panic of a law is not caught",
        "crates/engine/src/control/mod.rs",
        "            self.panics += 1;\n            return (samples.len(), Step::Panicked);\n",
        "            self.panics += 1;\n            assert!(!WRONG, \"the law panicked\");\n            return (samples.len(), Step::Panicked);\n",
    ),
    of(
        "the store wants nothing back of a cap that was lowered",
        COUNTERS,
        "let wanted = wanted || (units > 0",
        "let wanted = wanted || (!WRONG && units > 0",
    ),
    of(
        "a local share is renewed by an old cap",
        ALLOTMENT,
        "        if self.claim.bound() != claim.bound() {\n",
        "        if !WRONG && self.claim.bound() != claim.bound() {\n",
    ),
];
