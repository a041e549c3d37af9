//! Capacity planning: the limit and the queue that a burst needs, or what happens to a burst under given settings.
//!
//! A forecast is a formula: requests arrive evenly, are served first come, first served, and take the mean of their
//! times. So slots start one by one as the first requests arrive, and each starts its next request after the mean time:
//! *rounds* of as many starts as there are slots.

use std::time::Duration;

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
        let mean = self.shortest.midpoint(self.longest).max(1);
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
    /// than that. All are answered in time even if each takes the longest time. The forecast assumes that the server runs
    /// this many requests at once without becoming slower.
    pub fn suggest(&self) -> Option<Forecast> {
        let patience = self.patience.filter(|patience| *patience >= self.longest)?;
        let (mut low, mut high) = (1, self.requests.max(1));
        let wait = patience - self.longest;
        while low < high {
            let middle = low + (high - low) / 2;
            if self.rounds(middle, self.longest.into()).wait_of(self.requests as u128 - 1) <= u128::from(wait) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let queue = self.requests.saturating_sub(low);
        let settings = Settings::new(low).queue(queue).max_wait(Duration::from_nanos(wait));
        let settings = settings.max_concurrent_streams(low + queue);
        Some(self.predict(settings))
    }

    /// The forecast for the burst with these settings.
    ///
    /// Rejections are right to a round of requests, and the times to two, unless a wait ends just as a slot is free:
    /// a formula that takes the same time for each burst, not a simulation of its requests.
    pub fn predict(&self, settings: Settings) -> Forecast {
        let slots = settings.limit.max(1);
        // As many as there are slots may wait where there is no queue, and at the gate of one.
        let (places, wait, gate) = match settings.queue {
            0 if settings.wait_timeout.is_zero() => (0, 0, 0),
            0 => (slots, nanos(settings.wait_timeout), 0),
            queue => (queue, settings.max_wait.map_or(u64::MAX, nanos), nanos(settings.admission_timeout)),
        };
        let mean = u128::from(self.shortest.midpoint(self.longest));
        // A slot that finds no waiter starts its next request when one arrives.
        let takes = if places == 0 { mean.max(self.arrival(self.arrivals_in(mean))) } else { mean };
        let rounds = self.rounds(slots, takes);
        let (slots, places, requests) = (rounds.slots, places as u128, self.requests as u128);
        let last = self.arrival(requests.saturating_sub(1));
        let started = rounds.starts_until(last);
        let starts_within = |time: u64| rounds.starts_until(last + u128::from(time)) - started;
        // Of what waits when the last request arrives, no more is there than arrived within the maximum wait.
        let at_gate = slots.min(self.arrivals_in(gate.into())).min(starts_within(gate));
        let waiting = places.saturating_add(at_gate).min(self.arrivals_in(wait.into())).min(starts_within(wait));
        let served = requests.min(started.saturating_add(waiting));
        let last_served = served.saturating_sub(1);
        let growing = rounds.wait_of(last_served).min(wait.into());
        let longest_wait = growing.min(rounds.longest_behind(places).saturating_add(gate.into()));
        // By Little's law, as much of a round as the line is of the slots.
        let usual_wait = growing.min(places.saturating_add(at_gate).saturating_mul(rounds.length) / slots);
        let end = rounds.start_of(last_served).saturating_add(self.longest.into());
        Forecast {
            rejected: usize::try_from(requests - served).unwrap_or(self.requests),
            too_late: self.too_late(&rounds, served as f64, usual_wait as f64),
            longest_wait: duration(longest_wait),
            drain_time: if served == 0 { Duration::ZERO } else { duration(end) },
            advice: self.advice(&settings),
            settings,
        }
    }

    /// When the request with this number arrives, in nanoseconds.
    const fn arrival(&self, number: u128) -> u128 {
        match self.requests {
            0 => 0,
            requests => number.saturating_mul(self.within as u128) / requests as u128,
        }
    }

    /// Requests that arrive in a stretch of this many nanoseconds at most, while the burst lasts.
    const fn arrivals_in(&self, time: u128) -> u128 {
        match self.within {
            0 => u128::MAX,
            within => time.saturating_mul(self.requests as u128).div_ceil(within as u128),
        }
    }

    fn rounds(&self, slots: usize, takes: u128) -> Rounds<'_> {
        let slots = slots as u128;
        Rounds { burst: self, slots, length: takes.max(self.arrival(slots)) }
    }

    /// Requests that are answered after their client has left: their times are spread evenly from the shortest to the
    /// longest, and the waits grow by the same time with each round, up to the last wait.
    fn too_late(&self, rounds: &Rounds<'_>, served: f64, last_wait: f64) -> usize {
        let Some(patience) = self.patience.map(|it| it as f64) else { return 0 };
        let (in_time, lost) = (patience - self.longest as f64, patience - self.shortest as f64);
        let spread = (lost - in_time).max(1.0);
        // The part of the requests that are late after such a wait, and its integral.
        let part = |wait: f64| ((wait - in_time) / spread).clamp(0.0, 1.0);
        let integral = |wait: f64| part(wait).powi(2) * spread / 2.0 + (wait - lost).max(0.0);
        let (slots, growth) = (rounds.slots as f64, rounds.growth() as f64);
        let before = if growth > 0.0 { (last_wait / growth).floor() } else { 0.0 };
        let wait = (before - 1.0) * growth;
        let ends = f64::midpoint(part(0.0), part(wait));
        let late = if before > 0.0 { (integral(wait) - integral(0.0)) / growth + ends } else { 0.0 };
        let late = late * slots + part(last_wait) * before.mul_add(-slots, served).max(0.0);
        late.round() as usize
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

/// Starts in rounds: each slot starts a request after the same time. It is at least the time in which as many requests
/// arrive as there are slots, where slots wait for requests.
struct Rounds<'a> {
    burst: &'a Burst,
    slots: u128,
    length: u128,
}

impl Rounds<'_> {
    /// When the request with this number starts.
    const fn start_of(&self, number: u128) -> u128 {
        (number / self.slots).saturating_mul(self.length).saturating_add(self.burst.arrival(number % self.slots))
    }

    /// Requests that have started by then, if there are as many.
    fn starts_until(&self, time: u128) -> u128 {
        let Some(rounds) = time.checked_div(self.length) else { return u128::MAX };
        let of_this = self.burst.arrivals_in(time % self.length + 1).min(self.slots);
        rounds.saturating_mul(self.slots).saturating_add(of_this)
    }

    /// What a wait grows by with each round.
    const fn growth(&self) -> u128 {
        self.length.saturating_sub(self.burst.arrival(self.slots))
    }

    /// How long the request with this number waits.
    const fn wait_of(&self, number: u128) -> u128 {
        (number / self.slots).saturating_mul(self.growth())
    }

    /// The longest wait behind a line of this many places: what starts in whole rounds and in part of one, which may
    /// begin with the time between two rounds.
    const fn longest_behind(&self, places: u128) -> u128 {
        let part = match places % self.slots {
            0 => 0,
            rest => self.growth().saturating_add(self.burst.arrival(rest)),
        };
        (places / self.slots).saturating_mul(self.length).saturating_add(part)
    }
}

fn duration(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
