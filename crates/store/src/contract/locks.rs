//! Locks.

use std::time::Duration;

use super::{Found, Kept, LONG, SHORT, becomes, is, keys};
use crate::{LockAnswer, LockRequest, Locked, PendingRelease, Store, Token};

fn lock(expiry: Duration) -> Result<Locked, Found> {
    Ok(Locked::new(keys()?.admission("acme"), Token::random()?, expiry))
}

async fn answers(store: &dyn Store, request: &LockRequest, expected: LockAnswer, why: &str) -> Kept {
    let answer = store.lock(request).await?;
    is(answer == expected, || format!("{answer:?} instead of {expected:?}: {why}"))
}

pub(super) async fn held_by_one(store: &dyn Store) -> Kept {
    let (mine, yours) = (lock(LONG)?, lock(LONG)?);
    let (by_me, by_you) = (LockRequest::new(mine.clone()), LockRequest::new(yours.clone()));
    answers(store, &by_me, LockAnswer::Taken, "it is free").await?;
    answers(store, &by_me, LockAnswer::Taken, "asked twice, had once").await?;
    answers(store, &by_you, LockAnswer::Busy { ahead: 0 }, "it is held, and there is no queue").await?;
    let others = [store.unlock(&yours).await?, store.extend(&yours).await?];
    is(others == [false; 2], || "another token frees or extends it".to_owned())?;
    let own = [store.extend(&mine).await?, store.unlock(&mine).await?, store.unlock(&mine).await?];
    is(own == [true, true, false], || format!("extended, freed, freed again: {own:?}"))?;
    answers(store, &by_you, LockAnswer::Taken, "it is free again").await
}

pub(super) async fn expire(store: &dyn Store) -> Kept {
    let (dead, next) = (lock(SHORT)?, LockRequest::new(lock(LONG)?));
    answers(store, &LockRequest::new(dead.clone()), LockAnswer::Taken, "it is free").await?;
    becomes("it is free", async || Ok(store.lock(&next).await? == LockAnswer::Taken)).await?;
    let freed = store.unlock(&dead).await?;
    is(!freed, || "a lock that was lost was freed".to_owned())
}

pub(super) async fn queue(store: &dyn Store) -> Kept {
    let request = || {
        let mut request = LockRequest::new(lock(LONG)?);
        request.queue = true;
        Ok::<_, Found>(request)
    };
    let [holder, leaver, next, last] = [request()?, request()?, request()?, request()?];
    answers(store, &holder, LockAnswer::Taken, "it is free").await?;
    for (ahead, request) in [(0, &leaver), (1, &next), (2, &last)] {
        answers(store, request, LockAnswer::Busy { ahead }, "it stands in the queue").await?;
    }
    store.release_later(PendingRelease::Lock(leaver.lock.clone()));
    becomes("one has left", async || Ok(store.lock(&last).await? == LockAnswer::Busy { ahead: 1 })).await?;
    store.unlock(&holder.lock).await?;
    answers(store, &last, LockAnswer::Busy { ahead: 1 }, "it is not its turn").await?;
    answers(store, &next, LockAnswer::Taken, "it is its turn").await?;
    store.unlock(&next.lock).await?;
    answers(store, &last, LockAnswer::Taken, "it is its turn").await
}
