//! Futures that wait, held in a vector and polled by hand.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Wake, Waker},
};

use crate::contestants::Line;

/// Those whose waker was woken, in that order.
type Woken = Arc<Mutex<Vec<usize>>>;

/// Notes who was woken, as an executor would.
struct Bell {
    number: usize,
    woken: Woken,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.lock().expect("nobody panics with it").push(self.number);
    }
}

/// A line with somebody who has the slot, and with those who wait for it.
pub struct Waiters<'l, L: Line> {
    line: &'l L,
    held: Option<L::Permit>,
    waits: Vec<L::Wait>,
    wakers: Vec<Waker>,
    woken: Woken,
    random: u64,
}

impl<'l, L: Line> Waiters<'l, L> {
    /// Takes the slot and makes room for so many waiters.
    pub fn new(line: &'l L, count: usize) -> Self {
        let woken = Woken::new(Mutex::new(Vec::with_capacity(count)));
        let wakers = (0..count).map(|number| Waker::from(Arc::new(Bell { number, woken: Arc::clone(&woken) })));
        let wakers = wakers.collect();
        let mut wait = line.wait(0);
        let Poll::Ready(Ok(held)) = Pin::new(&mut wait).poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("the slot is taken");
        };
        Self { line, held: Some(held), waits: Vec::with_capacity(count), wakers, woken, random: 1 }
    }

    fn poll(&mut self, number: usize) -> Poll<Result<L::Permit, L::Error>> {
        Pin::new(&mut self.waits[number]).poll(&mut Context::from_waker(&self.wakers[number]))
    }

    /// One more joins the line.
    pub fn join(&mut self) {
        let number = self.waits.len();
        self.waits.push(self.line.wait(number));
        assert!(self.poll(number).is_pending(), "number {number} has to wait");
    }

    /// The slot is given back, whoever gets it fetches it, and another one joins in its stead.
    pub fn hand_over(&mut self) {
        let number = self.next_has_it();
        self.rejoin(number);
    }

    /// The slot is given back and whoever gets it fetches it.
    pub fn pass_on(&mut self) {
        self.next_has_it();
    }

    fn next_has_it(&mut self) -> usize {
        self.held = None;
        let number = self.woken.lock().expect("nobody panics with it").pop().expect("somebody was woken");
        let Poll::Ready(Ok(permit)) = self.poll(number) else { panic!("number {number} was woken for nothing") };
        self.held = Some(permit);
        number
    }

    /// Somebody anywhere in the line leaves, and another one joins in its stead.
    pub fn replace(&mut self) {
        // Xorshift (Marsaglia, 2003): the same numbers in each run.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let number = usize::try_from(self.random % self.waits.len() as u64).expect("it is less than a length");
        self.rejoin(number);
    }

    fn rejoin(&mut self, number: usize) {
        self.waits[number] = self.line.wait(number);
        assert!(self.poll(number).is_pending(), "number {number} has to wait");
    }

    /// All leave, in the order in which they came.
    pub fn leave(&mut self) {
        self.waits.clear();
    }

    /// Whether one more is turned away.
    pub fn turns_away(&self) -> bool {
        self.line.turns_away(self.waits.len())
    }
}
