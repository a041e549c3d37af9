//! Allotments: units of each key that this process holds, to admit from without a round trip.
//!
//! Pure state: the time is an argument, and the caller asks the store. The rules that keep the cap:
//!
//! - Units count as held from the moment the store says so, and as returned from the moment before it is told.
//! - Nothing new is admitted from an allotment later than 70 % of its expiry after it was *asked* for. A process that
//!   is stopped for less than the rest can't use units that were granted to others meanwhile.
//! - One allotment per key under one token, its size in absolute numbers: a lost or late answer is set right by the
//!   next.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{loss::Loss, purse::Purse};
use crate::{Allotment, AllotmentRequest, Claim, DrawOutcome, Key, StoreError, Token, backoff::Seeds};

/// The part of its expiry for which an allotment may be used.
const USABLE: f64 = 0.7;

/// Time for which it is remembered that other processes want some of a cap: the store repeats it while it is so.
const WANTED: Duration = Duration::from_secs(2);

/// Time for which a request that was refused and does not wait is one that needs a unit: as long as a store counts its wish.
const WISH: Duration = Duration::from_millis(400);

/// The allotment of one cap.
#[derive(Debug)]
struct Share {
    token: Token,
    claim: Claim,
    sequence: u64,
    units: u32,
    used: u32,
    /// Most units that were used at once since the last renewal.
    peak: u32,
    /// Units to ask for when the allotment runs out. Doubles with each time.
    step: u32,
    /// Time when the allotment was last asked for.
    asked_at: Instant,
    /// Time since when the store is being asked for more, without an answer. The answer renews the allotment as well.
    refilling: Option<Instant>,
    /// Answers of the store to questions for more: a request that stood in line meanwhile need not ask again.
    answers: u64,
    retry_after: Duration,
    /// Time until which other processes are known to wait for some of it.
    wanted_until: Option<Instant>,
    /// Units to which this process should come down while others wait, as units come free.
    target: u32,
    /// Requests of this process that wait for a unit, as of the last time that it mattered.
    standing: u32,
    /// Time until which a request that does not wait is known to need a unit.
    wished_until: Instant,
    /// Units in use beyond those that the store still counts: work that goes on although its unit is lost.
    uncounted: u32,
    loss: Arc<Loss>,
}

/// One unit of an allotment.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) key: Key,
    block: Token,
    pub(crate) loss: Arc<Loss>,
}

/// All allotments and purses of this process.
#[derive(Debug)]
pub(crate) struct Shares {
    caps: HashMap<Key, Share>,
    purses: HashMap<Key, Purse>,
    expiry: Duration,
    pub(crate) lost: u64,
}

/// Why no unit could be taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Missing {
    /// Index of the claim.
    pub(crate) claim: usize,
    /// Answers that there had been for it, and the last one.
    pub(crate) answers: u64,
    pub(crate) retry_after: Duration,
}

impl Shares {
    pub(crate) fn new(expiry: Duration) -> Self {
        Self { caps: HashMap::new(), purses: HashMap::new(), expiry, lost: 0 }
    }

    /// Returns the claims that can't be met from here.
    pub(crate) fn missing(&self, claims: &[Claim], now: Instant) -> Vec<Missing> {
        let lacks = |(claim, of): (usize, &Claim)| {
            let found = if of.is_cap() {
                let share = self.caps.get(&of.key);
                share.map(|it| (it.has_room(of, now, self.expiry), it.answers, it.retry_after))
            } else {
                self.purses.get(&of.key).map(|it| (it.units > 0 && now < it.until, it.answers, it.retry_after))
            };
            let (there, answers, retry_after) = found.unwrap_or_default();
            (!there).then_some(Missing { claim, answers, retry_after })
        };
        claims.iter().enumerate().filter_map(lacks).collect()
    }

    /// Takes one unit for each claim, or none.
    pub(crate) fn take(&mut self, claims: &[Claim], now: Instant) -> Result<Vec<Unit>, Missing> {
        if let Some(&missing) = self.missing(claims, now).first() {
            return Err(missing);
        }
        let mut taken = Vec::with_capacity(claims.len());
        for claim in claims {
            if let Some(share) = self.caps.get_mut(&claim.key).filter(|_| claim.is_cap()) {
                share.used += 1;
                share.peak = share.peak.max(share.used);
                share.follow(claim);
                taken.push(Unit { key: claim.key.clone(), block: share.token, loss: Arc::clone(&share.loss) });
            } else if let Some(purse) = self.purses.get_mut(&claim.key) {
                purse.units -= 1;
            }
        }
        Ok(taken)
    }

    /// Gives one unit back, unless the whole allotment was lost meanwhile. Returns what to return to the store of it.
    ///
    /// While others wait, this process keeps what it uses, and what its own requests wait for (`standing`, which is
    /// looked at only then) up to its part of the cap.
    pub(crate) fn put_back(&mut self, unit: &Unit, standing: impl FnOnce() -> usize) -> Option<AllotmentRequest> {
        let share = self.caps.get_mut(&unit.key).filter(|share| share.token == unit.block)?;
        share.used = share.used.saturating_sub(1);
        let until = share.wanted_until?;
        let now = Instant::now();
        if now >= until {
            share.wanted_until = None;
            return None;
        }
        share.stands(standing(), now);
        let keep = if share.standing > 0 { share.used.max(share.target) } else { share.used };
        if share.units <= keep || now >= share.asked_at + self.expiry {
            return None;
        }
        Some(share.ask(keep, share.standing > 0, self.expiry))
    }

