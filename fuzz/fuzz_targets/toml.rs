//! `cargo fuzz run toml`: no panic, and whatever is accepted survives.

#![no_main]

mod survives;

use tower_admission::configuration::AdmissionConfig;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(config) = AdmissionConfig::from_toml(text) {
        survives::survives(&config);
    }
});
