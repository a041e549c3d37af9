//! For a caller with a line of its own: asking once, and knowing when it is worth asking again.

use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::{FIRST_PAUSE, LONGEST_PAUSE, LeaseDenied, LeaseGuard, Leases};
use crate::{Claims, Key, StoreError, backoff::Backoff};

/// Time to wait for units that other processes hold and don't use: they return them as soon as they hear that the units
/// are wanted.
const RECALL: Duration = Duration::from_millis(50);

impl Leases {
    /// Admits a request now or not at all, in one time limit of the store, and asks holders that free some of it to give
    /// notice. `waits` says of a claim by its index that its request would wait for it: then nothing is called back.
    #[doc(hidden)]
    pub async fn ask(&self, claims: &Claims, waits: impl Fn(usize) -> bool) -> Result<LeaseGuard, LeaseDenied> {
        let until = self.until();
        let decided = match self.decide(claims, true, until).await {
            Err(LeaseDenied::Full { claim, retry_after }) if self.0.settings.local_shares && !waits(claim) => {
                self.recall(claims, claim, until).await.unwrap_or(Err(LeaseDenied::Full { claim, retry_after }))
            }
            decided => decided,
        };
        self.or_without_store(claims, decided).await
    }

    /// Asks again for a little while where other processes may hold the missing units without using them; `None` if there is
    /// no other answer. One request for each key does so at a time: the others have nothing to gain by it.
    async fn recall(
        &self,
        claims: &Claims,
        claim: usize,
        until: Option<Instant>,
    ) -> Option<Result<LeaseGuard, LeaseDenied>> {
        let key = claims.as_slice().get(claim).filter(|claim| claim.is_cap())?.key();
        let deadline = Instant::now() + RECALL.min(self.0.settings.wait);
        let deadline = until.map_or(deadline, |until| until.min(deadline));
        if self.waiting(key) > 0 || Instant::now() >= deadline {
            return None;
        }
        let place = timeout_at(deadline, self.0.waits.stand(key)).await.ok()?;
        let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, self.0.seeds.next());
        let decided = loop {
            let pause = (Instant::now() + pauses.wait()).min(deadline);
            let _ = timeout_at(pause, place.freed()).await;
            match self.decide(claims, true, Some(deadline)).await {
                Err(LeaseDenied::Full { .. }) if Instant::now() < deadline => {}
                // The store has answered before.
                Err(LeaseDenied::Full { .. } | LeaseDenied::Store(StoreError::TimedOut { .. })) => break None,
                decided => break Some(decided),
            }
        };
        drop(place);
        if !matches!(decided, Some(Ok(_))) {
            self.0.withdraw(key);
        }
        decided
    }

    /// Calls `look` whenever it may be worth asking again for `key`, until that returns false: with pauses that grow,
    /// and at once when some of it is freed in this process or notice comes from another. Stands in the line for `key`.
    #[doc(hidden)]
    pub async fn listen(&self, key: &Key, mut look: impl FnMut() -> bool) {
        let pauses = || Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, self.0.seeds.next());
        let place = self.0.waits.stand(key).await;
        let mut next = pauses();
        loop {
            if timeout(next.wait(), place.freed()).await.is_ok() {
                next = pauses();
            }
            if !look() {
                return;
            }
        }
    }
}
