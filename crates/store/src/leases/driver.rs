//! The two tasks behind leases: one renews what this process holds, the other hears what other processes want and free.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

use super::{Inner, Single, allotment::Unit};
use crate::{
    AllotmentRequest, Claim, Key, Lease, Notice, Notices, PendingRelease, StoreError, side_by_side::side_by_side,
};

/// Longest time between two renewals, as a part of the expiry: three tries before it is over. A fifth less at random, so
/// that processes which started together don't renew together.
const RENEW: f64 = 0.25;

/// Longest delay of a renewal, as a part of the expiry, so that the holder of a lease that could not be renewed is
/// still told before it expires.
const MARGIN: f64 = 0.15;

/// Leases that one question to the store renews, and questions that are on their way at a time.
const LEASES: usize = 1_024;
const QUESTIONS: usize = 2;

/// Allotments that are renewed or returned at a time.
const BLOCKS: usize = 64;

impl Inner {
    /// Starts the tasks that don't run, on the current runtime.
    pub(super) fn wake_tasks(self: &Arc<Self>) {
        self.renews.start(|| renew(Arc::downgrade(self), self.settings.expiry.mul_f64(RENEW), self.seeds.next()));
        self.hears.start(|| hear(Arc::downgrade(self), self.store.notices()));
    }

    /// Asks for more of what a claim can't be met from. Returns whether the answer decides, which a renewal may overtake.
    pub(super) async fn refill(&self, claim: &Claim, standing: usize, waits: bool) -> Result<bool, StoreError> {
        let sent = Instant::now();
        if claim.is_cap() {
            // The requests that ask now, or the waiters behind the request that asks.
            let standing = standing.max(self.waits.standing(&claim.key));
            let request = self.shares().refill(claim, standing, waits, sent, &self.seeds)?;
            let block = self.store.reserve(&request).await?;
            return Ok(self.shares().answered(&request, block, sent));
        }
        let most = self.shares().draw(claim, standing);
        let drawn = self.store.draw(claim, most).await?;
        self.shares().drawn(&claim.key, drawn, sent);
        Ok(true)
    }

    /// Renews everything that is held. A lease that the store could not be asked to renew is given up while there is
    /// still time to tell its holder: before it expires, and not when the next try would find it expired.
    async fn renew(&self) {
        let began = Instant::now();
        // An expired lease is not asked for: after a restart, the store would believe it.
        self.give_up(began, began);
        self.renew_single().await;
        let keys = self.shares().keys();
        let renewed = keys.into_iter().map(|key| async move { self.renew_share(&key, false).await });
        side_by_side(BLOCKS, renewed).await;
        self.give_up(began, Instant::now() + self.settings.expiry.mul_f64(RENEW + MARGIN));
    }

    /// Gives up what expires by `over_by`; of what was renewed since `began` only what has expired now.
    fn give_up(&self, began: Instant, over_by: Instant) {
        let now = Instant::now();
        let is_over = |one: &Single| {
            let over_by = if one.asked_at >= began { now } else { over_by };
            one.asked_at + one.lease.expiry <= over_by
        };
        let mut lost: Vec<_> = self.single().extract_if(|_, one| is_over(one)).map(|(_, one)| one).collect();
        // In the same order in each run of a simulation, as everything that is done for many leases.
        lost.sort_unstable_by_key(|one| one.lease.token.bytes());
        lost.iter().for_each(|one| one.loss.happen());
        let mut shares = self.shares();
        shares.lost += lost.len() as u64;
        shares.give_up(began, now, over_by);
        drop(shares);
        lost.into_iter().for_each(|one| self.store.release_later(PendingRelease::Lease(one.lease)));
    }

    async fn renew_single(&self) {
        let mut leases: Vec<_> = self.single().values().map(|one| one.lease.clone()).collect();
        // Leases of one namespace together: a cluster is asked for each namespace by itself.
        leases.sort_unstable_by(|one, other| {
            one.caps.first().cmp(&other.caps.first()).then_with(|| one.token.bytes().cmp(&other.token.bytes()))
        });
        let renewed: Vec<_> = leases.chunks(LEASES).map(|some| self.renew_some(some)).collect();
        side_by_side(QUESTIONS, renewed).await;
    }

