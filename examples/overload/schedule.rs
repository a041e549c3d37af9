//! Who sends what when: all of it known before the first request is sent.
//!
//! The load is an open one. Requests arrive when the schedule says so, however slow the answers are, as those of many
//! independent people do. A pool of waiting workers, the closed model of most load tools, would send less the slower
//! the server gets, and so hide what an overload does.

use std::time::Duration;

/// The callers. The first one is the noisy one.
pub(crate) const TENANTS: [&str; 4] = ["noisy", "red", "green", "blue"];

/// One request to come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// When, from the start of the run on.
    pub(crate) at: Duration,
    /// Its place in [`TENANTS`].
    pub(crate) tenant: usize,
    /// Its place in the phases.
    pub(crate) phase: usize,
    /// How long a worker of the backend needs for it in calm.
    pub(crate) service: Duration,
}

/// A part of the run over which one line of the table speaks.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    pub(crate) name: String,
    pub(crate) length: Duration,
    /// How many times slower than in calm the backend is.
    pub(crate) slowness: u32,
}

/// What a run does, the same with and without protection.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// What a reader of the table should know.
    pub(crate) about: String,
    pub(crate) phases: Vec<Phase>,
    /// The arrivals at the HTTP server and at the gRPC server, in the order of time.
    pub(crate) http: Vec<Arrival>,
    pub(crate) grpc: Vec<Arrival>,
    /// How many requests each backend works at, at once.
    pub(crate) workers: usize,
    /// How long a typical request takes in calm.
    pub(crate) service: Duration,
    /// How long the clients wait for an answer.
    pub(crate) deadline: Duration,
    /// The phase in which the tenants are compared.
    pub(crate) showcase: usize,
}

/// What each tenant sends in calm, per second: 60 % of what the backend can do, all of them together.
const CALM: f64 = 60.0;
/// The noisy one sends this much in the overload; together with the other three, who don't change, three times the
/// capacity.
const NOISY: f64 = 1_020.0;

impl Scenario {
    /// Calm, three times too much, calm, a backend four times slower, calm: 25 seconds.
    pub(crate) fn phases(seed: u64) -> Self {
        let calm = [CALM; TENANTS.len()];
        let mut noisy = calm;
        noisy[0] = NOISY;
        let plan = [
            ("calm", 4, 1, calm),
            ("3x overload", 6, 1, noisy),
            ("calm again", 4, 1, calm),
            ("slow backend", 6, 4, calm),
            ("calm again", 5, 1, calm),
        ];
        let phases = plan.map(|(name, seconds, slowness, _)| Phase {
            name: name.to_owned(),
            length: Duration::from_secs(seconds),
            slowness,
        });
        let service = Duration::from_millis(100);
        let arrivals = |seed| {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut arrivals = Vec::new();
            let mut begin = Duration::ZERO;
            for (phase, (_, seconds, _, rates)) in plan.iter().enumerate() {
                let end = begin + Duration::from_secs(*seconds);
                for (tenant, &rate) in rates.iter().enumerate() {
                    let times = poisson(&mut random, rate, begin, end);
                    arrivals.extend(times.into_iter().map(|at| Arrival { at, tenant, phase, service }));
                }
                begin = end;
            }
            arrivals.sort_by_key(|arrival| arrival.at);
            arrivals
        };
        Self {
            about: "Each backend has 40 workers; a request takes one of them for 100 ms, and for\n\
                    400 ms while the backend is slow. Clients wait 1 s for an answer."
                .to_owned(),
            phases: phases.into(),
            http: arrivals(seed),
            grpc: arrivals(seed.wrapping_add(1)),
            workers: 40,
            service,
            deadline: Duration::from_secs(1),
            showcase: 1,
        }
    }

    /// How long a run takes, without the last answers.
    pub(crate) fn length(&self) -> Duration {
        self.phases.iter().map(|phase| phase.length).sum()
    }

    /// When each phase ends, and which it is.
    pub(crate) fn phase_at(&self, elapsed: Duration) -> usize {
        let mut end = Duration::ZERO;
        let ended = self.phases.iter().take_while(|phase| {
            end += phase.length;
            end <= elapsed
        });
        ended.count().min(self.phases.len().saturating_sub(1))
    }
}

/// The times of a Poisson process: independent arrivals, `rate` per second on average.
fn poisson(random: &mut fastrand::Rng, rate: f64, begin: Duration, end: Duration) -> Vec<Duration> {
    let mut times = Vec::new();
    let mut at = begin;
    loop {
        // 1 - x is never 0, and neither is the logarithm infinite.
        at += Duration::from_secs_f64(-(1.0 - random.f64()).ln() / rate);
        if at >= end {
            return times;
        }
        times.push(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_the_same_for_the_same_seed_and_as_dense_as_it_says() {
        let (one, other) = (Scenario::phases(7), Scenario::phases(7));
        assert!(one.http.iter().map(|it| it.at).eq(other.http.iter().map(|it| it.at)));
        assert!(one.http.is_sorted_by_key(|it| it.at));
        let overload = one.http.iter().filter(|it| it.phase == 1).count();
        assert!((6_800..7_600).contains(&overload), "1,200/s for 6 s, not {overload}");
        assert!(one.grpc.iter().all(|it| one.phase_at(it.at) == it.phase));
    }
}
