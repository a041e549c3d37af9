//! The client of the server: its connection, the time limit, the breaker, and what is owed.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, broadcast, watch},
    task::JoinHandle,
    time::Instant,
};

use super::{
    breaker::{Breaker, Trouble},
    builder::Settings,
    connection::{self, Connection, Target},
    connection_task,
    debts::{Debts, Due},
    reply::Reply,
    script::Call,
};
use crate::store::{Health, Notice, PendingRelease, StoreError, memory::NOTICES};

/// How long a lock is tried to be freed.
const LOCK_DEBT: Duration = Duration::from_secs(1);

pub(super) struct RedisClient {
    pub(super) target: Target,
    prefix: Arc<str>,
    channel: Arc<str>,
    settings: Settings,
    breaker: Mutex<Breaker>,
    /// The connection, and the number of tries to make it: who waits for it learns of either.
    pub(super) wire: watch::Sender<Wire>,
    pub(super) notices: broadcast::Sender<Notice>,
    debts: Mutex<Debts<Self>>,
    /// Wakes the connection task. Apart from the rest, which the connection task must not hold while it sleeps.
    pub(super) wake: Arc<Notify>,
    connection_task: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Wire {
    pub(super) connection: Option<Connection>,
    pub(super) tries: u64,
    /// Why the last try failed.
    pub(super) error: Option<StoreError>,
}

/// Why there is no answer.
enum Failure {
    /// There is no connection, so nothing was sent.
    Connecting(StoreError),
    Asking(StoreError),
}

impl RedisClient {
    pub(super) fn new(target: Target, prefix: &str, settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            target,
            prefix: prefix.into(),
            channel: format!("{prefix}:notices").into(),
            settings,
            breaker: Mutex::new(Breaker::new()),
            wire: watch::Sender::default(),
            notices: broadcast::Sender::new(NOTICES),
            debts: Mutex::default(),
            wake: Arc::default(),
            connection_task: Mutex::default(),
        })
    }

    pub(super) const fn is_cluster(&self) -> bool {
        self.target.is_cluster()
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn channel(&self) -> &str {
        &self.channel
    }

    pub(super) const fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn listen(&self) -> broadcast::Receiver<Notice> {
        self.notices.subscribe()
    }

    pub(super) fn health(&self) -> Health {
        self.breaker().health(Instant::now())
    }

    pub(super) fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a script once, within the time limit.
    pub(super) async fn call(self: &Arc<Self>, call: &Call) -> Result<Reply, StoreError> {
        self.call_for(call, None).await
    }

    /// The same; what it may leave behind if its answer does not arrive is owed then.
    pub(super) async fn call_for(
        self: &Arc<Self>,
        call: &Call,
        left: Option<PendingRelease>,
    ) -> Result<Reply, StoreError> {
        let Some(answers) = self.breaker().admits(call.is_upkeep()) else {
            self.wake_keeper();
            return Err(StoreError::BreakerOpen);
        };
        let after = self.settings.timeout;
        let result = match tokio::time::timeout(after, self.exchange(call, left)).await {
            Ok(result) => result,
            Err(_) => Err(Failure::Asking(StoreError::TimedOut { after })),
        };
        self.judge(call.is_upkeep(), answers, &result);
        result.map_err(|(Failure::Connecting(error) | Failure::Asking(error))| error)
    }

    /// Tells the breaker.
    fn judge<T>(self: &Arc<Self>, upkeep: bool, answers: u64, result: &Result<T, Failure>) {
        let trouble = match result {
            Ok(_) => None,
            // Whatever the server says to that, it is as good as not there.
            Err(Failure::Connecting(_)) => Some(Trouble::Everything),
            Err(Failure::Asking(error)) => error.trouble(),
        };
        let opened = match trouble {
            // An answer, if not the one that was hoped for.
            None => {
                self.breaker().served(upkeep);
                false
            }
            Some(Trouble::Everything) => {
                let opened = self.breaker().failed(Instant::now(), answers);
                if opened {
                    // A connection on which nothing comes may be dead without knowing.
                    self.hang_up(None);
                }
                opened
            }
            Some(trouble) => self.breaker().refused(Instant::now(), trouble == Trouble::Decisions),
        };
        if opened {
            self.wake_keeper();
        }
    }

    async fn exchange(self: &Arc<Self>, call: &Call, left: Option<PendingRelease>) -> Result<Reply, Failure> {
        let (mut connection, number) = self.connection().await.map_err(Failure::Connecting)?;
        let owed = Owed::new(self, left);
        let mut answer = connection.send(&call.by_name(connection.run())).await;
        if answer.as_ref().is_err_and(connection::is_unknown_script) {
            // The one error after which it is certain that nothing was done.
            answer = connection.send(&call.in_full(connection.run())).await;
        }
        #[cfg(feature = "redis-cluster")]
        {
            answer = super::moving::follow(&mut connection, call, answer).await;
        }
        let answer = answer.map_err(|error| {
            let error = connection::meaning(&error);
            // Keys of a cluster that are on their way say nothing of the connection.
            if error.trouble() == Some(Trouble::Everything) {
                self.hang_up(Some(number));
                self.wake_keeper();
            }
            error
        });
        owed.unless_clear(answer.and_then(Reply::read)).map_err(Failure::Asking)
    }

    /// The connection and its number; made by the connection task, so that a caller that gives up doesn't stop it.
    async fn connection(self: &Arc<Self>) -> Result<(Connection, u64), StoreError> {
        let mut wire = self.wire.subscribe();
        let tries = {
            let now = wire.borrow_and_update();
            if let Some(connection) = &now.connection {
                return Ok((connection.clone(), now.tries));
            }
            now.tries
        };
        self.wake_keeper();
        let Ok(wire) = wire.wait_for(|wire| wire.connection.is_some() || wire.tries > tries).await else {
            return Err(StoreError::Unavailable);
        };
        match &wire.connection {
            Some(connection) => Ok((connection.clone(), wire.tries)),
            None => Err(wire.error.clone().unwrap_or(StoreError::Unavailable)),
        }
    }

    /// Drops the connection, unless it is not the one with this number any more.
    pub(super) fn hang_up(&self, number: Option<u64>) {
        self.wire.send_if_modified(|wire| {
            let same = number.is_none_or(|number| number == wire.tries);
            same && wire.connection.take().is_some()
        });
    }

    /// Sees to it that the connection task runs, if there is a runtime to run on, and looks. Says whether it runs.
    pub(super) fn wake_keeper(self: &Arc<Self>) -> bool {
        let mut connection_task = self.connection_task.lock().unwrap_or_else(PoisonError::into_inner);
        if connection_task.as_ref().is_none_or(JoinHandle::is_finished)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let run = connection_task::run(Arc::downgrade(self), Arc::clone(&self.wake), self.settings.seed);
            *connection_task = Some(runtime.spawn(run));
        }
        let runs = connection_task.as_ref().is_some_and(|connection_task| !connection_task.is_finished());
        drop(connection_task);
        self.wake.notify_one();
        runs
    }

    /// Lets go of itself if nothing is owed, or if nobody is there to pay it.
    pub(super) fn weigh_anchor(&self, unpaid: bool) {
        let anchor = self.debts().weigh_anchor(unpaid);
        // After the lock, which is a part of it: it may be the last one.
        drop(anchor);
    }

    pub(super) fn debts(&self) -> MutexGuard<'_, Debts<Self>> {
        self.debts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn settle(self: &Arc<Self>, debt: PendingRelease) {
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

impl Drop for RedisClient {
    fn drop(&mut self) {
        // The connection task finds that nobody is left.
        self.wake.notify_one();
    }
}

/// What a question may leave behind in the store without the client knowing: its answer was lost, came too late, or
/// nobody waits for it any more. Dropped before the answer is clear, it is given back.
struct Owed<'a> {
    client: &'a Arc<RedisClient>,
    debt: Option<PendingRelease>,
}

impl<'a> Owed<'a> {
    /// For a question that is about to be sent.
    const fn new(client: &'a Arc<RedisClient>, debt: Option<PendingRelease>) -> Self {
        Self { client, debt }
    }

    /// Nothing is owed if the answer says what happened.
    fn unless_clear<T>(mut self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        if !answer.as_ref().is_err_and(StoreError::is_ambiguous) {
            self.debt = None;
        }
        answer
    }
}

impl Drop for Owed<'_> {
    fn drop(&mut self) {
        if let Some(debt) = self.debt.take() {
            self.client.settle(debt);
        }
    }
}
