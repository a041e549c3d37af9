//! A place in line, and what is left to do when its turn has come.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
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
    is_registered: bool,
    /// Question to the store while the waiter holds a slot.
    question: Option<Box<RemoteRequest>>,
    /// When the caller gives up, if it said so itself.
    deadline: Timestamp,
    /// Time when the wait began, if it is traced.
    since: Option<Since>,
}

/// The result of a look at the engine.
enum Look {
    Answered(Result<SlotRef, Rejection>),
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

    fn turn_away(&mut self, refusal: Refusal) -> Rejection {
        self.place = None;
        let shared = self.handle.shared();
        let left = (self.deadline != Timestamp::NEVER).then(|| self.deadline.since(shared.time.now()));
        shared.turn_away(refusal, left, self.since)
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
    fn look(&mut self, cx: &mut Context<'_>, mut waker: Option<Waker>) -> Look {
        let place = self.place();
        let shared = self.handle.shared();
        let mut is_registered = true;
        let (look, replaced) = shared.with_engine(|state, time| {
            if let Some(rules) = state.engine.has_to_ask_for(place) {
                return (Ok(rules), state.wakers.unregister(place.key()));
            }
            let answer = state.claim(time.now(), place).map_ok(|slot| state.slots.keep(slot));
            let dropped = match answer {
                Poll::Pending if waker.is_none() => {
                    is_registered = state.wakers.knows(place.key(), cx.waker());
                    None
                }
                Poll::Pending => waker.take().and_then(|waker| state.wakers.register(place.key(), waker)),
                Poll::Ready(_) => state.wakers.unregister(place.key()),
            };
            (Err(answer), dropped)
        });
        // Shielded: a slot that was claimed must not be lost to the panic of a waker.
        discard(waker);
        discard(replaced);
        match look {
            Ok(rules) => Look::HasToAsk(rules),
            Err(Poll::Pending) if !is_registered => Look::NeedsWaker,
            Err(Poll::Pending) => {
                shared.drive_here();
                Look::Waits
            }
            Err(Poll::Ready(answer)) => Look::Answered(answer.map_err(|refusal| self.turn_away(refusal))),
        }
    }
}

impl<H: AsShared + Clone + Unpin> Waiting<H> {
    /// Starts a request that was granted a slot and has to ask for these rules: it is admitted from capacity that this
    /// process holds, or has to wait for an answer.
    pub(in crate::runtime) fn ask(
        handle: H,
        place: Place,
        rules: Arc<SharedRules>,
        timeout: Option<Duration>,
    ) -> Result<SlotGuard, Self> {
        let mut asking = Self::new(handle, place, timeout, false);
        let limiter = asking.handle.shared().limiter.as_ref();
        if let Some(lease) = limiter.and_then(|limiter| limiter.take_here(&rules)) {
            return if let Poll::Ready(Ok(held)) = asking.admit(lease) { Ok(held) } else { Err(asking) };
        }
        asking.question = limiter.map(|limiter| Box::new(limiter.ask(rules)));
        Err(asking)
    }

    /// Returns the guard of the slot that the request waited for.
    fn hold(&self, slot: SlotRef) -> SlotGuard {
        SlotGuard::admitted(Arc::clone(self.handle.shared()), slot, self.since)
    }

    /// Rejects a request that has to ask the store and can't wait for an answer.
    pub(in crate::runtime) fn give_up(mut self) -> Rejection {
        self.reject_without_store(None)
    }

    /// Admits the request, since the store has granted its claims. Pending where the request lost its slot meanwhile.
    fn admit(&mut self, lease: Box<store::LeaseGuard>) -> Poll<Result<SlotGuard, Rejection>> {
        let (place, shared) = (self.place(), self.handle.shared());
        let slot = shared
            .with_engine(|state, time| state.engine.claim(time.now(), place).map_ok(|slot| state.slots.keep(slot)));
        let slot = ready!(slot);
        self.place = None;
        Poll::Ready(match slot {
            Ok(slot) => Ok(self.hold(slot).leased(lease)),
            Err(refusal) => Err(self.turn_away(refusal)),
        })
    }

    fn reject_without_store(&mut self, retry_after: Option<Duration>) -> Rejection {
        let (place, shared) = (self.place(), self.handle.shared());
        let refusal =
            shared.with_engine(|state, time| state.engine.reject_without_store(time.now(), place, retry_after));
        self.turn_away(refusal)
    }

    /// Has the request wait for a shared rule that has no room, or rejects it.
    fn no_room(&mut self, rules: &Arc<SharedRules>, rule: usize, retry_after: Duration) -> Option<Rejection> {
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
            if let Some(question) = &mut self.question {
                let answer = ready!(question.poll(cx));
                let rules = Arc::clone(&question.rules);
                self.question = None;
                if let Some(limiter) = &self.handle.shared().limiter {
                    limiter.count(&answer);
                }
                self.handle.shared().look_at_store();
                match answer {
                    Ok(lease) => match self.admit(lease) {
                        Poll::Pending => {}
                        answer => return answer,
                    },
                    Err(LeaseDenied::Full { claim, retry_after }) => {
                        if let Some(rejection) = self.no_room(&rules, claim, retry_after) {
                            return Poll::Ready(Err(rejection));
                        }
                    }
                    Err(denied) => return Poll::Ready(Err(self.reject_without_store(denied.retry_after()))),
                }
            }
            let waker = (!std::mem::replace(&mut self.is_registered, true)).then(|| cx.waker().clone());
            match self.look(cx, waker) {
                Look::Waits => return Poll::Pending,
                Look::NeedsWaker => self.is_registered = false,
                Look::Answered(answer) => {
                    self.place = None;
                    return Poll::Ready(answer.map(|slot| self.hold(slot)));
                }
                Look::HasToAsk(rules) => {
                    let Some(limiter) = &self.handle.shared().limiter else {
                        return Poll::Ready(Err(self.reject_without_store(None)));
                    };
                    match limiter.take_here(&rules) {
                        None => self.question = Some(Box::new(limiter.ask(rules))),
                        Some(lease) => match self.admit(lease) {
                            Poll::Pending => {}
                            answer => return answer,
                        },
                    }
                }
            }
        }
    }
}

impl<H: AsShared> Drop for Waiting<H> {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            let unused = self.handle.shared().with_engine(|state, time| {
                state.cancel(time.now(), &place);
                state.wakers.unregister(place.key())
            });
            discard(unused);
        }
    }
}
