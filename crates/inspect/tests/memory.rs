//! Measures what the readers really allocate, on input that makes them allocate as much as possible.
//!
//! There is only one test, because the allocator counts for the whole process.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests; figures for `--show-output`"
)]

#[path = "it/build.rs"]
#[expect(dead_code, reason = "the other tests use the rest")]
mod build;

use std::{
    fs::File,
    io::{self, Cursor, Read, Seek, SeekFrom, Write},
    sync::Arc,
    time::Instant,
};

use build::{Gguf, text};
use gantry_inspect::{folder, gguf, hf, json, safetensors};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const BOUND: usize = 64 << 20;

/// Runs `read`, and prints and returns the largest number of bytes that it had allocated at once.
fn peak(what: &str, read: impl FnOnce() -> String) -> usize {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let start = Instant::now();
    let outcome = read();
    let peak = ALLOCATOR.peak_usage().saturating_sub(before);
    println!(
        "{what:<40} {:>7.2} MiB {:>8.1?}  {outcome:.90}",
        peak as f64 / f64::from(1 << 20),
        start.elapsed()
    );
    peak
}

fn outcome<T, E: ToString>(result: Result<T, E>) -> String {
    result.map_or_else(|it| it.to_string(), |_| "read".to_owned())
}

/// A reader that gives `head` and then `tail` over and over, without ever holding all of it in memory.
struct Endless {
    head: Vec<u8>,
    tail: Vec<u8>,
    at: u64,
}

impl Read for Endless {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        for (n, byte) in buf.iter_mut().enumerate() {
            let at = self.at as usize + n;
            *byte = match self.head.get(at) {
                Some(it) => *it,
                None => self.tail[(at - self.head.len()) % self.tail.len()],
            };
        }
        self.at += buf.len() as u64;
        Ok(buf.len())
    }
}

impl Seek for Endless {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        if let SeekFrom::Start(at) = to {
            self.at = at;
        }
        Ok(self.at)
    }
}

fn gguf(head: Vec<u8>, tail: Vec<u8>) -> String {
    outcome(gguf::read(Endless { head, tail, at: 0 }, 1 << 40))
}

