//! Locks and their queues, as pure state: the time is an argument, in microseconds.

use super::{State, micros};
use crate::{LockAnswer, LockRequest, Locked, Notice, Token};

/// A waiter in the queue of a lock that doesn't ask for this long is gone. In microseconds.
const FORGOTTEN_AFTER: u64 = 1_000_000;

/// Time for which a wish for a lock is remembered, in microseconds.
const WANTED: u64 = 2_000_000;

#[cfg_attr(feature = "rows", derive(serde::Deserialize, serde::Serialize))]
#[derive(Debug, Default)]
pub(super) struct Lock {
    holder: Option<(Token, u64)>,
    /// Waiters in order of arrival, with the time of their last question.
    queue: Vec<(Token, u64)>,
    wanted_until: u64,
}

impl Lock {
    fn sweep(&mut self, now: u64) {
        self.holder = self.holder.filter(|&(_, until)| until > now);
        self.queue.retain(|&(_, asked)| asked + FORGOTTEN_AFTER > now);
    }

    fn is_held_by(&self, token: Token) -> bool {
        self.holder.is_some_and(|(holder, _)| holder == token)
    }
}

impl State {
    /// Forgets locks that are free, and for which nothing waits.
    #[cfg(feature = "rows")]
    pub(super) fn forget_locks(&mut self, now: u64) {
        self.locks.retain(|_, lock| {
            lock.sweep(now);
            lock.holder.is_some() || !lock.queue.is_empty() || lock.wanted_until > now
        });
    }

    pub(crate) fn lock(&mut self, request: &LockRequest, now: u64) -> LockAnswer {
        let Locked { key, token, expiry } = &request.lock;
        let lock = self.locks.entry(key.clone()).or_default();
        lock.sweep(now);
        if lock.is_held_by(*token) {
            return LockAnswer::Taken;
        }
        let place = lock.queue.iter().position(|(waiting, _)| waiting == token);
        let ahead = if request.queue { place.unwrap_or(lock.queue.len()) } else { 0 };
        if lock.holder.is_none() && ahead == 0 {
            lock.holder = Some((*token, now + micros(*expiry)));
            lock.queue.retain(|(waiting, _)| waiting != token);
            return LockAnswer::Taken;
        }
        if request.queue {
            match place.and_then(|place| lock.queue.get_mut(place)) {
                Some((_, asked)) => *asked = now,
                None => lock.queue.push((*token, now)),
            }
        }
        if request.waits {
            lock.wanted_until = now + WANTED;
        }
        LockAnswer::Busy { ahead: u32::try_from(ahead).unwrap_or(u32::MAX) }
    }

    pub(crate) fn extend(&mut self, lock: &Locked, now: u64) -> bool {
        let Some(state) = self.locks.get_mut(&lock.key) else { return false };
        state.sweep(now);
        let held = state.is_held_by(lock.token);
        if held {
            state.holder = Some((lock.token, now + micros(lock.expiry)));
        }
        held
    }

    pub(crate) fn unlock(&mut self, lock: &Locked, now: u64) -> bool {
        let Some(state) = self.locks.get_mut(&lock.key) else { return false };
        state.sweep(now);
        let held = state.is_held_by(lock.token);
        if held {
            state.holder = None;
            if state.wanted_until > now {
                self.notices.push(Notice::Freed(lock.key.as_str().into()));
            }
        }
        state.queue.retain(|(waiting, _)| *waiting != lock.token);
        if state.holder.is_none() && state.queue.is_empty() {
            self.locks.remove(&lock.key);
        }
        held
    }
}
