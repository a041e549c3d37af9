//! Times and percentages as people write them.

use std::time::Duration;

/// What a time looks like, for messages.
pub(crate) const A_TIME: &str = "a time such as \"250ms\", \"5s\", \"1m30s\", \"2h\" or \"1d\"";

/// No time is longer than this: a hundred years.
const LONGEST: u128 = 100 * 365 * 86_400 * 1_000_000_000;

const UNITS: [(&str, u128); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// A time as configurations write it: `5s`, `250ms`, `1.5s`, `1m30s`, `5 min` or `2d`; a bare `0` needs no unit.
///
/// `None` for anything else, and for more than a hundred years.
#[must_use]
pub fn parse_time(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let after = after.trim_start();
        let letters = after.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ').unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        total = total.checked_add(part(number, unit)?)?;
        rest = after.trim_start();
    }
    from_nanos(total).filter(|_| !text.trim().is_empty())
}

/// Seconds as a bare number, `5` or `2.5`.
pub(crate) fn parse_seconds(text: &str) -> Option<Duration> {
    from_nanos(part(text.trim(), "s")?)
}

fn from_nanos(nanos: u128) -> Option<Duration> {
    let nanos = (nanos <= LONGEST).then(|| u64::try_from(nanos).ok())??;
    Some(Duration::from_nanos(nanos))
}

/// `number` of a unit in nanoseconds, exactly.
fn part(number: &str, unit: &str) -> Option<u128> {
    let unit = match unit {
        "day" | "days" => "d",
        "hour" | "hours" => "h",
        "min" | "mins" | "minute" | "minutes" => "m",
        "sec" | "secs" | "second" | "seconds" => "s",
        "µs" => "us",
        other => other,
    };
    let (_, size) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| (!text.is_empty() && text.bytes().all(|c| c.is_ascii_digit())).then_some(());
    digits(whole)?;
    digits(fraction)?;
    if fraction.len() > 9 {
        return None;
    }
    let scale = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let fraction = fraction.parse::<u128>().ok()?.checked_mul(size)? / scale;
    whole.parse::<u128>().ok()?.checked_mul(size)?.checked_add(fraction)
}

/// A time as configurations write it, in the largest unit that it is a whole number of.
#[must_use]
pub fn write_time(time: Duration) -> String {
    let nanos = time.as_nanos();
    if nanos == 0 {
        return "0s".to_owned();
    }
    let unit = UNITS.into_iter().find(|(_, size)| nanos.is_multiple_of(*size));
    let (unit, size) = unit.unwrap_or(("ns", 1));
    format!("{}{unit}", nanos / size)
}

/// `60%` or `12.5 %`, in percent.
pub(crate) fn parse_percent(text: &str) -> Option<f64> {
    let number = text.trim().strip_suffix('%')?.trim_end();
    number.parse().ok().filter(|percent: &f64| percent.is_finite())
}

/// A part of one in percent: 0.07 is 7, not 7.000000000000001.
pub(crate) fn percent_of(part: f64) -> f64 {
    let percent = part * 100.0;
    let rounded = (percent * 1e9).round() / 1e9;
    if (rounded - percent).abs() < 1e-12 { rounded } else { percent }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_read() {
        for (text, nanos) in [
            ("5s", 5_000_000_000),
            ("250ms", 250_000_000),
            ("2m", 120_000_000_000),
            ("1.5s", 1_500_000_000),
            ("1m30s", 90_000_000_000),
            (" 1m 30s ", 90_000_000_000),
            ("7us", 7_000),
            ("7µs", 7_000),
            ("0", 0),
            ("0s", 0),
            ("1d", 86_400_000_000_000),
            ("5 minutes", 300_000_000_000),
            ("2min 30 sec", 150_000_000_000),
            ("30seconds", 30_000_000_000),
        ] {
            assert_eq!(parse_time(text), Some(Duration::from_nanos(nanos)), "{text}");
        }
        for text in ["", "5", "s", "-5s", "5 weeks", "5 5s", "1.2.3s", ".5s", "5.s", "1e3s", "99999999999999h", "٣s"] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }

    #[test]
    fn bare_seconds_may_have_a_fraction() {
        assert_eq!(parse_seconds("5.0"), Some(Duration::from_secs(5)));
        assert_eq!(parse_seconds("0.25"), Some(Duration::from_millis(250)));
        assert_eq!(parse_seconds("-1"), None);
    }

    #[test]
    fn percentages_are_what_was_written() {
        assert_eq!(parse_percent("12.5 %"), Some(12.5));
        assert_eq!(parse_percent("60"), None);
        assert_eq!(parse_percent("NaN%"), None);
        assert!((percent_of(0.07) - 7.0).abs() < f64::EPSILON);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(nanos in 0u64..3_000_000_000_000_000_000) {
            let time = Duration::from_nanos(nanos);
            prop_assert_eq!(parse_time(&write_time(time)), Some(time));
        }
    }
}
