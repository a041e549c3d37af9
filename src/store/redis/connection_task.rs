//! The one task behind a store: makes the connection, probes a server that failed, pays what is owed.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{RedisStore, batches::AT_ONCE, breaker::Trouble, client::RedisClient, connection, debts::Due};
use crate::store::{
    Lease, Notice, PendingRelease, Store, StoreError,
    backoff::{Backoff, Seeds},
    side_by_side::side_by_side,
};

/// How long making a connection may take. Longer than a request waits for it.
const CONNECT: Duration = Duration::from_secs(1);

/// Pauses between probes, and between tries to pay.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How much is paid in one go.
const PAID: usize = 1_024;

/// Runs until the store is dropped.
pub(super) async fn run(client: Weak<RedisClient>, wake: Arc<Notify>, seed: Option<u64>) {
    let seeds = Seeds::new(seed);
    let fresh = || Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, seeds.next());
    let (mut pauses, mut retry) = (fresh(), None);
    let _adrift = Adrift(client.clone());
    loop {
        let Some(now) = client.upgrade() else { return };
        let pause = step(&now).await;
        now.weigh_anchor(false);
        drop(now);
        match pause {
            Pause::UntilCalled => {
                (pauses, retry) = (fresh(), None);
                wake.notified().await;
            }
            // What comes meanwhile does not wait for what could not be paid.
            Pause::UntilRetry => {
                let at = *retry.get_or_insert_with(|| Instant::now() + pauses.wait());
                if timeout_at(at, wake.notified()).await.is_err() {
                    retry = None;
                    let Some(now) = client.upgrade() else { return };
                    now.debts().retry(at);
                }
            }
            // No wake shortens this one: many callers must not make many probes.
            Pause::ForAWhile => sleep(pauses.wait()).await,
            Pause::None => {}
        }
    }
}

/// A runtime that ends drops the connection task where it is: what it did not pay relies on its expiry.
struct Adrift(Weak<RedisClient>);

impl Drop for Adrift {
    fn drop(&mut self) {
        if let Some(client) = self.0.upgrade() {
            client.weigh_anchor(true);
        }
    }
}

enum Pause {
    UntilCalled,
    UntilRetry,
    ForAWhile,
    None,
}

async fn step(client: &Arc<RedisClient>) -> Pause {
    if client.breaker().is_open() {
        let Err(error) = probe(client).await else {
            client.breaker().recovered();
            client.debts().retry(Instant::now());
            return Pause::None;
        };
        // It grants nothing, but takes back what is owed.
        let answers = error.trouble() == Some(Trouble::Decisions);
        client.breaker().probe_failed(answers);
        if answers {
            client.debts().retry(Instant::now());
            while pay(client).await {}
        } else {
            client.hang_up(None);
        }
        return Pause::ForAWhile;
    }
    if client.wire.borrow().connection.is_none() && connect(client).await.is_err() {
        // Who waits for it knows, counts it as a failure, and rings again if there is somebody.
        let owes = !client.debts().is_empty();
        return if client.breaker().is_open() || owes { Pause::ForAWhile } else { Pause::UntilCalled };
    }
    if pay(client).await {
        return Pause::None;
    }
    if client.debts().is_put_off() { Pause::UntilRetry } else { Pause::UntilCalled }
}

async fn connect(client: &Arc<RedisClient>) -> Result<(), StoreError> {
    let notices = client.notices.clone();
    let strict = !client.settings().quiet().is_zero();
    let made = timeout(CONNECT, client.target.connect(client.channel(), strict, CONNECT, notices)).await;
    let (connection, error) = match made {
        Ok(Ok(connection)) => (Some(connection), None),
        Ok(Err(error)) => (None, Some(connection::meaning(&error))),
        Err(_) => (None, Some(StoreError::Unavailable)),
    };
    client.wire.send_modify(|wire| {
        wire.tries += 1;
        (wire.connection, wire.error) = (connection, error.clone());
    });
    error.map_or_else(
        || {
            // Whatever was said meanwhile, nobody heard it.
            let _ = client.notices.send(Notice::Missed);
            Ok(())
        },
        Err,
    )
}

/// Whether the server takes writes that need memory: a replica answers a `PING`, too, and so does one that is full.
async fn probe(client: &Arc<RedisClient>) -> Result<(), StoreError> {
    if client.wire.borrow().connection.is_none() {
        // Whatever is said to that, it is not there.
        connect(client).await.map_err(|_| StoreError::Unavailable)?;
    }
    let Some(mut connection) = client.wire.borrow().connection.clone() else { return Err(StoreError::Unavailable) };
    let mut write = redis::cmd("SET");
    write.arg(format!("{}:probe", client.prefix())).arg(1).arg("PX").arg(1_000);
    match timeout(client.settings().timeout, connection.send(&write)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(connection::meaning(&error)),
        Err(_) => Err(StoreError::Unavailable),
    }
}

/// What is being paid. What is left of it is put off when this is dropped, also with the connection task.
struct Bill<'a> {
    client: &'a RedisClient,
    due: Vec<Due>,
}

impl Drop for Bill<'_> {
    fn drop(&mut self) {
        self.client.debts().put_off(std::mem::take(&mut self.due));
    }
}

/// Pays some of what is owed. Says whether there was any; what could not be paid is put off.
async fn pay(client: &Arc<RedisClient>) -> bool {
    let due = client.debts().due(PAID, Instant::now());
    if due.is_empty() {
        return false;
    }
    let mut bill = Bill { client, due };
    let due = &bill.due;
    let store = &RedisStore(Arc::clone(client));
    // Of any number of leases, few round trips.
    let of_lease = |(index, due): (usize, &Due)| match &due.debt {
        PendingRelease::Lease(lease) => Some((index, lease.clone())),
        PendingRelease::Allotment(_) | PendingRelease::Lock(_) => None,
    };
    let (numbers, leases): (Vec<usize>, Vec<Lease>) = due.iter().enumerate().filter_map(of_lease).unzip();
    let mut unpaid = vec![false; due.len()];
    for (index, error) in store.release_each(&leases).await.unpaid {
        if let Some(unpaid) = numbers.get(index).and_then(|&index| unpaid.get_mut(index)) {
            *unpaid = error.is_gone();
        }
    }
    let others = (0..due.len()).map(|index| async move {
        let answer = match due.get(index).map(|due| &due.debt) {
            Some(PendingRelease::Allotment(request)) => store.reserve(request).await.map(drop),
            Some(PendingRelease::Lock(lock)) => store.unlock(lock).await.map(drop),
            Some(PendingRelease::Lease(_)) | None => Ok(()),
        };
        answer.is_err_and(|error| error.is_gone()).then_some(index)
    });
    for index in side_by_side(AT_ONCE, others).await.into_iter().flatten() {
        if let Some(unpaid) = unpaid.get_mut(index) {
            *unpaid = true;
        }
    }
    let mut unpaid = unpaid.into_iter();
    bill.due.retain(|_| unpaid.next().unwrap_or(false));
    true
}
