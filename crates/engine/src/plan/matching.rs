//! Which setting applies to a label, where settings name some labels and requests bring others.
//!
//! Labels are read as segments between colons, `app:browser:environment`. A setting under the exact name of a label
//! comes before every pattern; after that, the first of these patterns that matches applies:
//!
//! 1. *Wildcards*: a segment `*` in the name of a setting matches any one segment. Of several settings that match, the
//!    name with the fewest such segments applies, and of these the name whose first `*` comes last.
//! 2. *Trailing fallback*: the label without its last segment, then without its last two, and so on, each by its name and
//!    then by wildcards.
//! 3. *Prefix expand*: the settings whose names begin with the label. The label may stand for any of them, so the
//!    smallest of their values applies.
//!
//! In each step a setting for the namespace of the label comes before one for any namespace.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound,
};

/// The patterns that are in use.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Matching {
    pub trailing_fallback: bool,
    pub prefix_expand: bool,
    pub wildcards: bool,
}

/// The separator of segments, and the segment that stands for any other.
const SEPARATOR: char = ':';
const ANY: &str = "*";

/// Whether a name has a segment that stands for any other.
pub fn has_wildcard(name: &str) -> bool {
    name.split(SEPARATOR).any(|segment| segment == ANY)
}

/// Whether a name has a `*` that a reader would take for a pattern. The `*` of `{*rest}` is a part of a route's name.
pub fn has_star(name: &str) -> bool {
    name.match_indices('*').any(|(at, _)| !name[..at].ends_with('{'))
}

/// Values of one setting by name of label, for any namespace or for one.
#[derive(Clone, Debug)]
pub struct ByLabel<T> {
    matching: Matching,
    namespaces: HashMap<Option<Box<str>>, Names<T>>,
}

#[derive(Clone, Debug)]
struct Names<T> {
    /// In order, so that all that begin with a label are side by side.
    exact: BTreeMap<Box<str>, T>,
    /// Names with wildcards, the most specific first.
    patterns: Vec<(Box<str>, T)>,
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self { exact: BTreeMap::new(), patterns: Vec::new() }
    }
}

impl Matching {
    /// Whether a setting for a label of this name has a `*` that can match nothing.
    pub fn is_idle(self, name: &str) -> bool {
        name.split(SEPARATOR).any(|segment| has_star(segment) && !(self.wildcards && segment == ANY))
    }
}

impl<T: Copy + Ord> ByLabel<T> {
    #[doc(hidden)]
    pub fn new(matching: Matching) -> Self {
        Self { matching, namespaces: HashMap::new() }
    }

    /// Sets the value for a name, the last one if it is set twice.
    pub fn insert(&mut self, namespace: Option<&str>, name: &str, value: T) {
        let names = self.namespaces.entry(namespace.map(Into::into)).or_default();
        if !(self.matching.wildcards && has_wildcard(name)) {
            names.exact.insert(name.into(), value);
            return;
        }
        names.patterns.retain(|(known, _)| **known != *name);
        let at = names.patterns.partition_point(|(known, _)| particular(known) <= particular(name));
        names.patterns.insert(at, (name.into(), value));
    }

    /// The value for a label of a namespace; `None` is a namespace without settings.
    pub fn find(&self, namespace: Option<&str>, label: &str) -> Option<T> {
        if self.namespaces.is_empty() {
            return None;
        }
        let own = namespace.and_then(|namespace| self.namespaces.get(&Some(namespace.into())));
        let scopes = [own, self.namespaces.get(&None)];
        let first = |find: &dyn Fn(&Names<T>) -> Option<T>| scopes.iter().copied().flatten().find_map(find);
        let exact = |name: &str| first(&|names| names.exact.get(name).copied());
        let wild = |name: &str| first(&|names| names.matching(name));
        let shorter = || {
            let cuts = label.rmatch_indices(SEPARATOR).map(|(end, _)| &label[..end]);
            cuts.filter(|_| self.matching.trailing_fallback).find_map(|name| exact(name).or_else(|| wild(name)))
        };
        let longer = || first(&|names| names.smallest_beyond(label)).filter(|_| self.matching.prefix_expand);
        exact(label).or_else(|| wild(label)).or_else(shorter).or_else(longer)
    }
}

impl<T: Copy + Ord> Names<T> {
    fn matching(&self, name: &str) -> Option<T> {
        self.patterns.iter().find(|(pattern, _)| matches(pattern, name)).map(|(_, value)| *value)
    }

