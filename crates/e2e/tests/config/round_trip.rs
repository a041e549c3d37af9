//! Whatever the text, nothing panics; and what is accepted survives being written and read again.

use std::{fs, path::Path};

use proptest::prelude::*;
use tower_admission::configuration::{AdmissionConfig, Sources};

/// What is in the folder of the fuzz target, too, so that both start from the same.
fn corpus(kind: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(kind);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read_to_string(file).unwrap()).collect()
}

fn variables(text: &str) -> Vec<(String, String)> {
    let pair = |line: &str| line.split_once('=').map(|(name, text)| (name.to_owned(), text.to_owned()));
    text.lines().filter_map(pair).collect()
}

fn from_variables(variables: Vec<(String, String)>) -> Option<AdmissionConfig> {
    Sources::new().variables(variables).load().ok().map(|loaded| loaded.into_config())
}

fn survives(config: &AdmissionConfig) {
    let toml = config.to_toml();
    assert_eq!(&AdmissionConfig::from_toml(&toml).unwrap(), config, "{toml}");
    let json = config.to_json();
    assert_eq!(&AdmissionConfig::from_json(&json).unwrap(), config, "{json}");
    assert_eq!(&from_variables(config.to_environment()).unwrap(), config, "{:?}", config.to_environment());
}

/// Answers whether the text was accepted.
fn check(kind: &str, text: &str) -> bool {
    let config = match kind {
        "toml" => AdmissionConfig::from_toml(text).ok(),
        "json" => AdmissionConfig::from_json(text).ok(),
        _ => from_variables(variables(text)),
    };
    config.iter().for_each(survives);
    config.is_some()
}

#[test]
fn the_corpus_is_accepted_and_survives() {
    for kind in ["toml", "json", "environment"] {
        let corpus = corpus(kind);
        assert!(!corpus.is_empty());
        for text in corpus {
            assert!(check(kind, &text), "{kind}: {text}");
        }
    }
    survives(&AdmissionConfig::default());
}

/// A text of the corpus with some of its words exchanged for others, some lines lost and some letters wrong.
fn mutated(kind: &'static str) -> impl Strategy<Value = String> {
    const WORDS: [&str; 22] = [
        "0",
        "1",
        "-1",
        "18446744073709551616",
        "9223372036854775807",
        "nan",
        "1e400",
        "true",
        "none",
        "\"none\"",
        "\"5s\"",
        "\"0.5%\"",
        "0.3",
        "[]",
        "{}",
        "[[",
        "\"*\"",
        "a:*",
        "\"\"",
        "\u{0}",
        "max_in_flight",
        "kind",
    ];
    let corpus = corpus(kind);
    let change = (0usize..4_000, 0usize..4, prop::sample::select(&WORDS[..]), any::<char>());
    (prop::sample::select(corpus), prop::collection::vec(change, 0..4)).prop_map(|(mut text, changes)| {
        for (at, what, word, letter) in changes {
            let edge = |c: char| !c.is_alphanumeric() && c != '_';
            let at = text.char_indices().map(|(at, _)| at).nth(at % text.chars().count().max(1)).unwrap_or(0);
            let start =
                text[..at].rfind(edge).map_or(0, |start| start + text[start..].chars().next().unwrap().len_utf8());
            let end = text[at..].find(edge).map_or(text.len(), |end| at + end);
            match what {
                0 if start <= end => text.replace_range(start..end, word),
                1 => {
                    text = text
                        .lines()
                        .enumerate()
                        .filter(|(line, _)| *line != at % 20)
                        .map(|(_, it)| it)
                        .collect::<Vec<_>>()
                        .join("\n")
                }
                2 => text.insert(at, letter),
                _ => drop(text.drain(at..).next()),
            }
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    #[test]
    fn changed_toml(text in mutated("toml")) {
        check("toml", &text);
    }

    #[test]
    fn changed_json(text in mutated("json")) {
        check("json", &text);
    }

    #[test]
    fn changed_variables(text in mutated("environment")) {
        check("environment", &text);
    }

    #[test]
    fn any_text(text in "\\PC{0,200}") {
        check("toml", &text);
        check("json", &text);
        check("environment", &format!("TOWER_ADMISSION_{text}"));
    }
}
