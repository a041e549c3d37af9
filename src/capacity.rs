//! Capacity planning: the limit and the queue that a burst needs, or what happens to a burst under given settings.
//!
//! The burst is simulated request by request: arrivals spread evenly, durations scattered evenly, first come, first
//! served.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    time::Duration,
};

use crate::engine::nanos;

/// A burst of requests: their number, the time within which they arrive, and the time that each takes.
///
/// ```
/// use std::time::Duration;
/// use tower_admission::capacity::{Burst, Settings};
///
/// let seconds = Duration::from_secs;
/// // An incident: 3,704 tasks of about four minutes within 195 s, and 800 slots with a wait of 30 s.
/// let burst = Burst::new(3_704, seconds(195), seconds(229)..=seconds(245));
/// let before = burst.predict(Settings::new(800));
/// assert_eq!(before.rejected, 2_904);
///
/// // A quarter of the slots, and a queue.
/// let after = burst.plan(200);
/// assert_eq!((after.settings.queue, after.rejected), (3_504, 0));
/// assert_eq!(after.drain_time.as_secs() / 60, 75);
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub struct Burst {
    requests: usize,
    within: u64,
    shortest: u64,
    longest: u64,
    patience: Option<u64>,
}

/// The settings that decide what happens to a burst.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
#[non_exhaustive]
pub struct Settings {
    /// Requests that may run at once.
    pub limit: usize,
    /// Requests that may wait in line; 0 is no queue: then requests wait for a slot.
    pub queue: usize,
    /// The maximum wait at the full gate, with a queue; 0 is no gate.
    pub admission_timeout: Duration,
    /// The maximum wait at the gate and in line together, with a queue.
    pub max_wait: Option<Duration>,
    /// The maximum wait for a slot, without a queue.
    pub wait_timeout: Duration,
    /// Requests that the server accepts at once.
    pub max_concurrent_streams: Option<usize>,
}

impl Settings {
    /// Settings with this many slots, no queue, and the defaults of the builder.
    pub const fn new(limit: usize) -> Self {
        Self {
            limit,
            queue: 0,
            admission_timeout: Duration::from_secs(5),
            max_wait: None,
            wait_timeout: Duration::from_secs(30),
            max_concurrent_streams: None,
        }
    }

    /// Sets the number of places in line.
    pub const fn queue(mut self, places: usize) -> Self {
        self.queue = places;
        self
    }

    /// Sets the maximum wait at the full gate.
    pub const fn admission_timeout(mut self, timeout: Duration) -> Self {
        self.admission_timeout = timeout;
        self
    }

    /// Sets the maximum wait at the gate and in line together. As on the builder there is no gate then: an
    /// [`admission_timeout`](Self::admission_timeout) that is set after this asks for it.
    pub const fn max_wait(mut self, wait: Duration) -> Self {
        self.max_wait = Some(wait);
        self.admission_timeout = Duration::ZERO;
        self
    }

    /// Sets the maximum wait for a slot, without a queue.
    pub const fn wait_timeout(mut self, timeout: Duration) -> Self {
        self.wait_timeout = timeout;
        self
    }

    /// Sets the number of requests that the server accepts at once.
    pub const fn max_concurrent_streams(mut self, streams: usize) -> Self {
        self.max_concurrent_streams = Some(streams);
        self
    }
}

/// The forecast for a burst: what happens to its requests.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Forecast {
    /// The settings of the forecast.
    pub settings: Settings,
    /// Requests that are rejected: at the gate, in line, or for want of a slot.
    pub rejected: usize,
    /// Requests that are answered after their client has left.
    pub too_late: usize,
    /// The longest wait of a request that is served.
    pub longest_wait: Duration,
    /// The time from the first arrival to the end of the last request.
    pub drain_time: Duration,
    /// Settings that are likely to be a mistake, and what to do about them.
    pub advice: Vec<String>,
}

impl Burst {
    /// A burst of `requests` that arrive evenly `within` a time, and take a time in the range `task_time` each.
    pub fn new(requests: usize, within: Duration, task_time: std::ops::RangeInclusive<Duration>) -> Self {
        let (shortest, longest) = (nanos(*task_time.start()), nanos(*task_time.end()));
        Self { requests, within: nanos(within), shortest, longest: longest.max(shortest), patience: None }
    }

