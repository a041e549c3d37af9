//! Debts to the server: leases, allotments and locks that were dropped and have to be given back.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use tokio::time::Instant;

use crate::{AllotmentRequest, PendingRelease, Token};

/// Number of allotments from which on expired ones are looked for.
const FEW: usize = 64;

/// A debt, and until when it is worth paying.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) debt: PendingRelease,
    pub(super) until: Instant,
}

/// All debts. There are as many as grants that were not yet given back: a debt is for a grant, or for a call that was
/// sent and not answered, and is gone when it expires.
///
/// `A` is the connection that pays them.
pub(super) struct Debts<A> {
    queue: VecDeque<Due>,
    /// The newest debt of each allotment, which says all that older ones would: a process may give back some of it very
    /// often.
    blocks: HashMap<Token, (AllotmentRequest, Instant)>,
    /// Allotments that were left when expired ones were last looked for.
    kept: usize,
    /// Debts that could not be paid: apart, so that new debts do not wait for them.
    later: Vec<Due>,
    /// The client itself, while there are debts: they are paid even if all users have dropped the store.
    anchor: Option<Arc<A>>,
}

impl<A> Default for Debts<A> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), blocks: HashMap::new(), kept: 0, later: Vec::new(), anchor: None }
    }
}

impl<A> Debts<A> {
    pub(super) fn owe(&mut self, due: Due, now: Instant, anchor: &Arc<A>) {
        self.forget_over(now);
        self.add(due);
        self.anchor.get_or_insert_with(|| Arc::clone(anchor));
    }

    /// Returns up to `most` debts that are still worth paying.
    pub(super) fn due(&mut self, most: usize, now: Instant) -> Vec<Due> {
        let blocks = self.blocks.extract_if(|_, _| true).take(most);
        let blocks = blocks.map(|(_, (request, until))| Due { debt: PendingRelease::Allotment(request), until });
        let mut due: Vec<_> = blocks.filter(|block| block.until > now).collect();
        while due.len() < most
            && let Some(next) = self.queue.pop_front()
        {
            if next.until > now {
                due.push(next);
            }
        }
        due
    }

    pub(super) fn put_off(&mut self, due: Vec<Due>) {
        self.later.extend(due);
    }

    /// Makes the debts that were put off due again.
    pub(super) fn retry(&mut self, now: Instant) {
        for due in std::mem::take(&mut self.later).into_iter().filter(|due| due.until > now) {
            self.add(due);
        }
        self.forget_over(now);
    }

    pub(super) fn is_put_off(&self) -> bool {
        !self.later.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.blocks.is_empty() && self.later.is_empty()
    }

    /// Returns the client, if there are no debts any more, or no task is there to pay. To be dropped after the lock: it
    /// may be the last reference.
    pub(super) fn weigh_anchor(&mut self, unpaid: bool) -> Option<Arc<A>> {
        if unpaid || self.is_empty() { self.anchor.take() } else { None }
    }

    /// Most debts last for the same time, so the debts at the front expire first.
    fn forget_over(&mut self, now: Instant) {
        while self.queue.front().is_some_and(|due| due.until <= now) {
            self.queue.pop_front();
        }
        if self.blocks.len() > FEW.max(2 * self.kept) {
            self.blocks.retain(|_, (_, until)| *until > now);
            self.kept = self.blocks.len();
        }
    }

    fn add(&mut self, Due { debt, until }: Due) {
        let PendingRelease::Allotment(request) = debt else { return self.queue.push_back(Due { debt, until }) };
        let newer = self.blocks.get(&request.token).is_some_and(|(other, _)| other.sequence > request.sequence);
        if !newer {
            self.blocks.insert(request.token, (request, until));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{num::NonZeroU32, time::Duration};

    use super::*;
    use crate::Keys;

    #[tokio::test(start_paused = true)]
    async fn of_a_block_only_the_newest_is_owed() {
        let (now, minute) = (Instant::now(), Duration::from_secs(60));
        let key = Keys::new("test").unwrap().cap("acme", "label", "x");
        let mut request = AllotmentRequest::new(Token::random().unwrap(), key, NonZeroU32::MIN, minute);
        let mut debts = Debts::<()>::default();
        for sequence in (1..=1_000).rev().chain(1..=1_000) {
            request.sequence = sequence;
            debts.add(Due { debt: PendingRelease::Allotment(request.clone()), until: now + minute });
        }
        let due = debts.due(usize::MAX, now);
        assert_eq!(due.len(), 1);
        assert!(matches!(&due[0].debt, PendingRelease::Allotment(block) if block.sequence == 1_000));
        // A debt that could not be paid does not take the place of a newer one.
        debts.put_off(due);
        request.sequence = 1_001;
        debts.add(Due { debt: PendingRelease::Allotment(request.clone()), until: now + minute });
        debts.retry(now);
        let due = debts.due(usize::MAX, now);
        assert!(matches!(&due[..], [Due { debt: PendingRelease::Allotment(block), .. }] if block.sequence == 1_001));
        debts.add(Due { debt: PendingRelease::Allotment(request), until: now });
        assert!(debts.due(usize::MAX, now).is_empty() && debts.is_empty(), "over");
    }
}
