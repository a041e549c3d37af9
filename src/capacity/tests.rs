//! Forecasts against bursts that are followed request by request.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
struct Guest {
    at: u64,
    takes: u64,
    patience: Option<u64>,
}

/// Slots, a line for them, and a gate before it. Waiters in one place came in order and have the same maximum wait, so
/// the waiter that leaves next stands in front.
#[derive(Debug, Default)]
struct House {
    slots: usize,
    places: usize,
    places_at_gate: usize,
    wait: Option<u64>,
    wait_at_gate: u64,
    /// The end of each running request.
    ends: BinaryHeap<Reverse<u64>>,
    /// With the time at which each leaves.
    line: VecDeque<(Guest, u64)>,
    gate: VecDeque<(Guest, u64)>,
    rejected: usize,
    too_late: usize,
    longest_wait: u64,
    drained: u64,
}

impl House {
    fn new(settings: &Settings) -> Self {
        let slots = settings.limit.max(1);
        let (places, wait, places_at_gate) = match settings.queue {
            // As many as there are slots may wait where there is no queue, and at the gate of one.
            0 => (if settings.wait_timeout.is_zero() { 0 } else { slots }, Some(settings.wait_timeout), 0),
            queue => (queue, settings.max_wait, if settings.admission_timeout.is_zero() { 0 } else { slots }),
        };
        let wait_at_gate = nanos(settings.admission_timeout.min(wait.unwrap_or(Duration::MAX)));
        Self { slots, places, places_at_gate, wait: wait.map(nanos), wait_at_gate, ..Self::default() }
    }

    /// Lets everything happen that happens until `now`.
    fn advance(&mut self, now: u64) {
        while let Some(&Reverse(end)) = self.ends.peek() {
            if end > now {
                break;
            }
            self.leave(end);
            self.ends.pop();
            if let Some((guest, _)) = self.line.pop_front() {
                self.start(end, guest);
            }
            self.let_in(end);
        }
        self.leave(now);
    }

    /// Waiters whose time is up by `now` leave, and make room for the waiters at the gate.
    fn leave(&mut self, now: u64) {
        while self.line.front().is_some_and(|(_, until)| *until <= now) {
            let left = self.line.pop_front().map_or(now, |(_, until)| until);
            self.rejected += 1;
            self.let_in(left);
        }
        while self.gate.front().is_some_and(|(_, until)| *until <= now) {
            self.gate.pop_front();
            self.rejected += 1;
        }
    }

    /// Fills the line from the gate.
    fn let_in(&mut self, now: u64) {
        while self.line.len() < self.places {
            let Some((guest, until)) = self.gate.pop_front() else { return };
            if until <= now {
                self.rejected += 1;
            } else {
                self.stand_in_line(guest);
            }
        }
    }

    fn arrive(&mut self, guest: Guest) {
        if self.ends.len() < self.slots {
            self.start(guest.at, guest);
        } else if self.line.len() < self.places {
            self.stand_in_line(guest);
        } else if self.gate.len() < self.places_at_gate {
            self.gate.push_back((guest, guest.at.saturating_add(self.wait_at_gate)));
        } else {
            self.rejected += 1;
        }
    }

    fn stand_in_line(&mut self, guest: Guest) {
        self.line.push_back((guest, self.wait.map_or(u64::MAX, |wait| guest.at.saturating_add(wait))));
    }

