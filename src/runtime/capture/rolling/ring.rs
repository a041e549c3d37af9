//! The last minutes of a capture: segments, each of which begins with all that is there and can be read on its own.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use super::compact::{Decoder, Encoder, Last, Shape};
use crate::{
    engine::nanos,
    runtime::{
        capture::{
            line::{CaptureRow, Header, ROLLING, Verb},
            writer::{self, Brief},
        },
        core::{Arrive, Checkpoint, Row, Step, deadline},
    },
};

/// Segments that the time and the memory are divided into: what is too old goes in such steps.
const SEGMENTS: u64 = 16;

/// A part of the capture.
#[derive(Debug, Default)]
pub(super) struct Segment {
    /// The state at its start.
    head: Header,
    pub(super) first: u64,
    pub(super) last: u64,
    /// Turns that are missing before it.
    pub(super) missed: u64,
    rows: Encoder,
    /// Where rows begin; before are those of what was there.
    start: usize,
}

/// Which rows of a segment are read next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct At {
    byte: usize,
    last: Last,
}

impl Segment {
    /// Returns where the rows begin: with what was there, or after that.
    pub(super) fn start(&self, with_present: bool) -> At {
        At { byte: if with_present { 0 } else { self.start }, last: Last::default() }
    }

    /// Returns the next row, and moves on.
    pub(super) fn read(&self, at: &mut At) -> Option<CaptureRow> {
        if at.byte == self.start {
            at.last = Last::default();
        }
        // Rows of what was there end where the others begin: differences start anew there.
        let Encoder { bytes, names, .. } = &self.rows;
        let end = if at.byte < self.start { self.start } else { bytes.len() };
        let mut decoder = Decoder { bytes: bytes.get(at.byte..end)?, names, last: at.last };
        let row = decoder.next()?;
        *at = At { byte: end - decoder.bytes.len(), last: decoder.last };
        Some(row)
    }

    /// Returns the first line of a capture that begins with this segment.
    pub(super) fn header(&self, until: u64) -> Header {
        Header { capture: ROLLING, from: Some(self.first), until: Some(until), ..self.head.clone() }
    }
}

/// A request that runs or waits.
#[derive(Debug)]
struct Open {
    shape: Arc<[u8]>,
    since: u64,
    deadline: Option<u64>,
    gets: &'static str,
}

/// The capture as it goes on.
#[derive(Debug, Default)]
pub(super) struct Ring {
    pub(super) last: Duration,
    pub(super) max_bytes: usize,
    pub(super) is_running: bool,
    /// Rows that were recorded, and turns that were not.
    pub(super) rows: u64,
    pub(super) missed: u64,
    names: writer::Names,
    /// The state after the newest row: settings, mode, limit, requests, workers.
    head: Header,
    open: BTreeMap<u64, Open>,
    workers: BTreeMap<[Option<String>; 4], CaptureRow>,
    done: VecDeque<Arc<Segment>>,
    done_size: usize,
    now: Segment,
    /// What the newest request asked for.
    shape: Shape,
}

impl Ring {
    pub(super) fn new(last: Duration, max_bytes: usize, head: Header, checkpoint: Checkpoint) -> Self {
        let mut ring = Self { last, max_bytes, is_running: true, head, ..Self::default() };
        ring.begin(checkpoint);
        ring
    }

    /// Takes a row that is the newest.
    pub(super) fn take(&mut self, row: Row) {
        if let Step::Checkpoint(checkpoint) = row.step {
            self.finish_segment();
            return self.begin(*checkpoint);
        }
        let t = row.at.as_nanos();
        let Some(brief) = self.names.brief(&row.step) else {
            let line = CaptureRow { ended: Vec::new(), ..self.names.line(row) };
            self.make_room(t);
            self.note(&line);
            return self.now.rows.put(&line);
        };
        let limit = self.names.moved(row.limit);
        if brief.verb == Verb::Tick && limit.is_none() {
            return;
        }
        self.make_room(t);
        self.head.limit = row.limit;
        let arrive = if let Step::Arrive(arrive) = &row.step { Some(&**arrive) } else { None };
        let until = arrive.and_then(|arrive| deadline(arrive.deadline));
        self.shape(arrive);
        let brief = Brief { t, deadline: until, limit, ..brief };
        let shape = self.now.rows.put_brief(&brief, &self.shape.0);
        let Some(id) = brief.id else { return };
        match (brief.verb, brief.gets) {
            (Verb::Arrive, Some(gets @ ("slot" | "place"))) => {
                let open = shape.map(|shape| Open { shape: Arc::clone(shape), since: t, deadline: until, gets });
                self.open.extend(open.map(|open| (id, open)));
            }
            (Verb::Claim, Some(gets @ "slot")) => self.open.get_mut(&id).into_iter().for_each(|open| open.gets = gets),
            (Verb::Claim | Verb::Leave | Verb::Finish, _) => drop(self.open.remove(&id)),
            _ => {}
        }
    }

