//! How long to wait before asking again.

use std::{sync::Mutex, time::Duration};

use fastrand::Rng;

use super::{StoreError, Token, task::lock};

/// Waits that double up to a cap, each with jitter: between half of it and all of it.
///
/// Half of each wait is fixed so that no caller polls without pause. The other half is random, so that callers that
/// failed together don't come back together.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    longest: Duration,
    next: Duration,
    rng: Rng,
}

impl Backoff {
    pub(crate) fn new(first: Duration, longest: Duration, rng: Rng) -> Self {
        Self { longest, next: first, rng }
    }

    pub(crate) fn wait(&mut self) -> Duration {
        let wait = self.next.mul_f64(0.5 + 0.5 * self.rng.f64());
        self.next = self.next.saturating_mul(2).min(self.longest);
        wait
    }
}

/// A generator of its own for each waiter, and the tokens: seeded, all of it can be told in advance.
#[derive(Debug)]
pub(crate) struct Seeds {
    rng: Mutex<Rng>,
    is_seeded: bool,
}

impl Seeds {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self { rng: Mutex::new(seed.map_or_else(Rng::new, Rng::with_seed)), is_seeded: seed.is_some() }
    }

    pub(crate) fn next(&self) -> Rng {
        lock(&self.rng).fork()
    }

    /// Returns a token that can't be guessed, unless a seed was given.
    pub(crate) fn token(&self) -> Result<Token, StoreError> {
        if self.is_seeded { Ok(Token::of(lock(&self.rng).u128(..))) } else { Token::random() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(seed: u64) -> Vec<Duration> {
        let rng = Seeds::new(Some(seed)).next();
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(100), rng);
        (0..8).map(|_| backoff.wait()).collect()
    }

    #[test]
    fn waits_double_with_jitter_and_are_capped() {
        for (index, wait) in waits(1).into_iter().enumerate() {
            let full = Duration::from_millis(10 << index).min(Duration::from_millis(100));
            assert!(wait >= full / 2 && wait <= full, "{index}: {wait:?}");
        }
    }

    #[test]
    fn a_seed_decides_all_tokens_and_without_one_none_is_known() {
        let tokens = |seed: Option<u64>| {
            let seeds = Seeds::new(seed);
            [seeds.token().unwrap(), seeds.token().unwrap()]
        };
        assert_eq!(tokens(Some(7)), tokens(Some(7)));
        assert_ne!(tokens(Some(7))[0], tokens(Some(7))[1]);
        assert_ne!(tokens(Some(7)), tokens(Some(8)));
        assert_ne!(tokens(None), tokens(None));
    }

    #[test]
    fn a_seed_decides_all_waits() {
        assert_eq!(waits(7), waits(7));
        assert_ne!(waits(7), waits(8), "control: the seed matters");
    }
}
