//! The known name that was probably meant.

/// Longer names are compared by their beginning.
const LONGEST: usize = 64;

/// The known name that is closest to `found`, if it is close enough to be meant.
pub(crate) fn nearest<'k>(found: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let beginning = |name: &str| name.chars().take(LONGEST).collect::<String>().to_ascii_lowercase();
    let found = beginning(found);
    // One slip for each three letters; a word of two letters has to be right.
    let allowed = found.chars().count() / 3;
    let scored = known.into_iter().map(|name| (strsim::osa_distance(&found, &beginning(name)), name));
    scored.filter(|(slips, _)| *slips <= allowed).min_by_key(|(slips, _)| *slips).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_suggested_only_if_it_is_close() {
        let known = ["queue", "max_wait", "max_waiting"];
        assert_eq!(nearest("quee", known), Some("queue"));
        assert_eq!(nearest("qeuue", known), Some("queue"));
        assert_eq!(nearest("MAX_WAITNG", known), Some("max_waiting"));
        assert_eq!(nearest("workers", known), None);
        assert_eq!(nearest("a", known), None);
    }
}
