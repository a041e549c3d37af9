//! Requests, cancellations, ends and reloads, beside a naive model: one list of what runs, and one of what waits.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use tower_admission::{Admission, AdmissionBuilder, Outcome, Permit, Ticket, limit::Fixed, permit::Admit};

/// Most requests at a time.
const MOST: usize = 24;

fn settings(limit: usize) -> AdmissionBuilder {
    Admission::builder().limit(Fixed::new(limit)).queue(64).max_waiting(64)
}

fn poll(admit: &mut Pin<Box<Admit>>) -> Poll<Result<Permit, tower_admission::Rejection>> {
    admit.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Each byte is a step. After each of them, all waiters are looked at: those are admitted that the model admits.
pub fn engine(data: &[u8]) {
    let mut limit = 3;
    let admission = settings(limit).build().unwrap();
    let (mut running, mut waiting): (Vec<Permit>, Vec<Pin<Box<Admit>>>) = (Vec::new(), Vec::new());
    for &byte in data.iter().take(2_000) {
        let (what, which) = (byte % 7, usize::from(byte / 7));
        match what {
            0..=2 if running.len() + waiting.len() < MOST => {
                let mut admit = Box::pin(admission.admit(Ticket::new()));
                let is_admitted = waiting.is_empty() && running.len() < limit;
                match poll(&mut admit) {
                    Poll::Ready(permit) => {
                        assert!(is_admitted, "{} run, {} wait, and one more is admitted", running.len(), waiting.len());
                        running.push(permit.unwrap());
                    }
                    Poll::Pending => {
                        assert!(!is_admitted, "{} of {limit} run, and a request waits", running.len());
                        waiting.push(admit);
                    }
                }
            }
            3 | 4 if !running.is_empty() => {
                let permit = running.remove(which % running.len());
                let outcome = if what == 3 { Outcome::Success } else { Outcome::Overload };
                permit.finish(outcome);
            }
            5 if !waiting.is_empty() => drop(waiting.remove(which % waiting.len())),
            6 => {
                limit = 1 + which % 9;
                admission.reload(settings(limit)).unwrap();
            }
            _ => {}
        }
        let granted = limit.saturating_sub(running.len()).min(waiting.len());
        let snapshot = admission.snapshot();
        assert_eq!(snapshot.waiting, waiting.len() - granted, "what waits");
        for (place, mut admit) in std::mem::take(&mut waiting).into_iter().enumerate() {
            match poll(&mut admit) {
                Poll::Ready(permit) => {
                    assert!(place < granted, "first come, first served");
                    running.push(permit.unwrap());
                }
                Poll::Pending => {
                    assert!(place >= granted, "a free slot beside a waiter");
                    waiting.push(admit);
                }
            }
        }
        assert_eq!(admission.snapshot().in_flight, running.len(), "what runs");
    }
    drop((running, waiting));
    let snapshot = admission.snapshot();
    assert_eq!((snapshot.in_flight, snapshot.waiting), (0, 0), "nothing is left");
}
