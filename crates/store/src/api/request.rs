//! Requests to a store: the caps and rates of one request, decided all or nothing.

use std::{num::NonZeroU32, time::Duration};

use super::{Key, StoreError, Token};
use tower_admission_engine::{OnStoreFailure, rules::RateMode};

/// One minute, in which the maximum of a rate is counted unless [`Claim::every`] says otherwise.
const MINUTE: Duration = Duration::from_secs(60);

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
    pub(crate) on_store_failure: OnStoreFailure,
}

impl Claim {
    /// Returns a claim on a unit of a cap: at most `bound` are held at the same time.
    pub const fn cap(key: Key, bound: NonZeroU32) -> Self {
        Self { key, rule: Rule::Cap { bound }, on_store_failure: OnStoreFailure::FailClosed }
    }

    /// Returns a claim on a unit of a rate of `maximum` per minute.
    pub const fn rate(key: Key, maximum: NonZeroU32, mode: RateMode) -> Self {
        Self { key, rule: Rule::Rate { maximum, period: MINUTE, mode }, on_store_failure: OnStoreFailure::FailClosed }
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
    pub const fn on_store_failure(mut self, on_store_failure: OnStoreFailure) -> Self {
        self.on_store_failure = on_store_failure;
        self
    }

    /// Returns where the claim is counted.
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// Whether the claim is on a cap, whose units come back, rather than on a rate.
    pub const fn is_cap(&self) -> bool {
        matches!(self.rule, Rule::Cap { .. })
    }

    /// Returns in which time the maximum of a rate is counted, and how; `None` for a cap.
    pub const fn counted(&self) -> Option<(Duration, RateMode)> {
        match self.rule {
            Rule::Cap { .. } => None,
            Rule::Rate { period, mode, .. } => Some((period, mode)),
        }
    }

    /// Returns the bound of the cap, or the maximum of the rate.
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

    /// Returns the claims to be decided together, in the order in which they are looked at.
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

    /// Returns all claims.
    pub fn as_slice(&self) -> &[Claim] {
        &self.0
    }
}

/// A request for a lease.
#[derive(Clone, Debug)]
pub struct Request {
    /// Token, chosen by the client and never used twice.
    pub(crate) token: Token,
    pub(crate) claims: Claims,
    pub(crate) expiry: Duration,
    /// Whether requests stand in line for this: the holder that frees some of it should give notice.
    pub(crate) waits: bool,
}

impl Request {
    /// Asks for `claims`, which the store takes back after `expiry` unless renewed.
    pub const fn new(token: Token, claims: Claims, expiry: Duration) -> Self {
        Self { token, claims, expiry, waits: false }
    }

    /// Returns the token, chosen by the client and never used twice: what is granted is held under it.
    pub const fn token(&self) -> Token {
        self.token
    }

    /// Returns what is to be decided together.
    pub const fn claims(&self) -> &Claims {
        &self.claims
    }

    /// Returns how long the lease lives unless renewed.
    pub const fn expiry(&self) -> Duration {
        self.expiry
    }

    /// Whether requests stand in line for this: a store sends [`Notice::Wanted`](super::Notice::Wanted) then, and
    /// [`Notice::Freed`](super::Notice::Freed) when some of it is freed.
    pub const fn waits(&self) -> bool {
        self.waits
    }

    /// Asks the holder that frees some of what is missing to give notice.
    #[must_use]
    pub const fn waiting(mut self) -> Self {
        self.waits = true;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Keys;

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
