//! A histogram of durations with a fixed size: four buckets per power of two, so that no value is off by more than a
//! quarter, from 1 µs to more than an hour. One increment per value, no allocation.

use std::time::Duration;

use crate::time::nanos;

const OCTAVES: usize = 32;
const BUCKETS: usize = OCTAVES * 4;

/// Counts of durations in fixed buckets.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: [u64; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; BUCKETS] }
    }
}

impl Histogram {
    pub(crate) fn record(&mut self, duration: Duration) {
        self.counts[bucket(nanos(duration))] += 1;
    }

    pub(crate) fn record_many(&mut self, duration: Duration, count: u64) {
        self.counts[bucket(nanos(duration))] += count;
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns each bucket that counted something since `earlier`: a value in its middle, and how often.
    pub(crate) fn since<'a>(&'a self, earlier: &'a Self) -> impl Iterator<Item = (Duration, u64)> + 'a {
        let counts = self.counts.iter().zip(&earlier.counts).map(|(now, then)| now - then);
        counts.enumerate().filter(|&(_, count)| count > 0).map(|(bucket, count)| (middle(bucket), count))
    }

    /// Returns the value that `per_mille` of a thousand don't exceed, within a quarter; zero if nothing was recorded.
    pub(crate) fn quantile(&self, per_mille: u64) -> Duration {
        let rank = (self.count() * per_mille).div_ceil(1_000).max(1);
        let mut seen = 0;
        let found = self.counts.iter().position(|&count| {
            seen += count;
            seen >= rank
        });
        found.map_or(Duration::ZERO, middle)
    }
}

/// Returns the bucket of a duration in units of 1,024 ns; the two bits below the highest one choose among its four
/// buckets.
fn bucket(nanos: u64) -> usize {
    let units = nanos >> 10;
    if units < 4 {
        return usize::try_from(units).unwrap_or(0);
    }
    let octave = 63 - units.leading_zeros();
    let quarter = (units >> (octave - 2)) & 3;
    let index = (octave as usize - 1) * 4 + usize::try_from(quarter).unwrap_or(0);
    index.min(BUCKETS - 1)
}

fn middle(bucket: usize) -> Duration {
    let (octave, quarter) = (bucket / 4, bucket as u64 % 4);
    let nanos = match octave {
        0 => quarter * 1_024 + 512,
        _ => {
            let width = 1_024u64 << (octave - 1);
            (4 + quarter) * width + width / 2
        }
    };
    Duration::from_nanos(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_is_off_by_more_than_a_quarter() {
        let mut value = 4_096u64;
        while value < Duration::from_secs(3_600).as_nanos() as u64 {
            let middle = middle(bucket(value)).as_nanos() as f64;
            assert!((middle / value as f64 - 1.0).abs() <= 0.25, "{value} became {middle}");
            value += value / 97 + 1;
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1, "what is too long counts as the longest");
        assert_eq!(bucket(0), 0);
    }

    #[test]
    fn quantiles_and_differences_agree_with_what_was_recorded() {
        let mut histogram = Histogram::default();
        (1..=100).for_each(|ms| histogram.record(Duration::from_millis(ms)));
        let p50 = histogram.quantile(500).as_secs_f64();
        assert!((0.038..=0.063).contains(&p50), "{p50}");
        let before = histogram.clone();
        histogram.record(Duration::from_secs(1));
        histogram.record(Duration::from_secs(1));
        let new: Vec<_> = histogram.since(&before).collect();
        assert_eq!(new.len(), 1);
        assert_eq!(new[0].1, 2);
        assert_eq!(Histogram::default().quantile(990), Duration::ZERO);
    }
}
