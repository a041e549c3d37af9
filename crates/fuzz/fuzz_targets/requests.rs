//! `cargo fuzz run requests`

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tower_admission_fuzz::requests::requests(data));
