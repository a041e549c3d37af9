//! The quiet path against the engine alone: the same random requests, the same answers, the same state at the end.
//!
//! Two handles have the same settings and the same clock. One of them never lends a slot, so that each of its requests is
//! decided by the engine. The other one lends as soon as it may.

use std::{
    future::Future,
    num::NonZeroU32,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use proptest::prelude::*;

use super::{
    Admission, AdmissionBuilder, Admit, DrainMode, Permit,
    core::{be_thread, force_lanes_per_partition},
};
use crate::{
    Clock, Criticality, Labels, Mode, Outcome, PartitionMode, Ticket,
    kept_tests::seeds,
    limit::{Aimd, Fixed, Limit},
    percent,
};

/// Lanes of each partition.
const PER_PARTITION: [usize; 2] = [1, 4];

const PARTITIONS: [&str; 4] = ["", "web", "batch", "gone"];

/// More than are known at a time.
const LABELS: [&str; 5] = ["a", "b", "c", "d", "e"];

#[derive(Clone, Debug)]
pub(super) enum Op {
    Arrive {
        partition: usize,
        criticality: Criticality,
        label: Option<usize>,
        timeout: Option<u64>,
        waits: bool,
    },
    /// Many requests at the same moment.
    Flood {
        partition: usize,
        requests: usize,
    },
    Poll(usize),
    Cancel(usize),
    Observe(usize, Outcome),
    Finish(usize, Outcome),
    Drop(usize),
    Pass(u64),
    Tick,
    Mode(Mode),
    Reload(Settings),
    Look,
    Drain(bool),
    /// Requests come from another thread from now on.
    Thread(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) limit: usize,
    pub(super) queue: usize,
    pub(super) is_learned: bool,
    pub(super) second: PartitionMode,
    pub(super) label_cap: usize,
}

impl Settings {
    fn builder(self) -> AdmissionBuilder {
        let law: Limit = if self.is_learned {
            Limit::per_sample(Aimd::new(Duration::from_millis(20)).initial(self.limit).max(40))
        } else {
            Fixed::new(self.limit).into()
        };
        let share = percent(30).with_mode(self.second);
        Admission::builder()
            .limit(law)
            .queue(self.queue)
            .max_wait(Duration::from_millis(40))
            .admission_timeout(Duration::from_millis(10))
            .labels(Labels::new().cap(Some(self.label_cap).filter(|cap| *cap > 0)).max_labels(3).metrics(4))
            .partition("web", percent(40))
            .partition("batch", share)
            .time_one_in(NonZeroU32::MIN)
    }
}

#[derive(Clone, Debug)]
struct Virtual(Arc<AtomicU64>);

impl Clock for Virtual {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// A handle, its requests and its time.
pub(super) struct World {
    pub(super) admission: Admission,
    clock: Virtual,
    waiting: Vec<Pin<Box<Admit>>>,
    pub(super) permits: Vec<Permit>,
}

impl World {
    /// A handle that lends slots to so many lanes of each partition; none, and it never lends.
    pub(super) fn new(settings: Settings, per_partition: usize) -> Self {
        let clock = Virtual(Arc::new(AtomicU64::new(1)));
        let builder = settings.builder().name("world").clock(clock.clone());
        let admission = force_lanes_per_partition(per_partition.max(1), || builder.build().expect("valid settings"));
        if per_partition == 0 {
            admission.shared.never_lend();
        }
        Self { admission, clock, waiting: Vec::new(), permits: Vec::new() }
    }

    fn take(&mut self, number: usize) -> Option<Permit> {
        if self.permits.is_empty() { None } else { Some(self.permits.remove(number % self.permits.len())) }
    }

    fn poll(&mut self, mut admit: Pin<Box<Admit>>) -> String {
        match admit.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => {
                self.waiting.push(admit);
                "waits".to_owned()
            }
            Poll::Ready(Ok(permit)) => {
                self.permits.push(permit);
                "admitted".to_owned()
            }
            Poll::Ready(Err(rejection)) => format!("{:?}", rejection.reason()),
        }
    }

    /// Does it, and says what became of it.
    pub(super) fn step(&mut self, op: &Op) -> String {
        // What runs in other lanes is known as of the last collection. That is not what is to be compared.
        self.admission.shared.count_lanes();
        match op {
            Op::Arrive { partition, criticality, label, timeout, waits } => {
                let mut ticket = Ticket::new().partition(PARTITIONS[*partition]).criticality(*criticality);
                if let Some(label) = label {
                    ticket.set_label(LABELS[*label]);
                }
                if let Some(timeout) = timeout {
                    ticket.limit_timeout(Duration::from_millis(*timeout));
                }
                if *waits {
                    return self.poll(Box::pin(self.admission.admit(ticket)));
                }
                match self.admission.try_admit(ticket) {
                    Ok(permit) => {
                        self.permits.push(permit);
                        "admitted".to_owned()
                    }
                    Err(rejection) => format!("{:?}", rejection.reason()),
                }
            }
            Op::Flood { partition, requests } => {
                let ticket = || Ticket::new().partition(PARTITIONS[*partition]);
                let arrive = |_| {
                    self.admission.shared.count_lanes();
                    self.poll(Box::pin(self.admission.admit(ticket())))
                };
                (0..*requests).map(arrive).collect()
            }
            Op::Poll(number) if !self.waiting.is_empty() => {
                let admit = self.waiting.remove(number % self.waiting.len());
                self.poll(admit)
            }
            Op::Cancel(number) if !self.waiting.is_empty() => {
                drop(self.waiting.remove(number % self.waiting.len()));
                String::new()
            }
            Op::Poll(_) | Op::Cancel(_) => String::new(),
            Op::Observe(number, outcome) => {
                if !self.permits.is_empty() {
                    let number = number % self.permits.len();
                    self.permits[number].observe(*outcome);
                }
                String::new()
            }
            Op::Finish(number, outcome) => {
                if let Some(permit) = self.take(*number) {
                    permit.finish(*outcome);
                }
                String::new()
            }
            Op::Drop(number) => {
                drop(self.take(*number));
                String::new()
            }
            Op::Pass(nanos) => {
                self.clock.0.fetch_add(*nanos, Ordering::Relaxed);
                String::new()
            }
            Op::Tick => {
                self.admission.tick();
                String::new()
            }
            Op::Mode(mode) => {
                self.admission.set_mode(*mode);
                String::new()
            }
            Op::Reload(settings) => {
                self.admission.reload(settings.builder()).expect("valid settings");
                String::new()
            }
            Op::Look => self.look(),
            Op::Drain(serves) => {
                let mode = if *serves { DrainMode::ServeWaiting } else { DrainMode::RejectWaiting };
                self.admission.drain(mode);
                String::new()
            }
            Op::Thread(number) => {
                be_thread(*number);
                String::new()
            }
        }
    }

    /// All that there is to see but forecasts, and the journal, which lists requests of the quiet path when they have ended.
    fn look(&self) -> String {
        let mut snapshot = self.admission.snapshot();
        for label in &mut snapshot.labels {
            // Both follow from how long slots are held.
            (label.estimated_wait_seconds, label.drain_rate) = (None, 0.0);
        }
        snapshot.mean_hold_seconds = 0.0;
        // What a law tells of its last sample: of several lanes, another one may have been learned last.
        let limit = &mut snapshot.limit_state;
        (limit.sentence, limit.state, limit.rtt_seconds, limit.ratio) = (String::new(), "".into(), None, None);
        if let Some(last) = &mut limit.last_move {
            (last.rtt_seconds, last.ratio) = (None, None);
        }
        // They stand in the first line as well, up to the next part of it.
        let headline = &mut snapshot.health.headline;
        if let Some(at) = headline.find(", limit ") {
            let end = headline[at..].find(';').map_or(headline.len(), |rest| at + rest);
            headline.replace_range(at..end, "");
        }
        format!("{snapshot:?}")
    }
}

fn settings(is_learned: bool) -> impl Strategy<Value = Settings> {
    let mode = prop_oneof![Just(PartitionMode::Burst), Just(PartitionMode::HardCap), Just(PartitionMode::Overcommit)];
    let queue = prop_oneof![Just(0usize), 1usize..6];
    let all = (1usize..24, queue, mode, 1usize..8);
    all.prop_map(move |(limit, queue, second, label_cap)| Settings { limit, queue, is_learned, second, label_cap })
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        6 => Just(Outcome::Success),
        1 => Just(Outcome::Overload),
        1 => Just(Outcome::Cancelled),
        1 => Just(Outcome::Ignore),
    ]
}