#[test]
fn no_input_makes_a_reader_allocate_more_than_64_mib() {
    let counts = |tensors, keys| Gguf::new().claiming(tensors, keys);
    let mut peaks = Vec::new();
    peaks.push(peak("gguf: 2^63 keys", || gguf(counts(0, 1 << 63), vec![0])));
    peaks.push(peak("gguf: text of 2^40 bytes", || {
        gguf(Gguf::new().raw("a", 8, &(1_u64 << 39).to_le_bytes()).claiming(0, 1), vec![b'x'])
    }));
    // The header has as many tensors as the reader accepts, all with names of the greatest length.
    let built =
        (0..65_536).fold(Gguf::new(), |built, n| built.tensor(&format!("{n:0127}"), &[1, 1, 1, 1], 24, 1));
    let (head, size) = built.finish();
    peaks.push(peak("gguf: 65,536 tensors", || outcome(gguf::read(Cursor::new(&head), size))));
    let built = (0..600).fold(Gguf::new(), |built, n| built.u32(&format!("{n:060000}"), 1));
    let (head, size) = built.finish();
    peaks.push(peak("gguf: 600 keys of 60 KB", || outcome(gguf::read(Cursor::new(&head), size))));
    let arrays =
        (0..600).fold(Gguf::new(), |built, n| built.array(&format!("{n}"), 0, 4096, &[0; 4096])).finish();
    let (head, size) = arrays;
    peaks.push(peak("gguf: 600 kept arrays", || outcome(gguf::read(Cursor::new(&head), size))));
    let bad_text = [30_000_u64.to_le_bytes().to_vec(), vec![0xFF; 30_000]].concat();
    let (head, size) =
        (0..600).fold(Gguf::new(), |built, n| built.raw(&format!("{n}"), 8, &bad_text)).finish();
    peaks.push(peak("gguf: 600 texts that are not UTF-8", || outcome(gguf::read(Cursor::new(&head), size))));
    let short: Vec<u8> = (0..16_384_u32)
        .flat_map(|n| [text(&format!("{n:05}")), 0_u32.to_le_bytes().to_vec(), vec![1]].concat())
        .collect();
    let head = [counts(0, 16_384), short].concat();
    peaks.push(peak("gguf: 16,384 short keys", || outcome(gguf::read(Cursor::new(&head), 1 << 20))));

    let tensors: Vec<String> = (0..500_000)
        .map(|n| format!(r#""{n}":{{"dtype":"I8","shape":[1],"data_offsets":[{n},{}]}}"#, n + 1))
        .collect();
    let object = format!("{{{}}}", tensors.join(","));
    drop(tensors);
    let head = [&(object.len() as u64).to_le_bytes()[..], object.as_bytes()].concat();
    let size = head.len() as u64 + 500_000;
    peaks.push(peak("safetensors: 500,000 tensors", || {
        outcome(safetensors::read_header(Cursor::new(&head), size))
    }));
    // Whatever the claim, up to 100 MB of it would be parsed; these are enough to see that nothing grows.
    let claim = 10_000_000_u64.to_le_bytes();
    let endless = |head: Vec<u8>, tail: &[u8]| {
        outcome(safetensors::read_header(Endless { head, tail: tail.to_vec(), at: 0 }, 1 << 40))
    };
    peaks.push(peak("safetensors: 10 MB of one name", || endless([&claim[..], b"{\""].concat(), b"x")));
    peaks.push(peak("safetensors: 10 MB of metadata", || {
        endless([&claim[..], br#"{"__metadata__":{"a":["#].concat(), br#""yyyyyyyy","#)
    }));
    peaks.push(peak("safetensors: 10 MB of dimensions", || {
        endless([&claim[..], br#"{"a":{"dtype":"I8","shape":["#].concat(), b"1,")
    }));
    peaks.push(peak("safetensors: 10 MB of blanks", || endless(claim.to_vec(), b" ")));

    let config = |what: &str, json: String| peak(what, || outcome(hf::read_config(json.as_bytes())));
    peaks.push(config("config: 99,000 numbers", format!("[{}0]", "0,".repeat(99_000))));
    let keys: Vec<String> = (0..99_000).map(|n| format!(r#""{n}":0"#)).collect();
    peaks.push(config("config: 99,000 keys", format!("{{{}}}", keys.join(","))));
    let nested: Vec<String> = (0..24_000).map(|n| format!(r#"{{"{n}":[{{}},0]}}"#)).collect();
    peaks.push(config("config: 24,000 nested objects", format!("[{}]", nested.join(","))));
    peaks.push(config(
        "config: 2 MB of text",
        format!("[{}0]", format!("\"{}\",", "é".repeat(100_000)).repeat(9)),
    ));
    peaks.push(peak("index: endless names", || {
        let reader = Endless { head: br#"{"weight_map":{"#.to_vec(), tail: br#""a":"b","#.to_vec(), at: 0 };
        outcome(hf::read_index(reader.take(10_000_000)))
    }));
    peaks.push(peak("json: endless text", || {
        let reader = Endless { head: b"\"".to_vec(), tail: b"x".to_vec(), at: 0 };
        outcome(json::read_value(reader, json::Limits::STREAMED))
    }));
    peaks.extend(many_large_parts());
    peaks.push(checkpoint_of_many_tensors(&head, size));
    let most = peaks.into_iter().max().unwrap_or(0);
    assert!(most < BOUND, "{most} bytes");
}

/// Reads a set of many parts, each with a large header, while the cache is full.
fn many_large_parts() -> [usize; 2] {
    let (dir, cache) = (tempfile::TempDir::new().unwrap(), Arc::default());
    for n in 0..20 {
        let some = (0..12).fold(Gguf::llama(1), |it, n| it.array(&format!("{n}"), 0, 4096, &[0; 4096]));
        let (head, size) = some.tensor("token_embd.weight", &[32], 0, 128).finish();
        let mut file = File::create(dir.path().join(format!("a{n}.gguf"))).unwrap();
        file.write_all(&head).unwrap();
        file.set_len(size).unwrap();
    }
    let large = (0..120).fold(Gguf::llama(1), |built, n| built.array(&format!("{n}"), 0, 4096, &[0; 4096]));
    let (head, size) = large.tensor("token_embd.weight", &[32], 0, 128).finish();
    for part in 1..=100 {
        let mut file = File::create(dir.path().join(format!("x-{part:05}-of-00100.gguf"))).unwrap();
        file.write_all(&head).unwrap();
        file.set_len(size).unwrap();
    }
    let inspected = peak("folder: 100 parts of 8 MB each", || {
        let found = folder::inspect_cached(dir.path(), "", &cache).unwrap();
        found.gguf_validation.errors.last().cloned().unwrap_or_default()
    });
    [inspected, peak("measure: 100 parts of 8 MB each", || measured(dir.path(), "x-00001-of-00100.gguf"))]
}

fn checkpoint_of_many_tensors(head: &[u8], size: u64) -> usize {
    let dir = tempfile::TempDir::new().unwrap();
    std::fs::write(dir.path().join("config.json"), r#"{ "model_type": "llama" }"#).unwrap();
    let mut file = File::create(dir.path().join("model.safetensors")).unwrap();
    file.write_all(head).unwrap();
    file.set_len(size).unwrap();
    peak("measure: 500,000 tensors", || measured(dir.path(), ""))
}

fn measured(base: &std::path::Path, rel: &str) -> String {
    let base = folder::Base::open(base).unwrap();
    outcome(folder::measure(&base, rel, folder::Precision::Half))
}
