//! How a request enters: at once, after a wait, or not at all.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use super::{
    guard::{AsShared, SlotGuard},
    permit::Permit,
    waiting::Waiting,
};
use crate::runtime::{
    background::{self, Since},
    core::{LentSlot, SlotRef, State, discard},
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

impl<H: AsShared + Clone + Unpin> Entry<H> {
    /// Lets a request of a partition arrive that [found no lent slot](SlotGuard::enter). Takes one turn at most; never waits.
    pub(crate) fn of(handle: &H, partition: PartitionId, ticket: &Ticket<'_>) -> Self {
        let shared = handle.shared();
        match shared.standing_refusal(partition, Some(ticket)) {
            Some(refusal) => Self::Reject(shared.turn_away(refusal, ticket.remaining(), None)),
            None => Self::by_engine(handle, partition, ticket),
        }
    }

    /// The same where no refusal stands.
    pub(crate) fn by_engine(handle: &H, partition: PartitionId, ticket: &Ticket<'_>) -> Self {
        let shared = handle.shared();
        match shared.arrive(partition, ticket, &mut None) {
            Arrived::Admit(slot) => Self::Admit(SlotGuard::admitted(Arc::clone(shared), slot, None)),
            Arrived::Enter(slot) => Self::Admit(SlotGuard::lent(shared, partition, ticket.remaining(), slot)),
            Arrived::Ask(place, rules) => match Waiting::ask(handle.clone(), place, rules, ticket.remaining()) {
                Ok(held) => Self::Admit(held),
                Err(waiting) => Self::Wait(waiting),
            },
            Arrived::Reject(refusal) => Self::Reject(shared.turn_away(refusal, ticket.remaining(), None)),
            Arrived::Wait(place) => Self::Wait(Waiting::new(handle.clone(), place, ticket.remaining(), false)),
        }
    }
}

/// The answer of the engine, with the slot kept for the guard; or a slot that it lent before.
enum Arrived {
    Admit(SlotRef),
    Enter(LentSlot),
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

impl Shared {
    /// Lets a request arrive that doesn't wait.
    pub(in crate::runtime) fn try_arrive(self: &Arc<Self>, ticket: &Ticket<'_>) -> Result<Permit, Rejection> {
        let partition = self.partition_of(ticket);
        if let Some(permit) = SlotGuard::enter(self, partition, Some(ticket)) {
            return Ok(Permit::new(permit));
        }
        let answer = self.ask(partition, ticket, false, |state, now, ask| state.arrive_now(now, ask, ticket));
        match answer {
            Arrived::Admit(slot) => Ok(Permit::new(SlotGuard::admitted(Arc::clone(self), slot, None))),
            Arrived::Enter(slot) => Ok(Permit::new(SlotGuard::lent(self, partition, ticket.remaining(), slot))),
            Arrived::Ask(place, rules) => Waiting::ask(Arc::clone(self), place, rules, ticket.remaining())
                .map(Permit::new)
                .map_err(Waiting::give_up),
            Arrived::Reject(refusal) => Err(self.turn_away(refusal, ticket.remaining(), None)),
            Arrived::Wait(_) => unreachable!("it doesn't wait"),
        }
    }

    /// Returns the answer to a request that was rejected, after a wait or without one, of which `left` is left of its own deadline.
    pub(crate) fn turn_away(&self, refusal: Refusal, left: Option<Duration>, since: Option<Since>) -> Rejection {
        let rejection = self.rejection(refusal, left);
        background::rejected(self, &rejection, since);
        rejection
    }

    /// Lets a request arrive that waits if it has to. A waiter takes the waker: no further turn is needed for that.
    fn arrive(self: &Arc<Self>, partition: PartitionId, ticket: &Ticket<'_>, waker: &mut Option<Waker>) -> Arrived {
        self.ask(partition, ticket, waker.is_some(), |state, now, ask| {
            let arrival = state.arrive(now, ask, ticket);
            if let Arrival::Wait(place) = &arrival
                && let Some(waiter) = waker.take()
            {
                *waker = state.wakers.register(place.key(), waiter);
            }
            arrival
        })
    }

    /// Brings a ticket before the engine, in one turn; a request of a label that slots are lent to needs none. Where a waiter
    /// `registers` its waker in that turn, its runtime has a driver then.
    fn ask(
        self: &Arc<Self>,
        partition: PartitionId,
        ticket: &Ticket<'_>,
        registers: bool,
        answer: impl FnOnce(&mut State, Timestamp, &Ask<'_>) -> Arrival,
    ) -> Arrived {
        let subject = match ticket.label_key() {
            Some(key) => Some(key.subject(ticket.run_name())),
            None => ticket.label_name().map(|it| Subject::new(ticket.namespace_name(), it, ticket.run_name())),
        };
        // The label, where the request asks for nothing but a slot besides.
        let label = subject
            .as_ref()
            .filter(|_| ticket.run_name().is_none() && ticket.is_plain_but_for_label())
            .map(Subject::hash);
        if let Some(slot) = label.and_then(|label| self.enter_label(partition, label)) {
            return Arrived::Enter(slot);
        }
        let now = self.time.now();
        let deadline = ticket.remaining().map_or(Timestamp::NEVER, |timeout| now.after(timeout));
        let mut ask = Ask { partition, class: ClassId::OTHERS, criticality: ticket.how_critical(), subject, deadline };
        let mut is_stale = false;
        let answer = self.with_engine(|state, time| {
            is_stale = state.schedule.is_stale(now);
            state.end_abandoned(time, now);
            if let Some(class) = ticket.class_name() {
                ask.class = state.engine.class(class);
            }
            let answer = answer(state, now, &ask);
            if let (Some(label), Arrival::Admit(_)) = (label, &answer) {
                state.lending.want(partition, label);
            }
            Arrived::of(answer, state)
        });
        if is_stale {
            self.drive_again();
        } else if registers && matches!(answer, Arrived::Wait(_)) {
            self.drive_here();
        }
        answer
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
        let ticket = set.unwrap_or(&BLANK);
        if let Some(permit) = SlotGuard::enter(&shared, partition, set) {
            return Poll::Ready(Ok(Permit::new(permit)));
        }
        if let Some(refusal) = shared.standing_refusal(partition, set) {
            return Poll::Ready(Err(shared.turn_away(refusal, ticket.remaining(), None)));
        }
        // Cloned before the lock and, where no waiter takes it, dropped after it.
        let mut waker = Some(cx.waker().clone());
        let arrived = shared.arrive(partition, ticket, &mut waker);
        discard(waker);
        let waiting = match arrived {
            Arrived::Admit(slot) => return Poll::Ready(Ok(Permit::new(SlotGuard::admitted(shared, slot, None)))),
            Arrived::Enter(slot) => {
                return Poll::Ready(Ok(Permit::new(SlotGuard::lent(&shared, partition, ticket.remaining(), slot))));
            }
            Arrived::Reject(refusal) => return Poll::Ready(Err(shared.turn_away(refusal, ticket.remaining(), None))),
            Arrived::Wait(place) => {
                self.state = AdmitState::Waiting(Waiting::new(shared, place, ticket.remaining(), true));
                return Poll::Pending;
            }
            Arrived::Ask(place, rules) => match Waiting::ask(shared, place, rules, ticket.remaining()) {
                Ok(held) => return Poll::Ready(Ok(Permit::new(held))),
                Err(waiting) => waiting,
            },
        };
        self.state = AdmitState::Waiting(waiting);
        self.poll(cx)
    }
}
