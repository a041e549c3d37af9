//! The parameters of each law.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::setting::{At, Setting, any_of};
use crate::{
    declare::settings,
    load::value::{Value, word},
};
use tower_admission_engine::limit::{Aimd, Gradient, Gradient2, Limit, QueueSize, TwoPoint, Vegas, Windowed};

settings! {
    /// A limit that is always the same.
    pub struct FixedConfig {
        /// How many requests may run at once.
        pub limit: usize = 100,
    }
}

settings! {
    /// [`Aimd`](tower_admission_engine::limit::Aimd), and unless [`per_sample`](Self::per_sample) is set a
    /// [`Windowed`](tower_admission_engine::limit::Windowed) before it.
    pub struct AimdConfig {
        /// Windows, or requests, that take longer are a sign of overload. Has to be set where `patience` is not.
        pub threshold: Duration = Duration::ZERO,
        /// The limit to start with.
        pub initial: usize = 20,
        /// The lowest limit.
        pub min: usize = 1,
        /// The highest limit.
        pub max: usize = 1_000,
        /// The factor of the limit at a sign of overload.
        pub backoff: f64 = 0.9,
        /// Whether a slow request that was admitted under a higher limit is ignored.
        pub stabilizing: bool = false,
        /// Whether the law judges single requests, as in conformance tests, instead of windows. Not beside a setting of these:
        pub per_sample: bool = false,
        /// The percentile of a window that counts; its mean unless set.
        pub percentile: Option<f64> = None,
        /// The least length of a window,
        pub min_time: Duration = Duration::from_secs(1),
        /// its least number of requests,
        pub min_samples: u32 = 10,
        /// and its greatest length.
        pub max_time: Duration = Duration::from_secs(10),
        /// The percentage of failures by overload that makes a window a sign of overload.
        pub overload_percent: f64 = 5.0,
    }
}

settings! {
    /// [`Vegas`](tower_admission_engine::limit::Vegas), and unless [`per_sample`](Self::per_sample) is set the default
    /// [`Windowed`](tower_admission_engine::limit::Windowed) before it.
    pub struct VegasConfig {
        /// The limit to start with.
        pub initial: usize = 20,
        /// The highest limit.
        pub max: usize = 1_000,
        /// The part of the way to the new limit that each step goes, more than 0 and at most 1.
        pub smoothing: f64 = 1.0,
        /// The queue below which the limit grows; derived from the limit unless set. Together with `beta`.
        pub alpha: Option<u32> = None,
        /// The queue above which the limit shrinks; derived from the limit unless set. Together with `alpha`.
        pub beta: Option<u32> = None,
        /// The base is measured again after this many times the limit in requests.
        pub probe_multiplier: u32 = 30,
        /// Whether the law judges single requests, as in conformance tests, instead of windows.
        pub per_sample: bool = false,
    }
}

settings! {
    /// [`Gradient2`](tower_admission_engine::limit::Gradient2), and unless [`per_sample`](Self::per_sample) is set the default
    /// [`Windowed`](tower_admission_engine::limit::Windowed) before it.
    pub struct Gradient2Config {
        /// The limit to start with.
        pub initial: usize = 20,
        /// The lowest limit.
        pub min: usize = 20,
        /// The highest limit.
        pub max: usize = 200,
        /// The part of the way to the new limit that each step goes, more than 0 and at most 1.
        pub smoothing: f64 = 0.2,
        /// How many times the average time a request may take before the limit shrinks.
        pub tolerance: f64 = 1.5,
        /// How many requests may wait inside the service: a number, or `"square_root"` of the limit.
        pub queue: QueueSize = QueueSize::Fixed(4),
        /// The number of requests in the average.
        pub long_window: u32 = 600,
        /// Whether failures by overload are ignored, and only the round-trip time counts.
        pub ignore_overloads: bool = true,
        /// Whether the law judges single requests, as in conformance tests, instead of windows.
        pub per_sample: bool = false,
    }
}

settings! {
    /// [`Gradient`](tower_admission_engine::limit::Gradient).
    pub struct GradientConfig {
        /// The highest limit.
        pub max: usize = 1_000,
        /// The limit while the minimum is measured.
        pub pinned: usize = 3,
        /// The percentile of the round-trip times that counts.
        pub percentile: f64 = 50.0,
        /// The part of the minimum by which a request may take longer.
        pub buffer: f64 = 0.25,
        /// The time between two changes of the limit.
        pub interval: Duration = Duration::from_millis(100),
        /// The time between two measurements of the minimum,
        pub probe_interval: Duration = Duration::from_secs(60),
        /// and the number of requests of each.
        pub probe_samples: usize = 50,
    }
}

settings! {
    /// [`TwoPoint`](tower_admission_engine::limit::TwoPoint).
    pub struct TwoPointConfig {
        /// The limit to start with.
        pub initial: usize = 20,
        /// The lowest limit.
        pub min: usize = 1,
        /// The highest limit.
        pub max: usize = 10_000,
    }
}

impl AimdConfig {
    /// Whether a parameter is set that single requests have no use for.
    pub(crate) fn has_own_window(&self) -> bool {
        let window =
            |law: &Self| (law.percentile, law.min_time, law.min_samples, law.max_time, law.overload_percent.to_bits());
        window(self) != window(&Self::default())
    }

    pub(crate) fn to_limit(&self) -> Limit {
        let law = Aimd::new(self.threshold).initial(self.initial).min(self.min).max(self.max);
        let law = law.backoff(self.backoff).stabilizing(self.stabilizing);
        if self.per_sample {
            return Limit::per_sample(law);
        }
        let windowed = self.percentile.into_iter().fold(Windowed::new(law), Windowed::percentile);
        let windowed = windowed.min_time(self.min_time).min_samples(self.min_samples).max_time(self.max_time);
        windowed.overload_percent(self.overload_percent).into()
    }
}

impl VegasConfig {
    pub(crate) fn to_law(&self) -> Vegas {
        let law = Vegas::new().initial(self.initial).max(self.max).smoothing(self.smoothing);
        let law = law.probe_multiplier(self.probe_multiplier);
        match (self.alpha, self.beta) {
            (Some(alpha), Some(beta)) => law.queue(alpha, beta),
            _ => law,
        }
    }
}

impl Gradient2Config {
    pub(crate) fn to_law(&self) -> Gradient2 {
        let law = Gradient2::new().initial(self.initial).min(self.min).max(self.max).smoothing(self.smoothing);
        let law = law.tolerance(self.tolerance).queue(self.queue).long_window(self.long_window);
        law.ignore_overloads(self.ignore_overloads)
    }
}

impl GradientConfig {
    pub(crate) fn to_law(&self) -> Gradient {
        let law = Gradient::new().max(self.max).pinned(self.pinned).percentile(self.percentile).buffer(self.buffer);
        law.interval(self.interval).probe(self.probe_interval, self.probe_samples)
    }
}

impl Setting for QueueSize {
    fn read(at: &At<'_>) -> Option<Self> {
        match at.text() {
            Some(text) if word(text) == "square_root" => Some(Self::SquareRoot),
            _ => at.small(0).map(Self::Fixed),
        }
    }

    fn write(&self) -> Value {
        self.fixed().map_or_else(|| Value::text("square_root"), |size| size.write())
    }

    fn schema() -> Json {
        any_of([u32::schema(), json!({ "const": "square_root" })])
    }
}

impl TwoPointConfig {
    pub(crate) const fn to_law(&self) -> TwoPoint {
        TwoPoint::new().initial(self.initial).min(self.min).max(self.max)
    }
}
