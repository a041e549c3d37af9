//! Words that had two meanings, or that no user of other software would look for: each has another name now, and none comes back.

use std::fs;

use super::{promises::files, root};

/// Identifiers that are gone: metrics, fields and keys, types that users named, and what was inside. `CHANGELOG.md` may tell of them.
const GONE: &str = r#"
    admission_in_flight_beyond admission_kept admission_overdue admission_overdue_total admission_verdict admission_verdict_seconds
    in_flight_beyond refused_below_share refused_by refused_per_second would_refuse would_refuse_per_second when_gone
    "kept": "overdue": "refused": "verdict": ["kept"] ["overdue"] ["verdict"] sort=refused `refused`
    HistoryRefusal LeaseHeld RefusedSnapshot Verdict VerdictSnapshot WhenGone
    Fares JobId LabelSeries LatelyByLabel LentSample Posted Posting RefusedBy RefusedCount SeriesId SeriesRef SlotWord StandingTag
    has_series waits_beyond"#;

/// Fields that are gone, where no compiler refuses them.
const READ: &str = ".kept .overdue .verdict";

/// What stays: a simulation's tallies, side by side.
const STAYS: (&str, &str) = ("\"refused\":", "command/side_by_side.rs");

const TEXTS: &str = "css html js json jsonl lua md mjs proto rs svg toml txt yaml yml";

/// Those of the words that a text has, not as a part of another word.
fn found<'a>(words: &'a str, text: &str) -> Vec<&'a str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let has = |word: &&str| {
        let (begins, ends) = (word.starts_with(is_word), word.ends_with(is_word));
        text.match_indices(*word).any(|(at, _)| {
            let (before, after) = (&text[..at], &text[at + word.len()..]);
            !(begins && before.ends_with(is_word) || ends && after.starts_with(is_word))
        })
    };
    words.split_whitespace().filter(has).collect()
}

/// What is wrong with a file of this name.
fn wrong(file: &str, text: &str) -> Vec<String> {
    let read = if file.ends_with(".rs") { Vec::new() } else { found(READ, text) };
    let all = found(GONE, text).into_iter().chain(read);
    all.filter(|word| *word != STAYS.0 || !file.ends_with(STAYS.1)).map(|word| format!("{file}: {word}")).collect()
}

#[test]
fn old_words_stay_gone() {
    let mut all = files(root(), TEXTS);
    all.retain(|path| !path.ends_with("CHANGELOG.md") && !path.ends_with("tidy/words.rs"));
    assert!(all.len() > 100, "{} files were found", all.len());
    let old = all.iter().flat_map(|path| wrong(&path.to_string_lossy(), &fs::read_to_string(path).unwrap_or_default()));
    let old: Vec<_> = old.collect();
    assert!(old.is_empty(), "{}", old.join("\n"));
    for bad in ["set when_gone;", "`admission_kept`", "{\"kept\": 1}", "whole.kept > 1", "?sort=refused"] {
        assert_eq!(wrong("page.js", bad).len(), 1, "control: {bad}");
    }
    for good in ["a slot is kept", "was_when_gone_by", "the verdict.", "admission_kept_slots", "requests refused: 1"] {
        assert_eq!(wrong("page.js", good), [""; 0], "{good}");
    }
    assert_eq!(wrong("state.rs", "self.kept"), [""; 0], "a compiler knows its fields");
}
