//! The one task behind leases: renews what is held, returns what others want, wakes who waits.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{Arc, PoisonError, Weak},
    task::Poll,
    time::Duration,
};

use tokio::{
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval_at},
};

use super::Inner;
use crate::store::{Claim, Debt, Key, Notice, Notices, StoreError};

/// How often what is held is renewed, as a part of its expiry: three tries before it is over.
const RENEW: f64 = 0.25;

/// How much later than it should a renewal may come, as a part of the expiry, so that the holder of what could not be
/// renewed is still told before it is over.
const MARGIN: f64 = 0.15;

impl Inner {
    /// Sees to it that the driver runs, on the current runtime if it does not.
    pub(super) fn wake_driver(self: &Arc<Self>) {
        let mut driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        if driver.as_ref().is_none_or(JoinHandle::is_finished)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let run = run(Arc::downgrade(self), self.store.notices(), self.settings.expiry.mul_f64(RENEW));
            *driver = Some(runtime.spawn(run));
        }
    }

    /// Asks for more of what a claim can't be met from.
    pub(super) async fn refill(&self, claim: &Claim, standing: usize, waits: bool) -> Result<(), StoreError> {
        let sent = Instant::now();
        if claim.is_cap() {
            let request = self.shares().refill(claim, standing, waits, sent)?;
            let block = self.store.hold(&request).await?;
            self.shares().answered(&request, block, sent);
        } else {
            let most = self.shares().draw(claim, standing);
            let drawn = self.store.draw(claim, most).await?;
            self.shares().drawn(&claim.key, drawn, sent);
        }
        Ok(())
    }

    /// Keeps everything that is held. What the store could not be asked to keep is given up while there is still time
    /// to tell whoever holds it: before it is over, and not when the next try would find it so.
    async fn renew(&self) {
        self.renew_single().await;
        let keys = self.shares().keys();
        for key in keys {
            self.renew_share(&key, false).await;
        }
        let over_by = Instant::now() + self.settings.expiry.mul_f64(RENEW + MARGIN);
        let mut lost = Vec::new();
        self.single().retain(|_, one| {
            let kept = one.asked_at + one.lease.expiry > over_by;
            if !kept {
                one.loss.happen();
                lost.push(one.lease.clone());
            }
            kept
        });
        self.shares().lost += lost.len() as u64;
        lost.into_iter().for_each(|lease| self.store.settle(Debt::Lease(lease)));
        self.shares().give_up(over_by);
    }

    async fn renew_single(&self) {
        let asked_at = Instant::now();
        let leases: Vec<_> = self.single().values().map(|one| one.lease.clone()).collect();
        if leases.is_empty() {
            return;
        }
        let Ok(renewed) = self.store.renew(&leases).await else { return };
        let mut lost = 0;
        let mut single = self.single();
        for token in renewed.lost.iter().filter_map(|&index| leases.get(index)).map(|lease| lease.token) {
            // What was given back meanwhile is not lost.
            if let Some(one) = single.remove(&token) {
                lost += 1;
                one.loss.happen();
            }
        }
        for lease in &leases {
            if let Some(one) = single.get_mut(&lease.token) {
                one.asked_at = asked_at;
            }
        }
        drop(single);
        self.shares().lost += lost;
    }

    /// Renews a block; or returns what is not in use of it.
    async fn renew_share(&self, key: &Key, give_all: bool) {
        let sent = Instant::now();
        let request = self.shares().renewal(key, give_all, sent);
        let Some(request) = request else { return };
        if let Ok(block) = self.store.hold(&request).await {
            self.shares().answered(&request, block, sent);
            if block.wanted && !give_all {
                Box::pin(self.renew_share(key, true)).await;
            }
        }
    }

    async fn hear(&self, notice: &Notice) {
        match notice {
            Notice::Freed(key) => self.waits.ring(key),
            Notice::Missed => self.waits.ring_all(),
            Notice::Wanted(key) => {
                let ours = self.shares().keys().into_iter().find(|ours| ours.as_str() == &**key);
                // Not while somebody here waits for it as well.
                if let Some(key) = ours.filter(|key| self.waits.standing(key) == 0) {
                    self.renew_share(&key, true).await;
                }
            }
        }
    }
}

async fn run(inner: Weak<Inner>, mut notices: Notices, every: Duration) {
    let mut ticks = interval_at(Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let event = {
            let mut next = pin!(notices.next());
            poll_fn(|cx| match ticks.poll_tick(cx) {
                Poll::Ready(_) => Poll::Ready(Event::Tick),
                Poll::Pending => next.as_mut().poll(cx).map(Event::Notice),
            })
            .await
        };
        let Some(inner) = inner.upgrade() else { return };
        match event {
            Event::Tick => inner.renew().await,
            Event::Notice(Some(notice)) => inner.hear(&notice).await,
            // The store is gone for good, which the next question finds out.
            Event::Notice(None) => return,
        }
    }
}

enum Event {
    Tick,
    Notice(Option<Notice>),
}

impl Drop for Inner {
    fn drop(&mut self) {
        // What is still held in blocks goes back at once rather than at its expiry.
        let mut shares = self.shares();
        let now = Instant::now();
        for key in shares.keys() {
            if let Some(mut request) = shares.renewal(&key, false, now) {
                request.want = 0;
                request.used = 0;
                self.store.settle(Debt::Block(request));
            }
        }
        drop(shares);
        let driver = self.driver.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(driver) = driver.take() {
            driver.abort();
        }
    }
}
