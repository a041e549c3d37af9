//! Caps: leases and allotments.

use std::{slice::from_ref, sync::Arc, time::Duration};

use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{Found, Kept, LONG, MOST_WAIT, SHORT, acquire, becomes, cap, claims, full, granted, is, keys, number};
use crate::{
    Acquired, AllotmentRequest, Claim, Claims, Lease, Notice, PendingRelease, RateMode, Request, Store, Token,
};

pub(super) async fn hold(store: &dyn Store) -> Kept {
    let two = claims([cap("two", 2)?])?;
    let first = granted(store, &two, LONG).await?;
    granted(store, &two, LONG).await?;
    let (claim, after) = full(store, &two).await?;
    is(claim == 0 && after > LONG / 2 && after <= LONG, || format!("claim {claim} after {after:?} of {LONG:?}"))?;
    let held = [store.release(from_ref(&first)).await?.held, store.release(from_ref(&first)).await?.held];
    is(held == [1, 0], || format!("released {held:?} by the same lease twice"))?;
    granted(store, &two, LONG).await?;
    full(store, &two).await.map(drop)
}

pub(super) async fn at_once(store: Arc<dyn Store>) -> Kept {
    let three = claims([cap("three", 3)?, cap("many", 100)?])?;
    let mut questions = JoinSet::new();
    for _ in 0..24 {
        let (store, three) = (Arc::clone(&store), three.clone());
        questions.spawn(async move { acquire(&*store, &three, LONG).await });
    }
    let mut held = 0;
    while let Some(answered) = questions.join_next().await {
        held += usize::from(answered.map_err(|error| Found(error.to_string()))??.is_ok());
    }
    is(held == 3, || format!("{held} of 24 that asked at once were granted a cap of 3"))
}

pub(super) async fn comes_back_whole(store: &dyn Store) -> Kept {
    let both = claims([cap("one", 1)?, cap("other", 1)?])?;
    let lease = granted(store, &both, LONG).await?;
    store.release(&[lease]).await?;
    for name in ["one", "other"] {
        granted(store, &claims([cap(name, 1)?])?, LONG).await?;
    }
    Ok(())
}

pub(super) async fn lost_in_part(store: &dyn Store) -> Kept {
    let (one, other) = (claims([cap("one", 1)?])?, claims([cap("other", 1)?])?);
    let both = Request::new(Token::random()?, claims([cap("one", 1)?, cap("other", 1)?])?, LONG);
    let Acquired::Granted(lease) = store.acquire(&both).await? else {
        return Err(Found("a free cap is full".to_owned()));
    };
    // The same holder, of whose caps one is given back.
    let part = Lease::of(&Request::new(both.token(), one, LONG), Duration::ZERO);
    is(store.release(&[part]).await?.held == 1, || "one of two caps was not given back".to_owned())?;
    let lost = store.renew(&[lease]).await?.lost;
    is(lost == [0], || format!("lost {lost:?}"))?;
    granted(store, &other, LONG).await.map(drop)
}

pub(super) async fn all_or_none(store: &dyn Store) -> Kept {
    let narrow = claims([cap("narrow", 1)?])?;
    let smooth = RateMode::Smooth { burst: number(1) };
    let rate = |name: &str, mode| Ok::<_, Found>(Claim::rate(keys()?.rate("acme", "label", name), number(1), mode));
    let paid = rate("paid", smooth)?;
    let all = claims([cap("wide", 1)?, paid.clone(), rate("calls", RateMode::Window)?, cap("narrow", 1)?])?;
    let held = granted(store, &narrow, LONG).await?;
    let (claim, _) = full(store, &all).await?;
    is(claim == 3, || format!("claim {claim} is full, not 3"))?;
    let wide = granted(store, &claims([cap("wide", 1)?])?, LONG).await?;
    store.release(&[held, wide]).await?;
    granted(store, &all, LONG).await?;
    let (_, after) = full(store, &claims([paid])?).await?;
    is(after > LONG / 2, || format!("a rate of 1 a minute grants again after {after:?}"))
}

pub(super) async fn expire(store: &dyn Store) -> Kept {
    let one = claims([cap("one", 1)?])?;
    let dead = granted(store, &one, SHORT).await?;
    full(store, &one).await?;
    becomes("it expires", async || Ok(acquire(store, &one, LONG).await?.is_ok())).await?;
    let lost = store.renew(from_ref(&dead)).await?.lost;
    is(lost == [0], || format!("lost {lost:?}"))?;
    let held = store.release(&[dead]).await?.held;
    is(held == 0, || "a lease that is lost was released".to_owned())?;
    full(store, &one).await.map(drop)
}

pub(super) async fn renewed(store: &dyn Store) -> Kept {
    let give_up = Instant::now() + MOST_WAIT;
    for attempt in 0.. {
        let [one, other] = [cap(&format!("one{attempt}"), 1)?, cap(&format!("other{attempt}"), 1)?];
        let mut renewed = Instant::now();
        let held = stays(store, &claims([one, other])?, &mut renewed).await;
        // A process that got no processor for as long renews too late, which is no fault of the store.
        if held.is_ok() || renewed.elapsed() < RENEWED || Instant::now() > give_up {
            return held;
        }
    }
    Ok(())
}

