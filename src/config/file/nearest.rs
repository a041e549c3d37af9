//! The name that somebody who made a slip of the pen probably meant.

/// The known name that is closest to `found`, if it is close enough to be meant.
pub(super) fn nearest<'k>(found: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let found = found.to_ascii_lowercase();
    // One slip for each three letters; a word of two letters has to be right.
    let allowed = found.chars().count().min(64) / 3;
    let scored = known.into_iter().map(|name| (distance(&found, &name.to_ascii_lowercase()), name));
    scored.filter(|(distance, _)| *distance <= allowed).min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// How many letters have to be put in, left out, changed, or swapped with their neighbour ("optimal string alignment",
/// after Damerau, CACM 7(3), 1964).
fn distance(one: &str, two: &str) -> usize {
    const LONGEST: usize = 64;
    let one: Vec<char> = one.chars().take(LONGEST).collect();
    let two: Vec<char> = two.chars().take(LONGEST).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=two.len()).collect();
    for (i, &a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &b) in two.iter().enumerate() {
            let mut best = (last[j] + usize::from(a != b)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a == two[j - 1] && one[i - 1] == b {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[two.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_counted() {
        for (one, two, slips) in [("queue", "queue", 0), ("quee", "queue", 1), ("qeuue", "queue", 1), ("", "abc", 3)] {
            assert_eq!(distance(one, two), slips, "{one} {two}");
            assert_eq!(distance(two, one), slips, "{two} {one}");
        }
    }

    #[test]
    fn a_name_is_suggested_only_if_it_is_close() {
        let known = ["queue", "max_wait", "max_waiting"];
        assert_eq!(nearest("quee", known), Some("queue"));
        assert_eq!(nearest("MAX_WAITNG", known), Some("max_waiting"));
        assert_eq!(nearest("workers", known), None);
        assert_eq!(nearest("a", known), None);
    }
}
