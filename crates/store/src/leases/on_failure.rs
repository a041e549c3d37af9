//! What becomes of a rule while the store is gone.

use std::num::NonZeroU32;

use crate::{Claim, Claims, api::Rule};

/// Returns what the counters of this process are asked for by one request while the store is gone: nothing where all of
/// its claims fail open, and `None` where one of them rejects it.
pub(crate) fn local_claims(claims: &Claims) -> Option<Vec<Claim>> {
    let mut local = Vec::new();
    for claim in claims.as_slice() {
        if let Some(instances) = claim.on_store_failure.alone()? {
            local.push(share(claim, instances)?);
        }
    }
    Some(local)
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

    fn of(claims: Vec<Claim>) -> Option<Vec<Claim>> {
        local_claims(&Claims::new(claims).unwrap())
    }

    #[test]
    fn the_strictest_rule_decides() {
        let (closed, open) = (cap("c", 8, OnStoreFailure::FailClosed), cap("o", 8, OnStoreFailure::FailOpen));
        assert_eq!(of(vec![open.clone(), closed]), None);
        assert_eq!(of(vec![open.clone()]), Some(vec![]));
        let claims = of(vec![open, cap("l", 8, locally(3))]).unwrap();
        assert_eq!(claims.len(), 1);
        assert_eq!(claims[0].bound().get(), 2, "8 / 3, rounded down");
    }

    #[test]
    fn a_share_of_less_than_one_is_none() {
        assert_eq!(of(vec![cap("l", 2, locally(3))]), None);
    }
}
