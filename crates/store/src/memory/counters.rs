//! Caps and rates, as pure state: the time is an argument, in microseconds.

use std::{collections::HashMap, time::Duration};

use super::{
    State, at,
    fair::{Claimant, Name, fair},
    micros,
};
use crate::{
    Acquired, Allotment, AllotmentRequest, Claim, DrawOutcome, Full, Key, Lease, Notice, RateMode, Released, Renewed,
    Request, StoreError, Token, api::Rule,
};

/// Time for which it is remembered that a cap has waiters, in microseconds.
const WANTED: u64 = 2_000_000;

/// Time for which a wish counts, in microseconds: longer than the longest pause between two questions.
const WISH: u64 = 400_000;

/// Steps after which what is over is thrown away.
const SWEEP: u32 = 1_024;

#[cfg_attr(feature = "rows", derive(serde::Deserialize, serde::Serialize))]
#[derive(Debug, Default)]
pub(super) struct Cap {
    holders: HashMap<Token, Holder>,
    wanted_until: u64,
    wishes: Vec<Wish>,
    /// The lowest bound that was stated lately, and until when it counts.
    lowest: Option<(u32, u64)>,
}

#[cfg_attr(feature = "rows", derive(serde::Deserialize, serde::Serialize))]
#[derive(Clone, Copy, Debug)]
struct Holder {
    until: u64,
    units: u32,
    /// Number of the last request that changed the allotment; none for a lease.
    sequence: Option<u64>,
}

/// Units that a waiter could use, and until when that counts.
#[cfg_attr(feature = "rows", derive(serde::Deserialize, serde::Serialize))]
#[derive(Clone, Copy, Debug)]
struct Wish {
    of: Claimant,
    until: u64,
}

#[cfg_attr(feature = "rows", derive(serde::Deserialize, serde::Serialize))]
#[derive(Clone, Copy, Debug)]
pub(super) enum RateState {
    Bucket { index: u64, charged: u64, over: u64 },
    Smooth { next: u64 },
}

impl Cap {
    fn sweep(&mut self, now: u64) {
        self.holders.retain(|_, holder| holder.until > now);
    }

    fn units(&self) -> u64 {
        self.holders.values().map(|holder| u64::from(holder.units)).sum()
    }

    /// Returns how long until the first holder is gone.
    fn frees_after(&self, now: u64) -> Duration {
        at(self.holders.values().map(|holder| holder.until - now).min().unwrap_or(0))
    }

    /// Sends a notice that units are wanted, again while that is so: holders of units remember it for as long as this
    /// does.
    fn wanted(&mut self, key: &Key, now: u64, notices: &mut Vec<Notice>) {
        if self.wanted_until <= now + WANTED / 2 {
            notices.push(Notice::Wanted(key.as_str().into()));
            self.wanted_until = now + WANTED;
        }
    }

    /// Forgets wishes that are over, and returns whether claimants other than `name` wish for some.
    fn others_wish(&mut self, name: Name, now: u64) -> bool {
        self.wishes.retain(|wish| wish.until > now);
        self.wishes.iter().any(|wish| wish.of.name != name)
    }

    fn wish_of(&self, name: Name) -> Option<Claimant> {
        self.wishes.iter().map(|wish| wish.of).find(|of| of.name == name)
    }

    fn wish(&mut self, of: Claimant, now: u64) {
        self.forget_wish(of.name);
        self.wishes.push(Wish { of, until: now + WISH });
    }

    fn forget_wish(&mut self, name: Name) {
        self.wishes.retain(|wish| wish.of.name != name);
    }

    /// Returns the bound that counts for all: the lowest that was stated lately, while some of the cap is held. While settings
    /// change, processes state different ones, and those with a lower one would starve beside the others if each went by
    /// its own.
    fn lowest(&mut self, bound: u32, lasts: u64, now: u64) -> u32 {
        let stated = self.lowest.filter(|&(_, until)| until > now && !self.holders.is_empty());
        match stated {
            Some((stated, _)) if stated < bound => stated,
            Some((stated, until)) if stated == bound && until - now > lasts / 2 => bound,
            _ => {
                self.lowest = Some((bound, now + lasts));
                bound
            }
        }
    }

    fn leases(&self) -> u64 {
        self.holders.values().filter(|holder| holder.sequence.is_none()).count() as u64
    }

    /// Returns the part of a claimant, and the level.
    fn fair(&self, bound: u32, of: Claimant, now: u64) -> (u32, u32) {
        let mut all = vec![of];
        let mut add = |claimant: Claimant| {
            if all.iter().all(|it| it.name != claimant.name) {
                all.push(claimant);
            }
        };
        self.wishes.iter().for_each(|wish| add(wish.of));
        let blocks = self.holders.iter().filter(|(_, holder)| holder.sequence.is_some());
        for (&token, holder) in blocks {
            add(Claimant { name: Name::Block(token), need: holder.units.into(), turn: now });
        }
        if self.leases() > 0 {
            add(Claimant { name: Name::Leases, need: self.leases(), turn: now });
        }
        fair(bound, of.name, all)
    }

