//! What changes while a scenario runs: load, speed, workers, delay, and what requests cost.

use super::node::Node;

/// The world at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// Factor on all rates of arrival.
    pub load: f64,
    /// Factor on the speed of the server.
    pub capacity: f64,
    /// Part of the workers, or of the knee, that is there.
    pub workers: f64,
    /// Factor on the work of new requests.
    pub service: f64,
    /// Nanoseconds added to each answer, which use no worker.
    pub delay: f64,
    /// Replaces the part of slow requests.
    pub slow_share: Option<f64>,
}

const START: Moment = Moment { load: 1.0, capacity: 1.0, workers: 1.0, service: 1.0, delay: 0.0, slow_share: None };

/// Moments in order of time, each valid until the next. A ramp is a stair of small steps.
#[derive(Clone, Debug)]
pub struct Timeline(Vec<(u64, Moment)>);

/// One step of a ramp.
const STEP: u64 = 100_000_000;

impl Timeline {
    #[expect(clippy::cast_precision_loss, reason = "times of less than a hundred days")]
    pub fn read(nodes: Vec<Node<'_>>) -> Self {
        let mut moments = vec![(0, START)];
        for node in nodes {
            let at = node.required("at", node.time("at"));
            let ramp = node.time("ramp").unwrap_or(0);
            let &(last, before) = moments.last().unwrap_or(&(0, START));
            let factor = |key, old| node.number(key, 0.0..=10_000.0).unwrap_or(old);
            let after = Moment {
                load: factor("load", before.load),
                capacity: node.number("capacity", 0.001..=10_000.0).unwrap_or(before.capacity),
                workers: node.number("workers", 0.001..=10_000.0).unwrap_or(before.workers),
                service: node.number("service", 0.001..=10_000.0).unwrap_or(before.service),
                delay: node.time("delay").map_or(before.delay, |delay| delay as f64),
                slow_share: node.number("slow_share", 0.0..=1.0).or(before.slow_share),
            };
            if at < last {
                node.problem("at", "begins before the end of the previous change");
            }
            for step in 1..=ramp / STEP {
                let part = (step * STEP) as f64 / ramp as f64;
                moments.push((at + (step - 1) * STEP, before.towards(&after, part)));
            }
            moments.push((at + ramp, after));
            node.finish();
        }
        Self(moments)
    }

    pub fn moments(&self) -> &[(u64, Moment)] {
        &self.0
    }

    /// The moment that holds at `time`, and when it ends. `hint` remembers where it was found; time never runs back.
    pub fn at(&self, time: u64, hint: &mut usize) -> (Moment, u64) {
        while self.0.get(*hint + 1).is_some_and(|&(next, _)| next <= time) {
            *hint += 1;
        }
        (self.0[*hint].1, self.0.get(*hint + 1).map_or(u64::MAX, |&(next, _)| next))
    }
}

impl Moment {
    fn towards(&self, other: &Self, part: f64) -> Self {
        let mix = |from: f64, to: f64| from + (to - from) * part;
        Self {
            load: mix(self.load, other.load),
            capacity: mix(self.capacity, other.capacity),
            workers: mix(self.workers, other.workers),
            service: mix(self.service, other.service),
            delay: mix(self.delay, other.delay),
            slow_share: match (self.slow_share, other.slow_share) {
                (Some(from), Some(to)) => Some(mix(from, to)),
                (_, to) => to,
            },
        }
    }
}
