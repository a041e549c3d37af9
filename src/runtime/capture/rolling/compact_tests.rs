//! Rows in few bytes are read as they were written.

use super::compact::{Decoder, Encoder, Last, Shape};
use crate::runtime::capture::{
    line::{CaptureRow, Verb},
    writer::Brief,
};

/// Puts a row as a ring does: in few bytes if it is about a request.
fn put(encoder: &mut Encoder, mut row: CaptureRow) {
    let is_rare = matches!(row.verb, Verb::Mode | Verb::Worker | Verb::Reload | Verb::Gap);
    if is_rare || row.count.is_some() {
        return encoder.put(&row);
    }
    let mut shape = Shape::default();
    let names = row.names_mut().map(Option::take);
    shape.set(row.waits, names.each_ref().map(Option::as_deref));
    let CaptureRow { t, verb, id, deadline, limit, since, .. } = row;
    let (gets, outcome) = (row.gets.as_deref(), row.outcome.as_deref());
    encoder.put_brief(&Brief { t, verb, id, deadline, gets, outcome, limit, since }, &shape.0);
}

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
        CaptureRow { label: text("a"), worker: text("w"), slots: Some(3), valid_for: Some(9), ..row(6, Verb::Worker) },
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
    rows().into_iter().for_each(|row| put(&mut encoder, row));
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
        let row = CaptureRow {
            t: i * 62_500,
            verb: Verb::Arrive,
            id: Some(i),
            waits: Some(true),
            label: Some(format!("tenant-{}", i % 50)),
            criticality: Some("critical".to_owned()),
            gets: Some("gate_full".to_owned()),
            ..CaptureRow::default()
        };
        put(&mut encoder, row);
    }
    assert!(encoder.bytes.len() < 90_000, "{} bytes for 10,000 rows", encoder.bytes.len());
}
