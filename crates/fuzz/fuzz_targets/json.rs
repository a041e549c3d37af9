//! `cargo fuzz run json`

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tower_admission_fuzz::texts::json(data));
