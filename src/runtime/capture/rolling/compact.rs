//! Rows in few bytes: names once per segment, times and numbers as differences.

use std::{collections::HashMap, sync::Arc};

use crate::runtime::capture::{
    line::{CaptureRow, Verb},
    writer::Brief,
};

/// The verbs of rows about requests, and of time that passes.
const VERBS: [Verb; 10] = [
    Verb::Arrive,
    Verb::Claim,
    Verb::Leave,
    Verb::Observe,
    Verb::Overload,
    Verb::Finish,
    Verb::Tick,
    Verb::Present,
    Verb::Abandon,
    Verb::Answer,
];

const ID: u8 = 1;
const SHAPE: u8 = 1 << 1;
const DEADLINE: u8 = 1 << 2;
const GETS: u8 = 1 << 3;
const OUTCOME: u8 = 1 << 4;
const LIMIT: u8 = 1 << 5;
const SINCE: u8 = 1 << 6;
/// A row that is rare follows, as JSON.
const JSON: u8 = 1 << 7;

/// What many requests have in common, in bytes: whether they wait, and their names, each with its length. Empty for rows that are
/// not about a request that arrives.
#[derive(Debug, Default)]
pub(super) struct Shape(pub(super) Vec<u8>);

/// Names that rows refer to by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    shapes: Vec<Arc<[u8]>>,
    words: Vec<String>,
}

impl Shape {
    /// Writes what a request asked for over what was here. The names are those of a row, in its order.
    pub(super) fn set(&mut self, waits: Option<bool>, names: [Option<&str>; 6]) {
        self.0.clear();
        if waits.is_none() && names == [None; 6] {
            return;
        }
        self.0.push(waits.map_or(0, |waits| 1 + u8::from(waits)));
        for name in names {
            put_number(&mut self.0, name.map_or(0, |name| 1 + name.len() as u64));
            self.0.extend_from_slice(name.unwrap_or_default().as_bytes());
        }
    }
}

/// What the next row is told as a difference from.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Last {
    t: u64,
    id: u64,
}

/// Writes rows, with the numbers of all names so far.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    pub(super) bytes: Vec<u8>,
    pub(super) names: Names,
    shapes: HashMap<Arc<[u8]>, u64>,
    last: Last,
    /// Memory that the names take, here and in the table.
    names_bytes: usize,
}

impl Encoder {
    /// Returns how much memory the rows take, and their names.
    pub(super) fn size(&self) -> usize {
        self.bytes.capacity() + self.names_bytes
    }

    /// Returns the rows so far, to be read.
    pub(super) fn copy(&self) -> Self {
        Self { bytes: self.bytes.clone(), names: self.names.clone(), ..Self::default() }
    }

    /// Puts a row that is rare.
    pub(super) fn put(&mut self, row: &CaptureRow) {
        let json = serde_json::to_vec(row).unwrap_or_default();
        self.bytes.extend([0, JSON]);
        self.number(json.len() as u64);
        self.bytes.extend(json);
    }

    /// Puts a row about a request, with its shape. Returns the shape as it is kept, for a row with one.
    pub(super) fn put_brief(&mut self, row: &Brief<'_>, shape: &[u8]) -> Option<&Arc<[u8]>> {
        let verb = VERBS.iter().position(|&verb| verb == row.verb).unwrap_or_default();
        let mask = [
            (ID, row.id.is_some()),
            (SHAPE, !shape.is_empty()),
            (DEADLINE, row.deadline.is_some()),
            (GETS, row.gets.is_some()),
            (OUTCOME, row.outcome.is_some()),
            (LIMIT, row.limit.is_some()),
            (SINCE, row.since.is_some()),
        ];
        let mask = mask.into_iter().fold(0, |all, (bit, is_set)| if is_set { all | bit } else { all });
        self.bytes.push(u8::try_from(verb).unwrap_or_default());
        self.bytes.push(mask);
        self.signed(row.t, self.last.t);
        self.last.t = row.t;
        if let Some(id) = row.id {
            self.signed(id, self.last.id);
            self.last.id = id;
        }
        let shape = (!shape.is_empty()).then(|| self.shape(shape));
        if let Some(number) = shape {
            self.number(number);
        }
        if let Some(deadline) = row.deadline {
            self.signed(deadline, row.t);
        }
        for word in [row.gets, row.outcome].into_iter().flatten() {
            let number = self.word(word);
            self.number(number);
        }
        if let Some(limit) = row.limit {
            self.number(limit as u64);
        }
        if let Some(since) = row.since {
            self.signed(since, row.t);
        }
        self.names.shapes.get(usize::try_from(shape?).ok()?)
    }

