//! Measures how long a folder of many large GGUF files takes to inspect.
//!
//! `inspect_many make DIR FILES TOKENS` writes FILES sparse files of 40 GB whose tokenizers have TOKENS tokens (and
//! twice as many merges); `inspect_many inspect DIR` reads them once and prints the time. Between the two, drop the
//! page cache (`posix_fadvise(POSIX_FADV_DONTNEED)` on each file, or `/proc/sys/vm/drop_caches`).
#![expect(clippy::print_stdout, reason = "a program for the terminal")]

#[path = "../tests/it/build.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod build;

use std::{env, error::Error, fs::File, io::Write, path::Path, time::Instant};

use build::Gguf;
use gantry_inspect::folder;

/// Returns the header of a file of about 40 GB, as a model of 80 layers has.
fn header(tokens: usize) -> (Vec<u8>, u64) {
    let words: Vec<String> = (0..tokens).map(|n| format!("\u{2581}token{n}")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let merges: Vec<&str> = words.iter().chain(&words).copied().collect();
    let mut built = Gguf::llama(80)
        .texts("tokenizer.ggml.merges", &merges)
        .array("tokenizer.ggml.scores", 6, tokens as u64, &vec![0; tokens * 4])
        .texts("tokenizer.ggml.all_tokens", &words)
        .tensor("token_embd.weight", &[8192, 128_256], 1, 8192 * 128_256 * 2);
    for layer in 0..80 {
        for (name, rows) in [("attn_q", 8192), ("attn_k", 1024), ("attn_v", 1024), ("attn_output", 8192)] {
            built = built.tensor(
                &format!("blk.{layer}.{name}.weight"),
                &[8192, rows],
                12,
                8192 * rows / 256 * 144,
            );
        }
        for name in ["ffn_gate", "ffn_up", "ffn_down"] {
            let bytes = 8192 * 28_672 / 256 * 144;
            built = built.tensor(&format!("blk.{layer}.{name}.weight"), &[8192, 28_672], 12, bytes);
        }
    }
    built.finish()
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["make", dir, files, tokens] => {
            let (head, size) = header(tokens.parse()?);
            for n in 0..files.parse::<usize>()? {
                let mut file = File::create(Path::new(dir).join(format!("model-{n:03}-Q4_K_M.gguf")))?;
                file.write_all(&head)?;
                file.set_len(size)?;
                file.sync_all()?;
            }
            println!("header {} bytes, file {size} bytes", head.len());
        }
        ["inspect", dir] => {
            let start = Instant::now();
            let found = folder::inspect(Path::new(dir), "")?;
            let elapsed = start.elapsed();
            let checked = found.gguf_validation;
            println!("{} files, {} valid, {elapsed:?}", checked.total_files, checked.valid_files);
        }
        _ => println!("usage: inspect_many make DIR FILES TOKENS | inspect_many inspect DIR"),
    }
    Ok(())
}
