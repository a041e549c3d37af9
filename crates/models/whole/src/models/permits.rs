//! Permits and bodies that end on other threads than those that they began on, and arenas that are used again.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    pin::Pin,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use tower_layer::Layer;
use tower_service::Service;

use super::{at_rest, bounds, fixed, look, of};
use crate::{
    Admission, AdmissionLayer, Outcome, Ticket,
    explore::{block_on, explore, thread},
    runtime::SlotGuard,
};

/// Lent slots and slots of the engine are observed on one thread and given back on another one, while requests wait.
pub fn a_permit_ends_on_another_thread() {
    let threads = of(2, 10);
    explore("a_permit_ends_on_another_thread", bounds(2, 500).long(), move || {
        let admission = fixed(threads).build().expect("good settings");
        // From here on slots are lent.
        admission.try_admit(Ticket::new()).expect("a slot is free").finish(Outcome::Success);
        let mut ends = Vec::new();
        for number in 0..threads {
            let mut permit = admission.try_admit(Ticket::new()).expect("a slot is free");
            let outcome = if number % 2 == 0 { Outcome::Success } else { Outcome::Overload };
            permit.observe(outcome);
            ends.push(thread::spawn(move || if number % 2 == 0 { drop(permit) } else { permit.finish(outcome) }));
        }
        let last = block_on(admission.admit(Ticket::new())).expect("a slot comes free");
        look(&admission);
        last.finish(Outcome::Success);
        ends.into_iter().for_each(|it| it.join().expect("it ends"));
        at_rest(&admission, threads + 2);
    });
}

/// A body of two frames.
struct Two(u8);

impl Body for Two {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.0.checked_sub(1);
        Poll::Ready(next.map(|left| {
            self.0 = left;
            Ok(Frame::data(Bytes::from_static(b"frame")))
        }))
    }
}

#[derive(Clone)]
struct Answers;

impl Service<Request<Two>> for Answers {
    type Response = Response<Two>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Two>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Two>) -> Self::Future {
        ready(Ok(Response::new(Two(2))))
    }
}

/// Bodies are read on other threads, to their end or to their middle, and dropped there. A request waits for a slot.
pub fn a_body_ends_on_another_thread() {
    let threads = of(2, 10);
    explore("a_body_ends_on_another_thread", bounds(1, 300), move || {
        let admission = fixed(threads).build().expect("good settings");
        let service = AdmissionLayer::new(&admission).layer(Answers);
        let mut ends = Vec::new();
        for number in 0..threads {
            let answer = block_on(service.clone().call(Request::new(Two(0)))).expect("it is served");
            ends.push(thread::spawn(move || {
                let (mut body, mut cx) = (Box::pin(answer.into_body()), Context::from_waker(Waker::noop()));
                for _ in 0..(number % 2) * 2 + 1 {
                    let _frame = body.as_mut().poll_frame(&mut cx);
                }
            }));
        }
        let last = block_on(service.clone().call(Request::new(Two(0)))).expect("it is served");
        assert!(last.status().is_success(), "a slot comes free");
        look(&admission);
        drop(last);
        ends.into_iter().for_each(|it| it.join().expect("it ends"));
        at_rest(&admission, threads + 1);
    });
}

/// A request ends while its work keeps the slot, and the work ends: the slot is given back by the later of the two.
pub fn a_slot_is_kept_until_work_and_request_have_ended() {
    explore("a_slot_is_kept_until_work_and_request_have_ended", bounds(3, 500), || {
        let admission = fixed(4).build().expect("good settings");
        // From here on slots are lent.
        admission.try_admit(Ticket::new()).expect("a slot is free").finish(Outcome::Success);
        let (shared, ticket) = (&admission.shared, Ticket::new());
        let partition = shared.partition_of(&ticket);
        let mut guard = SlotGuard::enter(shared, partition, Some(&ticket)).expect("a slot is lent");
        let held: Vec<_> = std::iter::from_fn(|| admission.try_admit(Ticket::new()).ok()).collect();
        assert_eq!(held.len(), 3);
        let keeper = guard.share().expect("the handle lives");
        let kept = keeper.keep().expect("the slot is held");
        let works: Vec<_> = (0..of(1, 6))
            .map(|_| {
                let kept = keeper.keep().expect("the slot is held");
                let admission = admission.clone();
                thread::spawn(move || {
                    assert_eq!(admission.snapshot().in_flight, 4, "the slot is kept for its work");
                    drop(kept);
                })
            })
            .collect();
        let ends = thread::spawn(move || guard.finish(Outcome::Success));
        drop(kept);
        let next = block_on(admission.admit(Ticket::new())).expect("the slot comes free");
        works.into_iter().for_each(|it| it.join().expect("it ends"));
        ends.join().expect("it ends");
        next.finish(Outcome::Success);
        drop(held);
        at_rest(&admission, 6);
    });
}

/// A handle is dropped while its last request leaves, and another one is built: no request is counted there that is not
/// its own.
pub fn an_arena_is_not_used_again_while_a_request_is_there() {
    explore("an_arena_is_not_used_again_while_a_request_is_there", bounds(3, 500), || {
        let first = fixed(16).build().expect("good settings");
        // From here on slots are lent.
        first.try_admit(Ticket::new()).expect("a slot is free").finish(Outcome::Success);
        let leaving: Vec<_> = (0..of(1, 6))
            .map(|_| {
                let permit = first.try_admit(Ticket::new()).expect("a slot is free");
                thread::spawn(move || permit.finish(Outcome::Success))
            })
            .collect();
        drop(first);
        let second: Admission = fixed(16).build().expect("good settings");
        let permit = second.try_admit(Ticket::new()).expect("a slot is free");
        assert_eq!(second.snapshot().in_flight, 1, "what runs in the second handle is its own");
        leaving.into_iter().for_each(|it| it.join().expect("it ends"));
        assert_eq!(second.snapshot().in_flight, 1, "what left the first handle left nothing of the second");
        permit.finish(Outcome::Success);
        at_rest(&second, 1);
    });
}