    /// Notes that other processes wait for some of the cap with this key. Returns whether some of it is held here.
    pub(crate) fn others_want(&mut self, key: &Key, now: Instant) -> bool {
        let Some(share) = self.caps.get_mut(key) else { return false };
        if share.wanted_until.is_none_or(|until| until <= now) {
            share.target = u32::MAX;
        }
        share.wanted_until = Some(now + WANTED);
        share.units > 0
    }

    /// Notes that a request that does not wait was refused a unit.
    pub(crate) fn wish(&mut self, key: &Key, now: Instant) {
        if let Some(share) = self.caps.get_mut(key) {
            share.wished_until = now + WISH;
        }
    }

    /// Whether requests of this process that don't wait need units of the cap with this key.
    pub(crate) fn wishes(&self, key: &Key, now: Instant) -> bool {
        self.caps.get(key).is_some_and(|share| now < share.wished_until)
    }

    /// Returns what to tell the store when no request here waits for a unit any more, so that it keeps none for this
    /// process.
    pub(crate) fn withdraw(&mut self, key: &Key, now: Instant) -> Option<AllotmentRequest> {
        self.forget_if_expired(key, now);
        let share = self.caps.get_mut(key).filter(|share| share.standing > 0)?;
        (share.standing, share.wished_until) = (0, now);
        Some(share.ask(share.units, false, self.expiry))
    }

    /// Returns what to ask the store for when a claim of a cap can't be met: a unit for each waiter, and some more.
    pub(crate) fn refill(
        &mut self,
        claim: &Claim,
        standing: usize,
        waits: bool,
        now: Instant,
        seeds: &Seeds,
    ) -> Result<AllotmentRequest, StoreError> {
        self.forget_if_expired(&claim.key, now);
        if !self.caps.contains_key(&claim.key) {
            self.caps.insert(claim.key.clone(), Share::new(claim.clone(), seeds.token()?, now));
        }
        let Some(share) = self.caps.get_mut(&claim.key) else { return Err(StoreError::Unavailable) };
        share.follow(claim);
        let standing = u32::try_from(standing).unwrap_or(u32::MAX);
        let want = share.used.saturating_add(share.step.max(standing)).min(share.claim.bound().get());
        share.step = share.step.saturating_mul(2).min(share.claim.bound().get());
        share.standing = standing;
        share.refilling.get_or_insert(now);
        Ok(share.ask(want, waits, self.expiry))
    }

    /// Returns what to ask for to renew an allotment, with its use; less than before if it was not needed. `None` if
    /// there is nothing to renew.
    pub(crate) fn renewal(&mut self, key: &Key, give_all: bool, now: Instant) -> Option<AllotmentRequest> {
        self.forget_if_expired(key, now);
        let share = self.caps.get_mut(key)?;
        if !give_all && share.refilling.is_some_and(|since| now < since + self.expiry / 8) {
            // A renewal would overtake the answer, and take back what a request is about to be given.
            return None;
        }
        let bound = share.claim.bound().get();
        let want = if give_all { share.used } else { share.peak.min(bound).max(share.used) };
        if give_all && want >= share.units {
            return None;
        }
        if give_all {
            share.standing = 0;
        }
        share.peak = share.used;
        share.step = (share.step / 2).max(1);
        if want == 0 && share.units == 0 {
            // Requests that wait for their first unit keep their turn, which goes by the token.
            if std::mem::take(&mut share.standing) == 0 {
                self.caps.remove(key);
            }
            return None;
        }
        Some(share.ask(want, false, self.expiry))
    }

    /// Gives an allotment up, and returns what to tell the store of it: also where an older answer has not come, or came
    /// too late to count.
    pub(crate) fn farewell(&mut self, key: &Key, now: Instant) -> Option<AllotmentRequest> {
        self.forget_if_expired(key, now);
        let mut share = self.caps.remove(key).filter(|share| share.sequence > 0)?;
        (share.used, share.standing) = (0, 0);
        Some(share.ask(0, false, self.expiry))
    }

    /// Takes the answer of the store to `request`, which was sent at `sent`. Returns whether that decides what the request
    /// gets: not if a renewal overtook it, which asks for less, and units that other processes don't wait for.
    pub(crate) fn answered(&mut self, request: &AllotmentRequest, block: Allotment, sent: Instant) -> bool {
        let share = self.caps.get_mut(&request.key).filter(|share| share.token == request.token);
        let Some(share) = share else { return true };
        share.answers += 1;
        share.retry_after = block.retry_after;
        if share.sequence != request.sequence {
            // A newer question is on its way, and its answer is what counts. It may never come: a caller that hangs up takes
            // its question along. So this one renews what it covers, and adds nothing.
            if sent > share.asked_at && block.units >= share.used {
                share.asked_at = sent;
                share.units = share.units.min(block.units);
            }
            return share.wanted_until.is_some_and(|until| Instant::now() < until);
        }
        share.refilling = None;
        share.units = block.units;
        share.asked_at = sent;
        share.wanted_until = block.wanted.then_some(sent + WANTED);
        share.target = block.target;
        let uncounted = share.used.saturating_sub(block.units);
        if uncounted > share.uncounted {
            self.lost += u64::from(uncounted - share.uncounted);
            // Which of the units is lost can't be known: all holders are told.
            share.loss.happen();
            share.loss = Arc::default();
        }
        share.uncounted = uncounted;
        true
    }