    /// Sets the time for which clients wait for an answer; unlimited unless set.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = Some(nanos(patience));
        self
    }

    /// The forecast with the settings that fit the burst at this limit: a place for each request that can be served
    /// before its client leaves, a short wait at the gate, and a server that accepts all of these requests.
    pub fn plan(&self, limit: usize) -> Forecast {
        let limit = limit.max(1);
        let max_wait = self.patience.map(|patience| patience.saturating_sub(self.longest));
        // A slot is free again after the mean task time: this is how many waiters each slot serves within `max_wait`.
        let mean = (self.shortest / 2).saturating_add(self.longest / 2).max(1);
        let served = max_wait.map_or(u64::MAX, |wait| wait / mean);
        let served = usize::try_from(served).unwrap_or(usize::MAX).saturating_mul(limit);
        let queue = self.requests.saturating_sub(limit).min(served);
        let settings = Settings::new(limit).queue(queue);
        let settings = max_wait.map(Duration::from_nanos).into_iter().fold(settings, Settings::max_wait);
        self.predict(settings.max_concurrent_streams(limit.saturating_add(queue)))
    }

    /// The forecast with the smallest limit that answers all requests before their clients leave.
    ///
    /// `None` where no [`patience`](Self::patience) was set, so that any limit would do, and where tasks take longer
    /// than that. The forecast assumes that the server runs this many requests at once without becoming slower.
    pub fn suggest(&self) -> Option<Forecast> {
        let patience = self.patience.filter(|patience| *patience >= self.longest)?;
        let (mut low, mut high) = (1, self.requests.max(1));
        let longest_wait = Duration::from_nanos(patience - self.longest);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.predict(Settings::new(middle).queue(self.requests)).longest_wait <= longest_wait {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        // A place for all: the rule for the length of the queue goes by the mean, and this limit is the tightest.
        let queue = self.requests.saturating_sub(low);
        let settings = Settings::new(low).queue(queue).max_wait(longest_wait).max_concurrent_streams(low + queue);
        Some(self.predict(settings))
    }

    /// The forecast for the burst with these settings.
    ///
    /// Follows each request: time and memory grow with their number.
    pub fn predict(&self, settings: Settings) -> Forecast {
        let mut house = House::new(&settings);
        for number in 0..self.requests {
            let before = u128::from(self.within) * number as u128 / self.requests as u128;
            let at = u64::try_from(before).unwrap_or(u64::MAX);
            house.advance(at);
            house.arrive(Guest { at, takes: self.task_time(number), patience: self.patience });
        }
        house.advance(u64::MAX);
        Forecast {
            rejected: house.rejected,
            too_late: house.too_late,
            longest_wait: Duration::from_nanos(house.longest_wait),
            drain_time: Duration::from_nanos(house.drained),
            advice: self.advice(&settings),
            settings,
        }
    }

    /// Scattered evenly from the shortest to the longest: multiples of the golden ratio, modulo one.
    fn task_time(&self, number: usize) -> u64 {
        let part = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let scattered = (u128::from(self.longest - self.shortest) * u128::from(part)) >> 32;
        self.shortest.saturating_add(u64::try_from(scattered).unwrap_or(0))
    }

    /// Rules of thumb for long tasks.
    fn advice(&self, settings: &Settings) -> Vec<String> {
        let inside = settings.limit.saturating_add(settings.queue);
        let time = Duration::from_nanos;
        let rules = [
            (settings.queue == 0 && self.requests > settings.limit && settings.wait_timeout < time(self.shortest))
                .then(|| {
                    format!(
                        "a wait of {:?} for slots that are held for {:?} is in vain: set a queue",
                        settings.wait_timeout,
                        time(self.shortest)
                    )
                }),
            (settings.queue > 0 && self.patience.is_none() && inside < self.requests).then(|| {
                let wanted = self.requests - settings.limit;
                format!("a queue of {} is too short for the burst: {wanted} places are enough", settings.queue)
            }),
            settings.max_concurrent_streams.filter(|streams| *streams < inside).map(|streams| {
                format!("the server accepts {streams} requests at once, limit and queue take {inside}: allow {inside}")
            }),
            (settings.queue > 0 && settings.admission_timeout > Duration::from_secs(5)).then(|| {
                format!(
                    "admission_timeout is {:?}: it only delays the rejection, keep it at 5s or less",
                    settings.admission_timeout
                )
            }),
            self.patience.filter(|patience| *patience < self.longest).map(|patience| {
                format!(
                    "tasks take up to {:?} and clients wait for {:?} (patience)",
                    time(self.longest),
                    time(patience)
                )
            }),
        ];
        rules.into_iter().flatten().collect()
    }
}

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        let less = burst.predict(Settings::new(plan.settings.limit - 1).queue(3_704));
        assert!(less.too_late > 0 || less.longest_wait > seconds(355));
        assert_eq!(incident().suggest(), None, "without patience any limit would do");
        assert_eq!(incident().patience(seconds(200)).suggest(), None, "no limit makes tasks faster");
    }

    proptest! {
        #[test]
        fn nobody_is_lost_and_nothing_panics(
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
    }
}
