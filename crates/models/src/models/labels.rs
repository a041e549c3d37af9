//! Lanes for requests with a label: the lane of one label may be given to another one.

use std::sync::atomic::Ordering::SeqCst;

use super::{explore, handle::Handle};

/// A handle that lends a slot to requests with the first label.
fn with_a_lane(limit: usize) -> std::sync::Arc<Handle> {
    let handle = Handle::new(limit, crate::Mistake::None);
    handle.make_label_lanes(2);
    handle.ask_for_label(1);
    handle
}

/// (l) A request looks for the lane of its label, while that is given to another label: it enters on no slot of the other one.
pub fn a_request_enters_the_lane_of_its_own_label() {
    explore("a_request_enters_the_lane_of_its_own_label", Some(2), || {
        let handle = with_a_lane(2);
        let other = handle.spawn(|handle| match handle.enter_label(1) {
            Some(lent) => handle.leave(&lent, 9),
            // As a request that asks the engine.
            None => handle.with_engine(|_| ()),
        });
        // Slots are lent again after some quiet turns: these are enough.
        (0..3).for_each(|_| handle.ask_for_label(2));
        other.join().expect("no thread panicked");
        handle.stop_lending();
        let counts = handle.count();
        let served = handle.on_lent.load(SeqCst);
        assert_eq!((counts.admitted, counts.left), (served as u64, served as u64), "requests that came, and that left");
        assert_eq!(counts.samples, served, "each request's sample, once");
    });
}

/// (c) The limit shrinks while a request with a label runs, and one without. One of them leaves, and no other request enters
/// until the limit allows it.
pub fn a_smaller_limit_holds_in_the_lane_of_a_label() {
    explore("a_smaller_limit_holds_in_the_lane_of_a_label", Some(1), || {
        let handle = with_a_lane(2);
        let (first, second) =
            (handle.enter().expect("a slot is lent"), handle.enter_label(1).expect("and to the label"));
        let other = handle.spawn(move |handle| {
            handle.leave(&second, 9);
            match handle.enter_label(1) {
                Some(lent) => {
                    handle.work();
                    handle.leave(&lent, 9);
                }
                // As a request that asks the engine.
                None => handle.with_engine(|_| ()),
            }
        });
        handle.set_limit(1);
        // Slots are lent again after some quiet turns.
        (0..2).for_each(|_| handle.with_engine(|_| ()));
        handle.work();
        handle.leave(&first, 9);
        other.join().expect("no thread panicked");
        handle.stop_lending();
        handle.count();
    });
}
