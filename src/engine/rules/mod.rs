//! Caps, rates and budgets, for classes of work.
//!
//! Each label of each class has an [`Account`]: what holds for it, and which meters it shares with others. A meter counts for
//! a whole namespace (per class), or for a budget group (per namespace, over all classes). A request is charged to all of
//! them or to none: they are checked first and charged after, in the same turn, when it gets its slot. A request that waits
//! has used nothing.
//!
//! A rule that is full lets its label wait, or turns the request away. A label that has to wait is *parked* until there is room
//! for it; see [`meters`].
//!
//! Rules that are [`shared`] by all instances are counted by others, whom each request that got its slot has to ask.
//!
//! A rule that *observes* stops nobody. It counts what it would have let run, and nothing else: a request that any of the
//! observing rules would have turned away runs *beyond* them, and is seen by none of them.

mod account;
mod meters;
mod plan;
mod rate;
#[cfg(test)]
mod rate_tests;
mod shared;
mod view;

pub(super) use account::Account;
pub(super) use meters::{MeterId, Need};
pub use plan::WhenFull;
pub(crate) use plan::{ClassPlan, LimitsPlan, Resolved, Rule, RulesPlan, Setting, Source, Target};
pub use rate::RateMode;
pub(crate) use rate::RateRule;
pub use shared::OnStoreFailure;
pub(super) use shared::{Closed, Consent};
pub(crate) use shared::{Counted, SharedBound, SharedRules};
pub use view::RuleSnapshot;

use self::{
    account::Parked,
    meters::Meters,
    rate::{Rate, retry_after},
    shared::counted_here,
};
use super::{
    drain::Stall,
    labels::{Label, LabelId},
};
use crate::{rejection::Reason, time::Timestamp};

/// Which rules are asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Which {
    /// Those that bind.
    Binding,
    /// Those that only say what they would do.
    Observing,
    /// All of them: where nothing binds, it makes no difference.
    All,
}

impl Which {
    const fn includes(self, observes: bool) -> bool {
        match self {
            Self::Binding => !observes,
            Self::Observing => observes,
            Self::All => true,
        }
    }
}

/// A rule that has no room for one more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Full {
    pub(super) reason: Reason,
    pub(super) when_full: WhenFull,
    /// When it has room again, if time alone makes some.
    pub(super) until: Option<Timestamp>,
    /// How much it allows.
    pub(super) bound: usize,
    /// The meter that is full, if it is one, and what it takes.
    pub(super) meter: Option<(MeterId, Need)>,
}

impl Full {
    /// How long from `now` until it has room, where that is known.
    pub(super) fn retry_after(&self, now: Timestamp) -> Option<std::time::Duration> {
        self.until.map(|until| retry_after(now, until))
    }
}

/// All rules and meters.
#[derive(Debug)]
pub(super) struct Rules {
    plan: RulesPlan,
    /// The class of rules by the number of the kind of work.
    by_kind: Vec<u8>,
    meters: Meters,
    /// Whether any rule is or was shared.
    pub(super) are_shared: bool,
    /// Whether any rule observes.
    pub(super) observes: bool,
}

impl Rules {
    pub(super) fn new(plan: RulesPlan) -> Self {
        let (are_shared, observes) = (plan.is_shared(), plan.observes());
        Self { plan, by_kind: Vec::new(), meters: Meters::default(), are_shared, observes }
    }

    /// Asks for the number of each kind of work that has rules of its own.
    pub(super) fn number_classes(&mut self, mut number: impl FnMut(&str) -> u8) {
        self.by_kind.clear();
        for (class, plan) in (0..).zip(&self.plan.classes).skip(1) {
            let kind = usize::from(number(&plan.name));
            if self.by_kind.len() <= kind {
                self.by_kind.resize(kind + 1, 0);
            }
            // Kind 0 is all that are not told apart.
            self.by_kind[kind] = if kind > 0 { class } else { 0 };
        }
    }

    /// How many classes have rules, those without rules of their own as one of them; none, if there are no rules.
    pub(super) fn classes(&self) -> u8 {
        u8::try_from(self.plan.classes.len()).unwrap_or(u8::MAX)
    }

    /// Whether there is any rule at all.
    pub(super) fn is_empty(&self) -> bool {
        self.plan.classes.is_empty()
    }

