//! The state of a lane alone, with a ledger in place of the engine that does with it what `lending.rs` does.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use loom::{sync::Mutex, thread};

use super::{super::lane_state::LaneState, Inside, explore};

/// What the engine knows of the lane.
#[derive(Debug)]
struct Ledger {
    lent: u32,
    in_state: u32,
    is_open: bool,
}

#[derive(Debug)]
struct Lane {
    state: LaneState,
    ledger: Mutex<Ledger>,
    inside: Inside,
    /// Slots that the engine has called back, and given to requests of its own.
    back: AtomicUsize,
    /// Slots that there are in all.
    slots: usize,
}

impl Lane {
    fn new(slots: u32) -> Arc<Self> {
        let state = LaneState::closed();
        state.open(i64::from(slots));
        let ledger = Mutex::new(Ledger { lent: slots, in_state: slots, is_open: true });
        let (inside, back) = (Inside::new(slots as usize), AtomicUsize::new(0));
        Arc::new(Self { state, ledger, inside, back, slots: slots as usize })
    }

    /// A request: enters if it may, and leaves. Without a slot, or where the lane is closed, it takes the lock.
    fn serve(&self) {
        if self.state.enter().is_some() {
            self.inside.enter();
            thread::yield_now();
            self.inside.leave();
            if !self.state.leave().is_closed {
                return;
            }
        }
        self.recall();
    }

    /// Calls back what is free, as `Lending::recall` does.
    fn recall(&self) -> u32 {
        let mut ledger = self.ledger.lock().expect("no thread panicked");
        if ledger.is_open {
            ledger.is_open = false;
            self.state.close();
        }
        let used = self.state.look().used.min(ledger.lent);
        let back = ledger.lent - used;
        ledger.lent = used;
        let all_back = self.back.fetch_add(back as usize, SeqCst) + back as usize;
        self.inside.set_limit(self.slots - all_back);
        assert_eq!(ledger.lent as usize + all_back, self.slots, "what is used and what came back is what there is");
        assert!(self.inside.now() <= ledger.lent as usize, "a slot came back that is used");
        used
    }

    /// Lends this number of slots again, those included that are used.
    fn open(&self, slots: u32) {
        let mut ledger = self.ledger.lock().expect("no thread panicked");
        if !ledger.is_open && slots >= ledger.lent {
            let more = (slots - ledger.lent) as usize;
            self.inside.set_limit(self.slots + more - self.back.fetch_sub(more, SeqCst));
            self.state.open(i64::from(slots) - i64::from(ledger.in_state));
            (ledger.lent, ledger.in_state, ledger.is_open) = (slots, slots, true);
        }
    }

    /// At the end, when no request runs: all slots come back, and as many as are lent anew can be entered.
    fn check(&self, left: u32) {
        let used = self.recall();
        assert_eq!((used, self.inside.now()), (0, 0), "nothing runs");
        let seen = self.state.look();
        assert_eq!((seen.used, seen.left), (0, left), "the state counts what ran");
        self.open(2);
        let free = std::iter::from_fn(|| self.state.enter()).take(9).count();
        assert_eq!(free, 2, "no slot is lost, and none is there twice");
    }

    fn spawn(self: &Arc<Self>, step: impl Fn(&Self) + 'static) -> thread::JoinHandle<()> {
        let lane = Arc::clone(self);
        thread::spawn(move || step(&lane))
    }
}

/// (a) Two or three requests meet fewer slots, and the lane stays open.
pub fn no_more_run_than_are_lent() {
    for (slots, requests, preemptions) in [(1, 2, None), (2, 3, Some(3))] {
        let name = format!("no_more_run_than_are_lent, {slots} slots");
        explore(&name, preemptions, move || {
            let lane = Lane::new(slots);
            let requests: Vec<_> = (0..requests)
                .map(|_| {
                    lane.spawn(move |lane| {
                        if lane.state.enter().is_some() {
                            lane.inside.enter();
                            thread::yield_now();
                            lane.inside.leave();
                            assert!(!lane.state.leave().is_closed);
                        }
                    })
                })
                .collect();
            requests.into_iter().for_each(|it| it.join().expect("no thread panicked"));
            assert_eq!(lane.state.look().used, 0);
            let free = std::iter::from_fn(|| lane.state.enter()).take(9).count();
            assert_eq!(free, slots as usize, "no slot is lost");
        });
    }
}

/// (b) Slots are called back while requests enter and leave.
pub fn what_is_used_and_what_comes_back_is_what_was_lent() {
    explore("what_is_used_and_what_comes_back_is_what_was_lent", Some(4), || {
        let lane = Lane::new(2);
        let requests = [lane.spawn(Lane::serve), lane.spawn(Lane::serve)];
        lane.recall();
        requests.into_iter().for_each(|it| it.join().expect("no thread panicked"));
        let left = lane.state.look().left;
        lane.check(left);
    });
}

/// (c) The engine lends fewer slots than before, or takes all that is free for itself and lends again.
pub fn fewer_are_lent_again() {
    for slots in [1, 2] {
        explore(&format!("fewer_are_lent_again, {slots} of 2"), Some(3), move || {
            let lane = Lane::new(2);
            let requests = [lane.spawn(Lane::serve), lane.spawn(Lane::serve)];
            let used = lane.recall();
            lane.open(slots.max(used));
            requests.into_iter().for_each(|it| it.join().expect("no thread panicked"));
            let left = lane.state.look().left;
            lane.check(left);
        });
    }
}

/// (e) A request that finds no slot, or finds the lane closed while it enters, leaves no trace.
pub fn a_request_that_gives_up_leaves_no_trace() {
    explore("a_request_that_gives_up_leaves_no_trace", Some(4), || {
        let lane = Lane::new(1);
        let served = Arc::new(AtomicUsize::new(0));
        let requests = [0, 1].map(|_| {
            let served = Arc::clone(&served);
            lane.spawn(move |lane| {
                if lane.state.enter().is_some() {
                    served.fetch_add(1, SeqCst);
                    lane.state.leave();
                }
            })
        });
        lane.recall();
        requests.into_iter().for_each(|it| it.join().expect("no thread panicked"));
        lane.check(u32::try_from(served.load(SeqCst)).expect("a small number"));
    });
}

/// (g) A request is taken out of the lane while another one leaves.
pub fn a_request_is_taken_out_once() {
    explore("a_request_is_taken_out_once", Some(4), || {
        let lane = Lane::new(2);
        let other = lane.spawn(Lane::serve);
        let taken = lane.state.enter().is_some();
        if taken {
            lane.inside.enter();
            lane.recall();
            let mut ledger = lane.ledger.lock().expect("no thread panicked");
            lane.state.take_out();
            // The slot is the engine's from now on, which gets it when this request ends.
            ledger.lent -= 1;
            ledger.in_state -= 1;
            lane.inside.leave();
            lane.inside.set_limit(lane.slots - 1 - lane.back.fetch_add(1, SeqCst));
        }
        other.join().expect("no thread panicked");
        let left = lane.state.look().left;
        lane.check(left);
    });
}
