//! The engine's side of [rejections that stand](super::quiet::Posted), under the lock: when one is posted, and what is counted
//! when it is withdrawn.

use std::time::Duration;

use super::quiet::{Answer, Lanes};
use crate::{
    engine::{Engine, PartitionId, Refusal},
    rejection::Reason,
    time::Timestamp,
};

/// For how long an answer stands: `Retry-After` and the times in the journal are as exact as this.
const STANDS: Duration = Duration::from_millis(1);

/// Rejections in a row after which an answer is posted, at first and at the most; where the last posts paid for themselves,
/// after the first.
const PATIENCE: (u32, u32) = (8, 64);

/// A post that fewer requests took than this cost more than it saved.
const WORTH_IT: u64 = 4;

/// What is posted.
#[derive(Debug)]
pub(in crate::runtime) struct Posting {
    accounts: Vec<Account>,
    /// Whether any answer stands.
    stands: bool,
    /// Rejections since the last other turn, and how many of them there have to be.
    in_a_row: u32,
    patience: u32,
}

/// What is posted for a partition.
#[derive(Debug)]
struct Account {
    partition: PartitionId,
    /// Requests that took an answer, as the engine was told.
    told: u64,
    /// Why, if an answer stands.
    reason: Option<Reason>,
    /// Whether a request was rejected since the last other turn.
    rejects: bool,
}

impl Posting {
    pub(in crate::runtime) fn new(lanes: &Lanes) -> Self {
        let account = |(partition, told)| Account { partition, told, reason: None, rejects: false };
        let told = PartitionId::all().map_while(|it| Some((it, lanes.posted(it)?.withdraw())));
        Self { accounts: told.map(account).collect(), stands: false, in_a_row: 0, patience: PATIENCE.0 }
    }

    /// Whether any answer stands, so that nothing may be lent.
    pub(in crate::runtime) const fn stands(&self) -> bool {
        self.stands
    }

    /// Withdraws all answers, and has the engine count the requests that took them: from here on the engine sees what came as
    /// if it had rejected each of these requests itself.
    #[inline]
    pub(in crate::runtime) fn settle(&mut self, lanes: &Lanes, engine: &mut Engine) {
        if self.stands {
            self.withdraw(lanes, engine);
        }
    }

    fn withdraw(&mut self, lanes: &Lanes, engine: &mut Engine) {
        let mut taken = 0;
        for account in &mut self.accounts {
            let Some(reason) = account.reason.take() else { continue };
            let Some(posted) = lanes.posted(account.partition) else { continue };
            let count = posted.withdraw();
            let new = count - std::mem::replace(&mut account.told, count);
            engine.count_rejected(account.partition, reason, new);
            taken += new;
        }
        self.stands = false;
        self.patience = if taken >= WORTH_IT { 1 } else { (self.patience * 2).clamp(PATIENCE.0, PATIENCE.1) };
    }

    /// Posts what the engine would answer, if this turn was one of several that rejected a request.
    #[inline]
    pub(in crate::runtime) fn post(&mut self, lanes: &Lanes, engine: &Engine, rejected: Option<PartitionId>) {
        match rejected {
            Some(partition) => self.rejected(lanes, engine, partition),
            None if self.in_a_row > 0 => self.end_row(),
            None => {}
        }
    }

    fn end_row(&mut self) {
        self.in_a_row = 0;
        self.accounts.iter_mut().for_each(|account| account.rejects = false);
    }

    fn rejected(&mut self, lanes: &Lanes, engine: &Engine, partition: PartitionId) {
        self.in_a_row = self.in_a_row.saturating_add(1);
        if let Some(account) = self.accounts.get_mut(partition.index()) {
            account.rejects = true;
        }
        if self.in_a_row < self.patience {
            return;
        }
        let now = engine.now();
        let until = engine.next_change().min(now.after(STANDS));
        for account in self.accounts.iter_mut().filter(|account| account.rejects) {
            let Some(posted) = lanes.posted(account.partition) else { continue };
            let Some(refusal) = engine.standing_refusal(account.partition) else { continue };
            account.reason = Some(refusal.reason);
            posted.post(&answer_of(&refusal), until);
            self.stands = true;
        }
    }
}

fn answer_of(refusal: &Refusal) -> Answer {
    Answer {
        code: u16::try_from(refusal.reason.index() + 1).unwrap_or(u16::MAX),
        retry_after: crate::time::nanos(refusal.retry_after),
        bound: u64::try_from(refusal.bound).unwrap_or(u64::MAX),
    }
}

/// Returns what an answer says to a request of a partition.
#[inline]
fn refusal_of(partition: PartitionId, answer: &Answer) -> Option<Refusal> {
    let reason = *Reason::ALL.get(usize::from(answer.code) - 1)?;
    Some(Refusal {
        reason,
        retry_after: Duration::from_nanos(answer.retry_after),
        partition,
        bound: usize::try_from(answer.bound).unwrap_or(usize::MAX),
        is_promised: false,
        empty: false,
        timed_out: false,
        over: false,
    })
}

/// Takes the answer that stands for all requests of a partition.
#[inline]
pub(super) fn take(lanes: &Lanes, partition: PartitionId, now: impl FnOnce() -> Timestamp) -> Option<Refusal> {
    refusal_of(partition, &lanes.posted(partition)?.take(now)?)
}
