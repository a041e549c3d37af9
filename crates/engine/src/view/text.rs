//! Numbers and names in sentences.

/// Returns a time with a unit that suits it: `250 ms`, `1.2 s`, `75 min`.
pub fn seconds(seconds: f64) -> String {
    let (value, unit) = match seconds {
        it if it >= 7_200.0 => (it / 3_600.0, "h"),
        it if it >= 120.0 => (it / 60.0, "min"),
        it if it >= 1.0 || it <= 0.0 => (it, "s"),
        it if it >= 0.001 => (it * 1_000.0, "ms"),
        it => (it * 1_000_000.0, "µs"),
    };
    let decimals = usize::from(value < 9.95 && value.fract() > 0.0);
    format!("{value:.decimals$} {unit}")
}

/// Returns a rate: `1,234/s` without the comma, `5.2/s`.
pub fn rate(per_second: f64) -> String {
    let decimals = usize::from(per_second < 9.95 && per_second > 0.0);
    format!("{per_second:.decimals$}/s")
}

/// Returns a percentage, rounded down: what is less than everything is not called everything.
pub fn percent(percent: f64) -> String {
    if percent >= 10.0 { format!("{} %", percent.floor()) } else { format!("{:.1} %", (percent * 10.0).floor() / 10.0) }
}

/// Returns a name, cut to a length that a line has room for, and without characters that would change how the rest of the line
/// looks.
pub fn name(name: &str) -> String {
    const LONGEST: usize = 60;
    let is_harmful = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let mut characters = name.chars().map(|c| if is_harmful(c) { char::REPLACEMENT_CHARACTER } else { c });
    let cut: String = characters.by_ref().take(LONGEST).collect();
    if characters.next().is_some() { cut + "…" } else { cut }
}

/// Returns the name of a label with its namespace, if it has one.
pub fn full_name(namespace: &str, label: &str) -> String {
    let namespace = if namespace.is_empty() { String::new() } else { name(namespace) + ":" };
    namespace + &name(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_short() {
        assert_eq!(
            [0.0, 0.000_02, 0.0042, 0.25, 1.24, 4_500.0].map(seconds),
            ["0 s", "20 µs", "4.2 ms", "250 ms", "1.2 s", "75 min"]
        );
        assert_eq!([0.0, 0.25, 5.24, 16_000.4].map(rate), ["0/s", "0.2/s", "5.2/s", "16000/s"]);
        assert_eq!([99.97, 100.0, 0.66, 1.0].map(percent), ["99 %", "100 %", "0.6 %", "1.0 %"]);
        assert_eq!(name("a\x1b[2J\u{202e}b"), "a\u{fffd}[2J\u{fffd}b");
        assert_eq!(
            (name("é".repeat(60).as_str()).chars().count(), name("é".repeat(61).as_str()).chars().count()),
            (60, 61)
        );
    }
}
