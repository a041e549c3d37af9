//! What has to be back, and at work, after the last request.

use tower_admission::{
    Ticket,
    store::{Acquired, Claim, Claims, Request as StoreRequest, Store as _, Token},
};

use super::{LOOKS_EVERY, World};
use crate::fleet::{
    instance::{Command, caps},
    network::at_once,
};

/// Longest time until all that runs has ended, once no request comes any more.
const ENDS_WITHIN: u64 = 20_000;
/// Longest time until an idle instance admits, by its own clock: a law at its minimum pauses for a minute at most.
const ADMITS_WITHIN: u64 = 61_000;

impl World<'_> {
    /// Everything heals, no request comes any more, and what was taken has to come back.
    pub(super) fn rest(&mut self) {
        for ((_, _), later) in std::mem::take(&mut self.later) {
            self.end(later);
        }
        self.network.heal();
        for instance in self.instances.iter_mut().flatten() {
            instance.link().heal();
            instance.inbox.push(Command::Rest);
        }
        let end = self.now + ENDS_WITHIN;
        // What came to an instance while it was paused arrives in this round.
        self.round();
        while (self.ledger.live() > 0 || self.abandoned() > 0) && self.now < end && self.ledger.broken.is_none() {
            self.round();
        }
        // One expiry after the last request, all that was taken is back.
        let expiry = self.plan.settings.shared.as_ref().map_or(0, |shared| shared.expiry);
        let network = &self.plan.settings.network;
        let back = self.now + expiry + 2 * network.time_limit + 2 * (network.delay + network.jitter) + 20;
        self.rounds_until(back);
        if self.ledger.broken.is_none() {
            self.ledger.at_rest(self.now);
            self.look_at_rest();
        }
    }

    fn rounds_until(&mut self, end: u64) {
        while self.now < end && self.ledger.broken.is_none() {
            self.round();
        }
    }

    fn abandoned(&self) -> usize {
        // A look costs more than a round, and this is over when it is over.
        if self.now % LOOKS_EVERY >= self.plan.settings.round {
            return 1;
        }
        self.instances.iter().flatten().map(|instance| instance.admission().snapshot().abandoned).sum()
    }

    /// Looks whether everything is back, and whether every instance is still at work.
    fn look_at_rest(&mut self) {
        for instance in self.instances.iter().flatten() {
            let snapshot = instance.admission().snapshot();
            let left = snapshot.in_flight + snapshot.waiting + snapshot.at_gate;
            if left > 0 {
                let what = format!(
                    "{} in flight, {} in line and {} at the gate, at rest",
                    snapshot.in_flight, snapshot.waiting, snapshot.at_gate
                );
                self.ledger.breaks("every slot comes back", self.now, what);
            }
        }
        let cap = self.plan.settings.shared.as_ref().map_or(1, |shared| shared.cap);
        let store = self.network.store_at(self.now);
        for (key, bound) in caps(&self.plan.settings, cap) {
            let most = u32::try_from(bound).ok().and_then(std::num::NonZeroU32::new).expect("caps are small");
            for unit in 0..bound {
                let claims = Claims::new(vec![Claim::cap(key.clone(), most)]).expect("a claim is a claim");
                let token = Token::random().expect("the system has random bytes");
                let request = StoreRequest::new(token, claims, std::time::Duration::from_secs(60));
                if matches!(at_once(store.acquire(&request)), Ok(Acquired::Granted(_))) {
                    self.spent.returned += 1;
                } else {
                    let what =
                        format!("{unit} of {bound} units of {key:?} are free, one expiry after the last request");
                    self.ledger.breaks("everything is given back after one expiry", self.now, what);
                    break;
                }
            }
        }
        // Last, since time may pass here.
        let until = self.now + ADMITS_WITHIN * 100 / (100 - self.plan.settings.drift);
        (0..self.instances.len()).for_each(|index| self.ask_at_rest(index, until));
    }

    /// Asks an instance until it admits, which a pause or a slot held back for another partition may put off.
    fn ask_at_rest(&mut self, index: usize, until: u64) {
        while self.ledger.broken.is_none() {
            let Some(instance) = &self.instances[index] else { return };
            let answer = instance.enter(|admission| admission.try_admit(Ticket::new()).map(drop));
            match (answer, instance.is_draining()) {
                (Ok(()), true) => {
                    self.ledger.breaks("a drain is for good", self.now, "a request was admitted at rest".to_owned());
                }
                (Err(_), false) if self.now < until => self.rounds_until(self.now + 1_000),
                (Err(rejection), false) => {
                    self.ledger.breaks("an idle instance admits", self.now, format!("{rejection:?}"));
                }
                _ => return,
            }
        }
    }
}
