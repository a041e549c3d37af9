//! Rows become lines, in a thread of their own: numbers of places and slots become numbers of requests.

use std::{
    collections::{HashMap, HashSet},
    io::{self, Write},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError},
    },
};

use super::{
    Written,
    line::{CaptureRow, Header, Verb},
};
use crate::{
    engine::PartitionId,
    outcome::Outcome,
    rejection::Reason,
    runtime::core::{Arrive, Checkpoint, Cut, End, Gets, PAUSE, Present, Row, Step, Worker, deadline},
    time::nanos,
};

/// Slots that are the same to the engine, each with its request and whether its sample was taken. Which of these slots
/// a row means makes no difference to any decision.
type Alike = Vec<(u64, bool)>;

#[derive(Debug, Default)]
pub(super) struct Names {
    /// All partitions that there have been, except the default one.
    partitions: HashSet<String>,
    requests: u64,
    limit: usize,
    waiting: HashMap<u32, u64>,
    slots: HashMap<[u64; 4], Alike>,
}

/// Writes until the recording ends. Returns how many rows there were, and why it ended if it was not stopped.
pub(super) fn write(
    mut out: impl Write,
    header: &Header,
    partitions: HashSet<String>,
    rows: &Receiver<Row>,
    end: &Arc<End>,
) -> io::Result<Written> {
    let mut names = Names { limit: header.limit, partitions, ..Names::default() };
    let (mut count, mut last) = (0, 0);
    put(&mut out, header)?;
    loop {
        match rows.recv_timeout(PAUSE) {
            Ok(row) => {
                last = row.at.as_nanos();
                put(&mut out, &names.line(row))?;
                count += 1;
            }
            Err(RecvTimeoutError::Timeout) => out.flush()?,
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let error = match end.get() {
        Cut::None => None,
        Cut::Overflow => Some("overflow: rows came faster than they were written".to_owned()),
        Cut::Full => Some("full: as many rows as were wanted are here".to_owned()),
    };
    let line =
        CaptureRow { t: last, verb: Verb::End, rows: Some(count), error: error.clone(), ..CaptureRow::default() };
    put(&mut out, &line)?;
    out.flush()?;
    Ok((count, error))
}

fn put(out: &mut impl Write, line: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

fn about(line: &mut CaptureRow, worker: Worker) {
    line.namespace = Some(worker.namespace).filter(|it| !it.is_empty());
    (line.label, line.class, line.worker) = (Some(worker.label), worker.class, Some(worker.worker));
}

pub(super) const fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Cancelled => "cancelled",
        Outcome::Ignore => "ignore",
        Outcome::Overload => "overload",
        Outcome::Success => "success",
    }
}

pub(super) fn answer_word(reason: Option<Reason>) -> String {
    reason.map_or("slot", Reason::as_str).to_owned()
}

impl Names {
    pub(super) fn line(&mut self, row: Row) -> CaptureRow {
        let mut line = CaptureRow { t: row.at.as_nanos(), ..CaptureRow::default() };
        match row.step {
            Step::Arrive(arrive) => self.arrive(&mut line, *arrive),
            Step::Claim { place, gets } => {
                line.verb = Verb::Claim;
                line.id = self.waiting.get(&place).copied();
                self.gets(&mut line, gets);
            }
            Step::Leave { place } => {
                line.verb = Verb::Leave;
                line.id = self.waiting.get(&place).copied();
            }
            Step::Observe { slot, outcome } => {
                line.verb = Verb::Observe;
                line.outcome = Some(outcome_word(outcome).to_owned());
                line.id = self.find(slot, false, |alike, at| {
                    alike[at].1 = true;
                    alike[at].0
                });
            }
            Step::Overload { slot } => {
                line.verb = Verb::Overload;
                line.id = self.find(slot, true, |alike, at| alike[at].0);
            }
            Step::Finish { slot, outcome } => {
                line.verb = Verb::Finish;
                line.outcome = outcome.map(|outcome| outcome_word(outcome).to_owned());
                line.id = self.find(slot, outcome.is_none(), |alike, at| alike.swap_remove(at).0);
                if self.slots.get(&slot).is_some_and(Vec::is_empty) {
                    self.slots.remove(&slot);
                }
            }
            Step::Tick => line.verb = Verb::Tick,
            Step::Mode(mode) => {
                line.verb = Verb::Mode;
                line.mode = Some(mode.as_str().to_owned());
            }
            Step::Drain { serves_waiting } => {
                line.verb = Verb::Drain;
                line.serves_waiting = Some(serves_waiting);
            }
            Step::Worker(worker) => {
                line.verb = Verb::Worker;
                line.slots = Some(worker.slots as u64);
                line.valid_for = Some(nanos(worker.valid_for));
                about(&mut line, *worker);
            }
            Step::WorkerGone(worker) => {
                line.verb = Verb::WorkerGone;
                about(&mut line, *worker);
            }
            Step::Reload(reload) => {
                line.verb = Verb::Reload;
                match reload.words {
                    Ok(policy) => line.policy = Some(policy),
                    Err(what) => line.without_policy = Some(what),
                }
                self.partitions.extend(reload.added.iter().map(|name| name.to_string()));
            }
            Step::Checkpoint(now) => {
                line.verb = Verb::Gap;
                line.count = Some(now.missed);
            }
        }
        let ended = row.ended.into_iter();
        line.ended = ended.filter_map(|(place, why)| Some((*self.waiting.get(&place)?, answer_word(why)))).collect();
        line.limit = (row.limit != self.limit).then_some(row.limit);
        self.limit = row.limit;
        line
    }

    /// Begins with what is there. Requests of before are not known any more.
    pub(super) fn begin(&mut self, now: Checkpoint) -> Vec<CaptureRow> {
        (self.limit, self.partitions) = (now.limit, now.partitions.into_iter().collect());
        self.waiting.clear();
        self.slots.clear();
        let at = now.at.as_nanos();
        let mut rows = Vec::with_capacity(now.present.len());
        for Present { since, is_observed, asked } in now.present {
            let mut row = CaptureRow { t: at, since: Some(since.as_nanos().min(at)), ..CaptureRow::default() };
            let slot = match asked.gets {
                Gets::Slot(slot) => Some(slot),
                Gets::Place(_) | Gets::Rejection(_) => None,
            };
            self.arrive(&mut row, asked);
            row.verb = Verb::Present;
            if let Some(alike) = slot.and_then(|slot| self.slots.get_mut(&slot)?.last_mut()) {
                alike.1 = is_observed;
            }
            rows.push(row);
        }
        rows.extend(now.unseen.into_iter().map(|(partition, count)| CaptureRow {
            t: at,
            verb: Verb::Present,
            partition: Some(partition),
            count: Some(count as u64),
            ..CaptureRow::default()
        }));
        rows.extend(now.workers.into_iter().map(|worker| {
            let row = Row { at: now.at, step: Step::Worker(Box::new(worker)), ended: Vec::new(), limit: now.limit };
            self.line(row)
        }));
        rows
    }

    fn arrive(&mut self, line: &mut CaptureRow, arrive: Arrive) {
        let Arrive { waits, partition, number, class, namespace, label, run, criticality, deadline: at, gets } = arrive;
        // A request that was on its way here when a reload added its partition went to the default one.
        let partition = partition.filter(|name| number != PartitionId::DEFAULT || !self.partitions.contains(name));
        self.requests += 1;
        line.verb = Verb::Arrive;
        line.id = Some(self.requests);
        line.waits = Some(waits);
        (line.partition, line.class, line.label, line.run) = (partition, class, label, run);
        line.namespace = Some(namespace).filter(|it| !it.is_empty());
        line.criticality = Some(criticality.as_str().to_owned());
        line.deadline = deadline(at);
        self.gets(line, gets);
    }

    fn gets(&mut self, line: &mut CaptureRow, gets: Gets) {
        let id = line.id.unwrap_or_default();
        line.gets = Some(match gets {
            Gets::Slot(slot) => {
                self.slots.entry(slot).or_default().push((id, false));
                answer_word(None)
            }
            Gets::Place(place) => {
                self.waiting.insert(place, id);
                "place".to_owned()
            }
            Gets::Rejection(reason) => answer_word(Some(reason)),
        });
    }

    fn find(&mut self, slot: [u64; 4], observed: bool, take: impl FnOnce(&mut Alike, usize) -> u64) -> Option<u64> {
        let alike = self.slots.get_mut(&slot)?;
        let at = alike.iter().position(|&(_, it)| it == observed)?;
        Some(take(alike, at))
    }
}