    /// Forgets what only further rows need.
    pub(super) fn finish(&mut self) {
        self.shapes = HashMap::new();
    }

    /// From here on, differences begin anew.
    pub(super) fn restart(&mut self) {
        self.last = Last::default();
    }

    fn shape(&mut self, bytes: &[u8]) -> u64 {
        if let Some(&number) = self.shapes.get(bytes) {
            return number;
        }
        let (next, bytes) = (self.names.shapes.len() as u64, Arc::<[u8]>::from(bytes));
        // The bytes with two counts, a reference here, and one with its number and a byte in the table.
        self.names_bytes += bytes.len() + 2 * size_of::<usize>() + 2 * size_of::<Arc<[u8]>>() + size_of::<u64>() + 1;
        self.names.shapes.push(Arc::clone(&bytes));
        self.shapes.insert(bytes, next);
        next
    }

    /// Words are few, and come from here.
    fn word(&mut self, word: &str) -> u64 {
        let words = &mut self.names.words;
        let known = words.iter().position(|known| known == word).unwrap_or_else(|| {
            words.push(word.to_owned());
            words.len() - 1
        });
        known as u64
    }

    fn signed(&mut self, value: u64, base: u64) {
        let difference = value.wrapping_sub(base).cast_signed();
        self.number(((difference << 1) ^ (difference >> 63)).cast_unsigned());
    }

    fn number(&mut self, value: u64) {
        put_number(&mut self.bytes, value);
    }
}

/// Seven bits a byte, the lowest first.
fn put_number(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
}

/// Reads rows.
#[derive(Debug)]
pub(super) struct Decoder<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) names: &'a Names,
    pub(super) last: Last,
}

impl Decoder<'_> {
    /// Returns the next row; `None` at the end.
    pub(super) fn next(&mut self) -> Option<CaptureRow> {
        let verb = *VERBS.get(usize::from(self.byte()?))?;
        let mask = self.byte()?;
        if mask & JSON != 0 {
            let length = self.index()?;
            return serde_json::from_slice(self.take(length)?).ok();
        }
        let t = self.signed(self.last.t)?;
        let mut row = CaptureRow { t, verb, ..CaptureRow::default() };
        self.last.t = t;
        let has = |bit: u8| mask & bit != 0;
        if has(ID) {
            self.last.id = self.signed(self.last.id)?;
            row.id = Some(self.last.id);
        }
        if has(SHAPE) {
            let number = self.index()?;
            let bytes = self.names.shapes.get(number)?;
            Decoder { bytes, names: self.names, last: Last::default() }.shape(&mut row)?;
        }
        if has(DEADLINE) {
            row.deadline = Some(self.signed(t)?);
        }
        if has(GETS) {
            row.gets = Some(self.word()?);
        }
        if has(OUTCOME) {
            row.outcome = Some(self.word()?);
        }
        if has(LIMIT) {
            row.limit = Some(self.index()?);
        }
        if has(SINCE) {
            row.since = Some(self.signed(t)?);
        }
        Some(row)
    }

    fn shape(&mut self, row: &mut CaptureRow) -> Option<()> {
        row.waits = self.byte()?.checked_sub(1).map(|waits| waits > 0);
        for name in row.names_mut() {
            let Some(length) = self.index()?.checked_sub(1) else { continue };
            *name = Some(std::str::from_utf8(self.take(length)?).ok()?.to_owned());
        }
        Some(())
    }

    fn word(&mut self) -> Option<String> {
        let number = self.index()?;
        self.names.words.get(number).cloned()
    }

    fn take(&mut self, length: usize) -> Option<&[u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn index(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    fn signed(&mut self, base: u64) -> Option<u64> {
        let value = self.number()?.cast_signed();
        let difference = (value.cast_unsigned() >> 1).cast_signed() ^ -(value & 1);
        Some(base.wrapping_add(difference.cast_unsigned()))
    }
}