    /// The class whose rules hold for requests of this kind of work.
    pub(super) fn class_of(&self, class: u8) -> u8 {
        self.by_kind.get(usize::from(class)).copied().unwrap_or(0)
    }

    /// Takes new rules. Classes keep their numbers: one that is gone has no rules any more, and is remembered by name.
    pub(super) fn replace(&mut self, now: Timestamp, plan: RulesPlan) {
        self.meters.sweep(now);
        self.are_shared |= plan.is_shared();
        let old = std::mem::take(&mut self.plan.classes);
        let mut new = plan.classes;
        let mut classes = Vec::with_capacity(old.len().max(new.len()));
        for class in old {
            let same = new.iter().position(|it| it.name == class.name);
            classes.push(match same {
                Some(place) => new.remove(place),
                None => ClassPlan { name: class.name, ..ClassPlan::default() },
            });
        }
        classes.append(&mut new);
        self.plan.classes = classes;
        self.observes = self.plan.observes();
    }

    /// The rule that has no room for one more request of this label. Where several are full, one that turns requests away
    /// goes before those that let them wait.
    pub(super) fn full(&self, now: Timestamp, label: &Label, which: Which) -> Option<Full> {
        let account = label.account.as_deref()?;
        let mut all = (0..6).filter_map(|rule| self.full_rule(rule, now, label, account, which));
        let first = all.next()?;
        let waits = |full: &Full| full.when_full == WhenFull::Queue;
        let other = if waits(&first) { all.find(|full| !waits(full)) } else { None };
        Some(other.unwrap_or(first))
    }

    /// One of the rules that are charged at the start, if it has no room.
    fn full_rule(&self, rule: u8, now: Timestamp, label: &Label, account: &Account, which: Which) -> Option<Full> {
        fn asked<B>(rule: Option<Rule<B>>, which: Which) -> Option<Rule<B>> {
            rule.filter(|rule| which.includes(rule.observes))
        }
        let cap = |rule, running: usize, reason, meter: Option<MeterId>| {
            let Rule { bound, when_full, .. }: Rule<usize> = rule;
            let meter = meter.map(|meter| (meter, Need::Slot(bound)));
            (running >= bound).then_some(Full { reason, when_full, until: None, bound, meter })
        };
        let rate = |rule, used: &Rate, reason, meter: Option<MeterId>| {
            let Rule { bound, when_full, .. }: Rule<RateRule> = counted_here(Some(rule))?;
            let until = Some(used.allowed_at(now, bound)).filter(|&until| until > now);
            let meter = meter.map(|meter| (meter, Need::Start(bound)));
            until?;
            Some(Full { reason, when_full, until, bound: bound.max.get() as usize, meter })
        };
        let rules = &account.rules;
        let (id, namespace) = (Some(account.namespace), self.meters.get(account.namespace));
        match rule {
            0 => {
                let rule = asked(rules.in_flight, which)?;
                cap(rule, label.running_for(rule), Reason::LabelCap, None)
            }
            1 => {
                let rule = asked(rules.in_flight_per_namespace, which)?;
                cap(rule, namespace.running_for(rule), Reason::NamespaceCap, id)
            }
            2 => rate(asked(rules.per_minute, which)?, &account.rate, Reason::Rate, None),
            3 => {
                let rule = asked(rules.per_minute_per_namespace, which)?;
                rate(rule, namespace.rate_of(rule), Reason::Rate, id)
            }
            4 => {
                let rule = asked(rules.budget.as_ref().map(|(_, rule)| *rule), which)?;
                let group = account.group?;
                rate(rule, self.meters.get(group).rate_of(rule), Reason::Budget, Some(group))
            }
            _ => account.consent.as_ref().filter(|_| which != Which::Observing)?.full(now),
        }
    }

    /// The bound on those of a label that are inside, waiting or running, if as many are as may.
    pub(super) fn pending_full(label: &Label, which: Which) -> Option<Full> {
        let rule = label.account.as_ref()?.rules.pending.filter(|rule| which.includes(rule.observes))?;
        let full = Full {
            reason: Reason::PendingFull,
            // Nobody can wait for leave to wait.
            when_full: if rule.when_full == WhenFull::RespondEmpty { WhenFull::RespondEmpty } else { WhenFull::Reject },
            until: None,
            bound: rule.bound,
            meter: None,
        };
        (label.inside_for(rule) >= rule.bound).then_some(full)
    }

