//! Rows that come faster than they are taken leave a gap, and what is there is told after it.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, sync_channel},
    },
    time::Duration,
};

use serde_json::Value;

use super::{CapturedLines, ROLLING, Ring, record};
use crate::{
    Admission, Clock, Outcome, Ticket,
    limit::Fixed,
    runtime::{
        capture::line::Header,
        core::{Row, Tape},
    },
};

#[derive(Clone, Debug, Default)]
struct Hand(Arc<AtomicU64>);

impl Clock for Hand {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// A capture whose rows are taken when the test says so, four of them at the most.
fn start() -> (Hand, Admission, Ring, Receiver<Row>) {
    start_with(4)
}

fn start_with(buffer: usize) -> (Hand, Admission, Ring, Receiver<Row>) {
    let hand = Hand::default();
    let admission = Admission::builder().limit(Fixed::new(2)).shed().clock(hand.clone()).build().unwrap();
    let (sender, rows) = sync_channel(buffer);
    let checkpoint = admission.shared.with_engine(|state, _| state.record(Tape::with_gaps(sender))).unwrap();
    let head = Header { capture: ROLLING, ..Header::default() };
    (hand, admission, Ring::new(Duration::from_secs(60), 1 << 20, head, checkpoint), rows)
}

fn pass(admission: &Admission, label: &str) {
    admission.try_admit(Ticket::new().label(label)).unwrap().finish(Outcome::Success);
}

fn rows(ring: &Ring) -> Vec<Value> {
    let lines: Vec<u8> = CapturedLines::new(ring.since(0)).flatten().collect();
    String::from_utf8(lines).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn count(rows: &[Value], verb: &str) -> usize {
    rows.iter().filter(|row| row["do"] == verb).count()
}

#[test]
fn a_gap_is_told_with_what_is_there_after_it() {
    let (hand, admission, mut ring, from) = start();
    let gone = admission.try_admit(Ticket::new().label("gone")).unwrap();
    // Three rows more fit; these are ten, and the request that is there ends unseen.
    (0..5).for_each(|_| pass(&admission, "in the gap"));
    drop(gone);
    let keeper = admission.try_admit(Ticket::new().label("keeper")).unwrap();
    from.try_iter().for_each(|row| ring.take(row));
    pass(&admission, "too early to try again");
    assert_eq!((ring.rows, ring.missed), (4, 0));
    hand.0.store(25, Ordering::Relaxed);
    pass(&admission, "after the gap");
    pass(&admission, "seen");
    from.try_iter().for_each(|row| ring.take(row));
    drop(keeper);
    from.try_iter().for_each(|row| ring.take(row));

    // Seven of ten, the end, the keeper, two too early and the one with which the gap ended.
    assert_eq!(ring.missed, 12);
    let rows = rows(&ring);
    let gap = rows.iter().position(|row| row["do"] == "gap").unwrap();
    assert_eq!((count(&rows, "gap"), &rows[gap]["count"]), (1, &12.into()));
    let present: Vec<&str> =
        rows.iter().filter(|row| row["do"] == "present").filter_map(|row| row["label"].as_str()).collect();
    assert_eq!(present, ["keeper", "after the gap"], "what runs when the gap ends, and nothing of before");
    let after = &rows[gap + 3..];
    assert_eq!((count(after, "arrive"), count(after, "finish")), (1, 3), "{after:#?}");
    // All that is there ends under the number by which it was told.
    let told: Vec<&Value> = rows[gap..].iter().filter(|row| row["gets"] == "slot").map(|row| &row["id"]).collect();
    let ended: Vec<&Value> = after.iter().filter(|row| row["do"] == "finish").map(|row| &row["id"]).collect();
    assert!(ended.iter().all(|id| told.contains(id)) && told.len() == ended.len(), "{told:?} {ended:?}");
}

#[test]
fn without_a_gap_there_is_none() {
    let (_, admission, mut ring, from) = start();
    for _ in 0..50 {
        pass(&admission, "a");
        from.try_iter().for_each(|row| ring.take(row));
    }
    let rows = rows(&ring);
    assert_eq!((ring.missed, count(&rows, "gap"), count(&rows, "arrive")), (0, 0, 50));
}

#[test]
fn the_end_of_the_handle_ends_it() {
    let (_, admission, ring, from) = start();
    let ring = Arc::new(Mutex::new(ring));
    pass(&admission, "a");
    drop(admission);
    record(&ring, &from);
    let ring = ring.lock().unwrap();
    assert_eq!((ring.is_running, ring.rows), (false, 2));
}

/// A thread that waits for each row goes to sleep 1,997 times for these 2,000, and is woken as often, under the lock of the handle.
#[cfg(target_os = "linux")]
#[test]
fn rows_gather_before_the_thread_is_woken() {
    let (_hand, admission, ring, from) = start_with(16_384);
    let thread = std::thread::spawn(move || {
        record(&Mutex::new(ring), &from);
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        line.trim().parse::<u32>().unwrap()
    });
    for _ in 0..1_000 {
        pass(&admission, "one by one");
        std::thread::sleep(Duration::from_micros(20));
    }
    drop(admission);
    let sleeps = thread.join().unwrap();
    assert!(sleeps < 1_000, "{sleeps}");
}
