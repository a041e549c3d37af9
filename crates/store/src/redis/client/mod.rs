//! The client of the server: its connection, the time limit, the breaker, and what is owed.

mod connection_task;

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::{
    sync::{Notify, broadcast, watch},
    time::Instant,
};

use super::{
    breaker::{Breaker, Trouble},
    builder::Settings,
    connection::{self, Connection, Target},
    debts::{Debts, Due},
    reply::Reply,
    script::Call,
};
use crate::{
    Notice, PendingRelease, StoreError,
    memory::NOTICES,
    task::{Task, lock},
};

/// Time for which the client tries to free a lock.
const LOCK_DEBT: Duration = Duration::from_secs(1);

pub(super) struct RedisClient {
    pub(super) target: Target,
    pub(super) prefix: Arc<str>,
    pub(super) channel: Arc<str>,
    pub(super) settings: Settings,
    breaker: Mutex<Breaker>,
    /// What a probe writes: in a cluster on the node that the call was for which opened the breaker.
    probed: Mutex<String>,
    /// The connection, and the number of tries to make it: a waiting caller learns of either.
    pub(super) wire: watch::Sender<Wire>,
    pub(super) notices: broadcast::Sender<Notice>,
    debts: Mutex<Debts<Self>>,
    /// Wakes the connection task. Apart from the rest, which the connection task must not hold while it sleeps.
    pub(super) wake: Arc<Notify>,
    connection_task: Task,
}

pub(super) struct Wire {
    /// The connection, or why there is none.
    pub(super) connection: Result<Connection, StoreError>,
    pub(super) tries: u64,
}

/// Why there is no answer, and what that says of the server.
type Failure = (StoreError, Option<Trouble>);

