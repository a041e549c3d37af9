//! Words that had two meanings, or that no user of other software would look for: each has another name now, and none comes back.

use std::{fs, path::Path};

/// Identifiers that are gone. `CHANGELOG.md` may tell of them.
const GONE: [&str; 22] = [
    "admission_in_flight_beyond",
    "admission_kept",
    "admission_overdue",
    "admission_overdue_total",
    "admission_verdict",
    "admission_verdict_seconds",
    "has_series",
    "in_flight_beyond",
    "refused_per_second",
    "waits_beyond",
    "when_gone",
    "LeaseHeld",
    "LentSample",
    "RefusedSnapshot",
    "SeriesId",
    "SlotWord",
    "Verdict",
    "VerdictSnapshot",
    "WhenGone",
    // As fields of JSON.
    "\"kept\":",
    "\"overdue\":",
    "\"verdict\":",
];

/// Those of them that a text has, not as a part of another word.
fn gone(text: &str) -> Vec<&'static str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let has = |word: &&&str| {
        text.match_indices(**word)
            .any(|(at, _)| !text[..at].ends_with(is_word) && !text[at + word.len()..].starts_with(is_word))
    };
    GONE.iter().filter(has).copied().collect()
}

fn files(folder: &Path, found: &mut Vec<String>) {
    for path in fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_hidden = name.starts_with('.') && name != ".github";
        let is_text = [".rs", ".md", ".json", ".js", ".mjs", ".html", ".toml", ".yaml", ".yml", ".txt"];
        if path.is_dir() && !is_hidden && !["target", "node_modules", "corpus", "stored"].contains(&&*name) {
            files(&path, found);
        } else if is_text.iter().any(|end| name.ends_with(end))
            && name != "CHANGELOG.md"
            && !path.ends_with("tidy/words.rs")
        {
            let text = fs::read_to_string(&path).unwrap_or_default();
            found.extend(gone(&text).into_iter().map(|word| format!("{}: {word}", path.display())));
        }
    }
}

#[test]
fn old_words_stay_gone() {
    let mut found = Vec::new();
    files(Path::new(env!("CARGO_MANIFEST_DIR")), &mut found);
    assert_eq!(found, [""; 0]);
    assert_eq!(
        gone("set when_gone; `admission_kept` {\"kept\": 1}"),
        ["admission_kept", "when_gone", "\"kept\":"],
        "control"
    );
    assert_eq!(gone("a slot is kept, was_when_gone_by, the verdict, admission_kept_slots"), [""; 0]);
}
