use std::{num::NonZeroU32, time::Duration};

use super::{BATCH, batches, tag};
use crate::{Claim, Claims, Keys, Lease, Request, Token};

fn lease(caps: &[(&str, &str)]) -> Lease {
    let keys = Keys::new("adm").unwrap();
    let claim = |(namespace, name): &(&str, &str)| Claim::cap(keys.cap(namespace, "label", name), NonZeroU32::MIN);
    let claims = if caps.is_empty() {
        vec![Claim::rate(keys.rate("a", "label", "x"), NonZeroU32::MIN, crate::RateMode::Window)]
    } else {
        caps.iter().map(claim).collect()
    };
    let request = Request::new(Token::random().unwrap(), Claims::new(claims).unwrap(), Duration::from_secs(1));
    Lease::of(&request, Duration::ZERO)
}

fn indices(leases: &[Lease], cluster: bool) -> Vec<Vec<usize>> {
    let numbered = leases.iter().enumerate().collect();
    batches(numbered, cluster).iter().map(|batch| batch.iter().map(|(index, _)| *index).collect()).collect()
}

/// A node of a cluster refuses a script whose keys are of several slots.
#[test]
fn a_script_for_a_cluster_is_about_one_namespace_and_each_lease_is_in_one() {
    let leases = [lease(&[("b", "x")]), lease(&[]), lease(&[("a", "x"), ("a", "y")]), lease(&[("b", "y")])];
    assert_eq!(leases.each_ref().map(tag), [Some("b"), None, Some("a"), Some("b")]);
    assert_eq!(indices(&leases, true), [vec![2], vec![0, 3]], "a lease without a cap holds nothing");
    assert_eq!(indices(&leases, false), [vec![0, 2, 3]]);
    assert!(indices(&[], true).is_empty() && indices(&[], false).is_empty());
}

#[test]
fn a_script_is_about_so_many_leases_at_most() {
    let leases: Vec<_> = (0..2 * BATCH + 1).map(|_| lease(&[("a", "x")])).collect();
    for cluster in [false, true] {
        let batches = indices(&leases, cluster);
        assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [BATCH, BATCH, 1]);
        assert_eq!(batches.concat(), (0..2 * BATCH + 1).collect::<Vec<_>>());
    }
}
