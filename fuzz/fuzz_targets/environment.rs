//! `cargo fuzz run environment`: no panic, and whatever is accepted survives. One variable per line.

#![no_main]

mod survives;

use tower_admission::configuration::Sources;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let variables = text.lines().filter_map(|line| line.split_once('='));
    if let Ok(loaded) = Sources::new().variables(variables).load() {
        survives::survives(loaded.config());
    }
});
