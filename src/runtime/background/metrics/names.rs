//! Names from strangers as values of labels.

use std::{borrow::Cow, fmt::Write, sync::Arc};

use metrics::Label;

/// Returns a label whose value is a name from a stranger.
pub(super) fn named(key: &'static str, name: &Arc<str>) -> Label {
    match harmless(name) {
        Cow::Borrowed(_) => Label::new(key, Arc::clone(name)),
        Cow::Owned(name) => Label::new(key, name),
    }
}

/// Returns the name in percent encoding, as in a URL, where exporters and scrapers would stumble: control characters,
/// line separators, quotes and backslashes, and the percent sign, so that no two names become the same.
///
/// Exporters differ in how they escape these. The Prometheus exporter takes a quote after a backslash for one that was
/// escaped before, so two labels would be one, twice in a scrape.
pub(super) fn harmless(name: &str) -> Cow<'_, str> {
    let is_awkward = |c: char| c.is_control() || matches!(c, '"' | '\\' | '%' | '\u{2028}' | '\u{2029}');
    if !name.contains(is_awkward) {
        return Cow::Borrowed(name);
    }
    let mut text = String::with_capacity(name.len() + 8);
    for c in name.chars() {
        if is_awkward(c) {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                // Writing to a string can't fail.
                let _ = write!(text, "%{byte:02X}");
            }
        } else {
            text.push(c);
        }
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_plain_stays_as_it_is_and_the_rest_is_encoded() {
        for plain in ["AppA:Chromium:UAT", "ä,ö={x}", ""] {
            assert!(matches!(harmless(plain), Cow::Borrowed(same) if same == plain));
        }
        for (name, expected) in [
            ("\"", "%22"),
            ("\\\"", "%5C%22"),
            ("%22", "%2522"),
            ("a\nb", "a%0Ab"),
            ("50%", "50%25"),
            ("\u{2028}\u{85}", "%E2%80%A8%C2%85"),
        ] {
            assert_eq!(harmless(name), expected);
        }
    }
}
