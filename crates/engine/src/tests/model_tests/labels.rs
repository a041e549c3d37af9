//! Labels and their workers, in the model.

use super::{
    super::super::plan::LabelRule,
    model::Model,
    setup::{Mistake, Name, SECOND},
};

#[derive(Clone, Debug)]
pub(super) struct Label {
    /// Name; `None` for the two entries that labels share.
    pub(super) name: Option<Name>,
    /// Where its flow goes on.
    pub(super) start: u64,
    pub(super) workers: Vec<Worker>,
    /// Verb since which the label could be forgotten.
    pub(super) idle_since: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Worker {
    pub(super) id: usize,
    pub(super) slots: usize,
    pub(super) until: u64,
    pub(super) active: bool,
}

impl Default for Label {
    fn default() -> Self {
        // It was never served, so it is a turn behind.
        Self { name: None, start: u64::MAX, workers: Vec::new(), idle_since: None }
    }
}

/// Time for which a silent worker is remembered after its word ends, in nanoseconds.
const REMEMBERED: u64 = 600 * SECOND;

impl Model {
    pub(super) fn rule(&self, label: usize) -> LabelRule {
        let rules = &self.setup.labels;
        match self.labels[label].name {
            Some(name) => rules.rule(name),
            None if label == 0 => LabelRule::default(),
            None => rules.default,
        }
    }

    pub(super) fn running_of(&self, label: usize) -> usize {
        self.used.iter().filter(|used| used.label == label).count()
    }

    pub(super) fn waiting_of(&self, label: usize) -> usize {
        self.people.iter().filter(|person| person.label == label && person.waits()).count()
    }

    pub(super) fn is_full(&self, label: usize) -> bool {
        self.is_full_with(label, self.running_of(label))
    }

    /// Whether a label would be full with a request more.
    pub(super) fn has_one_left(&self, label: usize) -> bool {
        self.is_full_with(label, self.running_of(label) + 1)
    }

    pub(super) fn is_full_with(&self, label: usize, running: usize) -> bool {
        let workers = &self.labels[label].workers;
        let slots: usize = workers.iter().filter(|worker| worker.active).map(|worker| worker.slots).sum();
        let by_workers = self.setup.labels.enforce_workers && !workers.is_empty() && running >= slots;
        by_workers || self.rule(label).cap.is_some_and(|cap| running >= cap)
    }

    /// Changes a label, and lets its flows catch up if it may run again.
    pub(super) fn change(&mut self, label: usize, change: impl FnOnce(&mut Self)) {
        let was_full = self.is_full(label);
        change(self);
        if was_full && !self.is_full(label) {
            self.unthrottle(label);
        }
    }

    pub(super) fn is_active(&self, label: usize) -> bool {
        self.running_of(label) + self.waiting_of(label) > 0
    }

    fn is_idle(&self, label: usize) -> bool {
        label > 1 && !self.is_active(label) && self.labels[label].workers.is_empty()
    }

    /// Notes since when labels are idle, after each verb.
    pub(super) fn note_idle(&mut self) {
        self.verbs += 1;
        for label in 0..self.labels.len() {
            let since = self.labels[label].idle_since.unwrap_or(self.verbs);
            self.labels[label].idle_since = self.is_idle(label).then_some(since);
        }
    }

    /// Returns the entry of a label. Where several labels are idle for equally long, the engine may forget any of them.
    pub(super) fn intern(&mut self, name: Option<Name>, forgotten: Option<Name>) -> usize {
        let Some(name) = name else { return 0 };
        if let Some(known) = self.labels.iter().position(|label| label.name == Some(name)) {
            return known;
        }
        let new = Label { name: Some(name), idle_since: Some(self.verbs + 1), ..Label::default() };
        if self.labels.len() - 2 < self.setup.labels.max_labels {
            self.labels.push(new);
            return self.labels.len() - 1;
        }
        let idle = || (2..self.labels.len()).filter(|&label| self.is_idle(label));
        let since = |label: usize| self.labels[label].idle_since.unwrap_or(u64::MAX);
        let longest = if self.mistake == Mistake::ForgetsTheNewestLabel {
            idle().map(since).max()
        } else {
            idle().map(since).min()
        };
        let choices = || idle().filter(|&label| Some(since(label)) == longest);
        let chosen = choices().find(|&label| self.labels[label].name == forgotten).or_else(|| choices().next());
        match chosen {
            Some(label) => {
                self.labels[label] = new;
                self.forgotten += 1;
                label
            }
            None => {
                self.overflowed += 1;
                1
            }
        }
    }

    /// Notes a report; returns whether there was room to note it.
    pub(super) fn report(&mut self, name: Name, worker: Worker, forgotten: Option<Name>) -> bool {
        let label = self.intern(Some(name), forgotten);
        if label > 1 {
            self.change(label, |model| {
                let workers = &mut model.labels[label].workers;
                match workers.iter_mut().find(|known| known.id == worker.id) {
                    Some(known) => *known = worker,
                    None => workers.push(worker),
                }
            });
        }
        // Time may have passed since the last turn: a slot that was held back may be free by now.
        self.settle();
        label > 1
    }

    pub(super) fn remove_worker(&mut self, name: Name, id: usize) {
        if let Some(label) = self.labels.iter().position(|label| label.name == Some(name)) {
            self.change(label, |model| model.labels[label].workers.retain(|worker| worker.id != id));
            self.settle();
        }
    }

    pub(super) fn sweep_workers(&mut self) {
        let (now, silent) = (self.now, self.mistake != Mistake::WorkersNeverFallSilent);
        for label in 0..self.labels.len() {
            self.change(label, |model| {
                let workers = &mut model.labels[label].workers;
                workers.retain(|worker| now < worker.until + REMEMBERED || !silent);
                workers.iter_mut().for_each(|worker| worker.active = now < worker.until || !silent);
            });
        }
    }
}
