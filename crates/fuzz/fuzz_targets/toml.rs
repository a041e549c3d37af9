//! `cargo fuzz run toml`

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tower_admission_fuzz::texts::toml(data));
