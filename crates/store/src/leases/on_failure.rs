//! What becomes of a rule while the store is gone.

use std::num::NonZeroU32;

use crate::{Claim, Claims, StoreError, api::Rule};

/// What to do with one request while the store is gone.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FailurePlan {
    Reject,
    Admit,
    /// Ask the counters of this process for these.
    Locally(Claims),
}

/// Returns the strictest of the claims' own choices, rule by rule.
pub(crate) fn failure_plan(claims: &Claims) -> FailurePlan {
    let mut local = Vec::new();
    for claim in claims.as_slice() {
        match claim.on_store_failure.alone() {
            None => return FailurePlan::Reject,
            Some(None) => {}
            Some(Some(instances)) => match share(claim, instances) {
                Some(claim) => local.push(claim),
                None => return FailurePlan::Reject,
            },
        }
    }
    match Claims::new(local) {
        Ok(claims) => FailurePlan::Locally(claims),
        // All claims fail open: none is left to be counted.
        Err(StoreError::Configuration(_)) => FailurePlan::Admit,
        Err(_) => FailurePlan::Reject,
    }
}

/// Returns the claim of one instance out of several; none where the bound is smaller than their number.
fn share(claim: &Claim, instances: NonZeroU32) -> Option<Claim> {
    let part = NonZeroU32::new(claim.bound().get() / instances)?;
    let mut claim = claim.clone();
    match &mut claim.rule {
        Rule::Cap { bound } => *bound = part,
        Rule::Rate { maximum, .. } => *maximum = part,
    }
    Some(claim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Keys, OnStoreFailure};

    fn cap(name: &str, bound: u32, on_store_failure: OnStoreFailure) -> Claim {
        let key = Keys::new("adm").unwrap().cap("a", "label", name);
        Claim::cap(key, NonZeroU32::new(bound).unwrap()).on_store_failure(on_store_failure)
    }

    fn locally(instances: u32) -> OnStoreFailure {
        OnStoreFailure::LocalShare { instances: NonZeroU32::new(instances).unwrap() }
    }

    fn of(claims: Vec<Claim>) -> FailurePlan {
        failure_plan(&Claims::new(claims).unwrap())
    }

    #[test]
    fn the_strictest_rule_decides() {
        let (closed, open) = (cap("c", 8, OnStoreFailure::FailClosed), cap("o", 8, OnStoreFailure::FailOpen));
        assert_eq!(of(vec![open.clone(), closed]), FailurePlan::Reject);
        assert_eq!(of(vec![open.clone()]), FailurePlan::Admit);
        let FailurePlan::Locally(claims) = of(vec![open, cap("l", 8, locally(3))]) else { panic!() };
        assert_eq!(claims.as_slice().len(), 1);
        assert_eq!(claims.as_slice()[0].bound().get(), 2, "8 / 3, rounded down");
    }

    #[test]
    fn a_share_of_less_than_one_is_none() {
        assert_eq!(of(vec![cap("l", 2, locally(3))]), FailurePlan::Reject);
    }
}
