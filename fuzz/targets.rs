//! What a fuzz target does with its input. The replay test in `crates/inspect` runs the same on the corpus.

use std::io::Cursor;

use gantry_inspect::{
    gguf::{self, GgufHeader, Value},
    hf, json, safetensors,
};

/// Reads `data` as a whole file, and as the start of one of 40 GB.
pub(crate) fn gguf(data: &[u8]) {
    let sizes = [data.len() as u64, 40_000_000_000];
    for size in sizes {
        match gguf::read(Cursor::new(data), size) {
            Ok(header) => facts(&header, size),
            Err(error) => short(&error),
        }
    }
}

/// Errors are shown to people, whatever the file held.
fn short(error: &impl ToString) {
    assert!(error.to_string().len() < 2000);
}

/// Everything that is derived from a header, and what must hold of it.
fn facts(header: &GgufHeader, size: u64) {
    for tensor in &header.tensors {
        let start = header.data_start.checked_add(tensor.offset);
        let end = start.and_then(|it| it.checked_add(tensor.bytes.unwrap_or(0)));
        assert!(end.is_some_and(|it| it <= size), "a tensor lies outside the file");
        assert!(tensor.dims().len() <= 4);
        let _ = tensor.block();
    }
    assert!(header.tensor_bytes() <= size);
    for value in header.metadata.values() {
        if let Value::Text(text) = value {
            assert!(text.len() as u64 <= 3 * gguf::KEPT_TEXT_BYTES);
        }
    }
    let _ = (header.task(), header.kind(), header.vocab_size(), header.key_length(), header.value_length());
    let _ = (header.head_count_kv().map(|it| it.max()), header.mla(), header.sliding_window_pattern());
    let _ = (
        header.quantization("m-Q4_K_M.gguf"),
        header.parameter_count(),
        header.split(),
        header.swa_lengths(),
    );
    let blocks = header.block_count().unwrap_or(u64::MAX);
    let missing = gguf::missing_block_tensors("llama", blocks, header.tensors.iter());
    assert!(missing.len() <= 5);
}

/// As a whole file, and as the header alone of a whole file.
pub(crate) fn safetensors(data: &[u8]) {
    let mut bytes = 0_u64;
    let whole = safetensors::read_header_with(Cursor::new(data), data.len() as u64, &mut |it| {
        bytes = bytes.saturating_add(it.bytes);
    });
    match whole {
        Ok(header) => {
            assert_eq!(header.tensor_bytes, bytes);
            assert_eq!(8 + header.header_bytes + header.tensor_bytes, data.len() as u64);
        }
        Err(error) => short(&error),
    }
    let framed = [&(data.len() as u64).to_le_bytes()[..], data].concat();
    match safetensors::read_header(Cursor::new(&framed), framed.len() as u64) {
        Ok(header) => assert_eq!(header.tensor_bytes, 0),
        Err(error) => short(&error),
    }
    let _ = safetensors::read_header(Cursor::new(&framed), 40_000_000_000);
}

/// As `config.json`, as an index, and as any JSON.
pub(crate) fn config(data: &[u8]) {
    match hf::read_config(data) {
        Ok((config, quantization)) => {
            assert!(config.attention.len() <= 4096);
            assert!(config.architecture.is_none_or(|it| it.chars().count() <= 200));
            assert!(quantization.is_none_or(|it| it.label().len() < 2000));
        }
        Err(error) => short(&error),
    }
    if let Ok(files) = hf::read_index(data) {
        assert!(
            files.iter().all(|it| !it.contains('/') && !it.contains('\0') && it != ".." && !it.is_empty())
        );
    }
    let _ = json::read_value(data, json::Limits::CONFIG);
}
