//! `cargo fuzz run grpc_timeout`

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tower_admission_fuzz::requests::grpc_timeout(data));
