//! The page about configuration says what is so.

use tower_admission::{AdmissionBuilder, configuration::AdmissionConfig};

const PAGE: &str = include_str!("../../../../src/docs/configuration.md");

/// The file that the page shows.
pub(crate) fn example() -> String {
    let start = PAGE.find("```toml\n").unwrap() + "```toml\n".len();
    let end = start + PAGE[start..].find("```").unwrap();
    PAGE[start..end].to_owned()
}

/// The lines of the example that are commented out with `#:` show a setting that is unset, or a choice.
fn with_choices() -> String {
    example().lines().map(|line| line.strip_prefix("#: ").unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_file_on_the_page_shows_the_defaults() {
    let config = AdmissionConfig::from_toml(&example()).unwrap();
    assert_eq!(config, AdmissionConfig::default());
}

#[test]
fn the_examples_in_it_can_be_used() {
    let config = AdmissionConfig::from_toml(&with_choices()).unwrap();
    assert!(!config.partitions.is_empty() && !config.classes.is_empty() && !config.label_overrides.is_empty());
    AdmissionBuilder::from(config).build().unwrap();
}

#[test]
fn every_setting_and_every_variable_is_on_the_page() {
    for variable in AdmissionConfig::variables() {
        let short = variable.strip_prefix("TOWER_ADMISSION_").unwrap();
        assert!(PAGE.contains(&format!("`{short}`")), "{variable} is missing");
    }
}
