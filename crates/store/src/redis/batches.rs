//! Many leases at a time: renewed and given back by few scripts, side by side.

use super::{RedisStore, script, script::Call};
use crate::{Key, Lease, Released, Renewed, StoreError, StoreFuture, StoreTime, side_by_side::side_by_side};

/// Leases that one script renews or releases: it must not keep other callers waiting.
const BATCH: usize = 128;

/// Scripts on their way at a time. In a cluster each is for one namespace, and few leases.
pub(super) const AT_ONCE: usize = 64;
const LARGE_AT_ONCE: usize = 8;

/// A lease, and its number among all that its caller has.
pub(super) type Numbered<'a> = (usize, &'a Lease);

/// The numbers of leases, and what was answered for them.
type Answered<T> = (Vec<usize>, Result<T, StoreError>);

/// What a script does for all leases of a batch.
type Ask<T> = for<'a> fn(&'a RedisStore, &'a [Numbered<'a>]) -> StoreFuture<'a, T>;

/// What became of leases that were given back.
#[derive(Debug, Default)]
pub(super) struct Paid {
    pub(super) released: Released,
    /// Numbers of the leases that could not be given back, with the error of each.
    pub(super) unpaid: Vec<(usize, StoreError)>,
}

impl RedisStore {
    pub(super) async fn renew_each(&self, leases: &[Lease]) -> Result<Renewed, StoreError> {
        let mut renewed = Renewed::default();
        let (mut asked, mut failed) = (leases.is_empty(), None);
        let numbered = leases.iter().enumerate().collect();
        let answers = self.in_batches(numbered, |store, batch| Box::pin(store.try_renew(batch))).await;
        for (part, answer) in answers {
            match answer {
                Ok((lost, at)) => {
                    asked = true;
                    renewed.at = renewed.at.max(at);
                    renewed.lost.extend(lost.iter().filter_map(|&index| part.get(index)));
                }
                Err(error) => {
                    renewed.unknown.extend(part);
                    failed = Some(error);
                }
            }
        }
        if let Some(error) = failed.filter(|_| !asked) {
            return Err(error);
        }
        renewed.lost.sort_unstable();
        renewed.unknown.sort_unstable();
        Ok(renewed)
    }

    /// Gives leases back. Those that could not be given back are told by their numbers.
    pub(super) async fn release_each(&self, leases: Vec<Numbered<'_>>) -> Paid {
        let mut paid = Paid::default();
        for (part, answer) in self.in_batches(leases, |store, batch| Box::pin(store.try_release(batch))).await {
            match answer {
                Ok(Released { held, at }) => {
                    paid.released.held += held;
                    paid.released.at = paid.released.at.max(at);
                }
                Err(error) => paid.unpaid.extend(part.into_iter().map(|index| (index, error.clone()))),
            }
        }
        paid
    }

    /// Asks for all leases in batches, side by side.
    async fn in_batches<T>(&self, leases: Vec<Numbered<'_>>, ask: Ask<T>) -> Vec<Answered<T>> {
        let cluster = self.0.target.is_cluster();
        let most = if cluster { AT_ONCE } else { LARGE_AT_ONCE };
        let batches = batches(leases, cluster);
        let asked: Vec<_> = batches.iter().map(|batch| self.in_parts(batch, ask)).collect();
        side_by_side(most, asked).await.into_iter().flatten().collect()
    }

    /// Asks the server for each half of a batch that it can't serve as a whole: a broken key is no matter of other
    /// leases.
    async fn in_parts<T>(&self, batch: &[Numbered<'_>], ask: Ask<T>) -> Vec<Answered<T>> {
        let (mut parts, mut answers) = (vec![batch], Vec::new());
        while let Some(part) = parts.pop() {
            let answer = ask(self, part).await;
            if part.len() > 1 && answer.as_ref().is_err_and(StoreError::may_be_of_one_key) {
                let (one, other) = part.split_at(part.len() / 2);
                parts.extend([one, other]);
            } else {
                answers.push((part.iter().map(|(index, _)| *index).collect(), answer));
            }
        }
        answers
    }

    async fn try_renew(&self, leases: &[Numbered<'_>]) -> Result<(Vec<usize>, StoreTime), StoreError> {
        let cap = leases.first().and_then(|(_, lease)| lease.caps.first());
        let longest = leases.iter().map(|(_, lease)| lease.expiry).max().unwrap_or_default();
        let mut call = Call::new(&script::RENEW).upkeep(true).key(self.mark(cap)).arg(self.quiet(longest));
        for (_, lease) in leases {
            call = call.arg(lease.token.hex()).arg(lease.expiry.as_micros()).arg(lease.caps.len());
            call = lease.caps.iter().fold(call, |call, cap| call.key(cap.as_str()));
        }
        self.0.call(&call, |reply| Ok((reply.numbers(1)?, reply.at()?))).await
    }

    async fn try_release(&self, leases: &[Numbered<'_>]) -> Result<Released, StoreError> {
        let mut call = Call::new(&script::RELEASE).upkeep(true).arg(&self.0.channel);
        for (_, lease) in leases {
            call = call.arg(lease.token.hex()).arg(lease.caps.len());
            call = lease.caps.iter().fold(call, |call, cap| call.key(cap.as_str()));
        }
        self.0.call(&call, |reply| Ok(Released { held: reply.number(1)?, at: reply.at()? })).await
    }
}

fn tag(lease: &Lease) -> Option<&str> {
    lease.caps.first().and_then(Key::tag)
}

/// Returns batches of leases for one script each: not too many, and of one namespace in a cluster. Leases without caps
/// hold nothing.
fn batches(mut all: Vec<Numbered<'_>>, cluster: bool) -> Vec<Vec<Numbered<'_>>> {
    all.retain(|(_, lease)| !lease.caps.is_empty());
    if !cluster {
        return all.chunks(BATCH).map(<[_]>::to_vec).collect();
    }
    all.sort_by_key(|(_, lease)| tag(lease));
    let of_one = all.chunk_by(|(_, one), (_, other)| tag(one) == tag(other));
    of_one.flat_map(|of| of.chunks(BATCH)).map(<[_]>::to_vec).collect()
}

#[cfg(test)]
#[path = "batches_tests.rs"]
mod tests;
