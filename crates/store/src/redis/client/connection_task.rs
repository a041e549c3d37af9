//! The one task behind a store: makes the connection, probes a server that failed, pays debts.

use std::{
    collections::HashSet,
    future::{Future, poll_fn},
    pin::pin,
    sync::{Arc, Weak},
    task::Poll,
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    super::{
        RedisStore,
        batches::AT_ONCE,
        breaker::Trouble,
        connection,
        debts::Due,
        reply::{Reply, unexpected},
        script::{self, Call},
    },
    RedisClient,
};
use crate::{
    Notice, PendingRelease, StoreError,
    backoff::{Backoff, Seeds},
    give_back,
    side_by_side::side_by_side,
};

/// Longest time to make a connection. Longer than a request waits for it.
const CONNECT: Duration = Duration::from_secs(1);

/// Pauses between probes, and between tries to pay.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Debts that are paid in one go.
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
            // A new debt does not wait for a debt that could not be paid.
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

/// Dropped with the connection task, also when its runtime ends: a debt that is not paid relies on its expiry.
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
        // The server grants nothing, but takes back leases.
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
    if client.wire.borrow().connection.is_err() && !connect(client).await {
        // A waiting caller knows of the failure, counts it, and rings again if there is another caller.
        let owes = !client.debts().is_empty();
        return if client.breaker().is_open() || owes { Pause::ForAWhile } else { Pause::UntilCalled };
    }
    if pay(client).await {
        return Pause::None;
    }
    if client.debts().is_put_off() { Pause::UntilRetry } else { Pause::UntilCalled }
}

/// Makes the connection; returns whether it is there.
async fn connect(client: &Arc<RedisClient>) -> bool {
    let notices = client.notices.clone();
    let strict = !client.settings.quiet().is_zero();
    // A connection that ended while no request used it fails no request.
    let (it, number) = (Arc::downgrade(client), client.wire.borrow().tries + 1);
    let over = move || it.upgrade().into_iter().for_each(|client| client.hang_up(Some(number)));
    let made = timeout(CONNECT, client.target.connect(&client.channel, strict, CONNECT, notices, over)).await;
    let made = made.map_or(Err(StoreError::Unavailable), |made| made.map_err(|error| connection::meaning(&error)));
    if let Ok(connection) = &made {
        client.breaker().evicts(connection.evicts);
    }
    let is_made = made.is_ok();
    client.wire.send_modify(|wire| (wire.connection, wire.tries) = (made, wire.tries + 1));
    if is_made {
        // Notices during that time were not heard.
        let _ = client.notices.send(Notice::Missed);
    }
    is_made
}

/// Probes whether the server does what decisions need: a script that writes.
async fn probe(client: &Arc<RedisClient>) -> Result<(), StoreError> {
    if client.wire.borrow().connection.is_err() && !connect(client).await {
        // A server that can't be reached is not there, whatever it says.
        return Err(StoreError::Unavailable);
    }
    let call = Call::new(&script::PROBE).key(client.probed());
    let served = |reply: &Reply| if reply.word()? == b"served" { Ok(()) } else { Err(unexpected()) };
    match timeout(client.settings.timeout, client.exchange(&call, served)).await {
        Ok(answer) => answer.map_err(|(error, _)| error),
        Err(_) => Err(StoreError::Unavailable),
    }
}

/// The debts that are being paid. Unpaid ones are put off when this is dropped, also with the connection task.
struct Bill<'a> {
    client: &'a RedisClient,
    due: Vec<Due>,
}

impl Drop for Bill<'_> {
    fn drop(&mut self) {
        self.client.debts().put_off(std::mem::take(&mut self.due));
    }
}

/// Pays some debts while there is a connection. This task makes connections, so a payment that waited for one would wait for itself.
async fn pay(client: &Arc<RedisClient>) -> bool {
    let mut wire = client.wire.subscribe();
    let mut lost = pin!(wire.wait_for(|wire| wire.connection.is_err()));
    let mut paid = pin!(pay_some(client));
    poll_fn(|cx| match paid.as_mut().poll(cx) {
        Poll::Pending if lost.as_mut().poll(cx).is_ready() => Poll::Ready(true),
        paid => paid,
    })
    .await
}

/// Pays some debts. Returns whether there were any; debts that could not be paid are put off.
async fn pay_some(client: &Arc<RedisClient>) -> bool {
    let due = client.debts().due(PAID, Instant::now());
    if due.is_empty() {
        return false;
    }
    let mut bill = Bill { client, due };
    let store = &RedisStore(Arc::clone(client));
    // Leases, however many, are paid in few round trips.
    let (mut leases, mut others) = (Vec::new(), Vec::new());
    for (index, due) in bill.due.iter().enumerate() {
        match &due.debt {
            PendingRelease::Lease(lease) => leases.push((index, lease)),
            debt => others.push(async move { (index, give_back(store, debt).await) }),
        }
    }
    let mut unpaid = store.release_each(leases).await.unpaid;
    let paid = side_by_side(AT_ONCE, others).await.into_iter();
    unpaid.extend(paid.filter_map(|(index, answer)| Some((index, answer.err()?))));
    let unpaid: HashSet<_> = unpaid.into_iter().filter(|(_, error)| error.is_gone()).map(|(index, _)| index).collect();
    let mut indices = 0..;
    bill.due.retain(|_| indices.next().is_some_and(|index| unpaid.contains(&index)));
    true
}
