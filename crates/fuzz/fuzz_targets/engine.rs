//! `cargo fuzz run engine`

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tower_admission_fuzz::engine::engine(data));
