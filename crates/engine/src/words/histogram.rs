//! A histogram of durations with a fixed size: four buckets per power of two, so that no value is off by more than a
//! quarter, from 1 µs to more than an hour. One increment per value, no allocation.

use std::time::Duration;

use super::nanos;

const OCTAVES: usize = 32;
const BUCKETS: usize = OCTAVES * 4;

/// Counts of durations in fixed buckets.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: [u64; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; BUCKETS] }
    }
}

impl Histogram {
    /// Counts a duration.
    pub fn record(&mut self, duration: Duration) {
        self.counts[bucket(nanos(duration))] += 1;
    }

    /// Counts a duration so many times.
    pub fn record_many(&mut self, duration: Duration, count: u64) {
        self.counts[bucket(nanos(duration))] += count;
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns each bucket that counted something since `earlier`: a value in its middle, and how often.
    pub fn since<'a>(&'a self, earlier: &'a Self) -> impl Iterator<Item = (Duration, u64)> + 'a {
        let counts = self.counts.iter().zip(&earlier.counts).map(|(now, then)| now - then);
        counts.enumerate().filter(|&(_, count)| count > 0).map(|(bucket, count)| (middle(bucket), count))
    }

    /// Adds what another histogram counted.
    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
    }

    /// Returns the values that these parts of a thousand don't exceed, of what was recorded since `earlier`; `None` if nothing was.
    /// Values are taken to lie evenly in a bucket, so that a quantile moves with them and not from bucket to bucket.
    #[expect(clippy::cast_precision_loss, reason = "counts and bounds are far below 2^52")]
    pub fn quantiles_since<const N: usize>(&self, earlier: &Self, per_mille: [u64; N]) -> Option<[f64; N]> {
        let new: Vec<_> =
            self.counts.iter().zip(&earlier.counts).map(|(now, then)| now.saturating_sub(*then)).collect();
        let total = new.iter().sum::<u64>() as f64;
        let at = |per_mille: u64| {
            let (rank, mut seen) = (total * per_mille as f64 / 1_000.0, 0.0);
            for (bucket, count) in new.iter().enumerate().filter(|(_, count)| **count > 0) {
                let count = *count as f64;
                if seen + count >= rank {
                    let (low, high) = (lower(bucket) as f64, lower(bucket + 1) as f64);
                    return (low + (high - low) * ((rank - seen) / count).clamp(0.0, 1.0)) / 1e9;
                }
                seen += count;
            }
            0.0
        };
        (total > 0.0).then(|| per_mille.map(at))
    }

    /// Returns the value that `per_mille` of a thousand don't exceed, within a quarter; zero if nothing was recorded.
    pub fn quantile(&self, per_mille: u64) -> Duration {
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

/// Returns where a bucket begins, in nanoseconds.
const fn lower(bucket: usize) -> u64 {
    let (octave, quarter) = (bucket / 4, bucket as u64 % 4);
    if octave == 0 { quarter << 10 } else { (4 + quarter) << (9 + octave) }
}

const fn middle(bucket: usize) -> Duration {
    Duration::from_nanos(lower(bucket).midpoint(lower(bucket + 1)))
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

    /// Times grow by a hundredth at a time. With the values of `quantile`, which are those of buckets, most steps change nothing.
    #[test]
    fn quantiles_of_a_time_move_with_the_values_and_not_from_bucket_to_bucket() {
        let of = |scale: f64| {
            let mut histogram = Histogram::default();
            let before = histogram.clone();
            (1..=1_000).for_each(|i| histogram.record(Duration::from_secs_f64(f64::from(i) / 1_000.0 * scale)));
            let fine = histogram.quantiles_since(&before, [500, 990]).unwrap();
            (fine, histogram.quantile(500).as_secs_f64())
        };
        let scales: Vec<_> = (0..70).map(|step| 0.1 * 1.01f64.powi(step)).collect();
        let (mut steps, mut snaps) = (0, 0);
        for pair in scales.windows(2) {
            let [(a, coarse_a), (b, coarse_b)] = [of(pair[0]), of(pair[1])];
            steps += usize::from(b[0] > a[0] && b[0] / a[0] < 1.03);
            snaps += usize::from((coarse_b - coarse_a).abs() < 1e-9);
            assert!((a[0] / (pair[0] * 0.5) - 1.0).abs() < 0.05, "{a:?} at {}", pair[0]);
            assert!((a[1] / (pair[0] * 0.99) - 1.0).abs() < 0.2, "{a:?} at {}", pair[0]);
        }
        assert_eq!(steps, 69, "each step is seen");
        assert!(snaps > 60, "control: values of buckets stand still, {snaps} times of 69");
        let empty = Histogram::default();
        assert_eq!(empty.quantiles_since(&empty, [500]), None);
    }

    #[test]
    fn buckets_begin_where_the_last_one_ends() {
        for nanos in (0..5_000_000).step_by(511) {
            let found = bucket(nanos);
            assert!((lower(found)..lower(found + 1)).contains(&nanos), "{nanos} in {found}");
        }
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
