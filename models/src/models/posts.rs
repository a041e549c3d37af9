//! Rejections that stand: posted and withdrawn while requests take them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use loom::{sync::atomic::AtomicBool, thread};

use super::{
    super::posted::{Answer, Posted},
    explore,
};
use crate::time::Timestamp;

/// What the engine was told, and what requests took.
#[derive(Debug)]
struct Post {
    posted: Posted,
    told: AtomicU64,
    taken: AtomicU64,
    /// Whether the answer was withdrawn for good.
    is_over: AtomicBool,
}

impl Post {
    fn new() -> Arc<Self> {
        let (told, taken) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { posted: Posted::nothing(), told, taken, is_over: AtomicBool::new(false) })
    }

    fn post(&self, code: u16) {
        let answer = Answer { code, retry_after: u64::from(code), bound: 1 };
        self.posted.post(&answer, Timestamp::from_nanos(1));
    }

    /// Withdraws what stands, and counts as `Posting::withdraw` does.
    fn withdraw(&self) {
        let count = self.posted.withdraw();
        self.told.fetch_max(count, SeqCst);
    }

    /// A request that takes the answer if one stands, and asks the engine if not.
    fn arrive(&self) {
        let is_over = self.is_over.load(loom::sync::atomic::Ordering::SeqCst);
        if self.posted.take(|| Timestamp::ZERO).is_some() {
            assert!(!is_over, "the answer was withdrawn before the request came");
            self.taken.fetch_add(1, SeqCst);
        }
    }

    fn spawn(self: &Arc<Self>) -> thread::JoinHandle<()> {
        let post = Arc::clone(self);
        thread::spawn(move || post.arrive())
    }

    fn check(&self) {
        self.withdraw();
        assert_eq!(self.told.load(SeqCst), self.taken.load(SeqCst), "each rejection is counted once");
    }
}

/// Two requests take an answer or not, while it is withdrawn and another one is posted.
pub fn each_rejection_is_counted_once() {
    explore("each_rejection_is_counted_once", Some(2), || {
        let post = Post::new();
        post.post(1);
        let requests = [post.spawn(), post.spawn()];
        post.withdraw();
        post.post(2);
        post.withdraw();
        post.post(1);
        requests.into_iter().for_each(|it| it.join().expect("no thread panicked"));
        post.check();
    });
}

/// No request takes an answer that was withdrawn: each request that took it is counted by then.
pub fn what_was_withdrawn_is_not_taken() {
    explore("what_was_withdrawn_is_not_taken", Some(2), || {
        let post = Post::new();
        post.post(1);
        let requests = [post.spawn(), post.spawn()];
        post.withdraw();
        post.is_over.store(true, loom::sync::atomic::Ordering::SeqCst);
        requests.into_iter().for_each(|it| it.join().expect("no thread panicked"));
        let (told, taken) = (post.told.load(SeqCst), post.taken.load(SeqCst));
        assert_eq!(told, taken, "each rejection is counted once, when the answer is withdrawn");
    });
}