/// Time for which a lease is held that is renewed.
const RENEWED: Duration = Duration::from_millis(500);

/// Renews a lease for more than twice that time, and notes when the last renewal began that was done.
async fn stays(store: &dyn Store, both: &Claims, renewed: &mut Instant) -> Kept {
    let lease = granted(store, both, RENEWED).await?;
    let until = Instant::now() + Duration::from_millis(1_200);
    while Instant::now() < until {
        let began = Instant::now();
        let lost = store.renew(from_ref(&lease)).await?.lost;
        is(lost.is_empty(), || format!("lost {lost:?}"))?;
        *renewed = began;
        full(store, both).await?;
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

pub(super) async fn many(store: &dyn Store) -> Kept {
    let mut leases = Vec::new();
    for index in 0..300 {
        let key = keys()?.cap(&format!("n{}", index % 3), "label", "x");
        leases.push(granted(store, &claims([Claim::cap(key, number(1_000))])?, LONG).await?);
    }
    for gone in [7, 250] {
        store.release(leases.get(gone..=gone).unwrap_or_default()).await?;
    }
    let lost = store.renew(&leases).await?.lost;
    is(lost == [7, 250], || format!("lost {lost:?} instead of [7, 250]"))?;
    let held = store.release(&leases).await?.held;
    is(held == 298, || format!("released {held} of 298"))
}

pub(super) async fn lowest_bound(store: &dyn Store) -> Kept {
    let (two, three) = (claims([cap("told", 2)?])?, claims([cap("told", 3)?])?);
    let held = [granted(store, &three, LONG).await?, granted(store, &three, LONG).await?];
    full(store, &two).await?;
    full(store, &three).await?;
    store.release(from_ref(&held[0])).await?;
    let last = granted(store, &two, LONG).await?;
    full(store, &three).await?;
    store.release(&[held[1].clone(), last]).await?;
    for _ in 0..3 {
        granted(store, &three, LONG).await?;
    }
    full(store, &three).await.map(drop)
}

pub(super) async fn allotments(store: &dyn Store) -> Kept {
    is(store.has_allotments(), || "it says that it has none".to_owned())?;
    let ten = claims([cap("ten", 10)?])?;
    let key = keys()?.cap("acme", "label", "ten");
    let mut block = AllotmentRequest::new(Token::random()?, key, number(10), LONG);
    let lease = granted(store, &ten, LONG).await?;
    let mut units = 0;
    for _ in 0..10 {
        block.want = 10;
        let now = store.reserve(&block).await?.units;
        is(now >= units && now <= 9, || format!("{now} units after {units}, beside a lease of a cap of 10"))?;
        units = now;
        (block.sequence, block.had) = (block.sequence + 1, now);
    }
    is(units == 9, || format!("{units} of the 9 that are free, asked ten times"))?;
    full(store, &ten).await?;
    (block.want, block.used) = (2, 3);
    let kept = store.reserve(&block).await?.units;
    is(kept == 3, || format!("{kept} units where 3 are in use and 2 wanted"))?;
    let late = AllotmentRequest { want: 9, ..block.clone() };
    let after = store.reserve(&late).await?.units;
    is(after == 3, || format!("{after} units after a request that is not newer than the last"))?;
    is(store.release(&[lease]).await?.held == 1, || "the lease was gone".to_owned())?;
    (block.want, block.used, block.had, block.sequence) = (0, 0, 0, block.sequence + 1);
    let left = store.reserve(&block).await?.units;
    is(left == 0, || format!("{left} units are left of what was given back"))?;
    for _ in 0..10 {
        granted(store, &ten, LONG).await?;
    }
    full(store, &ten).await.map(drop)
}

pub(super) async fn allotment_expires(store: &dyn Store) -> Kept {
    let four = claims([cap("four", 4)?])?;
    let mut block = AllotmentRequest::new(Token::random()?, keys()?.cap("acme", "label", "four"), number(4), SHORT);
    block.want = 4;
    let units = store.reserve(&block).await?.units;
    is(units > 0, || "none of four free units".to_owned())?;
    becomes("all four are free", async || {
        let mut leases = Vec::new();
        while let Ok(lease) = acquire(store, &four, LONG).await? {
            leases.push(lease);
        }
        store.release(&leases).await?;
        Ok(leases.len() == 4)
    })
    .await
}

pub(super) async fn notices(store: &dyn Store) -> Kept {
    let one = claims([cap("one", 1)?])?;
    let lease = granted(store, &one, LONG).await?;
    let mut notices = store.notices();
    store.acquire(&Request::new(Token::random()?, one.clone(), LONG).waiting()).await?;
    store.release_later(PendingRelease::Lease(lease));
    let key: Arc<str> = keys()?.cap("acme", "label", "one").as_str().into();
    let mut heard = Vec::new();
    let listens = async {
        while !heard.contains(&Notice::Freed(Arc::clone(&key))) {
            heard.extend(notices.next().await);
        }
    };
    let told = timeout(MOST_WAIT, listens).await.is_ok();
    is(told, || "no notice that it is free".to_owned())?;
    is(heard.contains(&Notice::Wanted(key)), || format!("no notice that it is wanted: {heard:?}"))?;
    granted(store, &one, LONG).await.map(drop)
}