    /// Notes that a lease waits: to the holders of allotments, all leases together are one more claimant.
    fn wait_for_lease(&mut self, now: u64) {
        if self.holders.values().all(|holder| holder.sequence.is_none()) {
            return;
        }
        self.others_wish(Name::Leases, now);
        let turn = self.wish_of(Name::Leases).map_or(now, |wish| wish.turn);
        self.wish(Claimant { name: Name::Leases, need: self.leases() + 1, turn }, now);
    }

    fn freed(&self, key: &Key, now: u64, notices: &mut Vec<Notice>) {
        if self.wanted_until > now {
            notices.push(Notice::Freed(key.as_str().into()));
        }
    }
}

impl State {
    pub(crate) fn acquire(&mut self, request: &Request, now: u64) -> Acquired {
        self.sweep(now);
        let mut charged = Vec::new();
        for (index, claim) in request.claims.as_slice().iter().enumerate() {
            let full = |retry_after| Acquired::Full(Full { claim: index, retry_after, at: at(now) });
            match claim.rule {
                Rule::Cap { bound } => {
                    let cap = self.caps.entry(claim.key.clone()).or_default();
                    cap.sweep(now);
                    let bound = cap.lowest(bound.get(), micros(request.expiry), now);
                    if cap.units() >= u64::from(bound) {
                        if request.waits {
                            cap.wait_for_lease(now);
                            cap.wanted(&claim.key, now, &mut self.notices);
                        }
                        return full(cap.frees_after(now));
                    }
                }
                Rule::Rate { maximum, period, mode } => {
                    let meter = Meter::new(maximum.get(), period, mode);
                    let (units, after, state) = meter.draw(self.rates.get(&claim.key).copied(), 1, now);
                    if units == 0 {
                        return full(after);
                    }
                    charged.push((claim.key.clone(), state));
                }
            }
        }
        self.rates.extend(charged);
        let lease = Lease::of(request, at(now));
        for key in &*lease.caps {
            let cap = self.caps.entry(key.clone()).or_default();
            cap.holders.insert(lease.token, Holder { until: now + micros(lease.expiry), units: 1, sequence: None });
            // Leases that still wait are the last in turn from now on.
            cap.forget_wish(Name::Leases);
        }
        Acquired::Granted(lease)
    }

    pub(crate) fn renew(&mut self, leases: &[Lease], now: u64) -> Renewed {
        let lost = (0..leases.len()).filter(|&index| !self.renew_one(&leases[index], now)).collect();
        Renewed { lost, at: at(now), ..Renewed::default() }
    }

    /// Renews a lease; returns whether it was still held.
    fn renew_one(&mut self, lease: &Lease, now: u64) -> bool {
        let held = |caps: &HashMap<Key, Cap>, key| {
            caps.get(key).and_then(|cap| cap.holders.get(&lease.token)).is_some_and(|holder| holder.until > now)
        };
        let alive = lease.caps.iter().all(|key| held(&self.caps, key));
        for key in &*lease.caps {
            let Some(cap) = self.caps.get_mut(key) else { continue };
            match cap.holders.get_mut(&lease.token) {
                Some(holder) if alive => holder.until = now + micros(lease.expiry),
                _ => drop(cap.holders.remove(&lease.token)),
            }
        }
        alive
    }

    pub(crate) fn release(&mut self, leases: &[Lease], now: u64) -> Released {
        let held = leases.iter().filter(|lease| self.release_one(lease, now)).count();
        Released { held, at: at(now) }
    }

    /// Gives a lease back; returns whether any of it was still held.
    fn release_one(&mut self, lease: &Lease, now: u64) -> bool {
        let mut held = false;
        for key in &*lease.caps {
            let Some(cap) = self.caps.get_mut(key) else { continue };
            cap.sweep(now);
            if cap.holders.remove(&lease.token).is_some() {
                held = true;
                cap.freed(key, now, &mut self.notices);
            }
        }
        held
    }

