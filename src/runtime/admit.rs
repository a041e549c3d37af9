//! Getting in: at once, after a wait, or not at all.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use super::{
    permit::{Handle, Held, Permit},
    turn::Shared,
};
use crate::{
    engine::{Arrival, Place},
    rejection::Rejection,
    ticket::Ticket,
    time::Timestamp,
};

/// A ticket in numbers.
#[derive(Clone, Copy, Debug)]
struct Terms {
    partition: u16,
    class: u8,
    timeout: Option<Duration>,
}

/// What became of a request that arrived.
#[derive(Debug)]
pub(crate) enum Entry<H: Handle> {
    Admit(Held<H>),
    Reject(Rejection),
    Wait(Waiting<H>),
}

impl<H: Handle + Clone> Entry<H> {
    /// Lets a request arrive. One turn; never waits.
    pub(crate) fn of(handle: &H, ticket: &Ticket<'_>) -> Self {
        let shared = handle.shared();
        let terms = shared.terms(ticket);
        match shared.arrive_at(terms) {
            Arrival::Admit(slot) => Self::Admit(Held::new(handle.clone(), slot)),
            Arrival::Reject(refusal) => Self::Reject(shared.rejection(refusal)),
            Arrival::Wait(place) => Self::Wait(Waiting::new(handle.clone(), place, terms.class)),
        }
    }
}

impl Shared {
    fn terms(&self, ticket: &Ticket<'_>) -> Terms {
        // A turn of its own, but only for those who tell kinds of work apart.
        let class = ticket.class_name().map_or(0, |name| self.turn(|state, _| state.engine.class(name)));
        Terms { partition: self.partition(ticket.partition_name()), class, timeout: ticket.remaining() }
    }

    /// Lets a request arrive that doesn't wait.
    pub(super) fn try_arrive(self: &Arc<Self>, ticket: &Ticket<'_>) -> Result<Permit, Rejection> {
        self.ensure_driver();
        let terms = self.terms(ticket);
        let now = self.time.now();
        match self.turn(|state, _| state.engine.arrive_without_waiting(now, terms.partition)) {
            Ok(mut slot) => {
                slot.set_class(terms.class);
                Ok(Permit::new(Held::new(Arc::clone(self), slot)))
            }
            Err(refusal) => Err(self.rejection(refusal)),
        }
    }

    fn arrive_at(self: &Arc<Self>, terms: Terms) -> Arrival {
        self.ensure_driver();
        let now = self.time.now();
        let deadline = terms.timeout.map_or(Timestamp::NEVER, |timeout| now.after(timeout));
        let mut arrival = self.turn(|state, _| state.engine.arrive(now, terms.partition, deadline));
        if let Arrival::Admit(slot) = &mut arrival {
            slot.set_class(terms.class);
        }
        arrival
    }
}

/// A place in line, as a future.
#[derive(Debug)]
pub(crate) struct Waiting<H: Handle> {
    handle: H,
    /// `None` once it was answered.
    place: Option<Place>,
    class: u8,
}

impl<H: Handle> Waiting<H> {
    const fn new(handle: H, place: Place, class: u8) -> Self {
        Self { handle, place: Some(place), class }
    }

    pub(crate) const fn handle(&self) -> &H {
        &self.handle
    }
}

impl<H: Handle + Clone + Unpin> Future for Waiting<H> {
    type Output = Result<Held<H>, Rejection>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(place) = &self.place else { panic!("a place in line was polled after it was answered") };
        self.handle.shared().ensure_driver();
        let waker = cx.waker().clone();
        let (answer, _dropped_outside) = self.handle.shared().turn(|state, time| {
            let answer = state.engine.claim(time.now(), place);
            let dropped = match answer {
                Poll::Pending => state.register(place.key(), waker),
                Poll::Ready(_) => state.unregister(place.key()),
            };
            (answer, dropped)
        });
        match answer {
            Poll::Pending => Poll::Pending,
            Poll::Ready(answer) => {
                self.place = None;
                Poll::Ready(match answer {
                    Ok(mut slot) => {
                        slot.set_class(self.class);
                        Ok(Held::new(self.handle.clone(), slot))
                    }
                    Err(refusal) => Err(self.handle.shared().rejection(refusal)),
                })
            }
        }
    }
}

impl<H: Handle> Drop for Waiting<H> {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            let _dropped_outside = self.handle.shared().turn(|state, time| {
                state.engine.cancel(time.now(), &place);
                state.unregister(place.key())
            });
        }
    }
}

/// The future of [`Admission::admit`](super::Admission::admit).
///
/// # Cancel safety
///
/// Dropping it gives everything back: its place in line, or the slot that was granted to it and not fetched yet. A
/// granted future that nobody polls holds its slot.
#[must_use = "futures do nothing unless polled"]
#[derive(Debug)]
pub struct Admit {
    state: AdmitState,
}

#[derive(Debug)]
enum AdmitState {
    Arriving { shared: Arc<Shared>, terms: Terms },
    Waiting(Waiting<Arc<Shared>>),
    Done,
}

impl Admit {
    pub(super) fn new(shared: &Arc<Shared>, ticket: &Ticket<'_>) -> Self {
        Self { state: AdmitState::Arriving { shared: Arc::clone(shared), terms: shared.terms(ticket) } }
    }
}

impl Future for Admit {
    type Output = Result<Permit, Rejection>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match std::mem::replace(&mut self.state, AdmitState::Done) {
                AdmitState::Arriving { shared, terms } => match shared.arrive_at(terms) {
                    Arrival::Admit(slot) => return Poll::Ready(Ok(Permit::new(Held::new(shared, slot)))),
                    Arrival::Reject(refusal) => return Poll::Ready(Err(shared.rejection(refusal))),
                    Arrival::Wait(place) => {
                        self.state = AdmitState::Waiting(Waiting::new(shared, place, terms.class));
                    }
                },
                AdmitState::Waiting(mut waiting) => {
                    let answer = Pin::new(&mut waiting).poll(cx);
                    if answer.is_pending() {
                        self.state = AdmitState::Waiting(waiting);
                    }
                    return answer.map_ok(Permit::new);
                }
                AdmitState::Done => panic!("`Admit` was polled after it was ready"),
            }
        }
    }
}
