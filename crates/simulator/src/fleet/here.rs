//! What the callers and handlers of an instance know of it, and whether its handle says the same.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{sync::Semaphore, task::yield_now};
use tower_admission::Admission;

use super::{
    clock::InstanceClock,
    ledger::{Event, Kinds, Log},
    plan::{Control, Settings},
};

/// The longest wait in the room for guarantees, in milliseconds, as the guarantees page has it.
const LONGEST_IN_ROOM: u64 = 500;

/// What the requests of an instance know of it.
#[derive(Clone)]
pub(super) struct Here(pub(super) Arc<Inside>);

pub(super) struct Inside {
    pub(super) admission: Admission,
    pub(super) settings: Settings,
    pub(super) clock: InstanceClock,
    pub(super) log: Log,
    pub(super) counts: Mutex<Counts>,
    /// Closed at rest. Wakes in order, other than Tokio's `watch`.
    pub(super) rest: Semaphore,
    pub(super) control: Option<Control>,
}

/// What callers and handlers know.
#[derive(Default)]
pub(super) struct Counts {
    waiting: BTreeMap<u64, (u64, Kinds)>,
    running: BTreeMap<u64, Kinds>,
    /// The first request that came after decisions began to bind again, and whether they bind.
    pub(super) bound_from: u64,
    pub(super) is_unbound: bool,
    pub(super) newest: u64,
    pub(super) is_draining: bool,
    /// No wait is judged before: the process was stopped until then.
    pub(super) lenient_until: u64,
    pub(super) looks: u64,
    pub(super) judged: u64,
}

impl Here {
    pub(super) fn note(&self, event: Event) {
        {
            let mut counts = self.counts();
            match &event {
                Event::Arrived(id, kinds) => {
                    counts.newest = *id;
                    let now = self.0.log.now();
                    counts.waiting.insert(*id, (now, *kinds));
                }
                Event::Started(id) => {
                    if let Some((_, kinds)) = counts.waiting.remove(id) {
                        counts.running.insert(*id, kinds);
                    }
                }
                Event::Rejected(id, _) | Event::Cancelled(id) => {
                    counts.waiting.remove(id);
                    counts.running.remove(id);
                }
                Event::Ended(id) | Event::Abandoned(id) | Event::Overdue(id) => {
                    counts.running.remove(id);
                }
                _ => {}
            }
        }
        self.0.log.note(event);
    }

    pub(super) fn admission(&self) -> Admission {
        self.0.admission.clone()
    }

    pub(super) fn has_partitions(&self) -> bool {
        self.0.settings.partitions
    }

    /// Whether a handler keeps its permit for ever, for a control.
    pub(super) fn keeps_permits(&self) -> bool {
        self.0.control == Some(Control::KeepsPermits)
    }

    /// Waits until the world is at rest.
    pub(super) async fn rest(&self) {
        drop(self.0.rest.acquire().await);
    }

    pub(super) fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the longest wait of a request, in milliseconds, whatever is full.
    fn longest_wait(&self) -> u64 {
        let of = &self.0.settings;
        let wait = if of.queue > 0 { of.admission_timeout + of.max_wait } else { of.wait_timeout };
        // A request within the share of its partition waits in the room for guarantees, with or without a line.
        let wait = if self.has_partitions() { wait.max(LONGEST_IN_ROOM) } else { wait };
        // The store is asked for one time limit at most, and unused units are called back for 50 ms.
        wait + wait * of.drift / 100 + of.network.time_limit + 50 + self.0.clock.late()
    }

    /// Compares, again and again while tasks that were woken have not run.
    pub(super) async fn look(&self) {
        let mut wrong = None;
        for _ in 0..64 {
            wrong = self.compare();
            if wrong.is_none() {
                break;
            }
            yield_now().await;
        }
        if let Some(wrong) = wrong {
            self.0.log.note(Event::Wrong(wrong));
        }
    }

    /// Returns what is wrong, unless this can't be told now.
    fn compare(&self) -> Option<(&'static str, String)> {
        let snapshot = self.0.admission.snapshot();
        let longest = self.longest_wait() + 150;
        let now = self.0.log.now();
        let mut counts = self.counts();
        let eldest = counts.waiting.keys().chain(counts.running.keys()).min();
        if counts.is_unbound || eldest.is_some_and(|&id| id < counts.bound_from) {
            return None;
        }
        counts.looks += 1;
        let known = counts.waiting.len() + counts.running.len();
        let told =
            snapshot.in_flight + snapshot.waiting + snapshot.at_gate - snapshot.abandoned.min(snapshot.in_flight);
        if known != told {
            let what = format!(
                "{} wait and {} run, as callers and handlers know; the handle says {} in flight, {} of them abandoned, {} in line, {} at the gate",
                counts.waiting.len(),
                counts.running.len(),
                snapshot.in_flight,
                snapshot.abandoned,
                snapshot.waiting,
                snapshot.at_gate,
            );
            return Some(("conservation", what));
        }
        let is_paced = snapshot.limit_state.pacing_seconds.is_some();
        let is_paused = is_paced || snapshot.limit_state.state == "paused";
        if snapshot.in_flight < snapshot.limit && !is_paused && !self.has_partitions() {
            let free = counts.waiting.iter().find(|(_, (_, kinds))| {
                !kinds.shared && counts.may_run(kinds, &self.0.settings, snapshot.abandoned > 0)
            });
            if let Some((id, _)) = free {
                let what = format!(
                    "request {id} waits beside a free slot: {} of {} in flight",
                    snapshot.in_flight, snapshot.limit
                );
                return Some(("no free slot beside a waiter", what));
            }
        }
        let oldest = counts.waiting.iter().next().map(|(id, (since, _))| (*id, *since));
        if let Some((id, since)) = oldest.filter(|_| now >= counts.lenient_until) {
            counts.judged += 1;
            if now - since > longest {
                let what = format!("request {id} has waited for {} ms, {longest} ms at most", now - since);
                return Some(("every wait ends", what));
            }
        }
        None
    }
}

impl Counts {
    /// Whether nothing but the limit keeps such a request from running.
    fn may_run(&self, kinds: &Kinds, settings: &Settings, has_abandoned: bool) -> bool {
        let Some(label) = kinds.label.filter(|_| settings.label_cap > 0) else { return true };
        if has_abandoned {
            // Work that goes on counts against the cap of its label, and only the handle knows until when.
            return false;
        }
        let running = self.running.values().filter(|it| it.label == Some(label) && !it.shared).count();
        running < settings.label_cap
    }
}
