//! Configurations, captures and scenarios.

use std::path::Path;

use admission_simulator::{captured::Captured, replay::replay, scenario::Scenario};
use tower_admission::{
    Admission,
    configuration::{AdmissionConfig, Sources},
};

fn text(data: &[u8], read: impl FnOnce(&str)) {
    if let Ok(text) = std::str::from_utf8(data) {
        read(text);
    }
}

/// What was accepted is the same after it was written and read again.
fn survives(config: &AdmissionConfig) {
    assert_eq!(&AdmissionConfig::from_toml(&config.to_toml()).unwrap(), config);
    assert_eq!(&AdmissionConfig::from_json(&config.to_json()).unwrap(), config);
    assert_eq!(Sources::new().variables(config.to_environment()).load().unwrap().config(), config);
}

/// A configuration in TOML.
pub fn toml(data: &[u8]) {
    text(data, |text| {
        if let Ok(config) = AdmissionConfig::from_toml(text) {
            survives(&config);
        }
    });
}

/// A configuration in JSON.
pub fn json(data: &[u8]) {
    text(data, |text| {
        if let Ok(config) = AdmissionConfig::from_json(text) {
            survives(&config);
        }
    });
}

/// A configuration in variables, one per line.
pub fn environment(data: &[u8]) {
    text(data, |text| {
        let variables = text.lines().filter_map(|line| line.split_once('='));
        if let Ok(loaded) = Sources::new().variables(variables).load() {
            survives(loaded.config());
        }
    });
}

/// A capture, replayed decision by decision and read as what became of its requests.
pub fn capture(data: &[u8]) {
    let settings = || Admission::builder().limit(tower_admission::limit::Fixed::new(10)).queue(20);
    if let Ok(replayed) = replay(settings(), [], data) {
        assert!(replayed.differences <= replayed.rows, "no more rows differ than there are");
    }
    text(data, |text| drop(Captured::read(text)));
}

/// A scenario of the simulator.
pub fn scenario(data: &[u8]) {
    text(data, |text| {
        if let Ok(table) = text.parse::<::toml::Table>() {
            let _read = Scenario::read("fuzz", &table, Path::new("."));
        }
    });
}
