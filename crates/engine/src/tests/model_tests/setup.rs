//! What a run starts with, and the words in which both sides answer.

use std::{collections::HashMap, time::Duration};

use crate::Reason;
use crate::{
    limit::{Fixed, Limit},
    plan::{Bound, Discipline, LabelPlan, LabelRule, PartitionMode, PartitionPlan, Plan},
    rules::RulesPlan,
};

pub(super) const SECOND: u64 = 1_000_000_000;
pub(super) const NAMESPACES: [&str; 2] = ["", "other"];
pub(super) const LABELS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
pub(super) const RUNS: [&str; 3] = ["first", "second", "third"];

/// A label by the numbers of its namespace and its name.
pub(super) type Name = (usize, usize);

#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) limit: usize,
    pub(super) parts: Vec<(u32, PartitionMode)>,
    /// `None` is the legacy mode.
    pub(super) queue: Option<usize>,
    pub(super) extra: usize,
    pub(super) line_wait: Option<u64>,
    pub(super) gate_wait: u64,
    pub(super) discipline: Discipline,
    pub(super) aging: Option<u32>,
    pub(super) labels: LabelSetup,
    pub(super) time_to_live: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct LabelSetup {
    pub(super) max_labels: usize,
    pub(super) max_waiting: usize,
    pub(super) max_waiting_per_run: usize,
    pub(super) wait: Option<u64>,
    pub(super) enforce_workers: bool,
    pub(super) default: LabelRule,
    /// By namespace, where one is given, and label.
    pub(super) rules: Vec<(Option<usize>, usize, LabelRule)>,
}

impl Setup {
    pub(super) fn plan(&self) -> Plan {
        let wait = |seconds| Some(Duration::from_secs(seconds));
        let partitions = self.parts.iter().enumerate();
        let partitions = partitions.map(|(i, &(part, mode))| PartitionPlan::of(&i.to_string(), part, mode)).collect();
        let line = Bound::of(self.line_places(), self.line_wait.and_then(wait));
        let gate = Bound::of(self.gate_places(), wait(self.gate_wait));
        Plan {
            law: Limit::from(Fixed::new(self.limit)).into_law(),
            partitions,
            line,
            gate,
            queue: self.queue,
            default_deadline: None,
            discipline: self.discipline,
            aging: self.aging,
            labels: self.labels.plan(),
            rules: RulesPlan::default(),
            time_to_live: self.time_to_live.and_then(wait),
            time_one_in: None,
            journal: 8,
            shadow: None,
        }
    }

    pub(super) fn line_places(&self) -> usize {
        self.queue.unwrap_or(self.extra)
    }

    pub(super) fn gate_places(&self) -> usize {
        if self.queue.is_some() { self.extra } else { 0 }
    }
}

impl LabelSetup {
    fn plan(&self) -> LabelPlan {
        let key = |namespace: Option<usize>, label: usize| {
            (namespace.map(|it| Box::from(NAMESPACES[it])), Box::from(LABELS[label]))
        };
        let rules: HashMap<_, _> = self.rules.iter().map(|&(ns, label, rule)| (key(ns, label), rule)).collect();
        LabelPlan {
            max_labels: self.max_labels,
            max_waiting: self.max_waiting,
            max_waiting_per_run: self.max_waiting_per_run,
            wait: self.wait.map(Duration::from_secs),
            default: self.default,
            patterns: None,
            rules,
            caps_reject: self.caps_reject(),
            enforce_workers: self.enforce_workers,
            // What is counted for metrics changes no decision.
            metrics: self.max_labels % 4,
            named: Vec::new(),
        }
    }

    /// Whether caps of labels reject: in one of eight settings, since less waits then.
    pub(super) const fn caps_reject(&self) -> bool {
        self.max_waiting_per_run == 3
    }

