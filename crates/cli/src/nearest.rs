//! The known label that was probably meant.

/// The known name that is closest to `found`: at most one slip for each three letters.
pub(crate) fn nearest<'k>(found: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let allowed = found.chars().count() / 3;
    let scored = known.into_iter().map(|name| (strsim::osa_distance(found, name), name));
    scored.filter(|(slips, _)| *slips <= allowed).min().map(|(_, name)| name)
}
