//! How a request enters: at once, after a wait, or not at all.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use super::{
    guard::{AsShared, SlotGuard},
    permit::Permit,
    waiting::Waiting,
};
use crate::runtime::{
    background::{self, Since},
    core::{SlotRef, State, discard},
    shared::Shared,
};
use crate::{
    Timestamp,
    engine::{Arrival, Ask, ClassId, PartitionId, Place, Refusal, SharedRules, Subject},
    rejection::Rejection,
    ticket::Ticket,
};

/// What became of a request that arrived.
#[derive(Debug)]
pub(crate) enum Entry<H: AsShared> {
    Admit(SlotGuard),
    Reject(Rejection),
    Wait(Waiting<H>),
}

/// The answer of the engine, with the slot kept for the guard.
enum Arrived {
    Admit(SlotRef),
    Ask(Place, Arc<SharedRules>),
    Reject(Refusal),
    Wait(Place),
}

impl Arrived {
    #[inline]
    fn of(arrival: Arrival, state: &mut State) -> Self {
        match arrival {
            Arrival::Admit(slot) => Self::Admit(state.slots.keep(slot)),
            Arrival::Ask(place, rules) => Self::Ask(place, rules),
            Arrival::Reject(refusal) => Self::Reject(refusal),
            Arrival::Wait(place) => Self::Wait(place),
        }
    }
}

impl<H: AsShared + Clone + Unpin> Entry<H> {
    /// Lets a request of a partition arrive that [found no lent slot](SlotGuard::enter). Takes one turn at most; never waits.
    pub(crate) fn of(handle: &H, partition: PartitionId, ticket: &Ticket<'_>, cx: Option<&Context<'_>>) -> Self {
        let shared = handle.shared();
        match shared.standing_refusal(partition, Some(ticket)) {
            Some(refusal) => Self::Reject(shared.turn_away(refusal, ticket.remaining(), None)),
            None => Self::arrive(handle, partition, ticket, true, cx),
        }
    }

    /// The same where no refusal stands, for a request that `waits` if it has to. A request of a label that slots are lent to needs
    /// no turn. A waiter registers the waker of its task, if that is known here, in its turn, and its runtime has a driver then.
    pub(crate) fn arrive(
        handle: &H,
        partition: PartitionId,
        ticket: &Ticket<'_>,
        waits: bool,
        cx: Option<&Context<'_>>,
    ) -> Self {
        let shared = handle.shared();
        let subject = match ticket.label_key() {
            Some(key) => Some(key.subject(ticket.run_name())),
            None => ticket.label_name().map(|it| Subject::new(ticket.namespace_name(), it, ticket.run_name())),
        };
        // The label, where the request asks for nothing but a slot besides.
        let label = subject
            .as_ref()
            .filter(|_| ticket.run_name().is_none() && ticket.is_plain_but_for_label())
            .map(Subject::hash);
        if let Some(slot) = label.and_then(|label| shared.enter_label(partition, label)) {
            return Self::Admit(SlotGuard::lent(shared, partition, ticket.remaining(), slot));
        }
        // Cloned before the lock and, where no waiter takes it, dropped after it.
        let mut waker = cx.map(|cx| cx.waker().clone());
        let now = shared.time.now();
        let deadline = ticket.remaining().map_or(Timestamp::NEVER, |timeout| now.after(timeout));
        let mut ask = Ask { partition, class: ClassId::OTHERS, criticality: ticket.how_critical(), subject, deadline };
        let mut is_stale = false;
        let arrived = shared.with_engine(|state, time| {
            is_stale = state.schedule.is_stale(now);
            state.end_abandoned(time, now);
            if let Some(class) = ticket.class_name() {
                ask.class = state.engine.class(class);
            }
            let arrival = state.arrive(now, &ask, ticket, waits);
            if let Arrival::Wait(place) = &arrival
                && let Some(waiter) = waker.take()
            {
                waker = state.wakers.waiters.register(place.key().index, waiter);
            }
            if let (Some(label), Arrival::Admit(_)) = (label, &arrival) {
                state.lending.want(partition, label);
            }
            Arrived::of(arrival, state)
        });
        if is_stale {
            shared.drive_again();
        } else if cx.is_some() && matches!(arrived, Arrived::Wait(_)) {
            shared.drive_here();
        }
        discard(waker);
        match arrived {
            Arrived::Admit(slot) => Self::Admit(SlotGuard::admitted(Arc::clone(shared), slot, None)),
            Arrived::Ask(place, rules) => {
                let mut waiting = Waiting::new(handle.clone(), place, ticket.remaining(), false);
                match waiting.ask(rules) {
                    Poll::Ready(Ok(held)) => Self::Admit(held),
                    Poll::Ready(Err(rejection)) => Self::Reject(rejection),
                    Poll::Pending => Self::Wait(waiting),
                }
            }
            Arrived::Reject(refusal) => Self::Reject(shared.turn_away(refusal, ticket.remaining(), None)),
            Arrived::Wait(place) => Self::Wait(Waiting::new(handle.clone(), place, ticket.remaining(), cx.is_some())),
        }
    }
}

