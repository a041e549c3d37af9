//! `cargo fuzz run json`: no panic, and whatever is accepted survives.

#![no_main]

mod survives;

use tower_admission::configuration::AdmissionConfig;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(config) = AdmissionConfig::from_json(text) {
        survives::survives(&config);
    }
});
