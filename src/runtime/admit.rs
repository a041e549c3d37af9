//! Getting in: at once, after a wait, or not at all.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use super::{
    permit::{Handle, Held, Permit},
    trace::{self, Since},
    turn::Shared,
};
use crate::{
    engine::{Arrival, Ask, Engine, Place, Refusal, Subject},
    rejection::Rejection,
    ticket::Ticket,
    time::Timestamp,
};

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
        match shared.arrive(shared.partition(ticket.partition_name()), ticket) {
            Arrival::Admit(slot) => {
                trace::admitted(shared, slot.partition(), None);
                Self::Admit(Held::new(handle.clone(), slot))
            }
            Arrival::Reject(refusal) => Self::Reject(shared.turn_away(refusal, None)),
            Arrival::Wait(place) => Self::Wait(Waiting::new(handle.clone(), place)),
        }
    }
}

impl Shared {
    /// Lets a request arrive that doesn't wait.
    pub(super) fn try_arrive(self: &Arc<Self>, ticket: &Ticket<'_>) -> Result<Permit, Rejection> {
        let partition = self.partition(ticket.partition_name());
        let answer = self.ask(partition, ticket, |engine, now, ask| engine.arrive_without_waiting(now, ask));
        match answer {
            Ok(slot) => {
                trace::admitted(self, slot.partition(), None);
                Ok(Permit::new(Held::new(Arc::clone(self), slot)))
            }
            Err(refusal) => Err(self.turn_away(refusal, None)),
        }
    }

    /// The answer to a request that was refused, after a wait or without one.
    fn turn_away(&self, refusal: Refusal, since: Option<Since>) -> Rejection {
        let rejection = self.rejection(refusal);
        trace::rejected(self, &rejection, since);
        rejection
    }

    fn arrive(self: &Arc<Self>, partition: u16, ticket: &Ticket<'_>) -> Arrival {
        self.ask(partition, ticket, |engine, now, ask| engine.arrive(now, ask))
    }

    /// Brings a ticket before the engine, in one turn.
    fn ask<R>(
        self: &Arc<Self>,
        partition: u16,
        ticket: &Ticket<'_>,
        answer: impl FnOnce(&mut Engine, Timestamp, &Ask<'_>) -> R,
    ) -> R {
        self.ensure_driver();
        let now = self.time.now();
        let subject = ticket.label_name().map(|label| Subject {
            namespace: ticket.namespace_name(),
            label,
            run: ticket.run_name(),
        });
        let deadline = ticket.remaining().map_or(Timestamp::NEVER, |timeout| now.after(timeout));
        let mut ask = Ask { partition, class: 0, criticality: ticket.how_critical(), subject, deadline };
        self.turn(|state, _| {
            if let Some(class) = ticket.class_name() {
                ask.class = state.engine.class(class);
            }
            answer(&mut state.engine, now, &ask)
        })
    }
}

/// A place in line, as a future.
#[derive(Debug)]
pub(crate) struct Waiting<H: Handle> {
    handle: H,
    /// `None` once it was answered.
    place: Option<Place>,
    /// When it began, if anybody wants to know.
    since: Option<Since>,
}

impl<H: Handle> Waiting<H> {
    fn new(handle: H, place: Place) -> Self {
        let since = Since::now(handle.shared());
        Self { handle, place: Some(place), since }
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
                let shared = self.handle.shared();
                Poll::Ready(match answer {
                    Ok(slot) => {
                        trace::admitted(shared, slot.partition(), self.since);
                        Ok(Held::new(self.handle.clone(), slot))
                    }
                    Err(refusal) => Err(shared.turn_away(refusal, self.since)),
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
    Arriving { shared: Arc<Shared>, partition: u16, ticket: Box<Ticket<'static>> },
    Waiting(Waiting<Arc<Shared>>),
    Done,
}

impl Admit {
    pub(super) fn new(shared: &Arc<Shared>, ticket: Ticket<'_>) -> Self {
        let partition = shared.partition(ticket.partition_name());
        let ticket = Box::new(ticket.into_owned());
        Self { state: AdmitState::Arriving { shared: Arc::clone(shared), partition, ticket } }
    }
}

impl Future for Admit {
    type Output = Result<Permit, Rejection>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match std::mem::replace(&mut self.state, AdmitState::Done) {
                AdmitState::Arriving { shared, partition, ticket } => match shared.arrive(partition, &ticket) {
                    Arrival::Admit(slot) => {
                        trace::admitted(&shared, slot.partition(), None);
                        return Poll::Ready(Ok(Permit::new(Held::new(shared, slot))));
                    }
                    Arrival::Reject(refusal) => return Poll::Ready(Err(shared.turn_away(refusal, None))),
                    Arrival::Wait(place) => {
                        self.state = AdmitState::Waiting(Waiting::new(shared, place));
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
