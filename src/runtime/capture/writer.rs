//! Rows become lines, in a thread of their own: numbers of places and slots become numbers of requests.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
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
    Outcome, Reason, Timestamp,
    engine::{PartitionId, nanos},
    runtime::core::{Arrive, Checkpoint, Cut, End, Gets, PAUSE, Present, Row, Step, deadline},
};

/// A slot, whether its sample was taken, and its request. Which of the slots that are the same to the engine a row means makes no
/// difference to any decision.
type SlotPrint = ([u64; 4], bool, u64);

/// A row about a request, or of time that passes, without names.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Brief<'a> {
    pub(super) t: u64,
    pub(super) verb: Verb,
    pub(super) id: Option<u64>,
    pub(super) deadline: Option<u64>,
    pub(super) gets: Option<&'a str>,
    pub(super) outcome: Option<&'a str>,
    pub(super) limit: Option<usize>,
    pub(super) since: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Names {
    /// All partitions that there have been, except the default one.
    partitions: HashSet<String>,
    requests: u64,
    limit: usize,
    waiting: HashMap<u32, u64>,
    slots: BTreeSet<SlotPrint>,
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
    let error = end.get().map(|cut| match cut {
        Cut::Overflow => "overflow: rows came faster than they were written".to_owned(),
        Cut::Full => "full: as many rows as were wanted are here".to_owned(),
    });
    let line =
        CaptureRow { t: last, verb: Verb::End, rows: Some(count), error: error.clone(), ..CaptureRow::default() };
    put(&mut out, &line)?;
    out.flush()?;
    Ok((count, error))
}

pub(super) fn put(out: &mut impl Write, line: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

fn answer_word(reason: Option<Reason>) -> &'static str {
    reason.map_or("slot", Reason::as_str)
}