    /// Takes the units that a rate was drawn.
    pub(crate) fn drawn(&mut self, key: &Key, drawn: DrawOutcome, sent: Instant) {
        let purse = self.purses.entry(key.clone()).or_insert_with(|| Purse::new(sent));
        purse.answers += 1;
        if drawn.units == 0 {
            purse.retry_after = drawn.after;
            purse.step = 1;
            return;
        }
        // The units from before go with it: at worst they are used as late as the new ones.
        let left = if sent < purse.until { purse.units } else { 0 };
        let usable = drawn.after.min(self.expiry.mul_f64(USABLE));
        let until = sent + usable;
        purse.until = if left > 0 { purse.until.min(until) } else { until };
        purse.units = left + drawn.units;
        purse.step = purse.step.saturating_mul(2).min(1_024);
    }

    /// Returns how many units of a rate to draw.
    pub(crate) fn draw(&self, claim: &Claim, standing: usize) -> u32 {
        let step = self.purses.get(&claim.key).map_or(1, |purse| purse.step);
        // Never more than a tenth: other processes can't use what one process holds.
        let most = (claim.bound().get() / 10).max(1);
        step.max(u32::try_from(standing).unwrap_or(u32::MAX)).min(most)
    }

    /// Returns the keys of all allotments, in their order: what is done for each of them is done in the same order in each
    /// run of a simulation.
    pub(crate) fn keys(&self) -> Vec<Key> {
        let mut keys: Vec<_> = self.caps.keys().cloned().collect();
        keys.sort_unstable();
        keys
    }

    /// Returns the units held and used of a cap.
    pub(crate) fn of(&self, key: &Key) -> (u32, u32) {
        self.caps.get(key).map_or((0, 0), |share| (share.units, share.used))
    }

    /// Gives up the allotments that expire by `over_by`, except those that were asked for since `began`: these only if
    /// they have expired now. Forgets units that can't be used any more.
    pub(crate) fn give_up(&mut self, began: Instant, now: Instant, over_by: Instant) {
        for key in self.keys() {
            let asked = self.caps.get(&key).is_some_and(|share| share.asked_at >= began);
            self.forget_if_expired(&key, if asked { now } else { over_by });
        }
        self.purses.retain(|_, purse| over_by < purse.until + self.expiry);
    }

    /// Forgets an allotment that was not renewed in time: it is lost, whatever the store would say.
    fn forget_if_expired(&mut self, key: &Key, now: Instant) {
        let expired = self.caps.get(key).is_some_and(|share| now >= share.asked_at + self.expiry && share.units > 0);
        if expired && let Some(share) = self.caps.remove(key) {
            self.lost += u64::from(share.used);
            share.loss.happen();
        }
    }
}

impl Share {
    fn new(claim: Claim, token: Token, now: Instant) -> Self {
        Self {
            token,
            claim,
            sequence: 0,
            units: 0,
            used: 0,
            peak: 0,
            step: 1,
            asked_at: now,
            refilling: None,
            answers: 0,
            retry_after: Duration::ZERO,
            wanted_until: None,
            target: u32::MAX,
            standing: 0,
            wished_until: now,
            uncounted: 0,
            loss: Arc::default(),
        }
    }

    fn stands(&mut self, standing: usize, now: Instant) {
        if standing > 0 || now >= self.wished_until {
            self.standing = u32::try_from(standing).unwrap_or(u32::MAX);
        }
    }

    fn has_room(&self, claim: &Claim, now: Instant, expiry: Duration) -> bool {
        self.used < self.units.min(claim.bound().get()) && now < self.asked_at + expiry.mul_f64(USABLE)
    }

    /// Goes by the bound of the newest claim from now on: it changes with the configuration. An allotment that meets all
    /// claims from its units would else be renewed by an old bound for as long as it does.
    fn follow(&mut self, claim: &Claim) {
        if self.claim.bound() != claim.bound() {
            self.claim = claim.clone();
        }
    }

    fn ask(&mut self, want: u32, waits: bool, expiry: Duration) -> AllotmentRequest {
        let had = self.units;
        self.sequence += 1;
        // Units that are to be returned are not used from now on.
        self.units = self.units.min(want);
        AllotmentRequest {
            token: self.token,
            key: self.claim.key.clone(),
            bound: self.claim.bound(),
            used: self.used,
            need: self.used.saturating_add(self.standing),
            want,
            had: had.min(want),
            sequence: self.sequence,
            expiry,
            waits,
        }
    }
}
