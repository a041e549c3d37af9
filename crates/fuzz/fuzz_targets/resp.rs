//! `cargo fuzz run resp`

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tower_admission_fuzz::resp::resp(data));
