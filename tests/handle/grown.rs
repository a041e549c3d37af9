//! A limit that grows at once wakes as many waiters as there are new slots, and no other.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use tokio::sync::Notify;
use tower_admission::{Admission, AdmissionBuilder, Ticket, limit::Fixed};

const WAITERS: usize = 10_000;
const GROWN: usize = 1_000;

fn with_limit(limit: usize) -> AdmissionBuilder {
    Admission::builder().limit(Fixed::new(limit)).queue(2 * WAITERS)
}

/// Counts how often it is woken.
#[derive(Debug, Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Polls with a waker that counts.
fn poll<F: Future + Unpin>(future: &mut F, woken: &Arc<Woken>) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(&Waker::from(Arc::clone(woken))))
}

fn times(woken: &[Arc<Woken>]) -> (usize, usize) {
    let times = || woken.iter().map(|woken| woken.0.load(Ordering::SeqCst));
    (times().sum(), times().filter(|&times| times > 0).count())
}

#[test]
fn a_limit_that_grows_wakes_as_many_as_it_lets_in() {
    let admission = with_limit(1).build().unwrap();
    let held = admission.try_admit(Ticket::new()).unwrap();
    let woken: Vec<_> = (0..WAITERS).map(|_| Arc::<Woken>::default()).collect();
    let mut waiters: Vec<_> = (0..WAITERS).map(|_| admission.admit(Ticket::new())).collect();
    for (waiter, woken) in waiters.iter_mut().zip(&woken) {
        assert!(poll(waiter, woken).is_pending());
    }
    assert_eq!(times(&woken), (0, 0));

    admission.reload(with_limit(GROWN)).unwrap();
    assert_eq!(times(&woken), (GROWN - 1, GROWN - 1), "each is woken once");
    assert_eq!((admission.snapshot().in_flight, admission.snapshot().waiting), (GROWN, WAITERS + 1 - GROWN));
    // Those that were woken have a slot, first come, first served.
    let mut permits = Vec::new();
    for (number, (waiter, woken)) in waiters.iter_mut().zip(&woken).enumerate() {
        if woken.0.load(Ordering::SeqCst) > 0 {
            assert!(number < GROWN - 1);
            match poll(waiter, woken) {
                Poll::Ready(permit) => permits.push(permit.unwrap()),
                Poll::Pending => panic!("{number} was woken for nothing"),
            }
        }
    }
    // From then on each slot that is given back wakes one.
    for (given_back, permit) in permits.drain(..).enumerate().take(100) {
        drop(permit);
        assert_eq!(times(&woken).0, GROWN + given_back);
    }
    drop((permits, waiters, held));
    assert_eq!((admission.snapshot().in_flight, admission.snapshot().waiting), (0, 0));
}

/// The control: a limit that tells all waiters to look for themselves is found out by the same count.
#[test]
fn what_wakes_all_is_found_out() {
    let told = Notify::new();
    let woken: Vec<_> = (0..WAITERS).map(|_| Arc::<Woken>::default()).collect();
    let mut waiters: Vec<_> = (0..WAITERS).map(|_| Box::pin(told.notified())).collect();
    for (waiter, woken) in waiters.iter_mut().zip(&woken) {
        assert!(poll(&mut pin!(waiter.as_mut()), woken).is_pending());
    }
    told.notify_waiters();
    assert_eq!(times(&woken), (WAITERS, WAITERS));
}