    fn smallest_beyond(&self, label: &str) -> Option<T> {
        let start = format!("{label}{SEPARATOR}");
        let from = (Bound::Excluded(start.as_str()), Bound::Unbounded);
        let exact = self.exact.range::<str, _>(from).take_while(|(name, _)| name.starts_with(&start));
        let patterns = self.patterns.iter().filter(|(pattern, _)| begins(pattern, label));
        exact.map(|(_, value)| *value).chain(patterns.map(|(_, value)| *value)).min()
    }
}

/// The order of patterns: fewer wildcards first, and of as many the pattern whose first wildcard comes last.
fn particular(pattern: &str) -> (usize, Vec<bool>) {
    let wild: Vec<bool> = pattern.split(SEPARATOR).map(|segment| segment == ANY).collect();
    (wild.iter().filter(|wild| **wild).count(), wild)
}

fn matches(pattern: &str, name: &str) -> bool {
    let (mut segments, mut found) = (pattern.split(SEPARATOR), name.split(SEPARATOR));
    loop {
        match (segments.next(), found.next()) {
            (None, None) => return true,
            (Some(segment), Some(found)) if segment == ANY || segment == found => {}
            _ => return false,
        }
    }
}

/// Whether the pattern goes on where the label ends.
fn begins(pattern: &str, label: &str) -> bool {
    let segments = label.split(SEPARATOR).count();
    let end = pattern.match_indices(SEPARATOR).nth(segments - 1).map(|(end, _)| end);
    end.is_some_and(|end| matches(&pattern[..end], label))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Matching = Matching { trailing_fallback: true, prefix_expand: true, wildcards: true };
    const NONE: Matching = Matching { trailing_fallback: false, prefix_expand: false, wildcards: false };

    fn caps(matching: Matching, caps: &[(&str, usize)]) -> ByLabel<usize> {
        let mut by_label = ByLabel::new(matching);
        for &(name, cap) in caps {
            by_label.insert(None, name, cap);
        }
        by_label
    }

    #[test]
    fn exact_beats_every_pattern() {
        let caps = caps(ALL, &[("a:b:c", 1), ("a:b", 2), ("a:b:c:d", 3), ("a:*:c", 4)]);
        assert_eq!(caps.find(Some(""), "a:b:c"), Some(1));
    }

    #[test]
    fn the_three_patterns_find_what_they_should() {
        let known = &[("a:b:uat", 3), ("a:b:prod", 2), ("c:*:uat", 5), ("*:x:*", 7), ("c:x:*", 6)];
        for (label, trailing, prefix, wild) in [
            ("a:b:uat:eu:1", Some(3), None, None), // trailing fallback, over two segments
            ("a:b", None, Some(2), None),          // prefix expand: the smallest
            ("a", None, Some(2), None),
            ("a:", None, None, None),
            ("a:bb", None, None, None),
            ("c:f:uat", None, None, Some(5)),
            ("c:x:uat", None, None, Some(6)), // one `*` each: the later one is more particular
            ("q:x:z", None, None, Some(7)),
            ("z", None, None, None),
        ] {
            let one = |matching| caps(matching, known).find(Some("ns"), label);
            assert_eq!(one(NONE), None, "{label}");
            assert_eq!(one(Matching { trailing_fallback: true, ..NONE }), trailing, "{label} trailing");
            assert_eq!(one(Matching { prefix_expand: true, ..NONE }), prefix, "{label} prefix");
            assert_eq!(one(Matching { wildcards: true, ..NONE }), wild, "{label} wildcards");
        }
    }

    #[test]
    fn patterns_work_together() {
        let caps = caps(ALL, &[("c:*:uat", 5), ("c:*:prod", 4)]);
        assert_eq!(caps.find(Some(""), "c:x:uat:eu"), Some(5), "falls back to what matches a wildcard");
        assert_eq!(caps.find(Some(""), "c:x"), Some(4), "goes on to what matches a wildcard");
        assert_eq!(caps.find(Some(""), "c"), Some(4));
        assert_eq!(caps.find(Some(""), "d"), None);
    }

    #[test]
    fn the_namespace_of_the_label_comes_first() {
        let mut caps = caps(ALL, &[("a", 1)]);
        caps.insert(Some("ns"), "a", 2);
        caps.insert(Some("ns"), "b", 3);
        assert_eq!((caps.find(Some("ns"), "a"), caps.find(Some("other"), "a")), (Some(2), Some(1)));
        assert_eq!((caps.find(Some("ns"), "a:x"), caps.find(Some("other"), "a:x")), (Some(2), Some(1)));
        assert_eq!((caps.find(Some("ns"), "b"), caps.find(Some("other"), "b")), (Some(3), None));
    }
}