    fn start(&mut self, now: u64, guest: Guest) {
        let end = now.saturating_add(guest.takes);
        self.ends.push(Reverse(end));
        self.longest_wait = self.longest_wait.max(now - guest.at);
        self.drained = self.drained.max(end);
        self.too_late += usize::from(guest.patience.is_some_and(|patience| end - guest.at > patience));
    }
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn incident() -> Burst {
    Burst::new(3_704, seconds(195), seconds(229)..=seconds(245))
}

#[test]
fn the_incident_is_reproduced() {
    let before = incident().predict(Settings::new(800));
    assert_eq!(before.rejected, 2_904);
    assert_eq!(before.advice, ["a wait of 30s for slots that are held for 229s is in vain: set a queue"]);
    let spread = Burst::new(3_704, seconds(300), seconds(229)..=seconds(245)).predict(Settings::new(800));
    assert_eq!(spread.rejected, 2_104);
}

#[test]
fn its_remedy_is_too() {
    let settings = Settings::new(200).queue(3_600).max_concurrent_streams(4_000);
    let after = incident().predict(settings);
    assert_eq!(after.rejected, 0);
    assert_eq!(after.advice, [""; 0]);
    assert!(after.drain_time.abs_diff(seconds(75 * 60)) <= seconds(60), "{:?}", after.drain_time);
    let planned = incident().plan(200);
    assert_eq!(
        (planned.settings.queue, planned.settings.max_concurrent_streams, planned.rejected),
        (3_504, Some(3_704), 0)
    );
    assert_eq!(planned.drain_time, after.drain_time);
}

#[test]
fn rules_of_thumb_are_checked() {
    let advice = |settings: Settings| incident().predict(settings).advice;
    assert!(advice(Settings::new(200).queue(3_000))[0].contains("3504 places are enough"));
    assert!(advice(Settings::new(200).queue(3_600).max_concurrent_streams(3_799))[0].contains("allow 3800"));
    assert!(advice(Settings::new(200).queue(3_600).admission_timeout(seconds(6)))[0].contains("5s or less"));
    let patient = incident().patience(seconds(240)).predict(Settings::new(4_000));
    assert_eq!(patient.advice, ["tasks take up to 245s and clients wait for 240s (patience)"]);
}

#[test]
fn patience_bounds_the_queue_and_the_wait() {
    let plan = incident().patience(seconds(600)).plan(200);
    assert_eq!(plan.settings.max_wait, Some(seconds(355)));
    assert_eq!((plan.settings.queue, plan.too_late), (200, 0), "one round of waiters fits into 355 s");
    assert!(plan.longest_wait <= seconds(355));
}

#[test]
fn the_suggested_limit_is_the_smallest_that_serves_all() {
    let burst = incident().patience(seconds(600));
    let plan = burst.suggest().unwrap();
    assert_eq!((plan.rejected, plan.too_late), (0, 0), "{plan:?}");
    // Even if each task takes the longest time.
    let slowest = Burst { shortest: burst.longest, ..burst };
    let too_late = |limit| slowest.predict(Settings::new(limit).queue(3_704)).too_late;
    assert_eq!((too_late(plan.settings.limit), too_late(plan.settings.limit - 1) > 0), (0, true));
    assert_eq!(incident().suggest(), None, "without patience any limit would do");
    assert_eq!(incident().patience(seconds(200)).suggest(), None, "no limit makes tasks faster");
}

/// Follows each request of a burst, as the formulas do not.
fn followed(burst: &Burst, settings: &Settings) -> House {
    let mut house = House::new(settings);
    for number in 0..burst.requests {
        let at = u64::try_from(burst.arrival(number as u128)).unwrap();
        // Scattered evenly from the shortest to the longest: multiples of the golden ratio, modulo one.
        let part = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let more = (u128::from(burst.longest - burst.shortest) * u128::from(part)) >> 32;
        let takes = burst.shortest + u64::try_from(more).unwrap();
        house.advance(at);
        house.arrive(Guest { at, takes, patience: burst.patience });
    }
    house.advance(u64::MAX);
    house
}

proptest! {
    #[test]
    fn no_request_is_lost_and_nothing_panics(
        requests in 0usize..400, within in 0u64..100, shortest in 0u64..50, more in 0u64..50,
        limit in 0usize..60, queue in 0usize..200, wait in 0u64..60, gate in 0u64..10,
    ) {
        let burst = Burst::new(requests, seconds(within), seconds(shortest)..=seconds(shortest + more));
        let settings = Settings::new(limit).queue(queue).max_wait(seconds(wait)).wait_timeout(seconds(wait));
        let plan = burst.predict(settings.admission_timeout(seconds(gate)));
        prop_assert!(plan.rejected <= requests);
        if limit + queue >= requests && queue > 0 && wait > 0 {
            prop_assert!(plan.longest_wait <= seconds(wait));
        }
        prop_assert_eq!(burst.plan(limit).rejected, 0, "a place for each request");
    }

    #[test]
    fn requests_that_are_late_are_counted_within_a_round(limit in 50usize..1_000, patience in 250u64..3_000) {
        let burst = incident().patience(seconds(patience));
        let settings = Settings::new(limit).queue(3_700);
        let real = followed(&burst, &settings).too_late;
        let forecast = burst.predict(settings).too_late;
        prop_assert!(forecast.abs_diff(real) <= limit, "{forecast}, {real}");
    }

    #[test]
    fn a_forecast_is_within_a_round_of_what_becomes_of_each_request(
        requests in 1usize..3_000, within in 0u64..100, shortest in 1u64..50, more in 0u64..50, limit in 1usize..200,
        queue in 0usize..600, wait in 0u64..200, gate in 0u64..10, patience in 1u64..200,
    ) {
        let burst = Burst::new(requests, seconds(within), seconds(shortest)..=seconds(shortest + more));
        let burst = burst.patience(seconds(patience));
        let settings = Settings::new(limit).queue(queue).max_wait(seconds(wait)).wait_timeout(seconds(wait));
        let settings = settings.admission_timeout(seconds(gate));
        let real = followed(&burst, &settings);
        let it = burst.predict(settings);
        let round = seconds(2 * (shortest + more) + gate);
        let times = [(it.longest_wait, real.longest_wait), (it.drain_time, real.drained)];
        for (forecast, real) in times {
            prop_assert!(forecast.abs_diff(Duration::from_nanos(real)) <= round, "{it:?}, {real}");
        }
        prop_assert!(it.rejected.abs_diff(real.rejected) <= limit + requests / 25, "{it:?}, {}", real.rejected);
        // Where waits end just about when clients leave, a little less of them makes many requests late.
        prop_assert!(it.too_late.abs_diff(real.too_late) <= limit + requests / 2, "{it:?}, {}", real.too_late);
    }
}
