//! The one task behind a store: makes the connection, probes a server that failed, pays what is owed.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

use super::{
    RedisStore,
    line::{Due, Line},
    link,
};
use crate::store::{
    Debt, Lease, Notice, Store, StoreError,
    backoff::{Backoff, Seeds},
};

/// How long making a connection may take. Longer than a request waits for it.
const CONNECT: Duration = Duration::from_secs(1);

/// Pauses between probes, and between tries to pay.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How much is paid in one go.
const BATCH: usize = 128;

/// Runs until the store is dropped.
pub(super) async fn run(line: Weak<Line>, bell: Arc<Notify>, seed: Option<u64>) {
    let seeds = Seeds::new(seed);
    let fresh = || Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, seeds.next());
    let mut pauses = fresh();
    let _adrift = Adrift(line.clone());
    loop {
        let Some(now) = line.upgrade() else { return };
        let pause = step(&now).await;
        now.weigh_anchor(false);
        drop(now);
        match pause {
            Pause::UntilCalled => {
                pauses = fresh();
                bell.notified().await;
            }
            // No bell shortens this one: many callers must not make many probes.
            Pause::ForAWhile => sleep(pauses.wait()).await,
            Pause::None => pauses = fresh(),
        }
    }
}

/// A runtime that ends drops the keeper where it is: what it did not pay relies on its expiry.
struct Adrift(Weak<Line>);

impl Drop for Adrift {
    fn drop(&mut self) {
        if let Some(line) = self.0.upgrade() {
            line.weigh_anchor(true);
        }
    }
}

enum Pause {
    UntilCalled,
    ForAWhile,
    None,
}

async fn step(line: &Arc<Line>) -> Pause {
    if line.breaker().is_open() {
        return if probe(line).await.is_ok() {
            line.breaker().succeeded();
            Pause::None
        } else {
            line.hang_up(None);
            line.breaker().probe_failed();
            Pause::ForAWhile
        };
    }
    if line.wire.borrow().link.is_none() && connect(line).await.is_err() {
        // Who waits for it knows, counts it as a failure, and rings again if there is somebody.
        return if line.breaker().is_open() || line.owes() { Pause::ForAWhile } else { Pause::UntilCalled };
    }
    match pay(line).await {
        Ok(true) => Pause::None,
        Ok(false) => Pause::UntilCalled,
        Err(_) => Pause::ForAWhile,
    }
}

async fn connect(line: &Arc<Line>) -> Result<(), StoreError> {
    let made = timeout(CONNECT, line.target.connect(line.channel(), CONNECT, line.notices.clone())).await;
    let (link, error) = match made {
        Ok(Ok(link)) => (Some(link), None),
        Ok(Err(error)) => (None, Some(link::meaning(&error))),
        Err(_) => (None, Some(StoreError::Unavailable)),
    };
    line.wire.send_modify(|wire| {
        wire.tries += 1;
        (wire.link, wire.error) = (link, error.clone());
    });
    error.map_or_else(
        || {
            // Whatever was said meanwhile, nobody heard it.
            let _ = line.notices.send(Notice::Missed);
            Ok(())
        },
        Err,
    )
}

/// Whether the server takes writes: a replica answers a `PING`, too.
async fn probe(line: &Arc<Line>) -> Result<(), StoreError> {
    if line.wire.borrow().link.is_none() {
        connect(line).await?;
    }
    let Some(mut link) = line.wire.borrow().link.clone() else { return Err(StoreError::Unavailable) };
    let mut write = redis::cmd("SET");
    write.arg(format!("{}:probe", line.prefix())).arg(1).arg("PX").arg(1_000);
    match timeout(line.settings().timeout, link.send(&write)).await {
        Ok(Ok(_)) => Ok(()),
        _ => Err(StoreError::Unavailable),
    }
}

/// Pays some of what is owed. Says whether there was any; what could not be paid is owed again.
async fn pay(line: &Arc<Line>) -> Result<bool, StoreError> {
    let due = line.due(BATCH);
    if due.is_empty() {
        return Ok(false);
    }
    let store = RedisStore(Arc::clone(line));
    let mut leases: Vec<Lease> = Vec::new();
    let mut result = Ok(true);
    let mut unpaid = Vec::new();
    for Due { debt, until } in due {
        let paid = match &debt {
            // Of any number, one round trip.
            Debt::Lease(lease) => {
                leases.push(lease.clone());
                unpaid.push(Due { debt, until });
                continue;
            }
            _ if result.is_err() => Err(StoreError::Unavailable),
            Debt::Block(request) => store.hold(request).await.map(drop),
            Debt::Lock(lock) => store.unlock(lock).await.map(drop),
        };
        if paid.as_ref().is_err_and(StoreError::is_gone) {
            unpaid.push(Due { debt, until });
            result = Err(StoreError::Unavailable);
        }
    }
    if !leases.is_empty() {
        match store.release(&leases).await {
            Err(error) if error.is_gone() => result = Err(error),
            _ => unpaid.retain(|due| !matches!(due.debt, Debt::Lease(_))),
        }
    }
    line.defer(unpaid);
    result
}
