//! `cargo fuzz run introspection`

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tower_admission_fuzz::requests::introspection(data));
