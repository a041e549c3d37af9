//! Rows in few bytes: names once per segment, times and numbers as differences.

use std::collections::HashMap;

use crate::runtime::capture::line::{CaptureRow, Verb};

const VERBS: [Verb; 14] = [
    Verb::Arrive,
    Verb::Claim,
    Verb::Leave,
    Verb::Observe,
    Verb::Overload,
    Verb::Finish,
    Verb::Tick,
    Verb::Mode,
    Verb::Drain,
    Verb::Worker,
    Verb::WorkerGone,
    Verb::Reload,
    Verb::Present,
    Verb::Gap,
];

const ID: u8 = 1;
const SHAPE: u8 = 1 << 1;
const DEADLINE: u8 = 1 << 2;
const GETS: u8 = 1 << 3;
const OUTCOME: u8 = 1 << 4;
const LIMIT: u8 = 1 << 5;
const SINCE: u8 = 1 << 6;
/// The whole row follows as JSON: those are rare.
const JSON: u8 = 1 << 7;

/// What many requests have in common.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Shape {
    waits: Option<bool>,
    names: [Option<String>; 6],
}

/// Names that rows refer to by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    shapes: Vec<Shape>,
    words: Vec<String>,
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
    shapes: HashMap<Shape, u64>,
    words: HashMap<String, u64>,
    last: Last,
    /// Memory that the names take, twice: here and in the table.
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

    pub(super) fn put(&mut self, mut row: CaptureRow) {
        let verb = VERBS.iter().position(|&verb| verb == row.verb).unwrap_or_default();
        let is_rare = matches!(row.verb, Verb::Mode | Verb::Drain | Verb::Worker | Verb::WorkerGone | Verb::Reload);
        let shape = Shape {
            waits: row.waits.take(),
            names: [
                &mut row.partition,
                &mut row.class,
                &mut row.namespace,
                &mut row.label,
                &mut row.run,
                &mut row.criticality,
            ]
            .map(|name| if is_rare { None } else { name.take() }),
        };
        let has_shape = shape != Shape::default();
        let mask = [
            (ID, row.id.is_some()),
            (SHAPE, has_shape),
            (DEADLINE, row.deadline.is_some()),
            (GETS, row.gets.is_some()),
            (OUTCOME, row.outcome.is_some()),
            (LIMIT, row.limit.is_some()),
            (SINCE, row.since.is_some()),
            (JSON, is_rare || row.count.is_some()),
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
        if has_shape {
            let number = self.shape(shape);
            self.number(number);
        }
        if let Some(deadline) = row.deadline {
            self.signed(deadline, row.t);
        }
        for word in [row.gets.take(), row.outcome.take()].into_iter().flatten() {
            let number = self.word(word);
            self.number(number);
        }
        if let Some(limit) = row.limit {
            self.number(limit as u64);
        }
        if let Some(since) = row.since {
            self.signed(since, row.t);
        }
        if mask & JSON != 0 {
            let json = serde_json::to_vec(&row).unwrap_or_default();
            self.number(json.len() as u64);
            self.bytes.extend(json);
        }
    }

    /// From here on, differences begin anew.
    pub(super) fn restart(&mut self) {
        self.last = Last::default();
    }

    fn shape(&mut self, shape: Shape) -> u64 {
        let next = self.names.shapes.len() as u64;
        if let Some(&number) = self.shapes.get(&shape) {
            return number;
        }
        let text: usize = shape.names.iter().flatten().map(String::len).sum();
        self.names_bytes += 2 * (size_of::<Shape>() + text);
        self.names.shapes.push(shape.clone());
        self.shapes.insert(shape, next);
        next
    }

    fn word(&mut self, word: String) -> u64 {
        let next = self.names.words.len() as u64;
        if let Some(&number) = self.words.get(&word) {
            return number;
        }
        self.names.words.push(word.clone());
        self.words.insert(word, next);
        next
    }

    fn signed(&mut self, value: u64, base: u64) {
        let difference = value.wrapping_sub(base).cast_signed();
        self.number(((difference << 1) ^ (difference >> 63)).cast_unsigned());
    }

    /// Seven bits a byte, the lowest first.
    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.bytes.push(value.to_le_bytes()[0]);
    }
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
            let shape = self.names.shapes.get(number)?.clone();
            row.waits = shape.waits;
            [row.partition, row.class, row.namespace, row.label, row.run, row.criticality] = shape.names;
        }
        if has(DEADLINE) {
            row.deadline = Some(self.signed(t)?);
        }
        if has(GETS) {
            let number = self.index()?;
            row.gets = Some(self.names.words.get(number)?.clone());
        }
        if has(OUTCOME) {
            let number = self.index()?;
            row.outcome = Some(self.names.words.get(number)?.clone());
        }
        if has(LIMIT) {
            row.limit = Some(self.index()?);
        }
        if has(SINCE) {
            row.since = Some(self.signed(t)?);
        }
        if has(JSON) {
            let length = self.index()?;
            let (json, rest) = self.bytes.split_at_checked(length)?;
            self.bytes = rest;
            let rare: CaptureRow = serde_json::from_slice(json).ok()?;
            let (waits, count) = (row.waits, rare.count);
            // A row that is rare says all itself; another one only adds a count to what it says in few bytes.
            row = if matches!(verb, Verb::Present | Verb::Gap) {
                CaptureRow { count, ..row }
            } else {
                CaptureRow { waits, ..rare }
            };
        }
        Some(row)
    }

    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<CaptureRow> {
        let text = |it: &str| Some(it.to_owned());
        let row = |t, verb| CaptureRow { t, verb, ..CaptureRow::default() };
        vec![
            CaptureRow { id: Some(7), since: Some(3), waits: Some(true), gets: text("slot"), ..row(9, Verb::Present) },
            CaptureRow { partition: text("web"), count: Some(4), ..row(9, Verb::Present) },
            CaptureRow {
                id: Some(8),
                label: text("noisy"),
                criticality: text("critical"),
                waits: Some(false),
                deadline: Some(u64::MAX - 1),
                gets: text("limit"),
                ..row(u64::MAX / 3, Verb::Arrive)
            },
            CaptureRow { id: Some(7), outcome: text("success"), limit: Some(90), ..row(5, Verb::Finish) },
            CaptureRow {
                label: text("a"),
                worker: text("w"),
                slots: Some(3),
                valid_for: Some(9),
                ..row(6, Verb::Worker)
            },
            CaptureRow { policy: Some(serde_json::json!({"queue": 4})), limit: Some(3), ..row(7, Verb::Reload) },
            CaptureRow { mode: text("observe"), ..row(7, Verb::Mode) },
            CaptureRow { count: Some(77), ..row(7, Verb::Gap) },
            row(8, Verb::Tick),
        ]
    }

    fn read(encoder: &Encoder, bytes: &[u8]) -> Vec<CaptureRow> {
        let mut decoder = Decoder { bytes, names: &encoder.names, last: Last::default() };
        std::iter::from_fn(|| decoder.next()).collect()
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        let mut encoder = Encoder::default();
        rows().into_iter().for_each(|row| encoder.put(row));
        assert_eq!(read(&encoder, &encoder.bytes), rows());
        // The control: a byte less is a row less, and a byte that is changed is another row.
        let bytes = &encoder.bytes;
        assert_eq!(read(&encoder, &bytes[..bytes.len() - 1]).len(), rows().len() - 1);
        let mut changed = bytes.clone();
        changed[2] ^= 2;
        assert_ne!(read(&encoder, &changed), rows());
    }

    #[test]
    fn a_rejection_in_a_flood_takes_few_bytes() {
        let mut encoder = Encoder::default();
        for i in 0..10_000 {
            encoder.put(CaptureRow {
                t: i * 62_500,
                verb: Verb::Arrive,
                id: Some(i),
                waits: Some(true),
                label: Some(format!("tenant-{}", i % 50)),
                criticality: Some("critical".to_owned()),
                gets: Some("gate_full".to_owned()),
                ..CaptureRow::default()
            });
        }
        assert!(encoder.bytes.len() < 90_000, "{} bytes for 10,000 rows", encoder.bytes.len());
    }
}
