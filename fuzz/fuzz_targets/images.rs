//! Fuzzes the reader of archives of images.
#![no_main]

#[path = "../images.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::images(data));
