//! Random numbers that are the same for every policy, and what is drawn from them.

use super::{node::Node, timeline::Moment};

/// SplitMix64: one independent stream for each use, so that no policy can shift the numbers of another.
#[derive(Clone, Debug)]
pub struct Stream(u64);

impl Stream {
    pub fn new(seed: u64, purpose: u64, index: u64) -> Self {
        let mut stream = Self(seed);
        for word in [purpose, index] {
            stream.0 = stream.next() ^ word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        Self(stream.next())
    }

    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// More than 0 and less than 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    pub const fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// With a mean of 1.
    pub fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }

    fn normal(&mut self) -> f64 {
        (2.0 * self.exponential()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// How long a request takes on an idle server, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Service {
    kind: Kind,
    mean: f64,
    /// Standard deviation of the logarithm.
    sigma: f64,
    /// The slow requests among two kinds.
    slow: f64,
    slow_share: f64,
    /// Whether the handle is told which requests are slow ones.
    classes: bool,
    alpha: f64,
    max: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Bimodal,
    Constant,
    Exponential,
    Lognormal,
    Pareto,
    Uniform,
}

impl Service {
    #[expect(clippy::cast_precision_loss, reason = "times of less than a hundred days")]
    pub fn read(node: Node<'_>) -> Self {
        let kinds = [
            ("bimodal", Kind::Bimodal),
            ("constant", Kind::Constant),
            ("exponential", Kind::Exponential),
            ("lognormal", Kind::Lognormal),
            ("pareto", Kind::Pareto),
            ("uniform", Kind::Uniform),
        ];
        let kind = node.one_of("distribution", &kinds).unwrap_or(Kind::Exponential);
        let mut service = Self {
            kind,
            mean: 0.0,
            sigma: 0.0,
            slow: 0.0,
            slow_share: 0.0,
            classes: false,
            alpha: 2.0,
            max: f64::INFINITY,
        };
        if kind == Kind::Uniform {
            let (low, high) = node.span("range").unwrap_or_else(|| node.required("range", None));
            (service.mean, service.slow) = (low as f64, high as f64);
        } else {
            service.mean = node.required("mean", node.time("mean")) as f64;
        }
        match kind {
            Kind::Bimodal => {
                service.slow = node.required("slow", node.time("slow")) as f64;
                service.slow_share = node.required("slow_share", node.number("slow_share", 0.0..=1.0));
                service.sigma = node.number("sigma", 0.0..=3.0).unwrap_or(0.0);
                service.classes = node.flag("classes").unwrap_or(false);
            }
            Kind::Lognormal => service.sigma = node.number("sigma", 0.0..=3.0).unwrap_or(0.5),
            Kind::Pareto => {
                service.alpha = node.number("alpha", 1.01..=10.0).unwrap_or(2.0);
                service.max = node.time("max").map_or(f64::INFINITY, |max| max as f64);
            }
            Kind::Constant | Kind::Exponential | Kind::Uniform => {}
        }
        node.finish();
        service
    }

    /// The class of a request with this much work, where the handle is told.
    pub fn class(&self, work: f64) -> Option<&'static str> {
        self.classes.then(|| if work > (self.mean * self.slow).sqrt() { "slow" } else { "fast" })
    }

    /// One request's work. Draws as many numbers whatever the distribution is.
    pub fn draw(&self, stream: &mut Stream, moment: &Moment) -> f64 {
        let (first, normal) = (stream.uniform(), stream.normal());
        let spread = (self.sigma * normal - self.sigma * self.sigma / 2.0).exp();
        let slow_share = moment.slow_share.unwrap_or(self.slow_share);
        let work = match self.kind {
            Kind::Bimodal if first < slow_share => self.slow * spread,
            Kind::Bimodal | Kind::Lognormal => self.mean * spread,
            Kind::Constant => self.mean,
            Kind::Exponential => -self.mean * first.ln(),
            Kind::Pareto => {
                let smallest = self.mean * (self.alpha - 1.0) / self.alpha;
                (smallest * first.powf(-1.0 / self.alpha)).min(self.max)
            }
            Kind::Uniform => self.mean + (self.slow - self.mean) * first,
        };
        (work * moment.service).max(1.0)
    }

    /// The mean of what is drawn.
    pub fn mean(&self, moment: &Moment) -> f64 {
        let slow_share = moment.slow_share.unwrap_or(self.slow_share);
        let mean = match self.kind {
            Kind::Bimodal => self.slow * slow_share + self.mean * (1.0 - slow_share),
            Kind::Constant | Kind::Exponential | Kind::Lognormal => self.mean,
            Kind::Pareto => {
                // Of the smaller of it and `max`: the tail beyond `max` is left out.
                let smallest = self.mean * (self.alpha - 1.0) / self.alpha;
                let tail = smallest / (self.alpha - 1.0) * (smallest / self.max).powf(self.alpha - 1.0);
                self.mean - tail
            }
            Kind::Uniform => f64::midpoint(self.mean, self.slow),
        };
        mean * moment.service
    }

    /// Which part of the requests takes no longer than `limit`, by drawing many.
    pub fn fits(&self, moment: &Moment, limit: f64) -> f64 {
        const DRAWS: u32 = 4_000;
        let mut stream = Stream::new(0, 7, 7);
        let fitting = (0..DRAWS).filter(|_| self.draw(&mut stream, moment) <= limit).count();
        f64::from(u32::try_from(fitting).unwrap_or(DRAWS)) / f64::from(DRAWS)
    }
}
