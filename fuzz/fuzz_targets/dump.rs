//! Fuzzes the reader of database dumps.
#![no_main]

#[path = "../dump.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::dump(data));
