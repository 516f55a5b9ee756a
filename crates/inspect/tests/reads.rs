//! Measures how much of large model files is read.
//!
//! There is only one test, because the kernel counts for the whole process.

#![expect(clippy::unwrap_used, reason = "what helps a test fails like one")]

#[path = "it/build.rs"]
#[expect(dead_code, reason = "the other tests use the rest")]
mod build;

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
};

use build::Gguf;
use gantry_inspect::folder;

const FILES: u64 = 20;
const TENSOR: u64 = 40_000_000_000;
/// Most bytes that the reader reads at once.
const BUFFER: u64 = 256 * 1024;

/// Returns the bytes that this process has read by system calls, from any file.
fn read_so_far() -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap();
    io.lines().find_map(|it| it.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

/// Writes sparse files of 40 GB whose headers list `tokens` tokens. Returns the length of a header.
fn add(dir: &Path, tokens: usize) -> u64 {
    let words: Vec<String> = (0..tokens).map(|n| format!("\u{2581}token{n}")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let built = Gguf::llama(1).texts("tokenizer.ggml.merges", &words).tensor(
        "token_embd.weight",
        &[64, 312_500_000],
        1,
        TENSOR,
    );
    let (head, size) = built.finish();
    assert!(size > TENSOR);
    for n in 0..FILES {
        let mut file = File::create(dir.join(format!("model-{n:03}-F16.gguf"))).unwrap();
        file.write_all(&head).unwrap();
        file.set_len(size).unwrap();
    }
    head.len() as u64
}

#[test]
fn of_files_of_40_gb_only_the_headers_are_read() {
    for tokens in [0, 20_000] {
        let dir = tempfile::tempdir().unwrap();
        let header = add(dir.path(), tokens);
        let before = read_so_far();
        let found = folder::inspect(dir.path(), "").unwrap();
        let read = read_so_far() - before;
        assert_eq!((found.gguf_validation.total_files, found.gguf_validation.valid_files), (20, 20));
        assert_eq!(found.gguf_groups[0].tensor_bytes, Some(TENSOR));
        println!("headers of {header} bytes: {} read of each file", read / FILES);
        assert!(read >= FILES * header, "{read} bytes of {FILES} headers with {header}: is nothing counted?");
        assert!(read <= FILES * (header + BUFFER) + 4096, "{read} bytes of {FILES} headers with {header}");
    }
}
