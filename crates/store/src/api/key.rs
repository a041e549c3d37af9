//! The one place where keys are made.
//!
//! ```text
//! PREFIX:{NAMESPACE}:cap:SCOPE:NAME      the holders of a cap, and its waiters
//! PREFIX:{NAMESPACE}:rate:SCOPE:NAME     what was charged on a rate
//! PREFIX:admission:ORG                   the admission lock
//! PREFIX:{PREFIX:admission:ORG}:queue    the waiters; in the slot of the lock
//! PREFIX:{PREFIX:admission:ORG}:asked    when they asked last; in the slot of the lock
//! PREFIX:mark, PREFIX:probe              whether data was lost, and whether the server takes writes
//! PREFIX:{…}:probe                       whether the node of a cluster takes writes; in the slot of a cap, rate or lock
//! ```
//!
//! All keys of a namespace carry the same hash tag, so one script may decide over any of them in a Redis Cluster. Nothing but names goes
//! into a key. A name is escaped, so that it can't pretend to be two. A long name, or each name if asked, is replaced by its hash.

use std::{fmt, fmt::Write as _, sync::Arc};

use super::StoreError;

/// Names longer than this, once escaped, are hashed: each key repeats its name.
const LONGEST: usize = 120;

/// Makes keys with a prefix of the caller's.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Keys {
    prefix: Arc<str>,
    hashed: bool,
}

impl Keys {
    /// Returns keys that begin with `prefix`, which tells apart the applications that share one store.
    ///
    /// # Errors
    ///
    /// [`StoreError::Configuration`] unless the prefix is 1 to 64 of the characters `A-Z a-z 0-9 . _ - :`.
    pub fn new(prefix: &str) -> Result<Self, StoreError> {
        let allowed = |byte: u8| is_plain(byte) || byte == b':';
        if prefix.is_empty() || prefix.len() > 64 || !prefix.bytes().all(allowed) {
            let problem = "the prefix of keys must be 1 to 64 of the characters A-Z a-z 0-9 . _ - :";
            return Err(StoreError::Configuration(problem.to_owned()));
        }
        Ok(Self { prefix: prefix.into(), hashed: false })
    }

    /// Puts the hash of each name into the keys, not the name: for names that should stay private.
    ///
    /// A hash hides a name from readers, not from an attacker who guesses it and compares.
    #[must_use]
    pub fn hashed(mut self) -> Self {
        self.hashed = true;
        self
    }

    /// Returns the key of a cap: `scope` says what kind of name it is, such as `label` or `task.namespace`.
    pub fn cap(&self, namespace: &str, scope: &str, name: &str) -> Key {
        self.tagged(namespace, "cap", scope, name)
    }

    /// Returns the key of a rate or of a budget group.
    pub fn rate(&self, namespace: &str, scope: &str, name: &str) -> Key {
        self.tagged(namespace, "rate", scope, name)
    }

    /// Returns the key of the admission lock of an organisation.
    pub fn admission(&self, organisation: &str) -> Key {
        Key(format!("{}:admission:{}", self.prefix, self.name(organisation)).into())
    }

    /// Returns the prefix that all keys begin with, including those that a store makes for itself.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    fn tagged(&self, namespace: &str, kind: &str, scope: &str, name: &str) -> Key {
        let [namespace, scope, name] = [namespace, scope, name].map(|it| self.name(it));
        Key(format!("{}:{{{namespace}}}:{kind}:{scope}:{name}", self.prefix).into())
    }

    /// Returns a name as it stands in keys; the empty one means the default.
    fn name(&self, name: &str) -> String {
        let name = match name.trim() {
            "" => "default",
            name => name,
        };
        let mut escaped = String::with_capacity(name.len());
        if !self.hashed {
            for byte in name.bytes() {
                if is_plain(byte) {
                    escaped.push(char::from(byte));
                } else {
                    // Writing to a string can't fail.
                    let _ = write!(escaped, "%{byte:02X}");
                }
            }
        }
        // `~` is never the result of escaping, so no name looks like a hash.
        if self.hashed || escaped.len() > LONGEST { format!("~{}", hash(name)) } else { escaped }
    }
}

/// Where one counter or lock is stored. Shown as it is: it has names and hashes only.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Key(pub(crate) Arc<str>);

impl Key {
    /// Returns the whole key.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns what is between the braces: the namespace, for keys that may be decided over together. Locks have none.
    pub fn tag(&self) -> Option<&str> {
        Some(self.0.split_once('{')?.1.split_once('}')?.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

/// SHA-1 is long broken for signatures, and good enough here: a caller that finds two names with one hash shares a
/// limit with itself.
#[cfg(feature = "shared")]
fn hash(name: &str) -> String {
    sha1_smol::Sha1::from(name).digest().to_string()
}

/// Without the feature the library has no store to give keys to. They differ all the same, but hide nothing.
#[cfg(not(feature = "shared"))]
fn hash(name: &str) -> String {
    name.bytes().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kept_tests::seeds;

    fn keys() -> Keys {
        Keys::new("adm").unwrap()
    }

    #[test]
    fn keys_are_readable_and_carry_one_tag() {
        let key = keys().cap("acme", "label", "orders");
        assert_eq!(key.as_str(), "adm:{acme}:cap:label:orders");
        assert_eq!(key.tag(), Some("acme"));
        assert_eq!(keys().rate("", "group", "a b").as_str(), "adm:{default}:rate:group:a%20b");
        assert_eq!(keys().admission(" acme ").as_str(), "adm:admission:acme");
        assert_eq!(keys().admission("acme").tag(), None);
    }

    #[test]
    fn long_and_hashed_names_are_not_in_the_key() {
        let secret = "sk-live-0123456789";
        let key = keys().hashed().cap(secret, "label", secret);
        assert!(!key.as_str().contains(secret), "{key:?}");
        assert!(keys().cap("a", "label", &"é".repeat(100)).as_str().len() < 80);
        assert!(keys().cap("a", "label", secret).as_str().contains(secret), "control: else it is there");
    }

    #[test]
    fn a_prefix_can_not_break_the_tag() {
        for bad in ["", "a{b", "a}b", "a b", &"x".repeat(65)] {
            assert!(matches!(Keys::new(bad), Err(StoreError::Configuration(_))), "{bad}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: seeds(), ..ProptestConfig::default() })]

        #[test]
        fn different_names_have_different_keys(one in "\\PC{0,80}", two in "\\PC{0,80}", three in "\\PC{0,80}") {
            let normal = |name: &str| match name.trim() { "" => "default".to_owned(), name => name.to_owned() };
            let key = keys().cap(&one, &two, &three);
            prop_assert_eq!(key.as_str().matches(['{', '}']).count(), 2);
            let other = keys().cap(&three, &two, &one);
            prop_assert_eq!(key == other, normal(&one) == normal(&three));
        }
    }
}
