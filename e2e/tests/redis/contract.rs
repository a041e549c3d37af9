//! What a store promises, held against both of them.

use std::{sync::Arc, time::Duration};

use tower_admission::store::{
    Allotment, AllotmentRequest, LockAnswer, LockRequest, Locked, MemoryStore, Notice, PendingRelease, RateMode, Store,
    StoreError, Token,
};

use crate::support::{acquire, bounded, cap, claims, eventually, keys, ms, number, rate, server::Server, shared};

/// Long enough for no test to see its end by chance.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(60);

async fn on_both(promise: impl AsyncFn(Arc<dyn Store>)) {
    promise(shared(MemoryStore::new())).await;
    let server = Server::start().await;
    promise(shared(server.store())).await;
}

#[tokio::test]
async fn a_cap_holds_and_what_is_released_can_be_had_again() {
    on_both(async |store| {
        let two = claims([cap("two", 2)]);
        let first = acquire(&*store, &two, LONG).await.unwrap();
        let _second = acquire(&*store, &two, LONG).await.unwrap();
        let (claim, retry_after) = acquire(&*store, &two, LONG).await.unwrap_err();
        assert_eq!(claim, 0);
        assert!(retry_after > LONG / 2 && retry_after <= LONG, "{retry_after:?}");
        assert_eq!(store.release(std::slice::from_ref(&first)).await.unwrap().held, 1);
        assert_eq!(store.release(&[first]).await.unwrap().held, 0, "a second time, nothing is held");
        assert!(acquire(&*store, &two, LONG).await.is_ok());
        assert!(acquire(&*store, &two, LONG).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn all_claims_are_granted_or_none_is_charged() {
    on_both(async |store| {
        let narrow = claims([cap("narrow", 1)]);
        let smooth = RateMode::Smooth { burst: number(1) };
        let all =
            claims([cap("wide", 1), rate("paid", 1, smooth), rate("calls", 1, RateMode::Bucket), cap("narrow", 1)]);
        let held = acquire(&*store, &narrow, LONG).await.unwrap();
        assert_eq!(acquire(&*store, &all, LONG).await.unwrap_err().0, 3);
        assert!(acquire(&*store, &claims([cap("wide", 1)]), ms(1)).await.is_ok(), "the first was not charged");
        store.release(&[held]).await.unwrap();
        eventually("all of it is granted, for the rates were not charged", async || {
            acquire(&*store, &all, LONG).await.is_ok()
        })
        .await;
        let (claim, retry_after) = acquire(&*store, &claims([rate("paid", 1, smooth)]), LONG).await.unwrap_err();
        assert_eq!(claim, 0, "control: now they are");
        assert!(retry_after > ms(30_000), "{retry_after:?}");
    })
    .await;
}

#[tokio::test]
async fn what_is_not_renewed_is_taken_back_and_its_holder_learns_it() {
    on_both(async |store| {
        let one = claims([cap("one", 1)]);
        let dead = acquire(&*store, &one, SHORT).await.unwrap();
        assert!(acquire(&*store, &one, LONG).await.is_err());
        eventually("it expires", async || acquire(&*store, &one, LONG).await.is_ok()).await;
        assert_eq!(store.renew(std::slice::from_ref(&dead)).await.unwrap().lost, [0]);
        assert_eq!(store.release(&[dead]).await.unwrap().held, 0);
        assert!(acquire(&*store, &one, LONG).await.is_err(), "somebody else's lease is not touched");
    })
    .await;
}

#[tokio::test]
async fn what_is_renewed_stays() {
    on_both(async |store| {
        let one = claims([cap("one", 1), cap("other", 1)]);
        let lease = acquire(&*store, &one, ms(500)).await.unwrap();
        let until = tokio::time::Instant::now() + ms(1_200);
        while tokio::time::Instant::now() < until {
            assert_eq!(store.renew(std::slice::from_ref(&lease)).await.unwrap().lost, [0usize; 0]);
            assert!(acquire(&*store, &one, LONG).await.is_err());
            tokio::time::sleep(ms(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn many_leases_are_renewed_and_released_at_once() {
    on_both(async |store| {
        let mut leases = Vec::new();
        for index in 0..300 {
            let namespace = format!("n{}", index % 3);
            let one = tower_admission::store::Claim::cap(keys().cap(&namespace, "label", "x"), number(1_000));
            leases.push(acquire(&*store, &claims([one]), LONG).await.unwrap());
        }
        store.release(&leases[7..8]).await.unwrap();
        store.release(&leases[250..251]).await.unwrap();
        assert_eq!(store.renew(&leases).await.unwrap().lost, [7, 250]);
        assert_eq!(store.release(&leases).await.unwrap().held, 298);
    })
    .await;
}

#[tokio::test]
async fn rates_are_counted_in_both_modes() {
    on_both(async |store| {
        let smooth =
            claims([rate("smooth", 100, RateMode::Smooth { burst: number(3) }).every(Duration::from_secs(100))]);
        let mut granted = 0;
        let retry_after = loop {
            match acquire(&*store, &smooth, LONG).await {
                Ok(_) => granted += 1,
                Err((_, retry_after)) => break retry_after,
            }
        };
        assert_eq!(granted, 3, "one second each, three at once");
        assert!(retry_after <= Duration::from_secs(1));
        let bucket = claims([rate("bucket", 5, RateMode::Bucket).every(Duration::from_secs(86_400))]);
        for _ in 0..5 {
            acquire(&*store, &bucket, LONG).await.unwrap();
        }
        assert!(acquire(&*store, &bucket, LONG).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn units_of_a_rate_are_drawn_in_advance() {
    on_both(async |store| {
        let calls = rate("calls", 10, RateMode::Bucket).every(Duration::from_secs(86_400));
        assert_eq!(store.draw(&calls, 7).await.unwrap().units, 7);
        assert_eq!(store.draw(&calls, 7).await.unwrap().units, 3);
        assert_eq!(store.draw(&calls, 7).await.unwrap().units, 0);
        assert!(matches!(store.draw(&cap("cap", 1), 1).await, Err(StoreError::Configuration(_))));
    })
    .await;
}

async fn hold(store: &dyn Store, request: &mut AllotmentRequest, want: u32, used: u32) -> Allotment {
    (request.want, request.used) = (want, used);
    let block = store.reserve(request).await.unwrap();
    (request.sequence, request.had) = (request.sequence + 1, block.units);
    block
}

#[tokio::test]
async fn blocks_share_a_cap_with_leases_and_with_each_other() {
    on_both(async |store| {
        let ten = claims([cap("ten", 10)]);
        let key = ten.as_slice()[0].key().clone();
        let mut block = AllotmentRequest::new(Token::random().unwrap(), key.clone(), number(10), LONG);
        let lease = acquire(&*store, &ten, LONG).await.unwrap();
        assert_eq!(hold(&*store, &mut block, 10, 0).await.units, 4, "half of what nobody holds");
        assert_eq!(hold(&*store, &mut block, 10, 0).await.units, 6);
        assert_eq!(hold(&*store, &mut block, 10, 0).await.units, 7);
        assert_eq!(hold(&*store, &mut block, 10, 0).await.units, 8);
        assert_eq!(hold(&*store, &mut block, 10, 0).await.units, 9, "never more than there is");
        assert!(acquire(&*store, &ten, LONG).await.is_err());
        assert_eq!(hold(&*store, &mut block, 2, 3).await.units, 3, "what is in use is not taken away");
        let late = block.clone();
        assert_eq!(hold(&*store, &mut block, 5, 3).await.units, 5);
        assert_eq!(store.reserve(&late).await.unwrap().units, 5, "what comes late changes nothing");
        for _ in 0..4 {
            acquire(&*store, &ten, LONG).await.unwrap();
        }
        assert!(acquire(&*store, &ten, LONG).await.is_err());
        assert_eq!(store.release(&[lease]).await.unwrap().held, 1);
        assert_eq!(hold(&*store, &mut block, 0, 0).await.units, 0);
        let mut free = 0;
        while acquire(&*store, &ten, LONG).await.is_ok() {
            free += 1;
        }
        assert_eq!(free, 6);
    })
    .await;
}

#[tokio::test]
async fn a_block_expires_as_a_whole() {
    on_both(async |store| {
        let ten = claims([cap("ten", 10)]);
        let mut block =
            AllotmentRequest::new(Token::random().unwrap(), ten.as_slice()[0].key().clone(), number(10), SHORT);
        block.want = 10;
        assert_eq!(store.reserve(&block).await.unwrap().units, 5);
        eventually("all ten are free", async || {
            let mut leases = Vec::new();
            while let Ok(lease) = acquire(&*store, &ten, LONG).await {
                leases.push(lease);
            }
            store.release(&leases).await.unwrap();
            leases.len() == 10
        })
        .await;
    })
    .await;
}

fn lock(token: Token, expiry: Duration) -> Locked {
    Locked::new(keys().admission("acme"), token, expiry)
}

#[tokio::test]
async fn a_lock_is_held_by_one_and_freed_by_its_holder_alone() {
    on_both(async |store| {
        let (mine, yours) = (lock(Token::random().unwrap(), LONG), lock(Token::random().unwrap(), LONG));
        assert_eq!(store.lock(&LockRequest::new(mine.clone())).await, Ok(LockAnswer::Taken));
        assert_eq!(store.lock(&LockRequest::new(mine.clone())).await, Ok(LockAnswer::Taken), "asked twice, had once");
        assert!(matches!(store.lock(&LockRequest::new(yours.clone())).await, Ok(LockAnswer::Busy { .. })));
        assert_eq!(store.unlock(&yours).await, Ok(false));
        assert_eq!(store.extend(&yours).await, Ok(false));
        assert_eq!(store.extend(&mine).await, Ok(true));
        assert_eq!(store.unlock(&mine).await, Ok(true));
        assert_eq!(store.unlock(&mine).await, Ok(false));
        assert_eq!(store.lock(&LockRequest::new(yours)).await, Ok(LockAnswer::Taken));
    })
    .await;
}

#[tokio::test]
async fn a_lock_expires() {
    on_both(async |store| {
        let dead = lock(Token::random().unwrap(), SHORT);
        store.lock(&LockRequest::new(dead.clone())).await.unwrap();
        let next = LockRequest::new(lock(Token::random().unwrap(), LONG));
        eventually("it is free", async || store.lock(&next).await == Ok(LockAnswer::Taken)).await;
        assert_eq!(store.unlock(&dead).await, Ok(false));
    })
    .await;
}

#[tokio::test]
async fn the_queue_of_a_lock_keeps_its_order_and_forgets_who_leaves() {
    on_both(async |store| {
        let mut all: Vec<_> = (0..4).map(|_| LockRequest::new(lock(Token::random().unwrap(), LONG))).collect();
        all.iter_mut().for_each(|request| request.queue = true);
        assert_eq!(store.lock(&all[0]).await, Ok(LockAnswer::Taken));
        for (ahead, request) in all[1..].iter().enumerate() {
            let ahead = u32::try_from(ahead).unwrap();
            assert_eq!(store.lock(request).await, Ok(LockAnswer::Busy { ahead }));
        }
        store.settle(PendingRelease::Lock(all[1].lock.clone()));
        eventually("one has left", async || store.lock(&all[3]).await == Ok(LockAnswer::Busy { ahead: 1 })).await;
        store.unlock(&all[0].lock).await.unwrap();
        assert_eq!(store.lock(&all[3]).await, Ok(LockAnswer::Busy { ahead: 1 }), "it is not its turn");
        assert_eq!(store.lock(&all[2]).await, Ok(LockAnswer::Taken));
        store.unlock(&all[2].lock).await.unwrap();
        assert_eq!(store.lock(&all[3]).await, Ok(LockAnswer::Taken));
    })
    .await;
}

#[tokio::test]
async fn debts_are_paid_and_notice_is_given_to_those_who_wait() {
    on_both(async |store| {
        let one = claims([cap("one", 1)]);
        let lease = acquire(&*store, &one, LONG).await.unwrap();
        let mut notices = store.notices();
        let waiting = crate::support::request(&one, LONG).waiting();
        store.acquire(&waiting).await.unwrap();
        store.settle(PendingRelease::Lease(lease));
        let key: Arc<str> = one.as_slice()[0].key().as_str().into();
        let mut heard = Vec::new();
        bounded("notice that it is free", async {
            while !heard.contains(&Notice::Freed(Arc::clone(&key))) {
                heard.extend(notices.next().await);
            }
        })
        .await;
        assert!(heard.contains(&Notice::Wanted(key)), "{heard:?}");
        assert!(acquire(&*store, &one, LONG).await.is_ok());
    })
    .await;
}
