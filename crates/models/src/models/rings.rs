//! The ring of samples, at its real size: requests whose numbers are a lap apart meet at the same place.

use std::sync::Arc;

use loom::{sync::Mutex, thread};

use super::{
    super::{
        RING, RingSample, SampleRing,
        lane_state::LaneState,
    },
    explore,
};
use crate::{outcome::Outcome, time::Timestamp};

/// The sample of the request with this number.
fn sample(number: u32) -> RingSample {
    let start = 1_000_000_007 + 1_003 * u64::from(number);
    RingSample {
        start: Timestamp::from_nanos(start),
        end: Timestamp::from_nanos(start + 501 + u64::from(number)),
        in_flight: number + 1,
        running: number + 2,
        outcome: Some(Outcome::Success),
        is_untimely: false,
        is_of_body: false,
    }
}

fn assert_whole(found: Option<RingSample>, number: u32) -> bool {
    if let Some(found) = found {
        assert_eq!(found, sample(number), "the sample of request {number}, whole");
    }
    found.is_some()
}

/// (h) A request writes its sample while the collector reads.
pub fn a_sample_is_read_whole_or_not_yet() {
    explore("a_sample_is_read_whole_or_not_yet", None, || {
        let ring = Arc::new(SampleRing::new());
        let writer = thread::spawn({
            let ring = Arc::clone(&ring);
            move || ring.write(5, &sample(5))
        });
        assert_whole(ring.read(5), 5);
        writer.join().expect("no thread panicked");
        assert!(assert_whole(ring.read(5), 5));
    });
}

/// (h) The next request at the same place writes while the collector reads the sample of the last one.
pub fn a_later_lap_does_not_mix_with_what_is_read() {
    explore("a_later_lap_does_not_mix_with_what_is_read", None, || {
        let ring = Arc::new(SampleRing::new());
        ring.write(5, &sample(5));
        let writer = thread::spawn({
            let ring = Arc::clone(&ring);
            move || ring.write(5 + RING, &sample(5 + RING))
        });
        assert_whole(ring.read(5), 5);
        writer.join().expect("no thread panicked");
        assert!(assert_whole(ring.read(5 + RING), 5 + RING));
    });
}

/// (h) Of requests that were not timed, a run is read up to the first that has not written, and each once.
pub fn a_run_of_untimed_successes_is_counted_once() {
    explore("a_run_of_untimed_successes_is_counted_once", None, || {
        let ring = Arc::new(SampleRing::new());
        // The sample of the last lap, at the first of their places.
        ring.write(5, &sample(5));
        let begun = Arc::new(Mutex::new(Vec::new()));
        let writers = [5 + RING, 6 + RING].map(|number| {
            let (ring, begun) = (Arc::clone(&ring), Arc::clone(&begun));
            thread::spawn(move || {
                begun.lock().expect("no thread panicked").push(number);
                ring.note(number, true, || sample(number));
            })
        });
        let read = ring.after_untimed_successes(5 + RING, 7 + RING);
        let begun = begun.lock().expect("no thread panicked").clone();
        assert!((5 + RING..read).all(|number| begun.contains(&number)), "counted before it was written");
        if read < 7 + RING {
            assert_eq!(ring.read(read), None, "it is no sample, written or not");
        }
        writers.into_iter().for_each(|it| it.join().expect("no thread panicked"));
        assert_eq!(ring.after_untimed_successes(read, 7 + RING), 7 + RING);
    });
}

/// (h) A request is so slow to write that another one, a lap later, writes at the same time.
pub fn two_that_write_at_the_same_place_do_not_mix() {
    explore("two_that_write_at_the_same_place_do_not_mix", None, || {
        let ring = Arc::new(SampleRing::new());
        let writer = thread::spawn({
            let ring = Arc::clone(&ring);
            move || ring.write(5, &sample(5))
        });
        ring.write(5 + RING, &sample(5 + RING));
        assert_whole(ring.read(5 + RING), 5 + RING);
        writer.join().expect("no thread panicked");
        for number in [5, 5 + RING] {
            assert_whole(ring.read(number), number);
        }
    });
}

/// (i) Two collectors and two requests that leave: each sample is taken once. The lock excludes the collectors, or not.
pub fn no_sample_is_taken_twice(keeps_the_lock: bool) {
    explore("no_sample_is_taken_twice", Some(3), move || {
        let state = LaneState::closed();
        state.open(2);
        let lane = Arc::new((state, SampleRing::new()));
        // The next number to collect, and the samples that were taken.
        let collected = Arc::new((Mutex::new(0), std::sync::Mutex::new(Vec::new())));
        let collect = {
            let (lane, collected) = (Arc::clone(&lane), Arc::clone(&collected));
            move || {
                let (position, taken) = &*collected;
                let mut position = position.lock().expect("no thread panicked");
                let mut read = *position;
                if !keeps_the_lock {
                    drop(position);
                    take(&lane, &mut read, taken);
                    position = collected.0.lock().expect("no thread panicked");
                } else {
                    take(&lane, &mut read, taken);
                }
                *position = read;
            }
        };
        let requests: Vec<_> = (0..2)
            .map(|_| {
                let (lane, collect) = (Arc::clone(&lane), collect.clone());
                thread::spawn(move || {
                    lane.0.enter().expect("a slot is free");
                    let left = lane.0.leave().left;
                    lane.1.write(left, &sample(left));
                    collect();
                })
            })
            .collect();
        requests.into_iter().for_each(|it| it.join().expect("no thread panicked"));
        collect();
        assert_eq!(*collected.1.lock().expect("no thread panicked"), [0, 1], "each sample once");
    });
}

/// Takes samples as `drain` does.
fn take(lane: &(LaneState, SampleRing), read: &mut u32, taken: &std::sync::Mutex<Vec<u32>>) {
    let to = lane.0.look().left;
    while *read != to && assert_whole(lane.1.read(*read), *read) {
        taken.lock().expect("no thread panicked").push(*read);
        *read += 1;
    }
}