impl Names {
    /// Follows a row about a request, and says it without names and times; `None` for other rows.
    pub(super) fn brief(&mut self, step: &Step) -> Option<Brief<'static>> {
        let says = |verb, id| Brief { verb, id, ..Brief::default() };
        Some(match *step {
            Step::Arrive(ref arrive) => {
                let (id, gets) = self.comes(arrive.gets);
                Brief { gets: Some(gets), ..says(Verb::Arrive, Some(id)) }
            }
            Step::Claim { place, gets } => {
                let id = self.waiting.get(&place).copied();
                Brief { gets: Some(self.gets(id, gets)), ..says(Verb::Claim, id) }
            }
            Step::Leave { place } => says(Verb::Leave, self.waiting.get(&place).copied()),
            Step::Observe { slot, outcome } => self.observed(Verb::Observe, (slot, false), outcome),
            Step::Abandon { slot, was_observed, outcome } => {
                self.observed(Verb::Abandon, (slot, was_observed), outcome)
            }
            Step::Answer { slot } => {
                let id = self.take(slot, false);
                let answered = [slot[0], Timestamp::MET.as_nanos(), slot[2], slot[3]];
                self.slots.extend(id.map(|id| (answered, false, id)));
                says(Verb::Answer, id)
            }
            Step::Overload { slot } => says(Verb::Overload, self.find(slot, true).map(|(.., id)| id)),
            Step::Finish { slot, outcome } => {
                let id = self.take(slot, outcome.is_none());
                Brief { outcome: outcome.map(Outcome::as_str), ..says(Verb::Finish, id) }
            }
            Step::Tick => says(Verb::Tick, None),
            _ => return None,
        })
    }

    fn observed(&mut self, verb: Verb, (slot, was_observed): ([u64; 4], bool), outcome: Outcome) -> Brief<'static> {
        let id = self.take(slot, was_observed);
        self.slots.extend(id.map(|id| (slot, true, id)));
        Brief { verb, id, outcome: Some(outcome.as_str()), ..Brief::default() }
    }

    /// Returns the limit, if it moved.
    pub(super) fn moved(&mut self, limit: usize) -> Option<usize> {
        (std::mem::replace(&mut self.limit, limit) != limit).then_some(limit)
    }

    pub(super) fn line(&mut self, row: Row) -> CaptureRow {
        let mut line = CaptureRow { t: row.at.as_nanos(), ..CaptureRow::default() };
        if let Some(brief) = self.brief(&row.step) {
            (line.verb, line.id) = (brief.verb, brief.id);
            (line.gets, line.outcome) = (brief.gets.map(str::to_owned), brief.outcome.map(str::to_owned));
        }
        match row.step {
            Step::Arrive(arrive) => self.name(&mut line, *arrive),
            Step::Mode(mode) => {
                line.verb = Verb::Mode;
                line.mode = Some(mode.as_str().to_owned());
            }
            Step::Drain { serves_waiting } => {
                line.verb = Verb::Drain;
                line.serves_waiting = Some(serves_waiting);
            }
            Step::Worker(worker) => {
                line.verb = if worker.report.is_some() { Verb::Worker } else { Verb::WorkerGone };
                line.slots = worker.report.map(|(slots, _)| slots as u64);
                line.valid_for = worker.report.map(|(_, valid_for)| nanos(valid_for));
                line.namespace = Some(worker.namespace).filter(|it| !it.is_empty());
                (line.label, line.class, line.worker) = (Some(worker.label), worker.class, Some(worker.worker));
            }
            Step::Reload(reload) => {
                line.verb = Verb::Reload;
                match reload.settings_text {
                    Ok(policy) => line.policy = Some(policy),
                    Err(what) => line.without_policy = Some(what),
                }
                self.partitions.extend(reload.added.iter().map(|name| name.to_string()));
            }
            Step::Checkpoint(now) => {
                line.verb = Verb::Gap;
                line.count = Some(now.missed);
            }
            // Said already.
            _ => {}
        }
        let ended = row.ended.into_iter();
        let ended = ended.filter_map(|(place, why)| Some((*self.waiting.get(&place)?, answer_word(why).to_owned())));
        line.ended = ended.collect();
        line.limit = self.moved(row.limit);
        line
    }

    /// Begins with what is there: requests, with their numbers and what they have got, and rows about all else. Requests of
    /// before are not known any more.
    pub(super) fn begin(&mut self, now: Checkpoint) -> (Vec<(u64, &'static str, Present)>, Vec<CaptureRow>) {
        (self.limit, self.partitions) = (now.limit, now.partitions.into_iter().collect());
        self.waiting.clear();
        self.slots.clear();
        let present = now.present.into_iter().map(|present| {
            let (id, gets) = self.comes(present.asked.gets);
            if let Gets::Slot(slot) = present.asked.gets
                && present.is_observed
            {
                self.slots.remove(&(slot, false, id));
                self.slots.insert((slot, true, id));
            }
            (id, gets, present)
        });
        let present = present.collect();
        let unseen = now.unseen.into_iter().map(|(partition, count)| CaptureRow {
            t: now.at.as_nanos(),
            verb: Verb::Present,
            partition: Some(partition),
            count: Some(count as u64),
            ..CaptureRow::default()
        });
        let mut rows: Vec<_> = unseen.collect();
        rows.extend(now.workers.into_iter().map(|worker| {
            let row = Row { at: now.at, step: Step::Worker(Box::new(worker)), ended: Vec::new(), limit: now.limit };
            self.line(row)
        }));
        (present, rows)
    }

    /// Returns the partition that a request asked for. A request that was on its way here when a reload added its partition went
    /// to the default one.
    pub(super) fn partition<'a>(&self, arrive: &'a Arrive) -> Option<&'a str> {
        let name = arrive.partition.as_deref()?;
        (arrive.number != PartitionId::DEFAULT || !self.partitions.contains(name)).then_some(name)
    }

    fn name(&self, line: &mut CaptureRow, arrive: Arrive) {
        line.partition = self.partition(&arrive).map(str::to_owned);
        let Arrive { waits, class, namespace, label, run, criticality, deadline: at, .. } = arrive;
        line.waits = Some(waits);
        (line.class, line.label, line.run) = (class, label, run);
        line.namespace = Some(namespace).filter(|it| !it.is_empty());
        line.criticality = Some(criticality.as_str().to_owned());
        line.deadline = deadline(at);
    }

    fn comes(&mut self, gets: Gets) -> (u64, &'static str) {
        self.requests += 1;
        (self.requests, self.gets(Some(self.requests), gets))
    }

    fn gets(&mut self, id: Option<u64>, gets: Gets) -> &'static str {
        let id = id.unwrap_or_default();
        match gets {
            Gets::Slot(slot) => {
                self.slots.insert((slot, false, id));
                answer_word(None)
            }
            Gets::Place(place) => {
                self.waiting.insert(place, id);
                "place"
            }
            Gets::Rejection(reason) => answer_word(Some(reason)),
        }
    }

    fn find(&self, slot: [u64; 4], observed: bool) -> Option<SlotPrint> {
        self.slots.range((slot, observed, 0)..=(slot, observed, u64::MAX)).next().copied()
    }

    fn take(&mut self, slot: [u64; 4], observed: bool) -> Option<u64> {
        let print = self.find(slot, observed)?;
        self.slots.remove(&print);
        Some(print.2)
    }
}