    /// Begins a new segment if this one is over, and counts a row.
    fn make_room(&mut self, t: u64) {
        if self.is_over(t) {
            self.finish_segment();
            self.begin_segment(t, 0, &[]);
        }
        (self.rows, self.now.last) = (self.rows + 1, t);
    }

    /// Writes down what a request asked for.
    fn shape(&mut self, arrive: Option<&Arrive>) {
        let Some(it) = arrive else { return self.shape.set(None, [None; 6]) };
        let namespace = Some(&*it.namespace).filter(|it| !it.is_empty());
        let (class, label, run) = (it.class.as_deref(), it.label.as_deref(), it.run.as_deref());
        let names = [self.names.partition(it), class, namespace, label, run, Some(it.criticality.as_str())];
        self.shape.set(Some(it.waits), names);
    }

    /// Whether the present segment has had its time or its memory.
    fn is_over(&self, t: u64) -> bool {
        let longest = (nanos(self.last) / SEGMENTS).max(1_000_000_000);
        t.saturating_sub(self.now.first) > longest || self.now.rows.size() > self.max_bytes / 16
    }

    fn begin(&mut self, checkpoint: Checkpoint) {
        let (at, missed) = (checkpoint.at.as_nanos(), checkpoint.missed);
        (self.head.mode, self.head.limit) = (checkpoint.mode.as_str().to_owned(), checkpoint.limit);
        self.missed += missed;
        self.open.clear();
        self.workers.clear();
        let (present, others) = self.names.begin(checkpoint);
        for (id, gets, it) in present {
            self.shape(Some(&it.asked));
            let (since, deadline) = (it.since.as_nanos().min(at), deadline(it.asked.deadline));
            self.open.insert(id, Open { shape: (&*self.shape.0).into(), since, deadline, gets });
        }
        let (unseen, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|row| row.verb == Verb::Present);
        others.iter().for_each(|row| self.note(row));
        self.begin_segment(at, missed, &unseen);
    }

    fn begin_segment(&mut self, t: u64, missed: u64, unseen: &[CaptureRow]) {
        let mut rows = Encoder::default();
        self.workers.retain(|_, row| row.t.saturating_add(row.valid_for.unwrap_or_default()) > t);
        for (&id, open) in &self.open {
            let (id, since, gets, deadline) = (Some(id), Some(open.since), Some(open.gets), open.deadline);
            let present = Brief { t, verb: Verb::Present, id, deadline, gets, since, ..Brief::default() };
            rows.put_brief(&present, &open.shape);
        }
        for row in self.workers.values() {
            let left = (row.t + row.valid_for.unwrap_or_default()).saturating_sub(t);
            rows.put(&CaptureRow { t, valid_for: Some(left), ..row.clone() });
        }
        unseen.iter().for_each(|row| rows.put(row));
        rows.restart();
        let start = rows.bytes.len();
        self.now = Segment { head: self.head.clone(), first: t, last: t, missed, rows, start };
    }

    /// Follows what is there besides requests.
    fn note(&mut self, row: &CaptureRow) {
        if let Some(limit) = row.limit {
            self.head.limit = limit;
        }
        match row.verb {
            Verb::Mode => self.head.mode = row.mode.clone().unwrap_or_default(),
            Verb::Reload => {
                (self.head.policy, self.head.without_policy) = (row.policy.clone(), row.without_policy.clone());
            }
            Verb::Worker | Verb::WorkerGone => {
                let key = [&row.namespace, &row.label, &row.class, &row.worker].map(Option::clone);
                if row.verb == Verb::Worker {
                    self.workers.insert(key, row.clone());
                } else {
                    self.workers.remove(&key);
                }
            }
            _ => {}
        }
    }

    fn finish_segment(&mut self) {
        let mut done = std::mem::take(&mut self.now);
        self.now.last = done.last;
        done.rows.finish();
        self.done_size += done.rows.size();
        self.done.push_back(Arc::new(done));
        self.forget();
    }

    /// Forgets segments that are too old, or too much.
    pub(super) fn forget(&mut self) {
        let since = self.now.last.saturating_sub(nanos(self.last));
        while let Some(oldest) = self.done.front() {
            if oldest.last >= since && self.size() <= self.max_bytes {
                break;
            }
            self.done_size -= oldest.rows.size();
            self.done.pop_front();
        }
    }

    /// Returns how much memory the rows take.
    pub(super) fn size(&self) -> usize {
        self.done_size + self.now.rows.size()
    }

    /// Returns the times of the oldest row and of the newest.
    pub(super) fn span(&self) -> (u64, u64) {
        (self.done.front().map_or(self.now.first, |oldest| oldest.first), self.now.last)
    }

    /// Returns the segments with rows after a time.
    pub(super) fn since(&self, since: u64) -> Vec<Arc<Segment>> {
        let Segment { head, rows, .. } = &self.now;
        let now = Segment { head: head.clone(), rows: rows.copy(), ..self.now };
        let done = self.done.iter().filter(|segment| segment.last >= since).cloned();
        done.chain([Arc::new(now)]).collect()
    }
}
