//! Whether requests come in bursts, which a mean over seconds hides; and what it takes to be more than usual.

/// A change is one by this factor at least, and by this many standard deviations of a count.
pub(super) const FACTOR: f32 = 2.0;
pub(super) const DEVIATIONS: f32 = 6.0;
/// Seconds that have to be known, and that a burst lasts for at most.
const KNOWN: usize = 10;
const LONGEST: usize = 5;

/// The largest one of several bursts, and how much more that is than usual.
#[derive(Debug, PartialEq)]
pub(super) struct Bursts {
    pub(super) requests: f32,
    pub(super) seconds: usize,
    pub(super) factor: f32,
}

/// Finds bursts in the counts of the last seconds: seconds with far more requests than usual, between others that are usual.
/// `before` are rates with the seconds that each held for, of which `usual` is the median: bursts that are no more frequent than before
/// are none.
pub(super) fn find(lately: &[f32], before: &[(f32, f32)], usual: f32) -> Option<Bursts> {
    let seconds: Vec<_> = lately.iter().map(|it| (*it, 1.0)).collect();
    let base = median(&seconds).filter(|_| lately.len() >= KNOWN)?;
    let mean = base.max(usual);
    // The root of a count deviates by a half, whatever its mean is.
    let deviates = |count: &f32| (count.sqrt() - mean.sqrt()) * 2.0;
    let is_large = |count: &f32| deviates(count) >= DEVIATIONS && *count >= mean * FACTOR;
    // Two usual seconds end a burst. What is open at either end may be a load that comes or goes.
    let pairs: Vec<_> = lately.windows(2).collect();
    let parts = pairs.split(|pair| pair.iter().all(|it| deviates(it) < DEVIATIONS / 2.0)).skip(1);
    let mut parts: Vec<Vec<_>> = parts.map(|pairs| pairs.iter().skip(1).map(|pair| pair[0]).collect()).collect();
    parts.pop();
    parts.retain(|it| it.len() <= LONGEST && it.iter().any(is_large));
    let sums = parts.iter().map(|it| (it.iter().sum::<f32>(), it.len()));
    let (requests, seconds) = sums.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    let excess = requests - mean * seconds as f32;
    let as_large = before.iter().filter(|(rate, lasted)| (rate - base) * lasted * FACTOR >= excess).count();
    let known: f32 = before.iter().map(|(_, lasted)| lasted).sum();
    let expected = as_large as f32 * lately.len() as f32 / known;
    let is_new = parts.len() as f32 >= expected * FACTOR * FACTOR;
    is_new.then(|| Bursts { requests, seconds, factor: requests / (mean * seconds as f32).max(1.0) })
}

/// The median, and any quantile, of values, each with the time that it held for.
pub(super) fn median(values: &[(f32, f32)]) -> Option<f32> {
    quantile(values, 0.5)
}

