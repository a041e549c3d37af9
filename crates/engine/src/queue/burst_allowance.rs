//! The credit of time that bursts may use; see [`Discipline::BurstCredit`](crate::plan::Discipline::BurstCredit).

use std::time::Duration;

use crate::Timestamp;

/// How much faster credit grows back than it is used up: a load that is too much for half of the time is a row of bursts.
const GROWTH: u32 = 2;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BurstAllowance {
    /// Credit that is used up.
    used: Duration,
    /// Whether the waiters that were served last had waited for longer than a short time.
    stands: bool,
    since: Timestamp,
}

impl BurstAllowance {
    /// Returns how much credit is left, of so much.
    pub(crate) fn left(&mut self, now: Timestamp, credit: Duration) -> Duration {
        self.pass(now, credit);
        credit.saturating_sub(self.used)
    }

    /// Notes that a waiter is served, and whether it had waited for longer than a short time.
    pub(crate) fn served(&mut self, now: Timestamp, had_to_wait: bool, credit: Duration) {
        self.pass(now, credit);
        self.stands = had_to_wait;
    }

    /// Notes that no request waits any more.
    pub(crate) const fn rest(&mut self) {
        self.stands = false;
    }

    fn pass(&mut self, now: Timestamp, credit: Duration) {
        let passed = now.since(std::mem::replace(&mut self.since, now));
        self.used = if self.stands {
            self.used.saturating_add(passed).min(credit)
        } else {
            self.used.saturating_sub(passed.saturating_mul(GROWTH))
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_used_up_while_the_line_stands_and_grows_back_while_it_does_not() {
        let at = |millis| Timestamp::ZERO.after(Duration::from_millis(millis));
        let ms = Duration::from_millis;
        let credit = ms(1_000);
        let mut allowance = BurstAllowance::default();
        assert_eq!(allowance.left(at(0), credit), credit);
        allowance.served(at(100), true, credit);
        assert_eq!(allowance.left(at(400), credit), ms(700));
        allowance.served(at(600), false, credit);
        assert_eq!(allowance.left(at(700), credit), ms(700), "500 used, 200 grown back");
        allowance.served(at(800), true, credit);
        assert_eq!(allowance.left(at(60_000), credit), Duration::ZERO, "no longer than it takes to use all");
        allowance.rest();
        assert_eq!(allowance.left(at(60_300), credit), ms(600));
        assert_eq!(allowance.left(at(90_000), credit), credit);
    }
}
