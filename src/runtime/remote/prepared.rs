//! The claims of each label's rules, made once for all requests.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock, Weak},
};

use crate::{engine::SharedRules, store::Claims};

/// Entries that are kept before those of rules that are gone are looked for.
const FEWEST: usize = 64;

/// The claims of the rules that requests asked under.
#[derive(Debug, Default)]
pub(super) struct Prepared(RwLock<Table>);

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<usize, Entry>,
    /// Entries that the last sweep left.
    left: usize,
}

/// The claims of these rules; `None` where no store could decide over them together.
#[derive(Debug)]
struct Entry {
    rules: Weak<SharedRules>,
    claims: Option<Arc<Claims>>,
}

impl Prepared {
    /// Returns the claims of these rules, which are made if this is the first request that asks under them.
    pub(super) fn claims(
        &self,
        rules: &Arc<SharedRules>,
        make: impl FnOnce(&SharedRules) -> Option<Claims>,
    ) -> Option<Arc<Claims>> {
        // Poison means nothing: entries are added and removed as a whole.
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).find(rules).map(|entry| entry.claims.clone());
        known.unwrap_or_else(|| {
            let claims = make(rules).map(Arc::new);
            self.0.write().unwrap_or_else(PoisonError::into_inner).insert(rules, claims.clone());
            claims
        })
    }
}

impl Table {
    fn find(&self, rules: &Arc<SharedRules>) -> Option<&Entry> {
        // Later rules may stand where earlier ones stood, and have nothing to do with their entry.
        self.entries.get(&address(rules)).filter(|entry| entry.rules.as_ptr() == Arc::as_ptr(rules))
    }

    fn insert(&mut self, rules: &Arc<SharedRules>, claims: Option<Arc<Claims>>) {
        // Labels come and go, and strangers choose how many. A sweep at each doubling costs an entry next to nothing.
        if self.entries.len() >= FEWEST.max(self.left.saturating_mul(2)) {
            self.entries.retain(|_, entry| entry.rules.strong_count() > 0);
            self.left = self.entries.len();
        }
        self.entries.insert(address(rules), Entry { rules: Arc::downgrade(rules), claims });
    }
}

fn address(rules: &Arc<SharedRules>) -> usize {
    Arc::as_ptr(rules).addr()
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, num::NonZeroU32};

    use super::*;
    use crate::store::{Claim, Keys};

    fn rules(label: usize) -> Arc<SharedRules> {
        let label = label.to_string().into();
        Arc::new(SharedRules { class: "".into(), namespace: "acme".into(), label, group: None, rules: Vec::new() })
    }

    fn make(rules: &SharedRules) -> Option<Claims> {
        let key = Keys::new("adm").unwrap().cap(&rules.namespace, "label", &rules.label);
        Claims::new(vec![Claim::cap(key, NonZeroU32::MIN)]).ok()
    }

    fn entries(prepared: &Prepared) -> usize {
        prepared.0.read().unwrap().entries.len()
    }

    #[test]
    fn claims_are_made_once() {
        let (prepared, rules) = (Prepared::default(), rules(0));
        let first = prepared.claims(&rules, make).unwrap();
        let again = prepared.claims(&rules, |_| panic!("they are known")).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
    }

    #[test]
    fn rules_that_have_no_claims_are_remembered_too() {
        let (prepared, rules) = (Prepared::default(), rules(0));
        assert_eq!(prepared.claims(&rules, |_| None), None);
        assert_eq!(prepared.claims(&rules, |_| panic!("they are known")), None);
    }

    #[test]
    fn rules_that_are_gone_are_swept() {
        let prepared = Prepared::default();
        for label in 0..10_000 {
            prepared.claims(&rules(label), make);
            assert!(entries(&prepared) <= FEWEST, "{} entries after {label} labels", entries(&prepared));
        }
        let alive: Vec<_> = (0..1_000).map(rules).collect();
        alive.iter().for_each(|rules| drop(prepared.claims(rules, make)));
        for label in 0..10_000 {
            prepared.claims(&rules(label), make);
            assert!(entries(&prepared) <= 4 * alive.len(), "{} entries after {label} labels", entries(&prepared));
        }
        for rules in &alive {
            prepared.claims(rules, |_| panic!("{rules:?} were swept while in use"));
        }
    }

    #[test]
    fn rules_at_the_address_of_earlier_ones_have_claims_of_their_own() {
        let prepared = Prepared::default();
        let (mut seen, mut again) = (HashSet::new(), 0);
        for label in 0..10_000 {
            let rules = rules(label);
            again += u32::from(!seen.insert(address(&rules)));
            assert_eq!(prepared.claims(&rules, make).as_deref(), make(&rules).as_ref(), "of label {label}");
        }
        assert!(again > 0, "no address was given twice");
        // An entry keeps the memory of its rules, so the allocator alone never puts later rules at its address.
        let (earlier, later) = (rules(1), rules(2));
        let stale = Entry { rules: Arc::downgrade(&earlier), claims: make(&earlier).map(Arc::new) };
        drop(earlier);
        prepared.0.write().unwrap().entries.insert(address(&later), stale);
        assert_eq!(prepared.claims(&later, make).as_deref(), make(&later).as_ref());
    }
}
