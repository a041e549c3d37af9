//! A place in line, and what is left to do when its turn has come.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use super::guard::{AsShared, SlotGuard};
use crate::runtime::{
    background::Since,
    core::{SlotRef, discard},
    remote::RemoteRequest,
};
use crate::{
    Timestamp,
    engine::{NoRoom, Place, Refusal, SharedBound, SharedRules, rules::WhenFull},
    rejection::Rejection,
    store::{self, LeaseDenied},
};

/// A place in line, as a future.
#[derive(Debug)]
pub(crate) struct Waiting<H: AsShared> {
    handle: H,
    /// `None` once the waiter was answered.
    place: Option<Place>,
    /// Whether a waker was registered that may still be the one to wake.
    pub(super) is_registered: bool,
    /// Question to the store while the waiter holds a slot.
    question: Option<Box<RemoteRequest>>,
    /// When the caller gives up, if it said so itself.
    deadline: Timestamp,
    /// Time when the wait began, if it is traced.
    since: Option<Since>,
}

/// The result of a look at the engine.
enum Look {
    Answered(Result<SlotRef, Refusal>),
    HasToAsk(Arc<SharedRules>),
    Waits,
    /// It waits, and its waker is to be registered.
    NeedsWaker,
}

impl<H: AsShared> Waiting<H> {
    /// For a request whose caller waits for `timeout`, if it said so itself, and whose waker `is_registered` or not.
    pub(in crate::runtime) fn new(handle: H, place: Place, timeout: Option<Duration>, is_registered: bool) -> Self {
        let shared = handle.shared();
        let deadline = timeout.map_or(Timestamp::NEVER, |timeout| shared.time.now().after(timeout));
        let since = Since::now(shared);
        Self { handle, place: Some(place), is_registered, question: None, deadline, since }
    }

    pub(crate) const fn handle(&self) -> &H {
        &self.handle
    }

    fn place(&self) -> &Place {
        let Some(place) = &self.place else { panic!("a place in line was polled after it was answered") };
        place
    }

    /// Looks whether the waiter's turn has come. Mostly it has, and it brings no waker where one was registered before. A waker is
    /// cloned before the lock and, where it is not registered, dropped after it.
    fn look(&mut self, cx: &Context<'_>) -> Look {
        let mut waker = (!std::mem::replace(&mut self.is_registered, true)).then(|| cx.waker().clone());
        let place = self.place();
        let shared = self.handle.shared();
        let (look, replaced) = shared.with_engine(|state, time| {
            if let Some(rules) = state.engine.has_to_ask_for(place) {
                return (Look::HasToAsk(rules), state.wakers.waiters.unregister(place.key().index));
            }
            match state.claim(time.now(), place) {
                Poll::Ready(answer) => {
                    let answer = answer.map(|slot| state.slots.keep(slot));
                    (Look::Answered(answer), state.wakers.waiters.unregister(place.key().index))
                }
                Poll::Pending => match waker.take() {
                    Some(waker) => (Look::Waits, state.wakers.waiters.register(place.key().index, waker)),
                    None if state.wakers.waiters.knows(place.key().index, cx.waker()) => (Look::Waits, None),
                    None => (Look::NeedsWaker, None),
                },
            }
        });
        // Shielded: a slot that was claimed must not be lost to the panic of a waker.
        discard(waker);
        discard(replaced);
        if let Look::Waits = look {
            shared.drive_here();
        }
        look
    }

    /// Ends the wait: with the guard of the slot, or with why there is none.
    #[inline]
    fn end(&mut self, answer: Result<SlotRef, Refusal>) -> Result<SlotGuard, Rejection> {
        match answer {
            Ok(slot) => {
                self.place = None;
                Ok(SlotGuard::admitted(Arc::clone(self.handle.shared()), slot, self.since))
            }
            Err(refusal) => Err(self.turn_away(refusal)),
        }
    }

    #[inline(never)]
    fn turn_away(&mut self, refusal: Refusal) -> Rejection {
        self.place = None;
        let shared = self.handle.shared();
        let left = (self.deadline != Timestamp::NEVER).then(|| self.deadline.since(shared.time.now()));
        shared.turn_away(refusal, left, self.since)
    }
}