    /// Renews some leases. Each answer counts for the leases that it was asked for, from when that was.
    async fn renew_some(&self, leases: &[Lease]) {
        let asked_at = Instant::now();
        let Ok(renewed) = self.store.renew(leases).await else { return };
        let mut lost = 0;
        let mut single = self.single();
        for token in renewed.lost.iter().filter_map(|&index| leases.get(index)).map(|lease| lease.token) {
            // A lease that was given back meanwhile is not lost.
            if let Some(one) = single.remove(&token) {
                lost += 1;
                one.loss.happen();
            }
        }
        for (index, lease) in leases.iter().enumerate() {
            if renewed.unknown.binary_search(&index).is_err()
                && let Some(one) = single.get_mut(&lease.token)
            {
                one.asked_at = asked_at;
            }
        }
        drop(single);
        self.shares().lost += lost;
    }

    /// Renews an allotment, or returns its unused units.
    async fn renew_share(&self, key: &Key, give_all: bool) {
        let sent = Instant::now();
        let request = self.shares().renewal(key, give_all, sent);
        let Some(request) = request else { return };
        if let Ok(block) = self.store.reserve(&request).await {
            self.shares().answered(&request, block, sent);
            if block.wanted && !give_all && !self.needs(key) {
                Box::pin(self.renew_share(key, true)).await;
            }
        }
    }

    /// Gives one unit back, and returns to the store what other processes need more.
    pub(super) fn put_back(&self, unit: &Unit) {
        let spare = self.shares().put_back(unit, || self.waits.standing(&unit.key));
        self.tell(spare);
        self.waits.ring(unit.key.as_str());
    }

    /// Tells the store that no request of this process waits for `key` any more, if that is so.
    pub(super) fn withdraw(&self, key: &Key) {
        if !self.settings.local_shares || self.waits.standing(key) > 0 {
            return;
        }
        let request = self.shares().withdraw(key, Instant::now());
        self.tell(request);
    }

    /// Tells the store of a change to an allotment, if there is one, without waiting for its answer.
    fn tell(&self, request: Option<AllotmentRequest>) {
        request.into_iter().for_each(|it| self.store.release_later(PendingRelease::Allotment(it)));
    }

    /// Whether requests of this process wait for `key`, or were refused just now.
    fn needs(&self, key: &Key) -> bool {
        self.waits.standing(key) > 0 || self.shares().wishes(key, Instant::now())
    }

    /// Returns the key of which something is to be returned to other processes, if there is any.
    fn hears(&self, notice: &Notice) -> Option<Key> {
        self.waits.hear(notice);
        let Notice::Wanted(key) = notice else { return None };
        let key = Key(Arc::clone(key));
        let is_ours = self.shares().others_want(&key, Instant::now());
        // Not while requests of this process wait for it as well.
        (is_ours && !self.needs(&key)).then_some(key)
    }
}

async fn renew(inner: Weak<Inner>, every: Duration, mut rng: fastrand::Rng) {
    let mut next = Instant::now() + every.mul_f64(rng.f64());
    loop {
        sleep_until(next).await;
        next = Instant::now() + every.mul_f64(0.8 + 0.2 * rng.f64());
        let Some(inner) = inner.upgrade() else { return };
        inner.renew().await;
    }
}

/// Waits for nothing but notices, unless very much is wanted at once.
async fn hear(inner: Weak<Inner>, mut notices: Notices) {
    let mut returns = JoinSet::new();
    // Ends when the store is gone for good, which the next question finds out.
    while let Some(notice) = notices.next().await {
        let Some(inner) = inner.upgrade() else { return };
        while returns.try_join_next().is_some() {}
        if let Some(key) = inner.hears(&notice) {
            if returns.len() >= BLOCKS {
                returns.join_next().await;
            }
            returns.spawn(async move { inner.renew_share(&key, true).await });
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Unused units of allotments go back at once rather than at their expiry.
        let mut shares = self.shares();
        let now = Instant::now();
        for key in shares.keys() {
            self.tell(shares.farewell(&key, now));
        }
        drop(shares);
    }
}
