//! Rejections that stand: let stand and withdrawn while requests take them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use loom::{sync::atomic::AtomicBool, thread};

use super::{
    super::standing_refusal::{RefusalParts, StandingRefusal},
    explore,
};
use crate::time::Timestamp;

/// What the engine counted, and what requests took.
#[derive(Debug)]
struct Partition {
    standing: StandingRefusal,
    counted: AtomicU64,
    taken: AtomicU64,
    /// Whether the refusal was withdrawn for good.
    is_over: AtomicBool,
}

impl Partition {
    fn new() -> Arc<Self> {
        let (counted, taken) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { standing: StandingRefusal::nothing(), counted, taken, is_over: AtomicBool::new(false) })
    }

    fn let_stand(&self, code: u16) {
        let parts = RefusalParts { code, retry_after: u64::from(code), bound: 1 };
        self.standing.let_stand(&parts, Timestamp::from_nanos(1));
    }

    /// Withdraws what stands, and counts as `StandingRefusals::withdraw` does.
    fn withdraw(&self) {
        let count = self.standing.withdraw();
        self.counted.fetch_max(count, SeqCst);
    }

    /// A request that takes the refusal if one stands, and asks the engine if not.
    fn arrive(&self) {
        let is_over = self.is_over.load(loom::sync::atomic::Ordering::SeqCst);
        if self.standing.take(|| Timestamp::ZERO).is_some() {
            assert!(!is_over, "the refusal was withdrawn before the request came");
            self.taken.fetch_add(1, SeqCst);
        }
    }

    fn spawn(self: &Arc<Self>) -> thread::JoinHandle<()> {
        let partition = Arc::clone(self);
        thread::spawn(move || partition.arrive())
    }

    fn check(&self) {
        self.withdraw();
        assert_eq!(self.counted.load(SeqCst), self.taken.load(SeqCst), "each rejection is counted once");
    }
}

/// Two requests take a refusal or not, while it is withdrawn and another one stands.
pub fn each_rejection_is_counted_once() {
    explore("each_rejection_is_counted_once", Some(2), || {
        let partition = Partition::new();
        partition.let_stand(1);
        let requests = [partition.spawn(), partition.spawn()];
        partition.withdraw();
        partition.let_stand(2);
        partition.withdraw();
        partition.let_stand(1);
        requests.into_iter().for_each(|it| it.join().expect("no thread panicked"));
        partition.check();
    });
}

/// No request takes a refusal that was withdrawn: each request that took it is counted by then.
pub fn what_was_withdrawn_is_not_taken() {
    explore("what_was_withdrawn_is_not_taken", Some(2), || {
        let partition = Partition::new();
        partition.let_stand(1);
        let requests = [partition.spawn(), partition.spawn()];
        partition.withdraw();
        partition.is_over.store(true, loom::sync::atomic::Ordering::SeqCst);
        requests.into_iter().for_each(|it| it.join().expect("no thread panicked"));
        let (counted, taken) = (partition.counted.load(SeqCst), partition.taken.load(SeqCst));
        assert_eq!(counted, taken, "each rejection is counted once, when the refusal is withdrawn");
    });
}
