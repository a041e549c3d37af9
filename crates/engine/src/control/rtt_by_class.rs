//! Round-trip times of different kinds of work, made comparable.
//!
//! A server answers point look-ups in 5 ms and reports in 500 ms. If the share of reports grows, so does the mean latency, and a control
//! law that looks at it alone takes the change for congestion. What congestion does is something else: it makes *all* kinds slower, by
//! about the same factor. So the logarithm of a round-trip time is split into two parts,
//!
//! ```text
//! ln rtt = level(t) + offset(class)
//! ```
//!
//! a level that is common to all and moves within tens of requests, and an offset for each class that moves sixteen times slower; that of
//! the first class is zero. The law is given `exp(ln rtt - offset)`: the time that the request would have taken, had it been of the first
//! class. When all become slower, the level follows long before the offsets could, and once it has, there is nothing left to learn: the
//! offsets take a sixteenth of the change and keep it only as long as it lasts. So an overload is not forgotten however long it is.

use std::time::Duration;

use crate::{Histogram, ids::ClassId, words::nanos};

/// No more classes than this are told apart; all further ones are one.
const MAX_CLASSES: usize = 64;

const LEVEL_GAIN: f64 = 1.0 / 32.0;
const OFFSET_GAIN: f64 = 1.0 / 512.0;
/// The offset of a new class is the mean of its first samples.
const WARM_UP: f64 = 64.0;

/// The offsets of all classes, and their round-trip times.
#[derive(Debug, Default)]
pub(crate) struct RttByClass {
    /// Sorted by name; the number of a class is its place in `classes`.
    names: Vec<(Box<str>, ClassId)>,
    level: Option<f64>,
    reference: usize,
    classes: Vec<Class>,
}

#[derive(Debug, Default)]
struct Class {
    offset: f64,
    samples: f64,
    /// The round-trip times, for a history.
    times: Histogram,
}

impl RttByClass {
    /// Returns the number of the class of this name; 0 for classes that are not told apart.
    pub(crate) fn number(&mut self, name: &str) -> ClassId {
        match self.search(name) {
            Ok(place) => self.names[place].1,
            Err(place) if self.names.len() + 1 < MAX_CLASSES => {
                let number = ClassId::from_index(self.names.len() + 1);
                self.names.insert(place, (name.into(), number));
                number
            }
            Err(_) => ClassId::OTHERS,
        }
    }

    /// Returns the number of the class of this name, if it is known; else 0.
    pub(crate) fn find(&self, name: &str) -> ClassId {
        self.search(name).map_or(ClassId::OTHERS, |place| self.names[place].1)
    }

    /// Returns the place of a name, or where it belongs.
    fn search(&self, name: &str) -> Result<usize, usize> {
        self.names.binary_search_by(|(known, _)| (**known).cmp(name))
    }

    /// Returns the round-trip times of each class that has a name.
    pub(crate) fn times(&self) -> impl Iterator<Item = (&str, ClassId, &Histogram)> {
        self.names.iter().filter_map(|(name, class)| Some((&**name, *class, &self.classes.get(class.index())?.times)))
    }

    /// Learns from a round-trip time and returns what it would have been for an average request.
    #[inline]
    pub(crate) fn normalise(&mut self, class: ClassId, rtt: Duration) -> Duration {
        if self.names.is_empty() { rtt } else { self.normalise_one(class, rtt) }
    }

    fn normalise_one(&mut self, class: ClassId, rtt: Duration) -> Duration {
        #[expect(clippy::cast_precision_loss, reason = "a latency in nanoseconds")]
        let ln_rtt = (nanos(rtt).max(1) as f64).ln();
        let class = class.index();
        if self.classes.len() <= class {
            self.classes.resize_with(class + 1, Class::default);
        }
        let level = *self.level.get_or_insert_with(|| {
            self.reference = class;
            ln_rtt
        });
        let one = &mut self.classes[class];
        one.times.record(rtt);
        one.samples += 1.0;
        let residual = ln_rtt - level - one.offset;
        let gain = match one.samples {
            _ if class == self.reference => 0.0,
            samples if samples <= WARM_UP => 1.0 / samples,
            _ => OFFSET_GAIN,
        };
        one.offset += gain * residual;
        // The offset took its part of what this sample was off; what is left is the level's.
        self.level = Some(level + LEVEL_GAIN * (1.0 - gain) * residual);
        let normal = (ln_rtt - one.offset).exp();
        Duration::try_from_secs_f64(normal / 1e9).unwrap_or(rtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `count` requests of which `slow` percent are reports of 500 ms, the rest look-ups of 5 ms, all slower by
    /// `factor`. Returns the mean logarithm of the last half, raw and normalised.
    fn feed(classes: &mut RttByClass, count: u32, slow: u32, factor: f64) -> (f64, f64) {
        let (report, look_up) = (classes.number("report"), classes.number("look_up"));
        let (mut raw, mut normal, mut taken) = (0.0, 0.0, 0.0);
        for i in 0..count {
            let is_slow = (i * 37) % 100 < slow;
            let scatter = 1.0 + f64::from((i * 7_919) % 100) / 500.0;
            let seconds = if is_slow { 0.5 } else { 0.005 } * factor * scatter;
            let rtt = Duration::from_secs_f64(seconds);
            let normalised = classes.normalise(if is_slow { report } else { look_up }, rtt);
            if i * 2 >= count {
                raw += rtt.as_secs_f64().ln();
                normal += normalised.as_secs_f64().ln();
                taken += 1.0;
            }
        }
        (raw / taken, normal / taken)
    }

    #[test]
    fn a_shift_of_the_mix_is_no_congestion() {
        let mut classes = RttByClass::default();
        let before = feed(&mut classes, 20_000, 10, 1.0);
        let after = feed(&mut classes, 400, 60, 1.0);
        assert!(after.0 - before.0 > 2.0, "unnormalised it looks seven times slower");
        assert!((after.1 - before.1).abs() < 0.15, "{before:?} {after:?}");
    }

    #[test]
    fn congestion_stays_visible_however_long_it_lasts() {
        let mut classes = RttByClass::default();
        let before = feed(&mut classes, 20_000, 10, 1.0);
        let early = feed(&mut classes, 400, 10, 3.0);
        let late = feed(&mut classes, 200_000, 10, 3.0);
        for (name, during) in [("early", early), ("late", late)] {
            let factor = (during.1 - before.1).exp();
            assert!((2.6..=3.4).contains(&factor), "{name}: {factor}");
        }
    }

    #[test]
    fn without_classes_nothing_is_changed_and_strangers_share_one() {
        let mut classes = RttByClass::default();
        assert_eq!(classes.normalise(ClassId::OTHERS, Duration::from_millis(7)), Duration::from_millis(7));
        let numbers: Vec<_> = (0..1_000).map(|i| classes.number(&i.to_string())).collect();
        assert_eq!(numbers.iter().filter(|&&number| number == ClassId::OTHERS).count(), 1_000 - (MAX_CLASSES - 1));
        assert_eq!(classes.number("0"), numbers[0]);
        for rtt in [Duration::ZERO, Duration::MAX, Duration::from_nanos(1)] {
            classes.normalise(ClassId::from_index(3), rtt);
        }
        assert!(classes.level.unwrap().is_finite());
    }
}
