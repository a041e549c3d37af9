//! Rates.

use std::time::Duration;

use super::{Found, Kept, LONG, acquire, cap, claims, full, granted, is, keys, number};
use crate::{Claim, RateMode, Store, StoreError};

const DAY: Duration = Duration::from_secs(86_400);

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
    full(store, &bucket).await.map(drop)
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