    /// Charges one start to everything that counts it: unless it is beyond what they allow, to observing rules too.
    pub(super) fn charge(&mut self, now: Timestamp, label: &mut Label, beyond: bool) {
        let Some(account) = label.account.as_deref_mut() else { return };
        let is_seen = self.observes && !beyond;
        if let Some(rule) = account.rules.per_minute.filter(|rule| !(rule.observes && beyond)) {
            account.rate.charge_for(now, rule);
        }
        let namespace = self.meters.get_mut(account.namespace);
        namespace.running += 1;
        namespace.stall.started(now);
        namespace.beyond += usize::from(beyond);
        if let Some(rule) = account.rules.per_minute_per_namespace {
            namespace.charge(now, rule, is_seen);
        }
        if let (Some(group), Some((_, rule))) = (account.group, account.rules.budget.as_ref()) {
            self.meters.get_mut(group).charge(now, *rule, is_seen);
        }
        if let Some(consent) = &mut account.consent {
            consent.asks();
        }
    }

    /// Takes back from all rates what was charged for a start that did not come about.
    pub(super) fn refund(&mut self, now: Timestamp, label: &mut Label, beyond: bool) {
        let Some(account) = label.account.as_deref_mut() else { return };
        let is_seen = self.observes && !beyond;
        if let Some(rule) = account.rules.per_minute.filter(|rule| !(rule.observes && beyond)) {
            account.rate.refund(now, rule.bound);
        }
        if let Some(rule) = account.rules.per_minute_per_namespace {
            self.meters.get_mut(account.namespace).refund(now, rule.bound, is_seen);
        }
        if let (Some(group), Some((_, rule))) = (account.group, account.rules.budget.as_ref()) {
            self.meters.get_mut(group).refund(now, rule.bound, is_seen);
        }
    }

    /// Gives back what a request held while it ran.
    pub(super) fn release(&mut self, label: &Label, beyond: bool) {
        if let Some(account) = label.account.as_deref() {
            self.meters.release(account.namespace, beyond);
        }
    }

    /// Lets a label wait until a meter has what it needs.
    pub(super) fn park(&mut self, now: Timestamp, meter: (MeterId, Need), id: LabelId, label: &mut Label) {
        let Some(account) = label.account.as_deref_mut() else { return };
        if account.parked.at == Some(meter) {
            return;
        }
        let stamp = account.parked.stamp;
        self.unpark(account);
        account.parked = Parked { at: Some(meter), stamp: Some(self.meters.park(now, meter.0, meter.1, id, stamp)) };
    }

    fn unpark(&mut self, account: &mut Account) {
        if let Parked { at: Some((meter, need)), stamp: Some(stamp) } = std::mem::take(&mut account.parked) {
            self.meters.unpark(meter, need, stamp);
        }
    }

    /// Notes that a label was served, or that nobody waits for it any more: it has no place in line.
    pub(super) fn forget_place(&mut self, label: &mut Label) {
        if let Some(account) = label.account.as_deref_mut() {
            self.unpark(account);
        }
    }

    /// The next label that finds room where it was parked.
    pub(super) fn next_freed(&mut self, now: Timestamp) -> Option<LabelId> {
        self.meters.next_freed(now)
    }

    /// Notes that a label was taken out of line because there is room for it.
    pub(super) fn unparked(label: &mut Label) {
        if let Some(account) = label.account.as_deref_mut() {
            account.parked.at = None;
        }
    }

    /// Since when nothing ended of what a meter counts.
    pub(super) fn stall(&self, meter: MeterId) -> Stall {
        self.meters.get(meter).stall
    }

    /// When time alone makes room on a meter for which labels wait.
    pub(super) fn next_due(&self) -> Timestamp {
        self.meters.next_due()
    }

    /// Looks at meters that have room because time has passed.
    pub(super) fn pass(&mut self, now: Timestamp) {
        self.meters.pass(now);
    }

    /// How often a label was parked at a meter.
    #[cfg(test)]
    pub(super) fn times_parked(&self) -> u64 {
        self.meters.times_parked()
    }

    /// How many meters there are.
    #[cfg(test)]
    pub(super) fn meters(&self) -> usize {
        self.meters.len()
    }
}
