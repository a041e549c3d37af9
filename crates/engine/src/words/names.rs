//! Names that callers choose: their normal form, and the hash by which labels are found.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::OnceLock,
};

/// Names are cut to this many bytes.
const LONGEST_NAME: usize = 256;

/// A name in its normal form: without white space around it, and not too long. `None` if nothing is left.
pub fn normal(name: &str) -> Option<&str> {
    // Nearly all names begin and end with a letter or a digit: looking for white space costs more than a look at both.
    let is_trimmed =
        matches!(name.as_bytes(), [first, .., last] if first.is_ascii_graphic() && last.is_ascii_graphic());
    let name = if is_trimmed { name } else { name.trim() };
    if name.len() <= LONGEST_NAME {
        return (!name.is_empty()).then_some(name);
    }
    (0..=LONGEST_NAME).rev().find_map(|end| name.get(..end))
}

/// The hash of requests without a label.
pub(crate) const NO_LABEL: u64 = 0;

/// Returns the hash of a label. Names come from strangers, so it is keyed, with a key of this process.
pub fn hash_of(namespace: &str, label: &str) -> u64 {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    if label.is_empty() {
        return NO_LABEL;
    }
    let mut hasher = KEY.get_or_init(RandomState::new).build_hasher();
    hasher.write(label.as_bytes());
    if !namespace.is_empty() {
        hasher.write_u8(0xff);
        hasher.write(namespace.as_bytes());
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_trimmed_and_cut_where_a_character_ends() {
        assert_eq!(normal(" a:b\t"), Some("a:b"));
        assert_eq!(normal("  "), None);
        let long = "ä".repeat(200);
        assert_eq!(normal(&long).map(str::len), Some(256));
        let odd = format!("x{long}");
        assert_eq!(normal(&odd).map(str::len), Some(255));
    }

    #[test]
    fn namespaces_and_names_are_told_apart() {
        let hashes =
            [("", "ab"), ("b", "a"), ("a", "b"), ("ab", "a"), ("a", "ab"), ("", "b")].map(|(n, l)| hash_of(n, l));
        for (at, hash) in hashes.iter().enumerate() {
            assert!(!hashes[..at].contains(hash));
        }
        assert_eq!(hash_of("", ""), NO_LABEL);
    }
}
