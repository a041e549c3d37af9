//! Caps and rates, as pure state: the time is an argument, in microseconds.

use std::{collections::HashMap, time::Duration};

use super::{at, micros};
use crate::store::{
    Block, BlockRequest, Claim, Drawn, Full, Key, Lease, Notice, RateMode, Request, StoreError, Token, claim::Rule,
};

/// For how long a wish for a cap is remembered: longer than the longest pause between two polls.
const WANTED: u64 = 2_000_000;

/// After how many steps what is over is thrown away.
const SWEEP: u32 = 1_024;

#[derive(Debug, Default)]
pub(super) struct Counters {
    caps: HashMap<Key, Cap>,
    rates: HashMap<Key, RateState>,
    steps: u32,
}

#[derive(Debug, Default)]
struct Cap {
    holders: HashMap<Token, Holder>,
    wanted_until: u64,
}

#[derive(Clone, Copy, Debug)]
struct Holder {
    until: u64,
    units: u32,
    sequence: u64,
}

#[derive(Clone, Copy, Debug)]
enum RateState {
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

    /// How long until the first holder is gone.
    fn frees_after(&self, now: u64) -> Duration {
        at(self.holders.values().map(|holder| holder.until - now).min().unwrap_or(0))
    }

    fn wanted(&mut self, key: &Key, now: u64, notices: &mut Vec<Notice>) {
        if self.wanted_until <= now {
            notices.push(Notice::Wanted(key.as_str().into()));
        }
        self.wanted_until = now + WANTED;
    }

    fn freed(&self, key: &Key, now: u64, notices: &mut Vec<Notice>) {
        if self.wanted_until > now {
            notices.push(Notice::Freed(key.as_str().into()));
        }
    }
}

impl Counters {
    pub(super) fn acquire(&mut self, request: &Request, now: u64, notices: &mut Vec<Notice>) -> Result<(), Full> {
        self.sweep(now);
        for (index, claim) in request.claims.as_slice().iter().enumerate() {
            let full = |retry_after| Full { claim: index, retry_after, at: at(now) };
            match claim.rule {
                Rule::Cap { bound } => {
                    let cap = self.caps.entry(claim.key.clone()).or_default();
                    cap.sweep(now);
                    if cap.units() >= u64::from(bound.get()) {
                        if request.waits {
                            cap.wanted(&claim.key, now, notices);
                        }
                        return Err(full(cap.frees_after(now)));
                    }
                }
                Rule::Rate { maximum, period, mode } => {
                    let meter = Meter::new(maximum.get(), period, mode);
                    let (units, after, _) = meter.draw(self.rates.get(&claim.key).copied(), 1, now);
                    if units == 0 {
                        return Err(full(after));
                    }
                }
            }
        }
        for claim in request.claims.as_slice() {
            match claim.rule {
                Rule::Cap { .. } => {
                    let holder = Holder { until: now + micros(request.expiry), units: 1, sequence: 0 };
                    self.caps.entry(claim.key.clone()).or_default().holders.insert(request.token, holder);
                }
                Rule::Rate { maximum, period, mode } => {
                    let meter = Meter::new(maximum.get(), period, mode);
                    let (_, _, state) = meter.draw(self.rates.get(&claim.key).copied(), 1, now);
                    self.rates.insert(claim.key.clone(), state);
                }
            }
        }
        Ok(())
    }

    /// Whether the lease was still held.
    pub(super) fn renew(&mut self, lease: &Lease, now: u64) -> bool {
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

    /// Whether any of it was still held.
    pub(super) fn release(&mut self, lease: &Lease, now: u64, notices: &mut Vec<Notice>) -> bool {
        let mut held = false;
        for key in &*lease.caps {
            let Some(cap) = self.caps.get_mut(key) else { continue };
            cap.sweep(now);
            if cap.holders.remove(&lease.token).is_some() {
                held = true;
                cap.freed(key, now, notices);
            }
        }
        held
    }

    pub(super) fn hold(&mut self, request: &BlockRequest, now: u64, notices: &mut Vec<Notice>) -> Block {
        self.sweep(now);
        let cap = self.caps.entry(request.key.clone()).or_default();
        cap.sweep(now);
        let wanted = cap.wanted_until > now;
        let current = cap.holders.get(&request.token).copied();
        let had = current.map_or(0, |holder| holder.units);
        if current.is_some_and(|holder| holder.sequence >= request.sequence) {
            return Block { units: had, wanted, retry_after: cap.frees_after(now), at: at(now) };
        }
        let others = cap.units() - u64::from(had);
        let free = u32::try_from(u64::from(request.bound.get()).saturating_sub(others)).unwrap_or(u32::MAX);
        let units = granted(request, had, free, wanted);
        if units == 0 {
            cap.holders.remove(&request.token);
        } else {
            let holder = Holder { until: now + micros(request.expiry), units, sequence: request.sequence };
            cap.holders.insert(request.token, holder);
        }
        if units < had {
            cap.freed(&request.key, now, notices);
        }
        if request.waits && units <= request.used {
            cap.wanted(&request.key, now, notices);
        }
        Block { units, wanted, retry_after: cap.frees_after(now), at: at(now) }
    }

    pub(super) fn draw(&mut self, rate: &Claim, most: u32, now: u64) -> Result<Drawn, StoreError> {
        let Rule::Rate { maximum, period, mode } = rate.rule else {
            return Err(StoreError::Configuration(format!("{:?} is a cap, not a rate", rate.key)));
        };
        let meter = Meter::new(maximum.get(), period, mode);
        let (units, after, state) = meter.draw(self.rates.get(&rate.key).copied(), most, now);
        if units > 0 {
            self.rates.insert(rate.key.clone(), state);
        }
        Ok(Drawn { units, after, at: at(now) })
    }

    /// Forgets what is over, once in a while.
    fn sweep(&mut self, now: u64) {
        self.steps += 1;
        if self.steps < SWEEP {
            return;
        }
        self.steps = 0;
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

/// How large a block becomes: growing takes half of what nobody holds, or a single unit while somebody waits;
/// what is in use is never taken away.
fn granted(request: &BlockRequest, had: u32, free: u32, wanted: bool) -> u32 {
    let spare = free.saturating_sub(had);
    let most = if wanted { had.max(request.used + 1) } else { had + (spare / 2).max(1) };
    request.want.min(free).min(most).max(had.min(request.used))
}

/// The arithmetic of one rate, in whole microseconds.
struct Meter {
    maximum: u64,
    period: u64,
    mode: RateMode,
}

impl Meter {
    fn new(maximum: u32, period: Duration, mode: RateMode) -> Self {
        Self { maximum: u64::from(maximum), period: micros(period), mode }
    }

    /// How many of `most` units there are now; when there will be one, or for how long these may be used; and the
    /// state after they were taken.
    fn draw(&self, state: Option<RateState>, most: u32, now: u64) -> (u32, Duration, RateState) {
        let few = |units: u64| u32::try_from(units).unwrap_or(u32::MAX);
        match self.mode {
            RateMode::Bucket => {
                let index = now / self.period;
                let over = (index + 1) * self.period;
                let charged = match state {
                    Some(RateState::Bucket { index: of, charged, .. }) if of == index => charged,
                    _ => 0,
                };
                let units = self.maximum.saturating_sub(charged).min(u64::from(most));
                (few(units), at(over - now), RateState::Bucket { index, charged: charged + units, over })
            }
            RateMode::Smooth { burst } => {
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
