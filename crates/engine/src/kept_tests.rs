//! What is kept in files beside the tests: texts, of which a review sees what changes, and seeds of cases that once failed.

#![allow(dead_code, reason = "each crate uses a part")]

use std::{env, fs, path::Path};

use proptest::test_runner::{FailurePersistence, FileFailurePersistence};

/// Has a property test keep the seeds of its failures in the file `….seeds` beside it, and try those of that file first.
#[expect(clippy::unnecessary_wraps, reason = "the field of the configuration")]
pub(crate) fn seeds() -> Option<Box<dyn FailurePersistence>> {
    Some(Box::new(FileFailurePersistence::WithSource("seeds")))
}

/// Compares a text with the file of the repository that keeps it; `UPDATE_SNAPSHOTS=1` writes the file instead.
#[track_caller]
pub(crate) fn assert_kept(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        return fs::write(path, text).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap();
    let mut lines = kept.lines().zip(text.lines()).enumerate();
    if let Some((line, (old, new))) = lines.find(|(_, (old, new))| old != new) {
        let heading = text.lines().take(line + 1).filter(|it| it.starts_with('#')).last().unwrap_or_default();
        // Of a long line, what is around the first difference.
        let same = old.chars().zip(new.chars()).take_while(|(old, new)| old == new).count().saturating_sub(60);
        let part = |text: &str| text.chars().skip(same).take(200).collect::<String>();
        panic!(
            "{file}:{}: {heading}\nkept: {}\nnow:  {}\n`UPDATE_SNAPSHOTS=1` writes it anew",
            line + 1,
            part(old),
            part(new)
        );
    }
    assert_eq!(kept.len(), text.len(), "{file} ended elsewhere; `UPDATE_SNAPSHOTS=1` writes it anew");
}
