//! GGUF headers: what a model file says about itself apart from its weights.
//!
//! Format: ggml `docs/gguf.md`. What engines really accept is in llama.cpp `ggml/src/gguf.cpp` at `067d44f`. This
//! reader refuses what that one refuses, with two exceptions that are read and reported instead: version 1 (llama.cpp:
//! no longer supported) and tensor types newer than the table (a newer engine may know them).

mod blocks;
mod cursor;
mod error;
mod header;
mod name;
mod parse;
mod tensor;
mod value;

pub use blocks::{is_vital, missing_block_tensors};
pub use error::GgufError;
pub use gantry_domain::memory::PerLayer;
pub use header::{GgufHeader, GgufKind, Mla};
pub use name::{file_type_name, quantization_in_name};
pub use parse::read;
pub use tensor::{GgmlType, TensorInfo};
pub use value::{Scalar, Value};

/// Most metadata keys of one file. Real files hold 20 to 80.
pub const MAX_KEYS: u64 = 16_384;
/// Most tensors of one file. Real files hold up to some 3,000.
pub const MAX_TENSORS: u64 = 65_536;
/// Longest key, in bytes (`docs/gguf.md`: at most 2^16 − 1).
pub const MAX_KEY_BYTES: u64 = 65_535;
/// Longest tensor name, in bytes. llama.cpp refuses 64 and more; other builds of ggml take 128.
pub const MAX_TENSOR_NAME_BYTES: u64 = 127;
/// Longest text that is kept, in bytes. Longer ones are skipped, and only their length is kept.
pub const KEPT_TEXT_BYTES: u64 = 32 * 1024;
/// Longest array of numbers that is kept, in elements. Longer ones are skipped, and only their length is kept.
/// Per-layer facts have one element per layer.
pub const KEPT_ELEMENTS: u64 = 4096;
/// Most elements of an array of texts, all of which have to be read. The largest vocabularies have some 260,000.
pub const MAX_TEXTS: u64 = 16 * 1024 * 1024;
/// Most bytes that are read of one file. A real header has up to some 20 MiB, nearly all of it tokenizer.
pub const MAX_READ_BYTES: u64 = 128 * 1024 * 1024;
/// Memory for everything that is kept of one file, in bytes. Overheads are counted generously.
pub const KEPT_BYTES: usize = 32 * 1024 * 1024;
