//! The schema accepts what the crate accepts, and rejects what is bad, as far as a schema can.

use std::{fs, path::Path};

use serde_json::Value;
use tower_admission::configuration::AdmissionConfig;

use super::bad::{BAD, Kind, Schema};

#[test]
fn the_committed_schema_is_that_of_the_crate() {
    super::snapshot("../config/src/admission.schema.json", &AdmissionConfig::json_schema());
}

fn json_of(kind: Kind, text: &str) -> Option<Value> {
    match kind {
        Kind::Toml => serde_json::to_value(toml::from_str::<toml::Value>(text).ok()?).ok(),
        Kind::Json => serde_json::from_str(text).ok(),
        Kind::Variables | Kind::Code => None,
    }
}

#[test]
fn good_files_pass_and_bad_ones_do_not() {
    let schema = serde_json::from_str(&AdmissionConfig::json_schema()).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let mut good: Vec<(Kind, String)> = vec![(Kind::Toml, AdmissionConfig::default().to_toml())];
    for (folder, kind) in [("toml", Kind::Toml), ("json", Kind::Json)] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(folder);
        let files = fs::read_dir(folder).unwrap().map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
        good.extend(files.map(|text| (kind, text)));
    }
    good.push((Kind::Toml, super::page::example()));
    for (kind, text) in good {
        let errors: Vec<_> = schema.iter_errors(&json_of(kind, &text).unwrap()).map(|it| it.to_string()).collect();
        assert!(errors.is_empty(), "{text}: {errors:?}");
    }
    for (kind, _, text) in BAD.iter().filter(|(_, known, _)| *known == Schema::Knows) {
        assert!(!schema.is_valid(&json_of(*kind, text).unwrap()), "{text}");
    }
}
