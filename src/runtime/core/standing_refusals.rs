//! The engine's side of [refusals that stand](super::quiet::StandingRefusal), under the lock: when one stands, and what is
//! counted when it is withdrawn.

use std::time::Duration;

use super::quiet::{Lanes, RefusalParts};
use crate::{
    Reason, Timestamp,
    engine::{Engine, PartitionId, Refusal},
};

/// For how long a refusal stands: `Retry-After` and the times in the journal are as exact as this.
const STANDS: Duration = Duration::from_millis(1);

/// Rejections in a row after which a refusal stands, at first and at the most; where the last ones paid for themselves,
/// after the first.
const REJECTIONS_IN_A_ROW: (u32, u32) = (8, 64);

/// A refusal that fewer requests took than this cost more than it saved.
const WORTH_IT: u64 = 4;

/// The refusals that stand.
#[derive(Debug)]
pub(in crate::runtime) struct StandingRefusals {
    tallies: Vec<Tally>,
    /// Whether any refusal stands.
    pub(super) stands: bool,
    /// Rejections since the last other turn, and how many of them there have to be.
    in_a_row: u32,
    needed: u32,
}

/// What stands for a partition, and what is counted of it.
#[derive(Debug)]
struct Tally {
    partition: PartitionId,
    /// Requests that took a refusal, as the engine counted them.
    counted: u64,
    /// Why, if a refusal stands.
    reason: Option<Reason>,
    /// Whether a request was rejected since the last other turn.
    rejects: bool,
}

impl StandingRefusals {
    pub(in crate::runtime) fn new(lanes: &Lanes) -> Self {
        let tally = |(partition, counted)| Tally { partition, counted, reason: None, rejects: false };
        let counted = PartitionId::all().map_while(|it| Some((it, lanes.standing_refusal(it)?.withdraw())));
        Self { tallies: counted.map(tally).collect(), stands: false, in_a_row: 0, needed: REJECTIONS_IN_A_ROW.0 }
    }

    /// Withdraws all refusals, and has the engine count the requests that took them: from here on the engine sees what came as
    /// if it had rejected each of these requests itself.
    #[inline]
    pub(in crate::runtime) fn withdraw(&mut self, lanes: &Lanes, engine: &mut Engine) {
        if self.stands {
            self.withdraw_all(lanes, engine);
        }
    }

    #[inline(never)]
    fn withdraw_all(&mut self, lanes: &Lanes, engine: &mut Engine) {
        let mut taken = 0;
        for tally in &mut self.tallies {
            let Some(reason) = tally.reason.take() else { continue };
            let Some(standing) = lanes.standing_refusal(tally.partition) else { continue };
            let count = standing.withdraw();
            let new = count - std::mem::replace(&mut tally.counted, count);
            engine.count_rejected(tally.partition, reason, new);
            taken += new;
        }
        self.stands = false;
        self.needed =
            if taken >= WORTH_IT { 1 } else { (self.needed * 2).clamp(REJECTIONS_IN_A_ROW.0, REJECTIONS_IN_A_ROW.1) };
    }

    /// Lets stand what the engine would answer, if this turn was one of several that rejected a request.
    #[inline]
    pub(in crate::runtime) fn note_turn(&mut self, lanes: &Lanes, engine: &Engine, rejected: Option<PartitionId>) {
        match rejected {
            Some(partition) => self.rejected(lanes, engine, partition),
            None if self.in_a_row > 0 => {
                self.in_a_row = 0;
                self.tallies.iter_mut().for_each(|tally| tally.rejects = false);
            }
            None => {}
        }
    }

    fn rejected(&mut self, lanes: &Lanes, engine: &Engine, partition: PartitionId) {
        self.in_a_row = self.in_a_row.saturating_add(1);
        if let Some(tally) = self.tallies.get_mut(partition.index()) {
            tally.rejects = true;
        }
        if self.in_a_row < self.needed {
            return;
        }
        let now = engine.now();
        let until = engine.next_change().min(now.after(STANDS));
        for tally in self.tallies.iter_mut().filter(|tally| tally.rejects) {
            let Some(standing) = lanes.standing_refusal(tally.partition) else { continue };
            let Some(refusal) = engine.standing_refusal(tally.partition) else { continue };
            tally.reason = Some(refusal.reason);
            standing.let_stand(&parts_of(&refusal), until);
            self.stands = true;
        }
    }
}

fn parts_of(refusal: &Refusal) -> RefusalParts {
    RefusalParts {
        code: u16::try_from(refusal.reason.index() + 1).unwrap_or(u16::MAX),
        retry_after: crate::engine::nanos(refusal.retry_after),
        bound: u64::try_from(refusal.bound).unwrap_or(u64::MAX),
    }
}

/// Returns what a refusal says to a request of a partition.
#[inline]
fn refusal_of(partition: PartitionId, parts: &RefusalParts) -> Option<Refusal> {
    let reason = *Reason::ALL.get(usize::from(parts.code) - 1)?;
    Some(Refusal {
        reason,
        retry_after: Duration::from_nanos(parts.retry_after),
        partition,
        bound: usize::try_from(parts.bound).unwrap_or(usize::MAX),
        is_promised: false,
        empty: false,
        timed_out: false,
        over: false,
    })
}

/// Takes the refusal that stands for all requests of a partition.
#[inline]
pub(super) fn take(lanes: &Lanes, partition: PartitionId, now: impl FnOnce() -> Timestamp) -> Option<Refusal> {
    refusal_of(partition, &lanes.standing_refusal(partition)?.take(now)?)
}
