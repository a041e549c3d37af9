//! Rates.

use std::time::Duration;

use tokio::time::sleep;

use super::{Found, Kept, LONG, acquire, becomes, cap, claims, full, granted, is, keys, number};
use crate::{Claim, RateMode, Store, StoreError};

const DAY: Duration = Duration::from_secs(86_400);

/// Longer than an answer takes.
const HALF: Duration = Duration::from_millis(500);

fn rate(name: &str, maximum: u32, mode: RateMode) -> Result<Claim, Found> {
    Ok(Claim::rate(keys()?.rate("acme", "label", name), number(maximum), mode))
}

pub(super) async fn modes(store: &dyn Store) -> Kept {
    let smooth = rate("smooth", 100, RateMode::Smooth { burst: number(3) })?.every(Duration::from_secs(100));
    let smooth = claims([smooth])?;
    for _ in 0..3 {
        granted(store, &smooth, LONG).await?;
    }
    let after = acquire(store, &smooth, LONG).await?.err().map(|(_, after)| after);
    is(after.is_some_and(|after| after <= Duration::from_secs(1)), || {
        format!("one a second, three at once: the fourth may come after {after:?}")
    })?;
    let bucket = claims([rate("bucket", 5, RateMode::Window)?.every(DAY)])?;
    for _ in 0..5 {
        granted(store, &bucket, LONG).await?;
    }
    let (_, after) = full(store, &bucket).await?;
    // Days end at the same time for all; a period of 23 hours ends elsewhere.
    let other = claims([rate("other", 1, RateMode::Window)?.every(DAY * 23 / 24)])?;
    granted(store, &other, LONG).await?;
    let (_, other) = full(store, &other).await?;
    let longest = after.max(other);
    is(longest > Duration::from_secs(60), || format!("what is counted for a day is counted anew after {longest:?}"))
}

pub(super) async fn again(store: &dyn Store) -> Kept {
    for (name, mode) in [("window", RateMode::Window), ("smooth", RateMode::Smooth { burst: number(1) })] {
        let short = claims([rate(name, 1, mode)?.every(HALF)])?;
        let mut refused = None;
        becomes("it is used up", async || {
            refused = acquire(store, &short, LONG).await?.err();
            Ok(refused.is_some())
        })
        .await?;
        let after = refused.map_or(HALF, |(_, after)| after);
        is(after <= HALF, || format!("one each {HALF:?}: the next may come after {after:?}"))?;
        // Clocks may differ by what one is read too early.
        sleep(after + Duration::from_millis(1)).await;
        granted(store, &short, LONG).await?;
    }
    let lease = granted(store, &claims([rate("alone", 1, RateMode::Window)?])?, LONG).await?;
    let lost = store.renew(&[lease]).await?.lost;
    is(lost.is_empty(), || "a lease of a rate alone, which can't be lost, was lost".to_owned())
}

pub(super) async fn drawn(store: &dyn Store) -> Kept {
    let calls = rate("calls", 10, RateMode::Window)?.every(DAY);
    let mut units = Vec::new();
    for _ in 0..3 {
        units.push(store.draw(&calls, 7).await?.units);
    }
    is(units == [7, 3, 0], || format!("{units:?} of a maximum of 10"))?;
    let of_a_cap = store.draw(&cap("cap", 1)?, 1).await;
    is(matches!(of_a_cap, Err(StoreError::Configuration(_))), || format!("units of a cap were drawn: {of_a_cap:?}"))
}
