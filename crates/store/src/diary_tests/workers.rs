//! Requests of several processes, under a cap and a rate.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use super::{millis, spy::Spy};
use crate::{Claim, Claims, Key, Keys, LeaseDenied, Leases, OnStoreFailure, RateMode};

/// What the workers of a process do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) bound: u32,
    /// Requests per second, if that is bounded.
    pub(super) rate: Option<u32>,
    pub(super) workers: u64,
    /// Requests of each worker, the time that each takes, and the pause after it.
    pub(super) requests: u64,
    pub(super) time: Duration,
    pub(super) pause: Duration,
    pub(super) on_store_failure: OnStoreFailure,
}

impl Default for Work {
    fn default() -> Self {
        let (time, pause) = (millis(100), millis(10));
        Self {
            bound: 4,
            rate: None,
            workers: 2,
            requests: 4,
            time,
            pause,
            on_store_failure: OnStoreFailure::FailClosed,
        }
    }
}

pub(super) fn keys() -> Keys {
    Keys::new("adm").unwrap()
}

pub(super) fn key() -> Key {
    keys().cap("a", "label", "x")
}

pub(super) fn claims(work: &Work) -> Claims {
    let mut claims =
        vec![Claim::cap(key(), NonZeroU32::new(work.bound).unwrap()).on_store_failure(work.on_store_failure)];
    if let Some(rate) = work.rate {
        let burst = NonZeroU32::new(3).unwrap();
        let rate =
            Claim::rate(keys().rate("a", "label", "x"), NonZeroU32::new(rate).unwrap(), RateMode::Smooth { burst });
        claims.push(rate.every(millis(1_000)).on_store_failure(work.on_store_failure));
    }
    Claims::new(claims).unwrap()
}

async fn worker(spy: Arc<Spy>, leases: Leases, work: Work, name: String, number: u64) {
    sleep(millis(number * 11)).await;
    for request in 0..work.requests {
        let (began, claims) = (Instant::now(), claims(&work));
        let here = leases.admit_from_here(&claims);
        let is_from_here = here.is_some();
        // Every third request asks once, and the others wait.
        let held = match here {
            Some(held) => Ok(held),
            None if request % 3 == 2 && number % 2 == 1 => leases.ask(&claims, |_| false).await,
            None if request % 3 == 2 => leases.admit(&claims).await,
            None => leases.wait(&claims).await,
        };
        match held {
            Ok(held) => {
                let how = if is_from_here { " from here" } else { "" };
                let without = if held.is_without_store() { ", without the store" } else { "" };
                spy.note(&format!("{name} runs{how} after {:?}{without}", began.elapsed()));
                let signal = held.signal();
                tokio::select! {
                    () = sleep(work.time) => {}
                    () = held.lost() => spy.note(&format!("{name} lost it: {} {}", held.is_lost(), signal.happened())),
                }
                drop(held);
            }
            Err(LeaseDenied::Full { claim, retry_after }) => {
                spy.note(&format!("{name} is refused after {:?}: claim {claim}, {retry_after:?}", began.elapsed()));
            }
            Err(error) => spy.note(&format!("{name}: {error}")),
        }
        sleep(work.pause).await;
    }
}

/// Lets the workers of all processes work until all of it is done.
pub(super) async fn work<'a>(spy: &Arc<Spy>, processes: impl Iterator<Item = (&'a Leases, Work)>) {
    let mut tasks = Vec::new();
    for (process, (leases, work)) in processes.enumerate() {
        for number in 0..work.workers {
            let name = format!("{process}.{number}");
            let number = number * 3 + process as u64;
            tasks.push(tokio::spawn(worker(Arc::clone(spy), leases.clone(), work, name, number)));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
}