    /// Returns the rule of a label: the last one that names its namespace, else the last one for its name alone.
    pub(super) fn rule(&self, (namespace, label): Name) -> LabelRule {
        let last = |wanted| self.rules.iter().rev().find(|&&(ns, name, _)| ns == wanted && name == label);
        last(Some(namespace)).or_else(|| last(None)).map_or(self.default, |&(_, _, rule)| rule)
    }
}

/// A request as the model sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) partition: usize,
    pub(super) name: Option<Name>,
    /// Run of the request. Heeded only where there is a label.
    pub(super) run: Option<usize>,
    pub(super) level: usize,
    pub(super) deadline_in: Option<u64>,
}

impl Request {
    /// Returns the key of its run: the namespace and the name.
    pub(super) fn run_key(&self) -> Option<(usize, usize)> {
        Some((self.name?.0, self.run?))
    }
}

/// Hints from the engine to the model: estimates that are tested elsewhere, and choices among equals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hints {
    /// Whether its deadline is predicted to come before its turn.
    pub(super) late: bool,
    /// Label that was forgotten.
    pub(super) forgotten: Option<Name>,
    /// Whether its partition may wait with more than its share.
    pub(super) pays: bool,
    /// Waiter that was pushed out of the line.
    pub(super) pushed_out: Option<u64>,
    /// Number of the waiter whose wait ends first where several end at the same time: the smaller one.
    pub(super) entry: u32,
}

/// The answer of both sides to a verb.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    Admitted,
    Waits,
    Rejected(Reason),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum At {
    Gate,
    Line,
    Granted,
    Refused(Reason),
}

/// A deliberate mistake, for the negative controls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mistake {
    None,
    LastComeFirstServed,
    ForgetsWhoIsOwed,
    KeepsNothing,
    LetsOneTooManyIn,
    NeverParks,
    NeverCatchesUp,
    FavoursOneLabel,
    IgnoresWeights,
    OwesNothing,
    MixesLevels,
    NeverAges,
    AgesLevelsThatAreParked,
    NeverTurnsRound,
    PushesOutTheShortest,
    PushesOutTheOldest,
    NeverPushesOut,
    IgnoresSharesOfPlaces,
    OvertakesItsOwnGate,
    IgnoresCapsThatReject,
    IgnoresRunBound,
    IgnoresLabelBound,
    IgnoresLabelWait,
    GivesBackTwice,
    WorkersNeverFallSilent,
    ForgetsTheNewestLabel,
    KeepsNothingForLabels,
    KeepsNothingForLevels,
    HoldsBackAcrossReloads,
    ReopensADrain,
    HopesForEver,
    RefusesWithinTheShare,
    WaitsBeyondTheShare,
    ServesTheRoomByAgeAlone,
}

impl Mistake {
    pub(super) const ALL: [Self; 33] = [
        Self::LastComeFirstServed,
        Self::ForgetsWhoIsOwed,
        Self::KeepsNothing,
        Self::LetsOneTooManyIn,
        Self::NeverParks,
        Self::NeverCatchesUp,
        Self::FavoursOneLabel,
        Self::IgnoresWeights,
        Self::OwesNothing,
        Self::MixesLevels,
        Self::NeverAges,
        Self::AgesLevelsThatAreParked,
        Self::NeverTurnsRound,
        Self::PushesOutTheShortest,
        Self::PushesOutTheOldest,
        Self::NeverPushesOut,
        Self::IgnoresSharesOfPlaces,
        Self::OvertakesItsOwnGate,
        Self::IgnoresCapsThatReject,
        Self::IgnoresRunBound,
        Self::IgnoresLabelBound,
        Self::IgnoresLabelWait,
        Self::GivesBackTwice,
        Self::WorkersNeverFallSilent,
        Self::ForgetsTheNewestLabel,
        Self::KeepsNothingForLabels,
        Self::KeepsNothingForLevels,
        Self::HoldsBackAcrossReloads,
        Self::ReopensADrain,
        Self::HopesForEver,
        Self::RefusesWithinTheShare,
        Self::WaitsBeyondTheShare,
        Self::ServesTheRoomByAgeAlone,
    ];
}