impl RedisClient {
    pub(super) fn new(target: Target, prefix: &str, settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            target,
            prefix: prefix.into(),
            channel: format!("{prefix}:notices").into(),
            settings,
            breaker: Mutex::new(Breaker::new()),
            probed: Mutex::new(format!("{prefix}:probe")),
            wire: watch::Sender::new(Wire { connection: Err(StoreError::Unavailable), tries: 0 }),
            notices: broadcast::Sender::new(NOTICES),
            debts: Mutex::default(),
            wake: Arc::default(),
            connection_task: Task::default(),
        })
    }

    pub(super) fn breaker(&self) -> MutexGuard<'_, Breaker> {
        lock(&self.breaker)
    }

    /// Runs a script once, within the time limit, and has its answer read: one that can't be read is a failure of the
    /// store.
    pub(super) async fn call<T>(
        self: &Arc<Self>,
        call: &Call,
        read: impl FnOnce(&Reply) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Some(answers) = self.breaker().admits(call.upkeep) else {
            self.wake_keeper();
            return Err(StoreError::BreakerOpen);
        };
        let after = self.settings.timeout;
        let result = tokio::time::timeout(after, self.exchange(call, read)).await;
        let result = result.unwrap_or_else(|_| Err(of_server(StoreError::TimedOut { after })));
        self.judge(call, answers, &result);
        result.map_err(|(error, _)| error)
    }

    /// Tells the breaker how a call ended.
    fn judge<T>(self: &Arc<Self>, call: &Call, answers: u64, result: &Result<T, Failure>) {
        let (now, mut breaker) = (Instant::now(), self.breaker());
        if let Err((StoreError::Restarted { retry_after }, _)) = result {
            breaker.is_quiet(now + *retry_after);
        }
        let trouble = result.as_ref().err().and_then(|(_, trouble)| *trouble);
        let opened = match trouble {
            // The server answered, if not with what was hoped for.
            None => {
                breaker.served(call.upkeep);
                false
            }
            Some(Trouble::Everything) => breaker.failed(now, answers),
            Some(trouble) => breaker.refused(now, trouble == Trouble::Decisions),
        };
        if !opened {
            return;
        }
        if self.target.is_cluster() {
            *lock(&self.probed) = call.beside(&self.prefix, "probe");
        }
        drop(breaker);
        if trouble == Some(Trouble::Everything) {
            // A connection on which nothing comes may be dead without knowing.
            self.hang_up(None);
        }
        self.wake_keeper();
    }

    /// Returns the key that a probe writes.
    pub(super) fn probed(&self) -> String {
        lock(&self.probed).clone()
    }

    /// Sends a call, whatever the breaker says.
    pub(super) async fn exchange<T>(
        self: &Arc<Self>,
        call: &Call,
        read: impl FnOnce(&Reply) -> Result<T, StoreError>,
    ) -> Result<T, Failure> {
        // A server that can't be reached is as good as not there, whatever it says.
        let connected = self.connection().await;
        let (mut connection, number) = connected.map_err(|error| (error, Some(Trouble::Everything)))?;
        let owed = Owed { client: self, debt: call.left.clone() };
        let mut answer = connection.send(&call.by_name(&connection.run)).await;
        if answer.as_ref().is_err_and(connection::is_unknown_script) {
            // This is the one error after which it is certain that nothing was done.
            answer = connection.send(&call.in_full(&connection.run)).await;
        }
        #[cfg(feature = "redis-cluster")]
        {
            answer = connection.follow(call, answer).await;
        }
        let answer = match answer {
            Ok(value) => Reply::read(value).and_then(|reply| read(&reply)).map_err(|error| {
                // A server whose answers can't be read grants nothing, even if it seems to take leases back.
                let trouble = error.trouble().map(|_| Trouble::Decisions);
                (error, trouble)
            }),
            Err(error) => Err(of_server(connection::meaning(&error))),
        };
        // Keys of a cluster that are on their way say nothing of the connection.
        if answer.as_ref().is_err_and(|(error, _)| error.trouble() == Some(Trouble::Everything)) {
            self.hang_up(Some(number));
            self.wake_keeper();
        }
        owed.unless_clear(&answer);
        answer
    }

    /// Returns the connection and its number. The connection task makes it, so that a caller that gives up doesn't stop
    /// it.
    async fn connection(self: &Arc<Self>) -> Result<(Connection, u64), StoreError> {
        let mut wire = self.wire.subscribe();
        let tries = {
            let now = wire.borrow_and_update();
            if let Ok(connection) = &now.connection {
                return Ok((connection.clone(), now.tries));
            }
            now.tries
        };
        self.wake_keeper();
        let Ok(wire) = wire.wait_for(|wire| wire.connection.is_ok() || wire.tries > tries).await else {
            return Err(StoreError::Unavailable);
        };
        Ok((wire.connection.clone()?, wire.tries))
    }

    /// Drops the connection, unless another number has replaced it.
    pub(super) fn hang_up(&self, number: Option<u64>) {
        self.wire.send_if_modified(|wire| {
            let same = number.is_none_or(|number| number == wire.tries);
            same && mem::replace(&mut wire.connection, Err(StoreError::Unavailable)).is_ok()
        });
    }

    /// Makes the connection task run, if there is a runtime to run on, and look. Returns whether it runs.
    pub(super) fn wake_keeper(self: &Arc<Self>) -> bool {
        let run = || connection_task::run(Arc::downgrade(self), Arc::clone(&self.wake), self.settings.seed);
        let runs = self.connection_task.start(run);
        self.wake.notify_one();
        runs
    }

    /// Drops the client's reference to itself if nothing is owed, or if no task is there to pay.
    pub(super) fn weigh_anchor(&self, unpaid: bool) {
        let anchor = self.debts().weigh_anchor(unpaid);
        // After the lock, which is a part of the client: this may be the last reference.
        drop(anchor);
    }

    pub(super) fn debts(&self) -> MutexGuard<'_, Debts<Self>> {
        lock(&self.debts)
    }

    pub(super) fn release_later(self: &Arc<Self>, debt: PendingRelease) {
        let lasts = match &debt {
            PendingRelease::Lease(lease) if lease.caps.is_empty() => return,
            PendingRelease::Lease(lease) => lease.expiry,
            PendingRelease::Allotment(request) => request.expiry,
            PendingRelease::Lock(lock) => lock.expiry.min(LOCK_DEBT),
        };
        let now = Instant::now();
        self.debts().owe(Due { debt, until: now + lasts }, now, self);
        if !self.wake_keeper() {
            self.weigh_anchor(true);
        }
    }
}

/// Takes an error for what the server is like.
fn of_server(error: StoreError) -> Failure {
    let trouble = error.trouble();
    (error, trouble)
}

/// What a call may leave behind in the store without the client knowing: its answer was lost, came too late, or the
/// caller is gone. Dropped before the answer is clear, it is given back.
struct Owed<'a> {
    client: &'a Arc<RedisClient>,
    debt: Option<PendingRelease>,
}

impl Owed<'_> {
    /// Ends the debt if the answer says what happened.
    fn unless_clear<T>(mut self, answer: &Result<T, Failure>) {
        if !answer.as_ref().is_err_and(|(error, _)| error.is_ambiguous()) {
            self.debt = None;
        }
    }
}

impl Drop for Owed<'_> {
    fn drop(&mut self) {
        if let Some(debt) = self.debt.take() {
            self.client.release_later(debt);
        }
    }
}