    pub(crate) fn reserve(&mut self, request: &AllotmentRequest, now: u64) -> Allotment {
        self.sweep(now);
        let name = Name::Block(request.token);
        let cap = self.caps.entry(request.key.clone()).or_default();
        cap.sweep(now);
        let wanted = cap.others_wish(name, now);
        let mine = cap.wish_of(name);
        let current = cap.holders.get(&request.token).copied();
        let had = current.map_or(0, |holder| holder.units);
        let bound = cap.lowest(request.bound.get(), micros(request.expiry), now);
        if current.is_some_and(|holder| holder.sequence.unwrap_or(0) >= request.sequence) {
            return Allotment { units: had, wanted, target: bound, retry_after: cap.frees_after(now), at: at(now) };
        }
        let need = request.need.max(request.used.saturating_add(u32::from(request.waits)));
        let mut of = Claimant { name, need: need.into(), turn: mine.map_or(now, |mine| mine.turn) };
        let mut part = wanted.then(|| cap.fair(bound, of, now));
        // More than the level is a turn at what rounding leaves over. It ends when a unit comes free: other claimants
        // are next.
        if part.is_some_and(|(_, level)| had > level) {
            of.turn = now;
            part = Some(cap.fair(bound, of, now));
        }
        let others = cap.units() - u64::from(had);
        let free = u32::try_from(u64::from(bound).saturating_sub(others)).unwrap_or(u32::MAX);
        let most = part.map(|(target, _)| target.min(need));
        let units = granted(request, had, free, most);
        if units == 0 {
            cap.holders.remove(&request.token);
        } else {
            let (until, sequence) = (now + micros(request.expiry), Some(request.sequence));
            cap.holders.insert(request.token, Holder { until, units, sequence });
        }
        if units < need && (request.waits || mine.is_some()) {
            if units > part.map_or(bound, |(_, level)| level) {
                of.turn = now;
            }
            if request.waits || of.turn == now {
                cap.wish(of, now);
            }
            if request.waits {
                cap.wanted(&request.key, now, &mut self.notices);
            }
        } else {
            cap.forget_wish(name);
        }
        if units < had || (mine.is_some() && wanted && need <= units) {
            cap.freed(&request.key, now, &mut self.notices);
        }
        // After the cap was lowered, holders come down to their parts as if others waited.
        let wanted = wanted || (units > 0 && others + u64::from(units) > u64::from(bound));
        let target = if wanted { cap.fair(bound, of, now).0 } else { bound };
        Allotment { units, wanted, target, retry_after: cap.frees_after(now), at: at(now) }
    }

    pub(crate) fn draw(&mut self, rate: &Claim, most: u32, now: u64) -> Result<DrawOutcome, StoreError> {
        let Rule::Rate { maximum, period, mode } = rate.rule else {
            return Err(StoreError::Configuration(format!("{:?} is a cap, not a rate", rate.key)));
        };
        let meter = Meter::new(maximum.get(), period, mode);
        let (units, after, state) = meter.draw(self.rates.get(&rate.key).copied(), most, now);
        if units > 0 {
            self.rates.insert(rate.key.clone(), state);
        }
        Ok(DrawOutcome { units, after, at: at(now) })
    }

    /// Forgets what is over, once in a while.
    fn sweep(&mut self, now: u64) {
        self.steps += 1;
        if self.steps < SWEEP {
            return;
        }
        self.steps = 0;
        self.forget_counters(now);
    }

    /// Forgets caps and rates of which nothing counts any more.
    pub(super) fn forget_counters(&mut self, now: u64) {
        self.caps.retain(|_, cap| {
            cap.sweep(now);
            !cap.holders.is_empty() || cap.wanted_until > now
        });
        self.rates.retain(|_, rate| match *rate {
            RateState::Bucket { over, .. } => over > now,
            RateState::Smooth { next } => next > now,
        });
    }
}

/// Returns how large an allotment becomes: growing takes half of what is free, or `most` while others wait. Units that
/// are in use, or may come into use before the answer, are never taken away.
pub(super) fn granted(request: &AllotmentRequest, had: u32, free: u32, most: Option<u32>) -> u32 {
    let most = most.unwrap_or_else(|| had + (free.saturating_sub(had) / 2).max(1));
    let kept = had.min(request.used.max(request.had.min(request.want)));
    request.want.min(free).min(most).max(kept)
}

/// The arithmetic of one rate, in whole microseconds.
pub(super) struct Meter {
    maximum: u64,
    period: u64,
    mode: RateMode,
}

impl Meter {
    pub(super) fn new(maximum: u32, period: Duration, mode: RateMode) -> Self {
        Self { maximum: u64::from(maximum), period: micros(period), mode }
    }

    /// Returns how many of `most` units there are now; when there will be one, or for how long these may be used; and
    /// the state after they were taken.
    pub(super) fn draw(&self, state: Option<RateState>, most: u32, now: u64) -> (u32, Duration, RateState) {
        let few = |units: u64| u32::try_from(units).unwrap_or(u32::MAX);
        match self.mode.burst() {
            None => {
                let index = now / self.period;
                let over = (index + 1) * self.period;
                let charged = match state {
                    Some(RateState::Bucket { index: of, charged, .. }) if of == index => charged,
                    _ => 0,
                };
                let units = self.maximum.saturating_sub(charged).min(u64::from(most));
                (few(units), at(over - now), RateState::Bucket { index, charged: charged + units, over })
            }
            Some(burst) => {
                // Rounded up: never more than the maximum.
                let step = self.period.div_ceil(self.maximum);
                let ahead = step * u64::from(burst.get());
                let next = match state {
                    Some(RateState::Smooth { next }) => next.max(now),
                    _ => now,
                };
                let units = ((now + ahead).saturating_sub(next) / step).min(u64::from(most));
                let after = if units == 0 { next + step - (now + ahead) } else { ahead };
                (few(units), at(after), RateState::Smooth { next: next + units * step })
            }
        }
    }
}
