//! The line to the server: its connection, the time limit, the breaker, and what is owed.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, broadcast, watch},
    task::JoinHandle,
    time::Instant,
};

use super::{
    builder::Settings,
    keeper,
    link::{self, Link, Target},
    reply::Reply,
    script::Call,
};
use crate::store::{Debt, Health, Notice, StoreError, breaker::Breaker, memory::NOTICES};

/// How much may be owed. What is more relies on its expiry.
const DEBTS: usize = 4_096;

/// How long a lock is tried to be freed.
const LOCK_DEBT: Duration = Duration::from_secs(1);

pub(super) struct Line {
    pub(super) target: Target,
    prefix: Arc<str>,
    channel: Arc<str>,
    settings: Settings,
    breaker: Mutex<Breaker>,
    /// The connection, and the number of tries to make it: who waits for it learns of either.
    pub(super) wire: watch::Sender<Wire>,
    pub(super) notices: broadcast::Sender<Notice>,
    debts: Mutex<Debts>,
    /// Wakes the keeper. Apart from the rest, which the keeper must not hold while it sleeps.
    pub(super) bell: Arc<Notify>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Debts {
    queue: VecDeque<Due>,
    /// The line itself, while something is owed: debts are paid even if everybody else has let go of the store.
    anchor: Option<Arc<Line>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Wire {
    pub(super) link: Option<Link>,
    pub(super) tries: u64,
    /// Why the last try failed.
    pub(super) error: Option<StoreError>,
}

/// What is owed, and until when it is worth paying.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) debt: Debt,
    pub(super) until: Instant,
}

impl Line {
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
            bell: Arc::default(),
            keeper: Mutex::default(),
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
        if self.breaker().is_open() {
            self.wake_keeper();
            return Err(StoreError::BreakerOpen);
        }
        let after = self.settings.timeout;
        let result = match tokio::time::timeout(after, self.exchange(call)).await {
            Ok(result) => result,
            Err(_) => Err(StoreError::TimedOut { after }),
        };
        self.judge(result.as_ref().err());
        result
    }

    /// Tells the breaker.
    fn judge(self: &Arc<Self>, error: Option<&StoreError>) {
        if error.is_some_and(StoreError::is_gone) {
            let opened = self.breaker().failed(Instant::now());
            if opened {
                // A connection on which nothing comes may be dead without knowing.
                self.hang_up(None);
                self.wake_keeper();
            }
        } else {
            // An answer, if not the one that was hoped for.
            let mut breaker = self.breaker();
            if !breaker.is_open() {
                breaker.succeeded();
            }
        }
    }

    async fn exchange(self: &Arc<Self>, call: &Call) -> Result<Reply, StoreError> {
        let (mut link, number) = self.link().await?;
        let mut answer = link.send(&call.by_name()).await;
        if answer.as_ref().is_err_and(link::is_unknown_script) {
            // The one error after which it is certain that nothing was done.
            answer = link.send(&call.in_full()).await;
        }
        answer
            .map_err(|error| {
                let error = link::meaning(&error);
                if matches!(error, StoreError::ReadOnly | StoreError::Unavailable) {
                    self.hang_up(Some(number));
                    self.wake_keeper();
                }
                error
            })
            .and_then(Reply::read)
    }

    /// The connection and its number; made by the keeper, so that a caller that gives up doesn't stop it.
    async fn link(self: &Arc<Self>) -> Result<(Link, u64), StoreError> {
        let mut wire = self.wire.subscribe();
        let tries = {
            let now = wire.borrow_and_update();
            if let Some(link) = &now.link {
                return Ok((link.clone(), now.tries));
            }
            now.tries
        };
        self.wake_keeper();
        let Ok(wire) = wire.wait_for(|wire| wire.link.is_some() || wire.tries > tries).await else {
            return Err(StoreError::Unavailable);
        };
        match &wire.link {
            Some(link) => Ok((link.clone(), wire.tries)),
            None => Err(wire.error.clone().unwrap_or(StoreError::Unavailable)),
        }
    }

    /// Drops the connection, unless it is not the one with this number any more.
    pub(super) fn hang_up(&self, number: Option<u64>) {
        self.wire.send_if_modified(|wire| {
            let same = number.is_none_or(|number| number == wire.tries);
            same && wire.link.take().is_some()
        });
    }

    /// Sees to it that the keeper runs, if there is a runtime to run on, and looks. Says whether it runs.
    pub(super) fn wake_keeper(self: &Arc<Self>) -> bool {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        if keeper.as_ref().is_none_or(JoinHandle::is_finished)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let run = keeper::run(Arc::downgrade(self), Arc::clone(&self.bell), self.settings.seed);
            *keeper = Some(runtime.spawn(run));
        }
        let runs = keeper.as_ref().is_some_and(|keeper| !keeper.is_finished());
        drop(keeper);
        self.bell.notify_one();
        runs
    }

    /// Lets go of itself if nothing is owed, or if nobody is there to pay it.
    pub(super) fn weigh_anchor(&self, unpaid: bool) {
        let anchor = {
            let mut debts = self.debts();
            if unpaid || debts.queue.is_empty() { debts.anchor.take() } else { None }
        };
        // After the lock, which is a part of it: it may be the last one.
        drop(anchor);
    }

    fn debts(&self) -> MutexGuard<'_, Debts> {
        self.debts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something that is owed unless the answer to a request is clear: see [`Owed`].
    pub(super) fn owe(self: &Arc<Self>, debt: Debt) -> Owed<'_> {
        Owed { line: self, debt: Some(debt) }
    }

    pub(super) fn settle(self: &Arc<Self>, debt: Debt) {
        let lasts = match &debt {
            Debt::Lease(lease) if lease.caps.is_empty() => return,
            Debt::Lease(lease) => lease.expiry,
            Debt::Block(request) => request.expiry,
            Debt::Lock(lock) => lock.expiry.min(LOCK_DEBT),
        };
        self.defer([Due { debt, until: Instant::now() + lasts }]);
        if !self.wake_keeper() {
            self.weigh_anchor(true);
        }
    }

    /// Puts debts into the queue; those that find it full rely on their expiry.
    pub(super) fn defer(self: &Arc<Self>, due: impl IntoIterator<Item = Due>) {
        let mut debts = self.debts();
        let room = DEBTS.saturating_sub(debts.queue.len());
        debts.queue.extend(due.into_iter().take(room));
        debts.anchor = Some(Arc::clone(self));
    }

    /// Takes up to `most` debts that are still worth paying.
    pub(super) fn due(&self, most: usize) -> Vec<Due> {
        let mut debts = self.debts();
        let now = Instant::now();
        debts.queue.retain(|due| due.until > now);
        let most = most.min(debts.queue.len());
        debts.queue.drain(..most).collect()
    }

    pub(super) fn owes(&self) -> bool {
        !self.debts().queue.is_empty()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // The keeper finds that nobody is left.
        self.bell.notify_one();
    }
}

/// What a request may leave behind in the store without the client knowing: its answer was lost, came too late, or
/// nobody waits for it any more. Dropped before the answer is clear, it is given back.
pub(super) struct Owed<'a> {
    line: &'a Arc<Line>,
    debt: Option<Debt>,
}

impl Owed<'_> {
    /// Nothing is owed if the answer says what happened.
    pub(super) fn unless_clear<T>(mut self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        if !answer.as_ref().is_err_and(StoreError::is_ambiguous) {
            self.debt = None;
        }
        answer
    }
}

impl Drop for Owed<'_> {
    fn drop(&mut self) {
        if let Some(debt) = self.debt.take() {
            self.line.settle(debt);
        }
    }
}
