//! What is asked of a store: one request's caps and rates, decided all or nothing.

use std::{num::NonZeroU32, time::Duration};

use super::{Key, StoreError, Token};
use crate::engine::rules::OnStoreFailure;

/// One minute, in which the maximum of a rate is counted unless [`Claim::every`] says otherwise.
const MINUTE: Duration = Duration::from_secs(60);

/// How a rate is counted. By the clock of the store in both modes, so it doesn't matter what time the callers think
/// it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum RateMode {
    /// At most the maximum in each minute of the clock. Over any 60 s: at most twice the maximum.
    Bucket,
    /// Evenly spread, `burst` at once at most (the generic cell rate algorithm). Over any 60 s: at most the maximum
    /// plus `burst`.
    Smooth {
        /// How many may come at once after a lull.
        burst: NonZeroU32,
    },
}

/// The rule that a claim is made under.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Rule {
    Cap { bound: NonZeroU32 },
    Rate { maximum: NonZeroU32, period: Duration, mode: RateMode },
}

/// One unit of one cap or rate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Claim {
    pub(crate) key: Key,
    pub(crate) rule: Rule,
    pub(crate) when_gone: OnStoreFailure,
}

impl Claim {
    /// A place under a cap: at most `bound` are held at the same time.
    pub const fn cap(key: Key, bound: NonZeroU32) -> Self {
        Self { key, rule: Rule::Cap { bound }, when_gone: OnStoreFailure::FailClosed }
    }

    /// One of `maximum` per minute.
    pub const fn rate(key: Key, maximum: NonZeroU32, mode: RateMode) -> Self {
        Self { key, rule: Rule::Rate { maximum, period: MINUTE, mode }, when_gone: OnStoreFailure::FailClosed }
    }

    /// Counts the maximum of a rate in `period` instead of a minute; from 1 ms to a day. No effect on a cap.
    #[must_use]
    pub fn every(mut self, every: Duration) -> Self {
        if let Rule::Rate { period, .. } = &mut self.rule {
            *period = every.clamp(Duration::from_millis(1), Duration::from_secs(86_400));
        }
        self
    }

    /// What becomes of this rule while the store is gone; [`OnStoreFailure::FailClosed`] unless set.
    #[must_use]
    pub const fn when_gone(mut self, when_gone: OnStoreFailure) -> Self {
        self.when_gone = when_gone;
        self
    }

    /// Where it is counted.
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// Whether it is a cap, whose units come back, rather than a rate.
    pub const fn is_cap(&self) -> bool {
        matches!(self.rule, Rule::Cap { .. })
    }

    /// The bound of the cap, or the maximum of the rate.
    pub const fn bound(&self) -> NonZeroU32 {
        match self.rule {
            Rule::Cap { bound } => bound,
            Rule::Rate { maximum, .. } => maximum,
        }
    }
}

/// The claims of one request: at least one, all of one namespace, no key twice.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Claims(Vec<Claim>);

impl Claims {
    /// Most claims that one request can have.
    pub const MOST: usize = 64;

    /// The claims to be decided together, in the order in which they are looked at.
    ///
    /// # Errors
    ///
    /// [`StoreError::Configuration`] if there is none, more than [`Claims::MOST`], two with the same key, or two of
    /// different namespaces: one script of Redis Cluster decides over one hash tag only.
    pub fn new(claims: Vec<Claim>) -> Result<Self, StoreError> {
        let wrong = |problem: String| Err(StoreError::Configuration(problem));
        let Some(first) = claims.first() else { return wrong("a request has at least one claim".to_owned()) };
        if claims.len() > Self::MOST {
            return wrong(format!("a request has at most {} claims, not {}", Self::MOST, claims.len()));
        }
        for (index, claim) in claims.iter().enumerate() {
            if claim.key.tag().is_none() || claim.key.tag() != first.key.tag() {
                return wrong(format!("{:?} and {:?} are in different namespaces", first.key, claim.key));
            }
            if claims[..index].iter().any(|earlier| earlier.key == claim.key) {
                return wrong(format!("{:?} is claimed twice", claim.key));
            }
        }
        Ok(Self(claims))
    }

    /// All of them.
    pub fn as_slice(&self) -> &[Claim] {
        &self.0
    }

    /// The keys whose units come back: those of the caps.
    pub(crate) fn caps(&self) -> Vec<Key> {
        self.0.iter().filter(|claim| claim.is_cap()).map(|claim| claim.key.clone()).collect()
    }
}

/// A request for a lease.
#[derive(Clone, Debug)]
pub struct Request {
    /// Chosen by the client and never used twice.
    pub(crate) token: Token,
    pub(crate) claims: Claims,
    pub(crate) expiry: Duration,
    /// Somebody stands in line for this: whoever frees some of it should say so.
    pub(crate) waits: bool,
}

impl Request {
    /// Asks for `claims`, which the store takes back after `expiry` unless renewed.
    pub const fn new(token: Token, claims: Claims, expiry: Duration) -> Self {
        Self { token, claims, expiry, waits: false }
    }

    /// Asks whoever frees some of what is missing to give notice.
    #[must_use]
    pub const fn waiting(mut self) -> Self {
        self.waits = true;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Keys;

    #[test]
    fn claims_are_of_one_namespace_and_of_different_keys() {
        let keys = Keys::new("adm").unwrap();
        let cap = |namespace: &str, name: &str| Claim::cap(keys.cap(namespace, "label", name), NonZeroU32::MIN);
        assert!(Claims::new(vec![cap("a", "x"), cap("a", "y")]).is_ok());
        let wrong = |claims| match Claims::new(claims) {
            Err(StoreError::Configuration(problem)) => problem,
            other => panic!("{other:?}"),
        };
        assert!(wrong(vec![]).contains("at least one"));
        assert!(wrong(vec![cap("a", "x"), cap("b", "x")]).contains("different namespaces"));
        assert!(wrong(vec![cap("a", "x"), cap("a", "x")]).contains("twice"));
        assert!(wrong((0..65).map(|i| cap("a", &i.to_string())).collect()).contains("at most 64"));
    }
}