impl<H: AsShared + Clone + Unpin> Waiting<H> {
    /// Asks for these rules, as a request that was granted a slot has to: it is admitted from capacity that this process holds, or has
    /// to wait for an answer.
    pub(super) fn ask(&mut self, rules: Arc<SharedRules>) -> Poll<Result<SlotGuard, Rejection>> {
        let Some(limiter) = &self.handle.shared().limiter else {
            return Poll::Ready(Err(self.reject_without_store(None)));
        };
        if let Some(lease) = limiter.take_here(&rules) {
            return self.admit(lease);
        }
        self.question = Some(Box::new(limiter.ask(rules)));
        Poll::Pending
    }

    /// Rejects a request that has to ask the store and can't wait for an answer.
    pub(super) fn give_up(mut self) -> Rejection {
        self.reject_without_store(None)
    }

    /// Admits the request, since the store has granted its claims. Pending where the request lost its slot meanwhile.
    fn admit(&mut self, lease: Box<store::LeaseGuard>) -> Poll<Result<SlotGuard, Rejection>> {
        let (place, shared) = (self.place(), self.handle.shared());
        let answer = shared
            .with_engine(|state, time| state.engine.claim(time.now(), place).map_ok(|slot| state.slots.keep(slot)));
        answer.map(|answer| Ok(self.end(answer)?.leased(lease)))
    }

    fn reject_without_store(&mut self, retry_after: Option<Duration>) -> Rejection {
        let (place, shared) = (self.place(), self.handle.shared());
        let refusal =
            shared.with_engine(|state, time| state.engine.reject_without_store(time.now(), place, retry_after));
        self.turn_away(refusal)
    }

    /// Has the request wait for a shared rule that has no room, or rejects it.
    fn no_room(&mut self, rules: &SharedRules, rule: usize, retry_after: Duration) -> Option<Rejection> {
        // An answer about a claim that was not made is none.
        let Some(&known) = rules.rules.get(rule) else { return Some(self.reject_without_store(None)) };
        let shared = self.handle.shared();
        let place = self.place();
        // When a lease of a cap expires is no forecast: holders that are alive renew theirs. Nor is an answer from the
        // time while the store is gone: it may be back at any time.
        let is_rate = matches!(known.bound, SharedBound::Rate(_));
        let is_up = shared.limiter.as_ref().is_some_and(|limiter| limiter.is_up());
        let no_room = NoRoom { rule: known.counts, retry_after: (is_rate && is_up).then_some(retry_after) };
        let waits = known.when_full == WhenFull::Queue;
        let waits_on = shared.with_engine(|state, time| {
            let now = time.now();
            if waits {
                state.engine.requeue(now, place, no_room)
            } else {
                Err(state.engine.reject_remote(now, place, no_room))
            }
        });
        match waits_on {
            Err(refusal) => Some(self.turn_away(refusal)),
            Ok(label) => {
                // The engine knows itself when a rate has room again.
                if no_room.retry_after.is_none() {
                    shared.listen_for(rules, rule, label);
                }
                None
            }
        }
    }
}

impl<H: AsShared + Clone + Unpin> Future for Waiting<H> {
    type Output = Result<SlotGuard, Rejection>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let answer = if let Some(question) = &mut self.question {
                let answer = ready!(question.poll(cx));
                let rules = Arc::clone(&question.rules);
                self.question = None;
                let shared = self.handle.shared();
                if let Some(limiter) = &shared.limiter {
                    limiter.count(&answer);
                }
                shared.look_at_store();
                match answer {
                    Ok(lease) => self.admit(lease),
                    Err(LeaseDenied::Full { claim, retry_after }) => {
                        self.no_room(&rules, claim, retry_after).map_or(Poll::Pending, |it| Poll::Ready(Err(it)))
                    }
                    Err(denied) => Poll::Ready(Err(self.reject_without_store(denied.retry_after()))),
                }
            } else {
                match self.look(cx) {
                    Look::Answered(answer) => Poll::Ready(self.end(answer)),
                    Look::HasToAsk(rules) => self.ask(rules),
                    Look::Waits => return Poll::Pending,
                    Look::NeedsWaker => {
                        self.is_registered = false;
                        Poll::Pending
                    }
                }
            };
            if answer.is_ready() {
                return answer;
            }
        }
    }
}

impl<H: AsShared> Drop for Waiting<H> {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            let unused = self.handle.shared().with_engine(|state, time| {
                state.cancel(time.now(), &place);
                state.wakers.waiters.unregister(place.key().index)
            });
            discard(unused);
        }
    }
}
