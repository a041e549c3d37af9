//! For a caller with a line of its own: asking once, and knowing when it is worth asking again.

use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::{FIRST_PAUSE, Held, LONGEST_PAUSE, Leases, Refused};
use crate::store::{Claims, Key, backoff::Backoff};

/// Time to wait for units that other processes hold and don't use: they return them as soon as they hear that the units
/// are wanted.
const RECALL: Duration = Duration::from_millis(50);

impl Leases {
    /// Admits a request now or not at all, and asks holders that free some of it to give notice.
    pub(crate) async fn ask(&self, claims: &Claims) -> Result<Held, Refused> {
        self.try_admit(claims, true).await
    }

    /// Asks again for a little while where other processes may hold the missing units without using them.
    ///
    /// `refused` is the last answer. One request for each key does so at a time: the others have nothing to gain by it.
    pub(crate) async fn recall(&self, claims: &Claims, refused: Refused) -> Result<Held, Refused> {
        let Refused::Full { claim, .. } = refused else { return Err(refused) };
        let missing = claims.as_slice().get(claim).filter(|claim| claim.is_cap() && self.0.settings.local_shares);
        let Some(key) = missing.map(|claim| claim.key()).filter(|key| self.waiting(key) == 0) else {
            return Err(refused);
        };
        let deadline = Instant::now() + RECALL.min(self.0.settings.wait);
        let Ok(place) = timeout_at(deadline, self.0.waits.stand(key)).await else { return Err(refused) };
        let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, self.0.seeds.next());
        let decided = loop {
            let pause = (Instant::now() + pauses.wait()).min(deadline);
            let _ = timeout_at(pause, place.freed()).await;
            match timeout_at(deadline, self.try_admit(claims, true)).await {
                Ok(Err(Refused::Full { .. })) if Instant::now() < deadline => {}
                Ok(decided) => break decided,
                Err(_) => break Err(refused),
            }
        };
        drop(place);
        if decided.is_err() {
            self.0.withdraw(key);
        }
        decided
    }

    /// Calls `look` whenever it may be worth asking again for `key`, until that returns false: with pauses that grow,
    /// and at once when some of it is freed in this process or notice comes from another. Stands in the line for `key`.
    pub(crate) async fn watch(&self, key: &Key, mut look: impl FnMut() -> bool) {
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