/// Requests, so many of a hundred with a label, and what else may happen.
fn ops(is_learned: bool, labelled: u32) -> impl Strategy<Value = Op> {
    let arrive = (
        0usize..4,
        prop_oneof![9 => Just(Criticality::Critical), 1 => prop::sample::select(&Criticality::ALL[..])],
        prop_oneof![100 - labelled => Just(None), labelled => (0..LABELS.len()).prop_map(|it| Some(it * it / LABELS.len()))],
        prop_oneof![8 => Just(None), 1 => (0u64..30).prop_map(Some)],
        any::<bool>(),
    );
    let arrive = arrive.prop_map(|(partition, criticality, label, timeout, waits)| Op::Arrive {
        partition,
        criticality,
        label,
        timeout,
        waits,
    });
    prop_oneof![
        400 => arrive,
        10 => (0usize..4, 1usize..60).prop_map(|(partition, requests)| Op::Flood { partition, requests }),
        60 => (0usize..99).prop_map(Op::Poll),
        20 => (0usize..99).prop_map(Op::Cancel),
        40 => (0usize..99, outcomes()).prop_map(|(number, outcome)| Op::Observe(number, outcome)),
        300 => (0usize..99, outcomes()).prop_map(|(number, outcome)| Op::Finish(number, outcome)),
        40 => (0usize..99).prop_map(Op::Drop),
        120 => (1u64..30_000_000).prop_map(Op::Pass),
        20 => Just(Op::Tick),
        10 => prop_oneof![3 => Just(Mode::Enforce), 1 => Just(Mode::Observe), 1 => Just(Mode::Off)].prop_map(Op::Mode),
        10 => settings(is_learned).prop_map(Op::Reload),
        20 => Just(Op::Look),
        1 => any::<bool>().prop_map(Op::Drain),
        60 => (0usize..4).prop_map(Op::Thread),
    ]
}