pub(super) fn quantile(values: &[(f32, f32)], part: f32) -> Option<f32> {
    let mut values = values.to_vec();
    values.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
    let part = values.iter().map(|(_, lasted)| lasted).sum::<f32>() * part;
    let mut sum = 0.0;
    values.into_iter().find_map(|(value, lasted)| {
        sum += lasted;
        (sum >= part).then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use std::{f64::consts::TAU, iter};

    use fastrand::Rng;

    use super::*;

    /// A Poisson count.
    fn count(random: &mut Rng, mean: f64) -> f32 {
        if mean > 50.0 {
            let normal = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
            return (mean + normal * mean.sqrt()).round() as f32;
        }
        let pauses = iter::repeat_with(|| -random.f64().max(1e-12).ln());
        let mut sum = 0.0;
        pauses
            .take_while(|it| {
                sum += it;
                sum < mean
            })
            .count() as f32
    }

    /// Draws an hour of counts per second with these means, and finds bursts at its end.
    fn at_the_end(random: &mut Rng, mean: impl Fn(usize) -> f64, seconds: usize) -> Option<Bursts> {
        let counts: Vec<_> = (0..seconds).map(|second| count(random, mean(second))).collect();
        let (before, lately) = counts.split_at(seconds - 20);
        let before: Vec<_> = before.chunks_exact(10).map(|ten| (ten.iter().sum::<f32>() / 10.0, 10.0)).collect();
        find(lately, &before, median(&before).unwrap())
    }

    /// How many of a thousand draws of two minutes have bursts, at the rate of these at which most have; means are given the rate, the
    /// number of the draw and the second.
    fn of_a_thousand(rates: &[f64], mean: impl Fn(f64, usize, usize) -> f64) -> usize {
        let mut random = Rng::with_seed(7);
        let found = |rate: &f64| {
            let drawn = (0..1_000)
                .filter(|number| at_the_end(&mut random, |second| mean(*rate, *number, second), 120).is_some());
            drawn.count()
        };
        rates.iter().map(found).max().unwrap_or_default()
    }

    const RATES: [f64; 6] = [0.2, 0.8, 3.0, 10.0, 30.0, 200.0];

    #[test]
    fn bursts_are_found_and_measured() {
        let mut random = Rng::with_seed(1);
        let bursts = |second: usize| if second >= 3_570 && second % 10 == 3 { 120.0 } else { 3.0 };
        let found = at_the_end(&mut random, bursts, 3_600).unwrap();
        assert!((90.0..150.0).contains(&found.requests) && found.seconds == 1 && found.factor > 20.0, "{found:?}");
        let split = |second: usize| match second % 10 {
            3 if second >= 3_570 => 70.0,
            4 if second >= 3_570 => 50.0,
            _ => 3.0,
        };
        let found = at_the_end(&mut random, split, 3_600).unwrap();
        assert!((90.0..150.0).contains(&found.requests) && found.seconds == 2, "{found:?}");
        for (factor, lasts) in [(40.0, 1), (20.0, 1), (10.0, 3), (40.0, 5)] {
            let missed = 1_000
                - of_a_thousand(&[3.0, 10.0, 30.0], |rate, number, second| {
                    let is_burst =
                        [102 + number % 8, 110 + number % 8].into_iter().any(|it| (it..it + lasts).contains(&second));
                    if is_burst { rate * factor } else { rate }
                });
            println!("{factor} times for {lasts} s: {missed} of 1000 missed");
            assert!(missed <= 20);
        }
    }

    #[test]
    fn a_load_that_is_steady_waves_rises_or_falls_has_none() {
        assert_eq!(of_a_thousand(&RATES, |rate, _, _| rate), 0, "steady");
        for period in [600, 120, 60, 30] {
            let wave = |rate: f64, number: usize, second: usize| {
                rate * (1.0 + 0.9 * (TAU * (second + number) as f64 / f64::from(period)).sin())
            };
            assert_eq!(of_a_thousand(&RATES, wave), 0, "a wave of {period} s");
        }
        for factor in [1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 40.0, 0.5, 0.1] {
            let step = |rate: f64, number: usize, second: usize| {
                if second >= 98 + number % 22 { rate * factor } else { rate }
            };
            assert!(of_a_thousand(&RATES, step) <= 3, "a step by {factor}, in one of its first seconds");
            let ramp = |rate: f64, number: usize, second: usize| {
                let since = second.saturating_sub(80 + number % 40) as f64;
                rate * (1.0 + (factor - 1.0) * (since / 20.0).min(1.0))
            };
            assert_eq!(of_a_thousand(&RATES, ramp), 0, "a rise by {factor}");
        }
    }

    #[test]
    fn bursts_that_are_usual_are_no_change() {
        for period in [5, 10, 20, 60] {
            let always = |rate: f64, number: usize, second: usize| {
                if (second + number).is_multiple_of(period) { rate * 40.0 + 40.0 } else { rate }
            };
            let mut random = Rng::with_seed(3);
            for rate in RATES {
                let found =
                    (0..100).filter(|number| at_the_end(&mut random, |it| always(rate, *number, it), 600).is_some());
                assert_eq!(found.count(), 0, "each {period} s, at {rate}/s");
            }
        }
    }
}
