//! The credit of time that bursts may use; see
//! [`Discipline::BurstCredit`](crate::engine::plan::Discipline::BurstCredit).

use std::time::Duration;

use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BurstAllowance {
    /// Credit that is used up.
    used: Duration,
    /// Whether the waiters that were served last had waited for longer than a short time.
    stands: bool,
    since: Timestamp,
}

impl BurstAllowance {
    /// Returns how long a waiter that joins now may wait.
    pub(crate) fn wait(&mut self, now: Timestamp, longest: Duration, standing: Duration) -> Duration {
        self.pass(now, longest);
        longest.saturating_sub(self.used).max(standing)
    }

    /// Notes that a waiter is served, and for how long it had waited.
    pub(crate) fn served(&mut self, now: Timestamp, waited: Duration, longest: Duration, standing: Duration) {
        self.pass(now, longest);
        self.stands = waited > standing;
    }

    /// Notes that no request waits.
    pub(crate) fn empty(&mut self, now: Timestamp, longest: Duration) {
        self.pass(now, longest);
        self.stands = false;
    }

    fn pass(&mut self, now: Timestamp, longest: Duration) {
        let passed = now.since(std::mem::replace(&mut self.since, now));
        self.used =
            if self.stands { self.used.saturating_add(passed).min(longest) } else { self.used.saturating_sub(passed) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_used_up_while_the_line_stands_and_grows_back_while_it_does_not() {
        let at = |millis| Timestamp::ZERO.after(Duration::from_millis(millis));
        let ms = Duration::from_millis;
        let (longest, standing) = (ms(1_000), ms(25));
        let mut allowance = BurstAllowance::default();
        assert_eq!(allowance.wait(at(0), longest, standing), longest);
        allowance.served(at(100), ms(26), longest, standing);
        assert_eq!(allowance.wait(at(400), longest, standing), ms(700));
        allowance.served(at(600), ms(20), longest, standing);
        assert_eq!(allowance.wait(at(700), longest, standing), ms(600), "500 used, 100 grown back");
        allowance.served(at(800), ms(30), longest, standing);
        assert_eq!(allowance.wait(at(60_000), longest, standing), standing, "no longer than it takes to use all");
        allowance.empty(at(60_000), longest);
        assert_eq!(allowance.wait(at(60_500), longest, standing), ms(500));
        assert_eq!(allowance.wait(at(90_000), longest, standing), longest);
    }
}