impl Shared {
    /// Lets a request arrive that doesn't wait.
    pub(in crate::runtime) fn try_arrive(self: &Arc<Self>, ticket: &Ticket<'_>) -> Result<Permit, Rejection> {
        let partition = self.partition_of(ticket);
        if let Some(permit) = SlotGuard::enter(self, partition, Some(ticket)) {
            return Ok(Permit::new(permit));
        }
        match Entry::arrive(self, partition, ticket, false, None) {
            Entry::Admit(held) => Ok(Permit::new(held)),
            Entry::Reject(rejection) => Err(rejection),
            // For the answer of a store.
            Entry::Wait(waiting) => Err(waiting.give_up()),
        }
    }

    /// Returns the answer to a request that was rejected, after a wait or without one, of which `left` is left of its own deadline.
    pub(crate) fn turn_away(&self, refusal: Refusal, left: Option<Duration>, since: Option<Since>) -> Rejection {
        let rejection = Rejection {
            reason: refusal.reason,
            retry_after: refusal.retry_after,
            partition: self.partition_name(refusal.partition),
            bound: refusal.bound,
            responds_empty: refusal.empty,
            timed_out: refusal.timed_out,
            is_over: refusal.over,
            is_promised: refusal.is_promised,
            time_left: left,
        };
        background::rejected(self, &rejection, since);
        rejection
    }
}

/// The ticket on which nothing was set.
static BLANK: Ticket<'static> = Ticket::new();

/// The future of [`Admission::admit`](crate::Admission::admit).
///
/// # Cancel safety
///
/// Dropping the future gives everything back: its place in line, or the slot that was granted to it and not fetched
/// yet. A granted future that is not polled holds its slot.
#[must_use = "futures do nothing unless polled"]
#[derive(Debug)]
pub struct Admit {
    state: AdmitState,
}

#[derive(Debug)]
enum AdmitState {
    /// A blank ticket needs no place.
    Arriving {
        shared: Arc<Shared>,
        partition: PartitionId,
        ticket: Option<Box<Ticket<'static>>>,
    },
    Waiting(Waiting<Arc<Shared>>),
    Done,
}

impl Admit {
    pub(in crate::runtime) fn new(shared: &Arc<Shared>, ticket: Ticket<'_>) -> Self {
        let partition = shared.partition_of(&ticket);
        let ticket = (!ticket.is_blank()).then(|| Box::new(ticket.into_owned()));
        Self { state: AdmitState::Arriving { shared: Arc::clone(shared), partition, ticket } }
    }
}

impl Future for Admit {
    type Output = Result<Permit, Rejection>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let AdmitState::Waiting(waiting) = &mut self.state {
            let answer = Pin::new(waiting).poll(cx);
            if answer.is_ready() {
                self.state = AdmitState::Done;
            }
            return answer.map_ok(Permit::new);
        }
        let AdmitState::Arriving { shared, partition, ticket } = std::mem::replace(&mut self.state, AdmitState::Done)
        else {
            panic!("`Admit` was polled after it was ready");
        };
        let set = ticket.as_deref();
        if let Some(permit) = SlotGuard::enter(&shared, partition, set) {
            return Poll::Ready(Ok(Permit::new(permit)));
        }
        match Entry::of(&shared, partition, set.unwrap_or(&BLANK), Some(cx)) {
            Entry::Admit(held) => Poll::Ready(Ok(Permit::new(held))),
            Entry::Reject(rejection) => Poll::Ready(Err(rejection)),
            Entry::Wait(waiting) => {
                let is_registered = waiting.is_registered;
                self.state = AdmitState::Waiting(waiting);
                if is_registered { Poll::Pending } else { self.poll(cx) }
            }
        }
    }
}