/// Compares both worlds. Time passes between any two steps: what is learned in several partitions within the same millisecond
/// may be learned in another order, which moves means by their last digits, and decisions that rest on forecasts with them. So
/// forecasts are left out where they are only told: of several partitions, and of requests that were observed before they left,
/// the quiet path knows the last release a little less exactly than the engine alone.
fn compare(settings: Settings, per_partition: usize, ops: &[Op]) -> Result<(), TestCaseError> {
    let [mut quiet, mut alone] = [per_partition, 0].map(|per_partition| World::new(settings, per_partition));
    for (number, op) in ops.iter().enumerate() {
        for world in [&quiet, &alone] {
            world.clock.0.fetch_add(1_000_001, Ordering::Relaxed);
        }
        let [answer, expected] = [quiet.step(op), alone.step(op)];
        prop_assert_eq!(answer, expected, "step {}: {:?}", number, op);
    }
    prop_assert_eq!(quiet.look(), alone.look());
    // A slot that leaves at the end leaves for good.
    for world in [&mut quiet, &mut alone] {
        world.permits.clear();
        world.waiting.clear();
    }
    prop_assert_eq!(quiet.look(), alone.look());
    prop_assert_eq!(quiet.admission.snapshot().in_flight, 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: seeds(), ..ProptestConfig::default() })]

    #[test]
    fn a_handle_that_lends_decides_as_one_that_does_not(
        settings in settings(false),
        per_partition in prop::sample::select(&PER_PARTITION[..]),
        ops in prop::collection::vec(ops(false, 5), 1..160),
    ) {
        compare(settings, per_partition, &ops)?;
    }

    #[test]
    fn the_same_holds_where_the_limit_is_learned(
        settings in settings(true),
        per_partition in prop::sample::select(&PER_PARTITION[..]),
        ops in prop::collection::vec(ops(true, 5), 1..160),
    ) {
        compare(settings, per_partition, &ops)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: seeds(), ..ProptestConfig::default() })]

    #[test]
    fn the_same_holds_for_requests_with_a_label(
        settings in any::<bool>().prop_flat_map(settings),
        per_partition in prop::sample::select(&PER_PARTITION[..]),
        ops in prop::collection::vec(ops(true, 90), 1..160),
    ) {
        compare(settings, per_partition, &ops)?;
    }
}

/// The control of the tests above: they would say little if nothing were lent.
#[test]
fn a_quiet_handle_lends_and_a_busy_one_does_not() {
    let settings = Settings { limit: 8, queue: 4, is_learned: false, second: PartitionMode::Burst, label_cap: 8 };
    let mut world = World::new(settings, 1);
    let arrive =
        Op::Arrive { partition: 0, criticality: Criticality::Critical, label: None, timeout: None, waits: true };
    // To lend is tried after some quiet turns.
    for _ in 0..200 {
        assert_eq!(world.step(&arrive), "admitted");
        if world.permits[0].is_lent() {
            break;
        }
        world.step(&Op::Finish(0, Outcome::Success));
    }
    assert!(world.permits.first().is_some_and(Permit::is_lent), "after 200 requests");
    for _ in 1..8 {
        assert_eq!(world.step(&arrive), "admitted");
    }
    assert_eq!(world.step(&arrive), "waits");
    world.step(&Op::Finish(0, Outcome::Success));
    assert_eq!(world.step(&Op::Poll(0)), "admitted");
    assert!(!world.permits[7].is_lent(), "the engine handed the slot on");
}

#[test]
fn the_largest_limit_is_lent_as_any_other() {
    let builder = Admission::builder().limit(Fixed::new(usize::MAX)).partition("web", percent(50)).shed();
    let admission = builder.build().expect("valid settings");
    let permits: Vec<_> =
        (0..300).map(|_| admission.try_admit(Ticket::new().partition("web")).expect("room")).collect();
    assert!(permits.iter().any(Permit::is_lent));
    assert_eq!(admission.snapshot().in_flight, 300);
    drop(permits);
    assert_eq!(admission.snapshot().in_flight, 0);
}
